"""The stages compute what the plain step computes: uncaptured on the CPU, captured where there is CUDA."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import diskoop.training.cuda_graph
from diskoop.data import Sequences, open_data
from diskoop.errors import InputError
from diskoop.kernels import accelerate
from diskoop.models.autoencoder import build_model
from diskoop.settings import Settings
from diskoop.training.cuda_graph import CapturedStep, capture_obstacle
from diskoop.training.objective import Objective
from diskoop.training.step import PlainStep, Step, StepOutput, adam

SIGNAL: dict[str, Any] = {
    "data": {"name": "oscillators"},
    "model": {"k": 8, "h": 9, "noise": 0.01, "ridge": 1e-6},
    "spectrum": {"static": 3},
    "loss": {"cycle": 1.0},
    "train": {"batch_size": 10, "grad_clip": 1.0, "precision": "64", "device": "cpu"},
}
VIDEO: dict[str, Any] = {
    "data": {"name": "puppets", "size": 32},
    "model": {"k": 6, "h": 7, "width": 4},
    "spectrum": {"static": 2},
    "loss": {"cycle": 0.5},
    "train": {"batch_size": 4, "blur": True, "precision": "64", "device": "cpu"},
}

Maker = Callable[[Settings, Objective, Sequences], Step]


def plain(settings: Settings, objective: Objective, data: Sequences) -> Step:
    return PlainStep(objective, adam(objective, 1.0, torch.device(settings.train.device)), data)


def fast(settings: Settings, objective: Objective, data: Sequences) -> Step:
    accelerate(objective.model)
    return CapturedStep(
        objective, adam(objective, 1.0, torch.device(settings.train.device)), data, settings.train.batch_size
    )


def run(
    settings: Settings, make: Maker, steps: int, data: Sequences
) -> tuple[list[StepOutput], dict[str, torch.Tensor]]:
    """So many steps from the same start, and where they lead."""
    torch.manual_seed(0)
    model = build_model(settings.model, data.shape[2:]).double().to(settings.train.device)
    step = make(settings, Objective(model, settings).train(), data)
    outputs: list[StepOutput] = []
    for number in range(steps):
        indices = np.arange(number, number + settings.train.batch_size)
        batch = data.read_batch(indices, torch.float64)
        generator = torch.Generator(settings.train.device).manual_seed(number)
        outputs += step.take(*batch, 0.001 * (1 + number % 3), generator)
    return [*outputs, *step.flush()], model.state_dict()


ON_CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA here"))


@pytest.mark.parametrize("device", ["cpu", ON_CUDA])
@pytest.mark.parametrize(
    ("base", "changes", "steps"),
    [
        (SIGNAL, {}, 10),
        pytest.param(SIGNAL, {}, 50, marks=pytest.mark.slow),
        (SIGNAL, {"loss": {"cycle": 0.0, "reduction": "frame"}, "train": {"grad_clip": None}}, 10),
        (SIGNAL, {"spectrum": {"order": "modulus", "dynamic_penalty": "ball"}, "loss": {"stat": 0.3, "eig": 2}}, 10),
        (SIGNAL, {"loss": {"pred": 0.0}}, 10),
        (SIGNAL, {"loss": {"rec": 0.0}}, 10),
        pytest.param(SIGNAL, {"model": {"dynamic_noise": 0.5}}, 50, marks=pytest.mark.slow),
        (SIGNAL, {"model": {"dynamic_noise": 0.5, "dropout": 0.0}, "loss": {"cycle": 0.0}}, 10),
        (SIGNAL, {"model": {"decoder_memory": "lstm_init"}}, 10),
        (VIDEO, {"model": {"decoder_memory": "none", "dynamic_noise": 0.5}}, 10),
        (VIDEO, {}, 10),
        pytest.param(VIDEO, {}, 50, marks=pytest.mark.slow),
        pytest.param(VIDEO, {"model": {"dynamic_noise": 0.5}}, 50, marks=pytest.mark.slow),
        (VIDEO, {"train": {"blur": False}, "loss": {"cycle": 0.0}}, 10),
        (VIDEO, {"loss": {"reduction": "frame"}}, 10),
    ],
)
def test_stages_take_the_plain_steps(base: dict[str, Any], changes: dict[str, Any], steps: int, device: str) -> None:
    settings = Settings.of(base).replaced(changes).replaced({"train": {"device": device}})
    data = open_data(settings.data).split("train")
    ours, weights = run(settings, fast, steps, data)
    theirs, others = run(settings, plain, steps, data)
    assert len(ours) == len(theirs) == steps
    for one, other in zip(ours, theirs, strict=True):
        assert list(one.terms) == list(other.terms)
        assert one.terms == pytest.approx(other.terms, rel=1e-6, abs=1e-12)
        assert one.norm == pytest.approx(other.norm, rel=1e-7)
    for name, weight in weights.items():
        assert torch.allclose(weight, others[name], rtol=1e-7, atol=1e-9), name
    assert theirs[0].terms["total"] != theirs[-1].terms["total"]


@pytest.mark.parametrize("base", [SIGNAL, VIDEO])
@pytest.mark.parametrize("device", [ON_CUDA])
def test_large_operators_are_solved_for_on_the_cpu(
    base: dict[str, Any], device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diskoop.training.cuda_graph, "solves_on_device", lambda *_: False)  # as if these were large
    test_stages_take_the_plain_steps(base, {}, 10, device)


@pytest.mark.parametrize("width", [4, 32])
@pytest.mark.parametrize("device", [ON_CUDA])
def test_bf16_loses_what_the_plain_step_loses(width: int, device: str) -> None:
    """With every kernel of our own; the narrowest networks have narrow layers inside too."""
    changes = {"model": {"width": width}, "train": {"precision": "bf16", "device": device}}
    settings = Settings.of(VIDEO).replaced(changes)
    data = open_data(settings.data).split("train")
    outputs = []
    for make in (fast, plain):
        torch.manual_seed(0)
        model = build_model(settings.model, data.shape[2:]).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        step = make(settings, Objective(model, settings).train(), data)
        batches = [data.read_batch(np.arange(at, at + 4), torch.float32) for at in range(5)]
        some = [one for batch in batches for one in step.take(*batch, 0.001, torch.Generator(device).manual_seed(0))]
        outputs.append([*some, *step.flush()])
    for ours, theirs in zip(*outputs, strict=True):
        for name in ("rec", "pred_x"):
            assert ours.terms[name] == pytest.approx(theirs.terms[name], rel=0.05), name
    ours, theirs = outputs[0][0], outputs[1][0]  # later, which eigenvalues count hangs on how latents are rounded
    assert ours.terms["total"] == pytest.approx(theirs.terms["total"], rel=0.02)
    assert ours.norm == pytest.approx(theirs.norm, rel=0.1)


def test_padding_is_padded_further() -> None:
    """Batches whose longest sequence is shorter than the set's, and one without any padding, in the same buffers."""
    quiet = {"model": {"noise": 0.0, "dropout": 0.0}}  # longer batches draw more numbers
    settings = Settings.of(SIGNAL).replaced(quiet)
    data = open_data(settings.data).split("train").select(np.arange(60))
    lengths = np.where(np.arange(60) % 3, 24, 7 + np.arange(60) % 11)
    lengths[20:32] = 9  # a batch that is all short, and as long as its longest
    short = Sequences(data.frames, data.starts, lengths, units=data.units, name="short")
    assert short.mask is not None
    assert short.read_batch(np.arange(20, 30), torch.float64)[1] is None
    ours, weights = run(settings, fast, 24, short)
    theirs, others = run(settings, plain, 24, short)
    assert [one.terms for one in ours] == [pytest.approx(other.terms, rel=1e-6, abs=1e-12) for other in theirs]
    assert all(torch.allclose(weight, others[name], rtol=1e-9, atol=1e-12) for name, weight in weights.items())


