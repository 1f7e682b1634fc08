"""Every term against a known answer; chance only where and when it belongs."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy.ndimage import convolve1d
from torch import Tensor, nn

from diskoop import load_data
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics import (
    Factor,
    Spectrum,
    ball_around_one,
    by_distance,
    by_modulus,
    distance_to_one,
    fit_operator,
    hinge_beyond,
    modulus_beyond,
    real_beyond,
    spectral_terms,
    swap,
    unit_modulus,
)
from diskoop.numerics.penalties import Penalty
from diskoop.numerics.spectrum import ModeOrder
from diskoop.settings import Settings
from diskoop.training import objective as objective_module
from diskoop.training.blur import gaussian_blur
from diskoop.training.objective import Objective, ObjectiveOutput
from tests.conftest import matrix_with, trajectories


def settings(**sections: dict[str, Any]) -> Settings:
    quiet = {"model": {"dropout": 0.0, "k": 8, "ridge": 0.0}, "spectrum": {"static": 3, "radius": 0.5}}
    return Settings.of(quiet).replaced(sections)


def identity(ridge: float = 0.0) -> KoopmanAutoencoder:
    return KoopmanAutoencoder(nn.Identity(), nn.Identity(), ridge=ridge)


def series(count: int = 40) -> Tensor:
    return torch.from_numpy(load_data("oscillators", "train").x[:count])


def losses(objective: Objective, x: Tensor, mask: Tensor | None = None, seed: int = 0) -> dict[str, Tensor]:
    output: ObjectiveOutput = objective(x, mask, torch.Generator().manual_seed(seed))
    return output.as_dict()


def test_a_perfect_model_costs_only_its_spectrum() -> None:
    """Identity networks on linear data: no error anywhere but the dynamic eigenvalues beyond the radius."""
    terms = losses(Objective(identity(), settings(loss={"cycle": 1})), series())
    assert max(map(float, (terms["rec"], terms["pred_z"], terms["pred_x"], terms["cycle"], terms["stat"]))) < 1e-16
    # Eigenvalues 0.95 and 0.85 twice each and 0.6 lie outside 0.5.
    assert float(terms["dyn"]) == pytest.approx((2 * 0.95 + 2 * 0.85 + 0.6) / 5)
    assert float(terms["total"]) == pytest.approx(float(terms["dyn"]))
    assert float(terms["static_gap"]) < 1e-9
    assert float(terms["dynamic_radius"]) == pytest.approx(0.95)
    assert float(terms["rank"]) == 8


class Biased(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by

    def forward(self, z: Tensor) -> Tensor:
        return z + self.by


class Whatever(nn.Identity):
    """The identity, whatever exists."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x


@pytest.mark.parametrize("masked", [False, True])
def test_noise_lies_in_the_dynamic_part_and_has_its_size(masked: bool) -> None:
    """Identity networks reconstruct perfectly, so what is lost is the noise: amount^2 times the part's mean square."""
    x = series(400)
    mask = None
    if masked:
        mask = torch.arange(x.shape[1]) < 5 + torch.arange(len(x)).unsqueeze(1) % 20
        x = torch.where(mask.unsqueeze(-1), x, torch.nan)  # nobody may look there
    model = KoopmanAutoencoder(Whatever(), Whatever(), ridge=0.0)
    objective = Objective(model, settings(model={"dynamic_noise": 0.5}))
    shown: list[Tensor] = []
    objective.model.decoder.register_forward_hook(lambda _module, inputs, _output: shown.append(inputs[0]))
    terms = losses(objective, x, mask)
    real = torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
    spectrum = Spectrum.of(fit_operator(x, mask).matrix)
    static = spectrum.projector(spectrum.static(3))
    dynamic = (x - x @ static)[real]
    noise = (shown[0] - x)[real]
    assert float((noise @ static).abs().max()) < 1e-6
    assert torch.allclose(noise.T @ noise / len(noise), 0.25 * dynamic.T @ dynamic / len(noise), atol=0.01)
    assert float(terms["rec"]) == pytest.approx(0.25 * float(dynamic.square().mean()), rel=0.05)
    assert max(float(terms["pred_z"]), float(terms["pred_x"])) < 1e-16  # only what is reconstructed is disturbed
    assert float(losses(objective.eval(), x, mask)["rec"]) < 1e-16


def test_every_weight_weighs_its_term() -> None:
    model = KoopmanAutoencoder(nn.Identity(), Biased(0.1), ridge=0.0)
    loss = {"rec": 2, "pred": 3, "eig": 5, "stat": 7, "dyn": 11, "cycle": 13}
    terms = losses(Objective(model, settings(loss=loss)), series())
    assert float(terms["rec"]) == pytest.approx(0.01)
    assert float(terms["pred_x"]) == pytest.approx(0.01)
    assert float(terms["cycle"]) == pytest.approx(0.01)
    assert float(terms["total"]) == pytest.approx(
        2 * 0.01 + 3 * 0.01 + 5 * (7 * float(terms["stat"]) + 11 * float(terms["dyn"])) + 13 * 0.01
    )


