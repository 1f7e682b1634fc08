"""Errors, leaks, codes and costs of runs of which everything is known: their networks are the identity."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diskoop.data.sequences import Sequences
from diskoop.evaluation import inspection
from diskoop.evaluation.inspection import (
    consistency,
    disentanglement,
    errors,
    leaks,
    limited,
    readable,
    resources,
    timed_code,
)
from diskoop.evaluation.leaking import leaking
from diskoop.evaluation.protocols import ProtocolConfig
from diskoop.models.autoencoder import build_model
from diskoop.numerics import Factor
from diskoop.run import Run
from diskoop.settings import Settings
from diskoop.training.checkpoint import RunFolder
from diskoop.training.loop import frozen_operator
from tests.evaluation.known import (
    DOUBLE,
    MOVING,
    POINTS,
    PROJECTORS,
    TRUE,
    found_of,
    linear_set,
    plain_run,
    reads,
    whole,
)

Array = NDArray[Any]
PLAN = ProtocolConfig(repeats=1)


@pytest.fixture(scope="module")
def clips() -> Sequences:
    return linear_set(4, seed=1)


@pytest.fixture(scope="module")
def run(clips: Sequences) -> Run:
    return plain_run(clips, 2, found_of(PROJECTORS, [MOVING], stability=0.8))


def rms(x: Array) -> float:
    return float(np.sqrt(np.square(x).mean()))


def cut(clips: Sequences, behind: float = 0.0, seed: int = 5) -> Sequences:
    """The same sequences, most of them shorter, and any number behind each."""
    lengths = np.random.Generator(np.random.PCG64(seed)).integers(2, clips.shape[1] + 1, len(clips))
    x = clips.x.copy()
    x[np.arange(x.shape[1]) >= lengths[:, None]] = behind
    return Sequences.of(x, clips.labels, lengths=lengths, units=clips.units)


# --- without labels


def test_a_perfect_model_of_a_linear_system_makes_no_errors(run: Run, clips: Sequences) -> None:
    assert run.found is not None
    rest = found_of({"unused": np.zeros((4, 4))}, stability=0.8, left_over=["unused"]).factors
    run = replace(run, found=replace(run.found, factors=(*run.found.factors, *rest)))
    figures = {key: value.mean for key, value in errors(run, clips, PLAN).items()}
    assert figures["rec/rmse"] == 0
    assert figures["rec/explained"] == 1
    assert figures["pred/ours"] < 1e-12
    assert figures["pred/held"] == pytest.approx(rms(np.diff(clips.x, axis=1)))
    assert figures["spectrum/static_gap"] == pytest.approx(0.02)  # the tint's 0.98
    assert figures["spectrum/dynamic_radius"] == pytest.approx(0.9)
    assert figures["cycle/static"] < 1e-9
    assert figures["factors/stability"] == pytest.approx(0.8)
    assert figures["factors/count"] == 3  # and what is left over


def test_factors_are_counted_though_nobody_knows_how_stable_they_are(clips: Sequences) -> None:
    found = found_of({**PROJECTORS, "unused": np.zeros((4, 4))}, left_over=["unused"])
    figures = errors(plain_run(clips, 2, found), clips, PLAN)
    assert figures["factors/count"].mean == 3
    assert "factors/stability" not in figures
    assert "factors/count" not in errors(plain_run(clips, 2), clips, PLAN)


def test_one_clip_has_nobody_to_swap_with(clips: Sequences) -> None:
    figures = errors(plain_run(clips, 2, decoder=0.5), clips.select([0]), PLAN)
    assert "rec/rmse" in figures
    assert "cycle/static" not in figures
    assert all(np.isfinite(value.mean) for value in figures.values())


def test_a_decoder_that_draws_half_of_everything(clips: Sequences) -> None:
    figures = {key: value.mean for key, value in errors(plain_run(clips, 2, decoder=0.5), clips, PLAN).items()}
    assert figures["rec/rmse"] == pytest.approx(rms(clips.x) / 2)
    spread = rms(clips.x - clips.x.mean((0, 1)))
    assert figures["rec/explained"] == pytest.approx(1 - (rms(clips.x) / 2 / spread) ** 2)
    assert figures["pred/ours"] == pytest.approx(rms(clips.x[:, 1:]) / 2)
    # Half of what was put in comes back, whoever it was put into.
    code = (clips.x @ (PROJECTORS["level"] + PROJECTORS["tint"])).mean(1)
    assert figures["cycle/static"] == pytest.approx(rms(code) / 2 / rms(code - code.mean(0)), rel=1e-6)
    assert "factors/stability" not in figures


def test_an_operator_that_says_nothing_changes_is_as_good_as_holding_the_last_frame(clips: Sequences) -> None:
    figures = errors(plain_run(np.eye(4), 2), clips, PLAN)
    assert figures["pred/ours"].mean == pytest.approx(figures["pred/held"].mean)


def test_what_stands_behind_a_sequence_is_not_looked_at(clips: Sequences) -> None:
    run = plain_run(1.1 * TRUE, 2, decoder=0.5)  # errors everywhere
    figures, again = (errors(run, cut(clips, behind), PLAN) for behind in (0.0, 1e6))
    assert figures == again
    short = cut(clips)
    x = [each[:length] for each, length in zip(clips.x, short.lengths, strict=True)]
    every = np.concatenate(x)
    assert figures["rec/rmse"].mean == pytest.approx(rms(every) / 2)
    spread = rms(every - every.mean(0))
    assert figures["rec/explained"].mean == pytest.approx(1 - (rms(every) / 2 / spread) ** 2)
    ahead = np.concatenate([each[1:] for each in x])
    assert figures["pred/ours"].mean == pytest.approx(rms(ahead - 0.55 * ahead))
    assert figures["pred/held"].mean == pytest.approx(rms(np.concatenate([np.diff(each, axis=0) for each in x])))


def test_a_decoder_that_knows_its_training_sequences_by_heart_cannot_swap(clips: Sequences) -> None:
    """It draws them, and of whatever else it is asked for nothing: no swapped code comes back but those kept."""
    known = torch.from_numpy(clips.x[:, 0])

    class ByHeart(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            near = torch.cdist(z[:, 0], known).amin(1) < 1e-6
            return z * near[:, None, None]

    run = plain_run(clips, 2)
    run.model.decoder = ByHeart()
    figures = {key: value.mean for key, value in errors(run, clips, PLAN).items()}
    assert figures["rec/rmse"] == 0
    code = (clips.x @ (PROJECTORS["level"] + PROJECTORS["tint"])).mean(1)
    assert figures["cycle/static"] == pytest.approx(rms(code) / rms(code - code.mean(0)), rel=0.03)


def test_a_swap_and_back_has_no_error_whatever_the_lengths(run: Run, clips: Sequences) -> None:
    assert errors(run, cut(clips), PLAN)["cycle/static"].mean < 1e-9


def test_without_a_static_part_there_is_nothing_to_swap_and_back(clips: Sequences) -> None:
    figures = errors(plain_run(clips, 0), clips, PLAN)
    assert "cycle/static" not in figures
    assert all(np.isfinite(value.mean) for value in figures.values())


def test_the_mean_frame_is_that_of_real_frames(clips: Sequences) -> None:
    some = cut(clips, behind=1e6)
    every = np.concatenate([each[:length] for each, length in zip(some.x, some.lengths, strict=True)])
    assert np.allclose(inspection._mean_frame(some), every.mean(0))


def test_some_are_drawn_by_seed_in_their_order(clips: Sequences) -> None:
    some = PLAN.some(clips, 20, 6)
    assert len(some) == 20
    assert some.clips is not None
    assert some.clips.tolist() == sorted(set(some.clips.tolist()))
    assert np.array_equal(some.x, PLAN.some(clips, 20, 6).x)
    assert not np.array_equal(some.x, ProtocolConfig(seed=1).some(clips, 20, 6).x)
    assert np.array_equal(PLAN.some(clips, 10**6, 6).x, clips.x)


# --- codes and labels


def test_readable_is_what_training_teaches() -> None:
    train, clips = (Sequences.of(np.zeros((4, 3, 2)), units=DOUBLE) for _ in range(2))
    train = replace(
        train,
        labels={
            "both": np.array([0, 1, 0, 1]),
            "one": np.zeros(4, np.int64),
            "who": np.array([0, 0, 1, 1]),
            "more": np.array([0, 1, 2, 3]),
            "mine": np.array([0, 1, 0, 1]),
        },
    )
    clips = replace(
        clips,
        labels={
            "more": np.array([1, 1, 1, 1]),  # need not all be asked for
            "one": np.zeros(4, np.int64),  # nothing to tell apart
            "who": np.array([1, 2, 2, 3]),  # strangers
            "both": np.array([1, 1, 0, 0]),
            "yours": np.array([0, 1, 0, 1]),
        },
    )
    assert readable(train, clips) == ("more", "both")
    assert readable(replace(train, labels={}), clips) == ()
    assert readable(train, replace(clips, labels={})) == ()


def test_a_label_is_read_from_the_part_that_holds_it(run: Run, clips: Sequences) -> None:
    figures = leaks(run, linear_set(8, seed=2), clips, list(POINTS), PLAN)
    for label, points in POINTS.items():
        chance = 1 / len(points)
        own, other = ("dynamic", "static") if label == MOVING else ("static", "dynamic")
        assert figures[f"leak/{own}/{label}"].mean == 1
        assert figures[f"leak/{other}/{label}"].mean == pytest.approx(chance, abs=0.1)
        assert figures[f"leak/chance/{label}"].mean == chance


def test_values_that_nobody_taught_are_not_asked_for(run: Run, clips: Sequences) -> None:
    train = linear_set(4, seed=2)
    figures = leaks(run, train.select(train.labels["level"] != 2), clips, ["level"], PLAN)
    assert figures["leak/static/level"].mean == 1
    assert figures["leak/chance/level"].mean == pytest.approx(1 / 3)


def test_what_is_held_in_the_first_frames_only_is_seen() -> None:
    """A mean over all frames drowns it: afterwards comes noise, and much of it."""
    draw = np.random.Generator(np.random.PCG64(4))
    labels = {"start": np.arange(200) % 2}
    x = 20 * draw.normal(size=(200, 40, 2))
    x[:, :10, 0] = labels["start"][:, None]
    clips = Sequences.of(x, labels, units=DOUBLE)
    figures = leaks(plain_run(np.diag([0.5, 1.0]), 1), clips, clips, ["start"], PLAN)
    assert figures["leak/dynamic/start"].mean == 1
    assert figures["leak/static/start"].mean < 0.7


def test_what_turns_its_sign_from_frame_to_frame_is_seen(run: Run, clips: Sequences) -> None:
    """The model that leaks keeps the level in its dynamic part, where it has no mean over two frames."""
    train = linear_set(8, seed=2)
    cheat = leaking(run, train)
    parts = cheat.decompose(clips)
    first, *means = np.split(timed_code(parts, "dynamic"), 1 + inspection.STRETCHES, axis=1)
    own = [codes[:, 2:] @ PROJECTORS["level"] for codes in (first, *means)]  # behind what stays and is not drawn
    assert np.allclose(own[0], clips.x[:, 0] @ PROJECTORS["level"], atol=1e-6)
    assert np.abs(own[1:]).max() < 1e-6
    figures = leaks(cheat, train, clips, ["level"], PLAN)
    assert figures["leak/dynamic/level"].mean == 1
    assert leaks(run, train, clips, ["level"], PLAN)["leak/dynamic/level"].mean < 0.4  # an honest one


@pytest.mark.parametrize(
    ("length", "means"),
    [
        (16, [1.5, 5.5, 9.5, 13.5]),
        (8, [0.5, 2.5, 4.5, 6.5]),
        (6, [0, 1.5, 3, 4.5]),  # stretches of 1, 2, 1 and 2 frames
        (4, [0, 1, 2, 3]),
        (3, [0, 0, 1, 2]),  # shorter than the stretches are many: a frame stands for two of them
        (2, [0, 0, 1, 1]),
    ],
)
def test_a_code_is_the_first_frame_and_means_over_stretches_of_time(length: int, means: list[float]) -> None:
    """Beside a sequence of 16 frames, whose code is the same in any company."""
    time = np.arange(16.0)
    x = np.stack([np.stack([time, 10 * time], 1), np.stack([-time, time + 5], 1)])
    parts = plain_run(np.diag([1, 0.5]), 1).decompose(Sequences.of(x, lengths=np.array([16, length]), units=DOUBLE))
    codes = timed_code(parts, "static").reshape(2, 5, 2)
    assert np.allclose(codes[0, :, 0], [0, 1.5, 5.5, 9.5, 13.5])
    assert np.allclose(codes[1, :, 0], [0, *-np.array(means)])
    assert not codes[..., 1].any()
    codes = timed_code(parts, "dynamic").reshape(2, 5, 2)
    assert np.allclose(codes[1, :, 1], np.array([0, *means]) + 5)
    assert not codes[..., 0].any()


def test_short_sequences_to_learn_from_and_longer_ones_to_read(run: Run) -> None:
    """Their codes have the same columns."""
    train, clips = linear_set(6, seed=2, steps=3), linear_set(2, seed=3, steps=9)
    assert leaks(run, train, clips, ["level"], PLAN)["leak/static/level"].mean == 1


def test_known_factors_are_disentangled(clips: Sequences) -> None:
    run = plain_run(clips, 2, found_of(PROJECTORS, [MOVING]))
    rest = found_of({"unused": np.eye(4)}, left_over=["unused"]).factors
    assert run.found is not None
    run = replace(run, found=replace(run.found, factors=(*run.found.factors, *rest)))
    figures = disentanglement(run, linear_set(10, seed=2), list(POINTS), PLAN)
    assert {key for key, value in figures.items() if value.mean > 0.97} == {
        "dci/modularity",
        "dci/compactness",
        "dci/explicitness",
    }


def test_factors_that_hold_half_of_everything_are_not(clips: Sequences) -> None:
    """Two of the features, whatever they mean: every label is in both."""
    halves = {"one": np.diag([1.0, 1, 0, 0]), "two": np.diag([0, 0, 1.0, 1])}
    figures = disentanglement(plain_run(clips, 2, found_of(halves)), linear_set(10, seed=2), list(POINTS), PLAN)
    assert figures["dci/modularity"].mean < 0.5
    assert figures["dci/compactness"].mean < 0.7


def test_coordinates_are_as_many_as_there_are_directions() -> None:
    draw = np.random.Generator(np.random.PCG64(0))
    codes = draw.normal(size=(50, 2)) @ draw.normal(size=(2, 7)) + 3
    few = inspection._coordinates(codes)
    assert few.shape == (50, 2)
    apart = [np.linalg.norm(x[:, None] - x, axis=-1) for x in (codes, few)]
    assert np.allclose(*apart)
    assert inspection._coordinates(np.ones((5, 3))).shape == (5, 0)


def test_a_factor_that_says_nothing_is_left_out_of_dci(clips: Sequences) -> None:
    nothing = {**PROJECTORS, "nothing": np.zeros((4, 4))}
    with_it, without = (
        disentanglement(plain_run(clips, 2, found_of(some)), linear_set(4, seed=2), ["level", "tint"], PLAN)
        for some in (nothing, PROJECTORS)
    )
    assert with_it == without


# --- frames


def test_frames_of_one_sequence_agree_as_far_as_they_show_one_value(run: Run, clips: Sequences) -> None:
    """A level stays. A blinking light is on in every other frame: no two neighbours agree, and half with most."""
    judge = reads()

    class Blinking:
        labels = ("level", "light", MOVING)

        def predict_frames(self, x: Iterator[Tensor], lengths: Array) -> dict[str, Array]:
            assert (lengths == 8).all()
            codes = judge.predict_frames(x, lengths)
            return {"level": codes["level"], "light": np.tile([0, 1], (len(lengths), 4)), MOVING: codes[MOVING]}

    figures = consistency(run, clips, Blinking(), MOVING, PLAN)  # type: ignore[arg-type]
    assert {key: value.mean for key, value in figures.items()} == {
        "consistency/global/level": 1,
        "consistency/local/level": 1,
        "consistency/global/light": 0.5,
        "consistency/local/light": 0,
    }


def test_after_a_swap_of_unequal_sequences_only_what_is_left_is_asked_for(run: Run, clips: Sequences) -> None:
    figures = consistency(run, cut(clips), reads(), None, PLAN)
    assert figures["consistency/global/level"].mean == 1
    assert figures["consistency/local/level"].mean == 1
    assert figures[f"consistency/local/{MOVING}"].mean < 1  # it turns


def test_it_is_the_static_part_that_is_swapped(clips: Sequences) -> None:
    seen: list[Array] = []

    class Looking:
        def predict_frames(self, x: Iterator[Tensor], lengths: Array) -> dict[str, Array]:
            seen.append(whole(x))
            return {"level": np.zeros(seen[-1].shape[:2], np.int64)}

    run = plain_run(clips, 2)
    consistency(run, clips, Looking(), None, PLAN)  # type: ignore[arg-type]
    moving = PROJECTORS[MOVING]
    some = clips.x
    assert np.allclose(seen[0] @ moving, some @ moving)
    apart = np.abs((seen[0] - some) @ (PROJECTORS["level"] + PROJECTORS["tint"]))
    assert apart.max() > 0.5
    codes = (seen[0] @ PROJECTORS["level"])[:, 0]
    own = (some @ PROJECTORS["level"])[:, 0]
    assert np.allclose(np.sort(codes, 0), np.sort(own, 0))  # everybody's, in another order


# --- cost


def test_a_run_was_trained_on_the_first_sequences_only_where_it_says_so(clips: Sequences) -> None:
    assert limited(clips, None) is clips
    assert np.array_equal(limited(clips, 7).x, clips.x[:7])
    assert len(limited(clips, 10**6)) == len(clips)


@pytest.mark.parametrize(("limit", "count"), [(None, 48), (20, 20), (100, 48)])
def test_resources_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int | None, count: int) -> None:
    train = linear_set(1, seed=0)
    asked: list[str] = []

    def data(self: Run, split: str = "test") -> Sequences:
        asked.append(split)
        return train

    monkeypatch.setattr(Run, "data", data)
    settings = Settings.of(
        {"data": {"limit": limit}, "model": {"k": 3, "h": 5}, "spectrum": {"static": 1}, "train": {"batch": 16}}
    )
    model = build_model(settings.model, (4,)).double().eval()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    run = Run(settings, model, frozen_operator(model, train, 16), DOUBLE, RunFolder(tmp_path))
    rows = [{"epoch": 1, "step": 10, "seconds": 5.0}, {"epoch": 2, "step": 20, "seconds": 1.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    figures = {key: value.mean for key, value in resources(run).items()}
    assert figures["cost/parameters"] == sum(weight.numel() for weight in model.parameters())
    assert asked == ["train"]
    assert figures["cost/sequences"] == count
    assert figures["cost/trained"] == pytest.approx(6.0 / 20)
    assert figures["cost/step"] > 0
    assert figures["cost/memory"] > 4 * 8 * figures["cost/parameters"]
    assert not model.training
    after = model.state_dict()
    assert all(torch.equal(weight, after[name]) for name, weight in before.items())
    assert all(weight.grad is None for weight in model.parameters())


def test_a_factor_is_asked_for_by_name(run: Run, clips: Sequences) -> None:
    parts = run.decompose(clips)
    parts.factors["twice"] = Factor("twice", 2 * parts.factors["static"].projector)
    assert np.allclose(timed_code(parts, "twice"), 2 * timed_code(parts, "static"))