def test_a_step_is_told_of_once_the_next_one_began() -> None:
    settings = Settings.of(SIGNAL)
    data = open_data(settings.data).split("train")
    step = fast(settings, Objective(build_model(settings.model, (8,)).double(), settings).train(), data)
    batch = data.read_batch(np.arange(10), torch.float64)
    counts = [len(list(step.take(*batch, 0.01, torch.Generator()))) for _ in range(3)]
    assert counts == [0, 1, 1]
    assert [len(list(step.flush())) for _ in range(2)] == [1, 0]


def test_a_step_into_nowhere_is_reported_and_not_followed() -> None:
    settings = Settings.of(SIGNAL)
    data = open_data(settings.data).split("train")
    objective = Objective(build_model(settings.model, (8,)).double(), settings).train()
    step = CapturedStep(objective, adam(objective, 1.0, torch.device("cpu")), data, 10)
    batch = data.read_batch(np.arange(10), torch.float64)
    step.take(*batch, 0.01, torch.Generator())
    before = [weight.detach().clone() for weight in objective.parameters()]
    step.losses.device[-1] = torch.nan  # as if its gradient had been none
    (outputs,) = step.take(*batch, 0.01, torch.Generator())
    assert np.isnan(outputs.norm)
    assert all(map(torch.equal, before, objective.parameters()))


