"""Errors and costs of runs with identity networks."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diskoop.data.sequences import Sequences, Units
from diskoop.evaluation.protocols.reconstruction import measure_cost, measure_errors
from diskoop.evaluation.registry import EvalConfig, EvalContext
from diskoop.evaluation.results import Key, Values
from diskoop.models.autoencoder import build_model
from diskoop.run import Run
from diskoop.run_folder import RunFolder
from diskoop.settings import Settings
from diskoop.training.frozen_operator import fit_frozen_operator
from tests.helpers.known_models import DOUBLE, MOTION, PROJECTORS, TRUE, cut, known_factors, linear_set, plain_run

Array = NDArray[Any]
CONFIG = EvalConfig(repeats=1)


@pytest.fixture(scope="module")
def clips() -> Sequences:
    return linear_set(4, seed=1)


@pytest.fixture(scope="module")
def run(clips: Sequences) -> Run:
    return plain_run(clips, 2, known_factors(PROJECTORS, [MOTION], stability=0.8))


def rms(x: Array) -> float:
    return float(np.sqrt(np.square(x).mean()))


def spread(x: Array) -> float:
    """Deviation of frames (..., feature) from the mean frame."""
    return rms(x - x.reshape(-1, x.shape[-1]).mean(0))


def errors(run: Run, clips: Sequences, config: EvalConfig) -> Values:
    return measure_errors(run, EvalContext(clips, clips, config=config)).values


# --- without labels


def test_a_perfect_model_of_a_linear_system_makes_no_errors(run: Run, clips: Sequences) -> None:
    assert run.factors is not None
    rest = known_factors({"unused": np.zeros((4, 4))}, stability=0.8, remainder=["unused"]).factors
    run = replace(run, factors=replace(run.factors, factors=(*run.factors.factors, *rest)))
    values = {key: value.mean for key, value in errors(run, clips, CONFIG).items()}
    assert values[Key("reconstruction", "error")] == 0
    assert values[Key("reconstruction", "explained_variance")] == 1
    assert values[Key("prediction", "error")] < 1e-12
    assert values[Key("prediction", "hold_last_error")] == pytest.approx(
        rms(np.diff(clips.x, axis=1)) / spread(clips.x)
    )
    assert values[Key("spectrum", "static_gap")] == pytest.approx(0.02)  # the tint's 0.98
    assert values[Key("spectrum", "dynamic_radius")] == pytest.approx(0.9)
    assert values[Key("cycle", "static")] < 1e-9
    assert values[Key("factors", "stability")] == pytest.approx(0.8)
    assert values[Key("factors", "count")] == 3  # and what is left over


def test_factors_are_counted_though_nobody_knows_how_stable_they_are(clips: Sequences) -> None:
    found = known_factors({**PROJECTORS, "unused": np.zeros((4, 4))}, remainder=["unused"])
    values = errors(plain_run(clips, 2, found), clips, CONFIG)
    assert values[Key("factors", "count")].mean == 3
    assert Key("factors", "stability") not in values
    assert Key("factors", "count") not in errors(plain_run(clips, 2), clips, CONFIG)


def test_one_clip_has_nobody_to_swap_with(clips: Sequences) -> None:
    values = errors(plain_run(clips, 2, decoder=0.5), clips.select([0]), CONFIG)
    assert Key("reconstruction", "error") in values
    assert Key("cycle", "static") not in values
    assert all(np.isfinite(value.mean) for value in values.values())


def test_a_decoder_that_draws_half_of_everything(clips: Sequences) -> None:
    values = {key: value.mean for key, value in errors(plain_run(clips, 2, decoder=0.5), clips, CONFIG).items()}
    error = rms(clips.x) / 2 / spread(clips.x)
    assert values[Key("reconstruction", "error")] == pytest.approx(error)
    assert values[Key("reconstruction", "explained_variance")] == pytest.approx(1 - error**2)
    assert values[Key("prediction", "error")] == pytest.approx(rms(clips.x[:, 1:]) / 2 / spread(clips.x))
    # Half of what was put in comes back, whoever it was put into.
    code = (clips.x @ (PROJECTORS["level"] + PROJECTORS["tint"])).mean(1)
    assert values[Key("cycle", "static")] == pytest.approx(rms(code) / 2 / rms(code - code.mean(0)), rel=1e-6)
    assert Key("factors", "stability") not in values


def test_an_operator_that_says_nothing_changes_is_as_good_as_holding_the_last_frame(clips: Sequences) -> None:
    values = errors(plain_run(np.eye(4), 2), clips, CONFIG)
    assert values[Key("prediction", "error")].mean == pytest.approx(values[Key("prediction", "hold_last_error")].mean)


def test_what_stands_behind_a_sequence_is_not_looked_at(clips: Sequences) -> None:
    run = plain_run(1.1 * TRUE, 2, decoder=0.5)  # errors everywhere
    values, again = (errors(run, cut(clips, behind), CONFIG) for behind in (0.0, 1e6))
    assert values == again
    short = cut(clips)
    x = [each[:length] for each, length in zip(clips.x, short.lengths, strict=True)]
    every = np.concatenate(x)
    error = rms(every) / 2 / spread(every)
    assert values[Key("reconstruction", "error")].mean == pytest.approx(error)
    assert values[Key("reconstruction", "explained_variance")].mean == pytest.approx(1 - error**2)
    ahead = np.concatenate([each[1:] for each in x])
    assert values[Key("prediction", "error")].mean == pytest.approx(rms(ahead - 0.55 * ahead) / spread(every))
    assert values[Key("prediction", "hold_last_error")].mean == pytest.approx(
        rms(np.concatenate([np.diff(each, axis=0) for each in x])) / spread(every)
    )


def test_a_decoder_that_knows_its_training_sequences_by_heart_cannot_swap(clips: Sequences) -> None:
    """It draws them, and of whatever else it is asked for nothing: no swapped code comes back but those kept."""
    known = torch.from_numpy(clips.x[:, 0])

    class ByHeart(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            near = torch.cdist(z[:, 0], known).amin(1) < 1e-6
            return z * near[:, None, None]

    run = plain_run(clips, 2)
    run.model.decoder = ByHeart()
    values = {key: value.mean for key, value in errors(run, clips, CONFIG).items()}
    assert values[Key("reconstruction", "error")] == 0
    code = (clips.x @ (PROJECTORS["level"] + PROJECTORS["tint"])).mean(1)
    assert values[Key("cycle", "static")] == pytest.approx(rms(code) / rms(code - code.mean(0)), rel=0.03)


def test_a_swap_and_back_has_no_error_whatever_the_lengths(run: Run, clips: Sequences) -> None:
    assert errors(run, cut(clips), CONFIG)[Key("cycle", "static")].mean < 1e-9


def test_without_a_static_part_there_is_nothing_to_swap_and_back(clips: Sequences) -> None:
    values = errors(plain_run(clips, 0), clips, CONFIG)
    assert Key("cycle", "static") not in values
    assert all(np.isfinite(value.mean) for value in values.values())


def test_no_feature_outweighs_the_others_by_its_unit(clips: Sequences) -> None:
    """One feature in a thousandth of its unit: nothing changes."""
    units = Units((1.0, 1.0, 1.0, 1000.0), 0.0, "float64")
    mixed = Sequences.of(clips.x * units.scale, clips.labels, units=units)
    plain = errors(plain_run(clips, 2, decoder=0.5), clips, CONFIG)
    values = errors(plain_run(clips, 2, decoder=0.5, units=units), mixed, CONFIG)
    for metric, column in (
        ("reconstruction", "error"),
        ("reconstruction", "explained_variance"),
        ("prediction", "error"),
        ("prediction", "hold_last_error"),
    ):
        assert values[Key(metric, column)].mean == pytest.approx(plain[Key(metric, column)].mean)


# --- cost


def test_resources_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = linear_set(1, seed=0)
    asked: list[str] = []

    def data(self: Run, split: str = "test") -> Sequences:
        asked.append(split)
        return train

    monkeypatch.setattr(Run, "data", data)
    settings = Settings.of({"model": {"k": 3, "h": 5}, "spectrum": {"static": 1}, "train": {"batch_size": 16}})
    model = build_model(settings.model, (4,)).double().eval()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    run = Run(settings, model, fit_frozen_operator(model, train, 16), DOUBLE, RunFolder(tmp_path))
    rows = [{"epoch": 1, "step": 10, "seconds": 5.0}, {"epoch": 2, "step": 20, "seconds": 1.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {key: value.mean for key, value in measure_cost(run, EvalContext(train, train)).values.items()}
    assert values[Key("cost", "parameters")] == sum(weight.numel() for weight in model.parameters())
    assert asked == ["train"]
    assert values[Key("cost", "sequences")] == 48
    assert values[Key("cost", "training_step_seconds")] == pytest.approx(6.0 / 20)
    assert values[Key("cost", "step_seconds")] > 0
    assert values[Key("cost", "memory")] > 4 * 8 * values[Key("cost", "parameters")]
    assert not model.training
    after = model.state_dict()
    assert all(torch.equal(weight, after[name]) for name, weight in before.items())
    assert all(weight.grad is None for weight in model.parameters())
