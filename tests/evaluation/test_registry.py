"""One config, one context, one registry of metrics."""

from dataclasses import replace

import numpy as np
import pytest

from diskoop.data.sequences import Sequences
from diskoop.evaluation import registry
from diskoop.evaluation.registry import (
    METRICS,
    EvalConfig,
    EvalContext,
    Outcome,
    all_tables,
    find_motion_label,
    label_chance,
    metric,
    readable_labels,
)
from diskoop.evaluation.results import Column, Key, Table, single_value
from diskoop.run import Run
from tests.helpers.known_models import DOUBLE, known_classifier, linear_set

CONFIG = EvalConfig(repeats=1)


@pytest.mark.parametrize(("count", "sizes"), [(100, [100]), (600, [300, 300]), (1000, [250] * 4), (5, [5])])
def test_everyone_is_in_one_batch_of_nearly_the_size_wished(count: int, sizes: list[int]) -> None:
    batches = EvalConfig(batch_size=256).batches(count)
    assert [len(each) for each in batches] == sizes
    everyone = np.concatenate(batches)
    assert sorted(everyone) == list(range(count))
    assert list(everyone) != list(range(count))
    assert np.array_equal(everyone, np.concatenate(EvalConfig(batch_size=256).batches(count)))
    assert not np.array_equal(everyone, np.concatenate(EvalConfig(batch_size=256, seed=1).batches(count)))


def test_every_purpose_has_draws_of_its_own() -> None:
    purposes = [(2,), (2, 0), (2, 0, 0), (2, 1), (0,), (0, 0), (), (3, 0, 1), (3, 1, 0), (3, 1)]
    draws = {EvalConfig(seed=seed).generator(*purpose).integers(2**62) for seed in (0, 1) for purpose in purposes}
    assert len(draws) == 2 * len(purposes)
    assert EvalConfig(seed=4).generator(2, 0).integers(2**62) == EvalConfig(seed=4).generator(2, 0).integers(2**62)


def test_the_label_that_moves_is_known_by_its_name() -> None:
    assert find_motion_label(["hair", "action"]) == "action"
    assert find_motion_label(["level", "mark"]) is None


def test_some_are_drawn_by_seed_in_their_order() -> None:
    clips = linear_set(4, seed=1)
    some = CONFIG.subset(clips, 20, 6)
    assert len(some) == 20
    assert some.clips is not None
    assert some.clips.tolist() == sorted(set(some.clips.tolist()))
    assert np.array_equal(some.x, CONFIG.subset(clips, 20, 6).x)
    assert not np.array_equal(some.x, EvalConfig(seed=1).subset(clips, 20, 6).x)
    assert np.array_equal(CONFIG.subset(clips, 10**6, 6).x, clips.x)


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
    assert readable_labels(train, clips) == ("more", "both")
    assert readable_labels(replace(train, labels={}), clips) == ()
    assert readable_labels(train, replace(clips, labels={})) == ()


def test_chance_of_a_users_own_labels_comes_from_their_frequencies() -> None:
    clips = Sequences.of(np.zeros((10, 3, 2)), {"hair": np.array([0] * 8 + [2] * 2)}, units=DOUBLE)
    clips = replace(clips, values={"hair": ("red", "blond", "grey")})
    assert EvalContext(clips, clips).value_count("hair") == 3
    own = EvalContext(clips, clips, known_classifier(), by_frequency=True)
    assert own.value_count("hair") == pytest.approx(1 / (0.64 + 0.04))
    own = replace(own, clips=replace(clips, labels={"level": clips.labels["hair"]}))
    assert label_chance("swap", ["level"], own)[Key("swap", "level", "level")].mean == pytest.approx(0.68)


def test_swaps_and_baselines_are_repeated_at_most_so_often() -> None:
    assert EvalConfig(repeats=300).swap_repeats == registry.MAX_SWAP_REPEATS
    assert EvalConfig(repeats=300, seed=4).for_baselines() == EvalConfig(repeats=registry.MAX_SWAP_REPEATS, seed=4)
    assert EvalConfig(repeats=1).for_baselines() == EvalConfig(repeats=1)


def test_a_context_provides_what_it_has() -> None:
    clips = linear_set(1, seed=0)
    bare = EvalContext(clips, replace(clips, labels={}))
    names = ("classifier", "frame_classifier", "labels", "speakers", "video", "factors")
    assert [name for name in names if bare.provides(name)] == ["factors"]  # type: ignore[arg-type]
    full = EvalContext(clips, clips, known_classifier(), CONFIG, known_classifier(), None, "level")
    assert [name for name in names if not full.provides(name)] == ["video"]  # type: ignore[arg-type]


def test_a_new_metric_is_one_function_and_one_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "METRICS", dict(METRICS))

    @metric(
        "size",
        requires=("labels",),
        tables=lambda labels, motion: [
            Table("Size", [Column("size", "size", "mean")]),
            Table("Scores", [Column("size", "size", "mean")]),
        ],
    )
    def measure_size(run: Run, context: EvalContext) -> Outcome:
        return Outcome({Key("size", "mean"): single_value(3)})

    with pytest.raises(ValueError, match="there is a metric 'size' already"):
        metric("size")(measure_size)
    added = registry.METRICS["size"]
    clips = linear_set(1, seed=0)
    assert added.applies(EvalContext(clips, clips))
    assert not added.applies(EvalContext(clips, replace(clips, labels={})))
    before = {table.title for table in all_tables(("level",), None)} - {"Size"}
    assert "Scores" in before
    (scores,) = [table for table in all_tables(("level",), None) if table.title == "Scores"]
    assert {"multifactor", "modularity", "factors", "size"} <= {column.heading for column in scores.columns}
    assert "Size" in {table.title for table in all_tables((), None)}


def test_labels_share_no_metric_with_fixed_columns() -> None:
    """A label may be called like any fixed column."""
    names = {column.column for table in all_tables(("a", "b"), "a") for column in table.columns} - {"a", "b"}
    by_metric: dict[str, set[str]] = {}
    for table in all_tables(("a", "b"), "a"):
        for column in table.columns:
            by_metric.setdefault(column.metric, set()).add(column.column)
    assert names
    for columns in by_metric.values():
        assert columns <= {"a", "b"} or not columns & {"a", "b"}