def test_reduction_frame_is_the_papers_formula() -> None:
    model = KoopmanAutoencoder(nn.Identity(), Biased(0.1), ridge=0.0)
    terms = losses(Objective(model, settings(loss={"reduction": "frame"})), series())
    assert float(terms["rec"]) == pytest.approx(8 * 0.01)


def test_prediction_is_judged_against_the_data() -> None:
    """Latents that do not follow one line: the error is the least-squares residual, in both spaces."""
    x = torch.randn(12, 5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    terms = losses(Objective(identity(), settings()), x)
    past, future = x[:, :-1].reshape(-1, 8), x[:, 1:].reshape(-1, 8)
    residual = (past @ torch.linalg.lstsq(past, future).solution - future).square().mean()
    assert torch.isclose(terms["pred_z"], residual)
    assert torch.isclose(terms["pred_x"], residual)


def test_padding_changes_no_term() -> None:
    torch.manual_seed(0)
    model = KoopmanAutoencoder.for_shape((8,), k=8, h=9).double()
    objective = Objective(model, settings(loss={"cycle": 1})).eval()
    x, lengths = series(12), torch.tensor([3, 5, 24, 24, 8, 9, 10, 2, 6, 7, 12, 20])
    mask = torch.arange(24) < lengths[:, None]
    first, second = x.clone(), x.clone()
    first[~mask], second[~mask] = 0.0, 77.0
    for one, other in zip(
        losses(objective, first, mask).values(), losses(objective, second, mask).values(), strict=True
    ):
        assert torch.isclose(one, other, rtol=1e-9)
    whole = torch.ones_like(mask)
    for one, other in zip(losses(objective, x, whole).values(), losses(objective, x).values(), strict=True):
        assert torch.isclose(one, other, rtol=1e-9)


def test_padding_reaches_no_batch_norm() -> None:
    """Video in training: what lies behind a clip's end changes no term, no gradient and no running statistic."""
    x, lengths = torch.rand(6, 5, 1, 32, 32), torch.tensor([5, 2, 3, 4, 5, 3])
    mask = torch.arange(5) < lengths[:, None]
    results = []
    for filling in (0.0, 77.0):
        torch.manual_seed(0)
        model = KoopmanAutoencoder.for_shape((1, 32, 32), k=5, h=6, width=4)
        objective = Objective(
            model, settings(model={"k": 5, "dropout": 0.2}, spectrum={"static": 2}, loss={"cycle": 1})
        )
        padded = torch.where(mask[..., None, None, None], x, filling)
        terms = losses(objective.train(), padded, mask)
        gradients = torch.autograd.grad(terms["total"], list(model.parameters()))
        results.append([*terms.values(), *gradients, *model.buffers()])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_the_gradient_of_everything_equals_finite_differences() -> None:
    torch.manual_seed(0)
    model = KoopmanAutoencoder.for_shape((8,), k=4, h=3, ridge=1e-3).double()
    objective = Objective(model, settings(model={"k": 4, "dropout": 0.3, "noise": 0.01}, spectrum={"static": 1}))
    x = series(10)[:, :6]
    names = [name for name, _ in objective.named_parameters()]
    weights = [parameter.detach().clone().requires_grad_() for parameter in objective.parameters()]

    def total(*values: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(3)
        output: ObjectiveOutput = torch.func.functional_call(
            objective, dict(zip(names, values, strict=True)), (x, None, generator)
        )
        return output.total

    assert torch.autograd.gradcheck(total, tuple(weights), fast_mode=True)


def test_the_cycle_is_the_neighbours_static_part_asked_back() -> None:
    """By hand: project, exchange with the neighbour before, decode, encode, compare; the target holds still."""
    torch.manual_seed(0)
    model = KoopmanAutoencoder.for_shape((8,), k=8, h=9).double()
    objective = Objective(model, settings(loss={"rec": 1e-30, "pred": 0.0, "eig": 0.0, "cycle": 1.0}))
    x = series(8)
    terms = losses(objective, x)
    z = model.encode(x)
    spectrum = Spectrum.of(fit_operator(z, ridge=0).matrix)
    P = spectrum.projector(spectrum.static(3))
    swapped = z + (z.roll(1, dims=0) - z) @ P
    by_hand = (model.encode(model.decode(swapped)) - swapped.detach()).square().mean()
    assert torch.isclose(terms["cycle"], by_hand, rtol=1e-9)
    assert float(by_hand.detach()) > 1e-3
    weights = list(model.parameters())
    ours, theirs = (torch.autograd.grad(value, weights) for value in (terms["cycle"], by_hand))
    assert all(torch.allclose(one, other, rtol=1e-6, atol=1e-8) for one, other in zip(ours, theirs, strict=True))


NAMED: list[tuple[dict[str, Any], Penalty, Penalty, ModeOrder]] = [
    ({"dynamic_penalty": "modulus"}, distance_to_one, partial(modulus_beyond, radius=0.5), by_distance),
    ({"dynamic_penalty": "hinge"}, distance_to_one, partial(hinge_beyond, radius=0.5), by_distance),
    ({"dynamic_penalty": "real"}, distance_to_one, partial(real_beyond, radius=0.5), by_distance),
    (
        {"dynamic_penalty": "ball", "delta": 0.6},
        distance_to_one,
        partial(ball_around_one, radius=0.5, delta=0.6),
        by_distance,
    ),
    ({"static_penalty": "modulus"}, unit_modulus, partial(modulus_beyond, radius=0.5), by_distance),
    ({"order": "modulus"}, distance_to_one, partial(modulus_beyond, radius=0.5), by_modulus),
]


@pytest.mark.parametrize(("changes", "static", "dynamic", "order"), NAMED)
def test_names_in_settings_reach_their_functions(
    changes: dict[str, Any], static: Penalty, dynamic: Penalty, order: ModeOrder
) -> None:
    generator = torch.Generator().manual_seed(1)
    # The third by distance to 1 is 0.8, by modulus -0.95.
    C = matrix_with([1.05, 0.9, 0.8, -0.95, 0.3 + 0.5j, 0.55, 0.1], generator)
    x = trajectories(C, 12, 5, generator)
    terms = losses(Objective(identity(), settings(spectrum=changes)), x)
    expected = spectral_terms(fit_operator(x, ridge=0).matrix, 3, static, dynamic, order)
    assert torch.isclose(terms["stat"], expected.static)
    assert torch.isclose(terms["dyn"], expected.dynamic)
    usual = losses(Objective(identity(), settings()), x)
    assert changes == {"dynamic_penalty": "modulus"} or not torch.isclose(
        terms["stat"] + terms["dyn"], usual["stat"] + usual["dyn"]
    )


def test_the_swap_inside_the_cycle_is_not_rounded_to_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = KoopmanAutoencoder.for_shape((3, 32, 32), k=8, h=9, width=4)
    results: list[tuple[Tensor, Tensor]] = []

    def noting(z: Tensor, donor: Tensor, factor: Factor) -> Tensor:
        swapped = swap(z, donor, factor)
        with torch.autocast("cpu", enabled=False):
            results.append((swapped, swap(z, donor, factor)))
        return swapped

    monkeypatch.setattr(objective_module, "swap", noting)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses(Objective(model, settings(loss={"cycle": 1}, model={"ridge": 1e-9})), torch.rand(6, 5, 3, 32, 32))
    ((ours, exact),) = results
    assert torch.equal(ours, exact)


def test_chance_belongs_to_training_and_to_the_generator() -> None:
    torch.manual_seed(0)
    model = KoopmanAutoencoder.for_shape((3, 32, 32), k=8, h=9, width=4)
    options = settings(model={"dropout": 0.2, "noise": 0.005}, train={"blur": True})
    objective = Objective(model, options)
    x = torch.rand(4, 5, 3, 32, 32)
    trained = [losses(objective.train(), x, seed=seed)["total"].item() for seed in (1, 1, 2)]
    assert trained[0] == trained[1] != trained[2]
    objective.eval()
    assert torch.equal(losses(objective, x, seed=1)["total"], losses(objective, x, seed=2)["total"])


def test_blur_is_a_gaussian_and_leaves_the_target_sharp() -> None:
    x = torch.rand(2, 3, 3, 32, 24, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sigma = 1.7
    blurred = gaussian_blur(x, torch.tensor(sigma, dtype=torch.float64), (5, 9))
    expected = x.numpy()
    for axis, taps in ((-1, 5), (-2, 9)):
        at = np.arange(taps) - taps // 2
        bell = np.exp(-0.5 * (at / sigma) ** 2)
        expected = convolve1d(expected, bell / bell.sum(), axis=axis, mode="mirror")
    assert np.allclose(blurred.numpy(), expected, atol=1e-12)

    # An encoder that keeps the frames: what it is given is blurred, what it is judged by is not.
    keeping = KoopmanAutoencoder(nn.Flatten(2), nn.Identity(), ridge=1e-6)
    objective = Objective(keeping, settings(model={"ridge": 1e-6}, spectrum={"static": 1}, train={"blur": True}))
    flat = torch.rand(2, 3, 1, 16, 16, dtype=torch.float64)
    objective.distance = lambda a, b, mask: (a.flatten(2) - b.flatten(2)).square().mean()  # type: ignore[method-assign]
    assert float(losses(objective.eval(), flat)["rec"]) == 0
    assert float(losses(objective.train(), flat)["rec"]) > 1e-4
