"""One registry of loss terms, read by settings, by both steps, by metrics and by the progress line."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from diskoop.data import open_data
from diskoop.kernels import accelerate
from diskoop.losses import LOSS_TERMS, LOSS_WEIGHTS, Extra, Forward, active_terms, loss_term, loss_weight, weighted_sum
from diskoop.models.autoencoder import build_model
from diskoop.numerics import Factor
from diskoop.settings import LossSettings, Settings
from diskoop.training.cuda_graph import CapturedStep
from diskoop.training.objective import Objective
from diskoop.training.progress import describe
from diskoop.training.step import PlainStep, StepOutput, adam

SIGNAL = Settings.of(
    {
        "data": {"name": "oscillators"},
        "model": {"k": 8, "h": 9, "ridge": 1e-6},
        "spectrum": {"static": 3},
        "train": {"batch_size": 10, "precision": "64", "device": "cpu"},
    }
)


@pytest.fixture
def smoothness() -> Iterator[None]:
    """A term of one's own, weighted by loss.cycle: latents that differ from frame to frame."""

    @loss_term("smooth", weight="cycle", uses=("static",), display_name="smooth")
    def smooth(forward: Forward) -> torch.Tensor:
        part: torch.Tensor = forward.static.part(forward.z)
        return (part[:, 1:] - part[:, :-1]).square().mean()

    yield
    del LOSS_TERMS["smooth"]


def test_every_term_has_weights_that_are_settings() -> None:
    fields = LossSettings.model_fields
    assert set(fields) == {*LOSS_WEIGHTS, "reduction"}
    for name, (default, description) in LOSS_WEIGHTS.items():
        assert fields[name].default == default
        assert description
    for term in LOSS_TERMS.values():
        assert term.weight in fields
        assert term.inner_weight is None or term.inner_weight in fields


def test_the_sum_is_the_papers() -> None:
    weights = LossSettings(rec=2, pred=3, eig=5, stat=7, dyn=11, cycle=13)
    values = {"rec": 1.0, "pred_z": 10.0, "pred_x": 100.0, "stat": 1e3, "dyn": 1e4, "cycle": 1e5}
    assert weighted_sum(values, weights) == 2 + 3 * 110 + 5 * (7e3 + 11e4) + 13e5
    assert weighted_sum({}, weights) == 0


def test_a_term_without_weight_is_left_out() -> None:
    assert "cycle" not in [term.name for term in active_terms(LossSettings())]
    assert "cycle" in [term.name for term in active_terms(LossSettings(cycle=0.1))]
    assert "stat" in [term.name for term in active_terms(LossSettings(eig=0))]  # always shown


def test_a_name_stands_once() -> None:
    with pytest.raises(ValueError, match="there is a loss term 'rec' already"):
        loss_term("rec", weight="rec")(lambda forward: forward.z)
    with pytest.raises(ValueError, match=r"loss\.rec is declared already"):
        loss_weight("rec", 1.0, "")
    with pytest.raises(ValueError, match=r"weighted by loss\.nothing, which is not declared"):
        loss_term("new", weight="nothing")(lambda forward: forward.z)


def taken(settings: Settings, captured: bool) -> list[StepOutput]:
    data = open_data(settings.data).split("train")
    torch.manual_seed(0)
    model = accelerate(build_model(settings.model, data.shape[2:])).double()
    objective = Objective(model, settings).train()
    optimizer = adam(objective, 0.01, torch.device("cpu"))
    step: Any = CapturedStep(objective, optimizer, data, 10) if captured else PlainStep(objective, optimizer, data)
    outputs: list[StepOutput] = []
    for number in range(5):
        batch = data.read_batch(np.arange(number, number + 10), torch.float64)
        outputs += step.take(*batch, 0.01, torch.Generator().manual_seed(number))
    return [*outputs, *step.flush()]


def test_a_new_term_is_computed_by_both_steps_and_shown(smoothness: None) -> None:
    settings = SIGNAL.replaced({"loss": {"cycle": 0.7}})
    plain, captured = taken(settings, False), taken(settings, True)
    assert len(plain) == len(captured) == 5
    for one, other in zip(plain, captured, strict=True):
        assert list(one.terms) == list(other.terms)
        assert one.terms["smooth"] > 0
        assert one.terms == pytest.approx(other.terms, rel=1e-7)
        assert one.norm == pytest.approx(other.norm, rel=1e-6)
    assert "smooth" in describe(plain[-1].terms)
    without = taken(SIGNAL, False)
    assert "smooth" not in without[0].terms