def test_latents_that_are_no_numbers_are_refused_like_the_plain_steps() -> None:
    settings = Settings.of(SIGNAL)
    data = open_data(settings.data).split("train")
    batch = data.read_batch(np.arange(10), torch.float64)
    for make in (plain, fast):
        objective = Objective(build_model(settings.model, (8,)).double(), settings).train()
        with torch.no_grad():
            next(objective.parameters()).fill_(torch.nan)
        with pytest.raises(InputError, match="NaN or infinity"):
            make(settings, objective, data).take(*batch, 0.01, torch.Generator())


@pytest.mark.parametrize(("of", "sentence"), [("latents", "the latents hold NaN"), ("C", "operator that holds NaN")])
def test_an_operator_that_is_none_is_put_down_to_its_latents(of: str, sentence: str) -> None:
    """Where the device solved for it, nobody has looked at the sums before."""
    settings = Settings.of(SIGNAL)
    data = open_data(settings.data).split("train")
    objective = Objective(build_model(settings.model, (8,)).double(), settings).train()
    step = CapturedStep(objective, adam(objective, 1.0, torch.device("cpu")), data, 10)
    step.host["solve"] = partial(step.solution.to_device, torch.full((2, 8, 8), torch.nan, dtype=torch.float64))
    if of == "latents":
        with torch.no_grad():
            next(objective.parameters()).fill_(torch.nan)
    with pytest.raises(InputError, match=sentence):
        step.take(*data.read_batch(np.arange(10), torch.float64), 0.01, torch.Generator())


def test_a_cycle_through_modes_that_are_no_basis_is_refused_like_the_plain_steps() -> None:
    """Before anything moves; without a cycle nothing is taken apart, and training goes on."""
    for cycle in (1.0, 0.0):
        settings = Settings.of(SIGNAL).replaced({"loss": {"cycle": cycle}})
        data = open_data(settings.data).split("train")
        objective = Objective(build_model(settings.model, (8,)).double(), settings).train()
        step = CapturedStep(objective, adam(objective, 1.0, torch.device("cpu")), data, 10)
        parallel = torch.eye(8, dtype=torch.float64).diagonal_scatter(torch.ones(7, dtype=torch.float64), 1)
        step.host["solve"] = partial(step.solution.to_device, torch.stack([parallel, torch.eye(8).double()]))
        before = [weight.detach().clone() for weight in objective.parameters()]
        batch = data.read_batch(np.arange(10), torch.float64)
        if cycle:
            with pytest.raises(InputError, match="3 of the operator's 8 eigenvalues cannot be separated"):
                step.take(*batch, 0.01, torch.Generator())
        else:
            step.take(*batch, 0.01, torch.Generator())
        assert all(map(torch.equal, before, objective.parameters())) == bool(cycle)