@pytest.mark.parametrize("uses", [(), ("errors",), ("penalties",), ("errors", "penalties", "static")])
def test_terms_of_any_kind_have_the_same_gradient_in_both_steps(uses: tuple[Extra, ...]) -> None:
    """Not linear in errors and penalties, so that both steps need the derivative at their values."""

    @loss_term("own", weight="cycle", uses=uses)
    def own(forward: Forward) -> torch.Tensor:
        total = forward.C.square().sum() * forward.z.square().mean()
        if "errors" in uses:
            total = total * forward.errors.reconstruction * forward.errors.latent_prediction
        if "penalties" in uses:
            total = total * forward.penalties.static * (1 + forward.penalties.dynamic)
        if "static" in uses:
            total = total * forward.static.part(forward.z).square().mean()
        return total

    try:
        settings = SIGNAL.replaced({"loss": {"cycle": 1e3, "rec": 1e-3, "pred": 1e-3, "eig": 1e-3}})
        plain, captured = taken(settings, False), taken(settings, True)
    finally:
        del LOSS_TERMS["own"]
    assert len(plain) == len(captured) == 5
    for one, other in zip(plain, captured, strict=True):
        assert one.terms == pytest.approx(other.terms, rel=1e-6)
        assert one.norm == pytest.approx(other.norm, rel=1e-5)
    assert (
        plain[0].norm > 100 * taken(SIGNAL.replaced({"loss": {"rec": 1e-3, "pred": 1e-3, "eig": 1e-3}}), False)[0].norm
    )


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("name", ["errors", "penalties", "static"])
def test_a_term_is_given_what_it_was_registered_to_use(name: str, captured: bool) -> None:
    @loss_term("own", weight="cycle")
    def own(forward: Forward) -> torch.Tensor:
        getattr(forward, name)
        return forward.z.square().mean()

    try:
        with pytest.raises(RuntimeError, match=f"uses `{name}` is registered with it"):
            taken(SIGNAL.replaced({"loss": {"cycle": 1}}), captured)
    finally:
        del LOSS_TERMS["own"]


def test_a_new_term_is_minimised(smoothness: None) -> None:
    settings = SIGNAL.replaced({"loss": {"cycle": 100.0, "rec": 1e-9, "pred": 0, "eig": 0}})
    outputs = taken(settings, False)
    assert outputs[-1].terms["smooth"] < outputs[0].terms["smooth"]


def test_the_contrast_tells_steady_codes_from_others() -> None:
    """Known answers: codes that are one for a sequence, of all sequences alike, and of halves that do not match."""
    random = torch.Generator().manual_seed(0)

    def contrast_of(z: torch.Tensor, mask: torch.Tensor | None = None, projector: torch.Tensor | None = None) -> float:
        part = Factor("static", torch.eye(z.shape[-1], dtype=z.dtype) if projector is None else projector)
        forward = SimpleNamespace(gather=lambda x: x, z=z, mask=mask, static=part)
        return float(LOSS_TERMS["contrast"].compute(forward))

    codes = torch.randn(8, 1, 20, generator=random, dtype=torch.float64)
    steady, alike = codes.expand(8, 6, 20), codes[:1].expand(8, 6, 20)
    assert contrast_of(steady) < 0.05
    assert contrast_of(alike) == pytest.approx(np.log(8))
    mismatched = torch.cat([steady[:, :3], steady.roll(1, 0)[:, 3:]], 1)
    assert contrast_of(mismatched) > np.log(8)
    # Padding does not count, and neither does what lies outside the static part.
    lengths = torch.tensor([6, 4, 2, 6, 5, 3, 6, 2])
    mask = torch.arange(6) < lengths[:, None]
    padded = torch.where(mask[..., None], steady, 1e3)
    assert contrast_of(padded, mask) == pytest.approx(contrast_of(steady))
    noise = torch.randn(8, 6, 5, generator=random, dtype=torch.float64)
    static = torch.diag(torch.tensor([1.0] * 20 + [0.0] * 5, dtype=torch.float64))
    assert contrast_of(torch.cat([steady, noise], -1), projector=static) == pytest.approx(contrast_of(steady))