def test_a_ridge_that_is_too_small_is_rejected_by_both_steps() -> None:
    settings = Settings.of(SIGNAL).replaced({"model": {"ridge": 1e-14}})
    data = open_data(settings.data).split("train")
    for make in (plain, fast):
        objective = Objective(build_model(settings.model, (8,)).double(), settings).train()
        objective.model.ridge = 1e-14
        with pytest.raises(InputError, match="expected a ridge of 0, or at least 1e-12"):
            make(settings, objective, data).take(
                *data.read_batch(np.arange(10), torch.float64), 0.01, torch.Generator()
            )


def test_a_ridge_that_drowns_is_refused_before_the_device_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diskoop.training.cuda_graph, "solves_on_device", lambda *_: True)
    settings = Settings.of(SIGNAL).replaced({"model": {"ridge": 1e-14}})
    data = open_data(settings.data).split("train")
    with pytest.raises(InputError, match="expected a ridge of 0, or at least 1e-12"):
        fast(settings, Objective(build_model(settings.model, (8,)).double(), settings).train(), data)


def test_only_bf16_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    rounded = []
    latents = Objective.latents

    def watching(self: Objective, *arguments: Any) -> torch.Tensor:
        rounded.append(torch.is_autocast_enabled("cpu"))
        return latents(self, *arguments)

    monkeypatch.setattr(Objective, "latents", watching)
    for precision in ("32", "bf16"):
        settings = Settings.of(SIGNAL).replaced({"train": {"precision": precision}})
        data = open_data(settings.data).split("train")
        step = fast(settings, Objective(build_model(settings.model, (8,)), settings).train(), data)
        step.take(*data.read_batch(np.arange(10), torch.float32), 0.01, torch.Generator())
    assert rounded == [False, True]


def test_a_rehearsal_is_taken_back() -> None:
    settings = Settings.of(VIDEO)
    data = open_data(settings.data).split("train")
    objective = Objective(build_model(settings.model, (3, 32, 32)).double(), settings).train()
    step = CapturedStep(objective, adam(objective, 1e-3, torch.device("cpu")), data, 4)
    before = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    cost = step.estimate(*data.read_batch(np.arange(4), torch.float64), steps=1000)
    assert all(torch.equal(before[name], tensor) for name, tensor in objective.state_dict().items())
    remembered = [tensor for state in step.optimizer.state.values() for tensor in state.values()]
    assert len(remembered) == 3 * len(list(objective.parameters()))
    assert not any(tensor.any() for tensor in remembered)
    assert cost.parameters == sum(weight.numel() for weight in objective.parameters())
    assert 0 < cost.seconds < 1000
    assert list(step.flush()) == []


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, None),
        ({"model": {"ridge": 0.0}}, "model.ridge"),
        ({"model": {"pca_skip": True, "pooled": 1}}, "model.pooled"),
        (
            {"model": {"operator_scope": "sequence"}, "spectrum": {"static": 1}, "loss": {"cycle": 0.0}},
            "model.operator_scope",
        ),
    ],
)
def test_what_cannot_be_captured_says_why(changes: dict[str, Any], word: str | None) -> None:
    settings = Settings.of(SIGNAL).replaced(changes)
    why = capture_obstacle(settings, open_data(settings.data).split("train"))
    assert why is None if word is None else word in (why or "")


def test_padded_video_cannot_be_captured() -> None:
    frames = np.zeros((9, 3, 32, 32), np.uint8)
    clips = Sequences(frames, np.array([0, 4]), np.array([4, 5]))
    assert capture_obstacle(Settings(), clips) == "clips of unequal length"
