"""What is cached is not measured again, what cannot be measured is a note, and a model that leaks has no score."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from diskoop import load_data
from diskoop.data.sequences import Sequences
from diskoop.data.sets.oscillators import _LINEAR, _mixing, truth
from diskoop.errors import InputError
from diskoop.evaluation import evaluate
from diskoop.evaluation.baselines import leaky_model, mean_cepstrum, mean_spectrum
from diskoop.evaluation.classifiers import Classifier, ClassifierNetwork
from diskoop.evaluation.evaluate import (
    ResultCache,
    build_context,
    cache_inputs,
    chance_results,
    measure_baselines,
    measure_run,
)
from diskoop.evaluation.metrics import Summary
from diskoop.evaluation.protocols.speech import verification_error, whole_recordings
from diskoop.evaluation.protocols.swaps import chance_score, measure_swaps
from diskoop.evaluation.registry import METRICS, EvalConfig, EvalContext, Outcome, all_tables
from diskoop.evaluation.results import Key, Results, Table, read_results, single_value
from diskoop.provenance import Origin, commit
from diskoop.run import Run
from tests.helpers.known_models import (
    DOUBLE,
    MOTION,
    PROJECTORS,
    KnownClassifier,
    known_classifier,
    known_factors,
    linear_set,
    plain_run,
)
from tests.helpers.media import tone, write_sound

CONFIG = EvalConfig(repeats=2)
ONE = {Key("a", "x"): Summary(0.5, 0.1, 0.4, 0.6, 3), Key("b", "x", "y"): single_value(2.0)}


def silent(text: str) -> None:
    pass


def context_of(train: Sequences, clips: Sequences, classifier: Classifier | None = None, **more: Any) -> EvalContext:
    return EvalContext(train, clips, classifier, **{"config": CONFIG} | more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a run was trained."""
    path = tmp_path_factory.mktemp("run")
    (path / "metrics.jsonl").write_text(json.dumps({"epoch": 1, "step": 10, "seconds": 5.0}) + "\n")
    return path


@pytest.fixture
def trained_on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequences], None]:
    """Says what a run that is made up reads as its own training sequences."""

    def these(train: Sequences) -> None:
        monkeypatch.setattr(Run, "data", lambda self, split="test": {"train": train}[split])

    return these


# --- the cache


def never() -> Outcome:
    raise AssertionError("this was measured already")


def test_what_is_kept_is_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    results_cache = ResultCache(path, {"model": "m", "sizes": (1, 2)})
    assert results_cache.get_or_measure("first", lambda: Outcome(ONE, ["a note"])) == (ONE, ["a note"])
    assert results_cache.get_or_measure("first", never) == (ONE, ["a note"])
    again = ResultCache(path, {"model": "m", "sizes": (1, 2)})
    assert again.get_or_measure("first", never) == (ONE, ["a note"])
    assert again.get_or_measure("second", lambda: Outcome({}, [])) == ({}, [])
    assert list(ResultCache(path, {"model": "m", "sizes": (1, 2)}).entries) == ["first", "second"]


def test_what_belongs_to_something_else_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    ResultCache(path, {"model": "m"}).get_or_measure("first", lambda: Outcome(ONE, []))
    for other in ({"model": "n"}, {"model": "m", "config": 1}, {}):
        assert ResultCache(path, other).entries == {}
    assert ResultCache(path, {"model": "m"}).entries  # until something new is written
    ResultCache(path, {"model": "n"}).get_or_measure("second", lambda: Outcome(ONE, []))
    assert ResultCache(path, {"model": "m"}).entries == {}
    assert list(ResultCache(path, {"model": "n"}).entries) == ["second"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"inputs": {}}', '{"entries": {}}', "\x00\x01"])
def test_a_damaged_cache_is_begun_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cache.json"
    path.write_text(text)
    results_cache = ResultCache(path, {})
    assert results_cache.entries == {}
    results_cache.get_or_measure("first", lambda: Outcome(ONE, []))
    assert ResultCache(path, {}).get_or_measure("first", never) == (ONE, [])


def test_a_cache_is_whole_after_every_stage_and_a_crash_loses_one_only(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    results_cache = ResultCache(path, {})
    results_cache.get_or_measure("first", lambda: Outcome(ONE, []))
    before = path.read_bytes()

    def crash() -> Outcome:
        assert list(json.loads(path.read_text())["entries"]) == ["first"]
        raise MemoryError

    with pytest.raises(MemoryError):
        results_cache.get_or_measure("second", crash)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["cache.json"]
    assert list(results_cache.entries) == ["first"]


def test_a_cache_without_a_file_remembers_all_the_same() -> None:
    results_cache = ResultCache()
    results_cache.get_or_measure("first", lambda: Outcome(ONE, []))
    assert results_cache.get_or_measure("first", never) == (ONE, [])


def test_figures_depend_on_whatever_they_were_measured_with() -> None:
    clips = linear_set(1, seed=0)
    run, context = plain_run(clips, 2, known_factors(PROJECTORS)), context_of(clips, clips)
    mine = cache_inputs(run, context)
    assert json.loads(json.dumps(mine)) == json.loads(json.dumps(cache_inputs(run, context_of(clips, clips))))
    others: list[tuple[Run, EvalContext]] = [
        (plain_run(clips, 2, known_factors(PROJECTORS), decoder=0.5), context),
        (replace(run, operator=replace(run.operator, fitted_on="elsewhere")), context),
        (replace(run, factors=None), context),
        (replace(run, factors=known_factors(PROJECTORS, names={"level": "height"})), context),
        (
            replace(run, factors=known_factors({**PROJECTORS, "level": PROJECTORS["tint"]})),
            context,
        ),  # found anew, by chance
        (replace(run, factors=known_factors(PROJECTORS, remainder=["level"])), context),
        (run, context_of(clips, clips.select(range(20)))),
        (run, context_of(clips, linear_set(1, seed=1))),  # as many, but others
        (run, context_of(clips.select(range(20)), clips)),
        (run, context_of(linear_set(1, seed=1), clips)),
        (run, context_of(clips, replace(clips, labels={**clips.labels, "tint": clips.labels["tint"][::-1]}))),
        (run, context_of(clips, replace(clips, labels={"level": clips.labels["level"]}))),
        (run, context_of(clips, clips, motion_label="action")),
        (run, context_of(clips, clips, speaker_label="level")),
        *(
            (run, context_of(clips, clips, config=config))
            for config in (
                EvalConfig(2, seed=1),
                EvalConfig(3),
                EvalConfig(2, batch_size=9),
                EvalConfig(2, search_batches=1),
            )
        ),
    ]
    for other in others:
        assert cache_inputs(*other) != mine
    assert (
        cache_inputs(run, context_of(clips, clips, config=replace(CONFIG, progress=lambda over, what: list(over))))
        == mine
    )


# --- stages


def test_a_stage_that_cannot_be_is_a_note_and_the_others_go_on(
    folder: Path, trained_on: Callable[[Sequences], None]
) -> None:
    """Without factors, metrics that need them become notes, which are cached like values."""
    clips = linear_set(4, seed=0)
    trained_on(clips)
    run = plain_run(clips, 2, folder=folder)
    logged: list[str] = []
    results_cache = ResultCache()
    context = context_of(clips, clips, known_classifier(), motion_label=MOTION)
    found = measure_run("ours", run, context, results_cache, logged.append)
    assert [note.split(":")[0] for note in found.notes] == [
        "no factor sampling",
        "no factor swaps",
        "no DCI",
    ]
    assert all("no factors yet" in note for note in found.notes)
    for key in (
        Key("reconstruction", "error"),
        Key("sampling", "acc", "paper"),
        Key("probe", "level", "static"),
        Key("cost", "parameters"),
    ):
        assert key in found.values
    assert logged == [
        f"ours: {title}"
        for title in (
            "errors",
            "sampling",
            "factor sampling",
            "factor swaps",
            "probes",
            "DCI",
            "cost",
        )
    ]
    again = measure_run("ours", run, context, results_cache, logged.append)
    assert len(logged) == 7
    assert (again.values, again.notes) == (found.values, found.notes)


def test_other_errors_are_not_swallowed() -> None:
    def broken() -> Outcome:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        evaluate._measure_or_note("something", broken)


def test_figures_carry_their_origin(folder: Path, trained_on: Callable[[Sequences], None]) -> None:
    clips = linear_set(1, seed=0)
    trained_on(clips)
    run = plain_run(clips, 2, folder=folder, data={"name": "oscillators"})
    run = replace(run, settings=run.settings.replaced({"train": {"seed": 7}}))
    found = measure_run(
        "ours",
        run,
        context_of(clips, clips, config=replace(CONFIG, command="diskoop evaluate it")),
        ResultCache(),
        silent,
    )
    assert isinstance(found.origin, Origin)
    assert (found.origin.seed, found.origin.commit, found.origin.command) == (7, commit(), "diskoop evaluate it")
    assert "model.k=4" in found.origin.preset
    text = Results("it", [found], all_tables(tuple(clips.labels), MOTION)).markdown()
    assert (
        f"- ours: trained with seed 7, preset {found.origin.preset}, commit {commit()}, `diskoop evaluate it`" in text
    )


def test_without_labels_a_run_still_has_errors_a_spectrum_and_a_cost(
    folder: Path, trained_on: Callable[[Sequences], None]
) -> None:
    clips = replace(linear_set(2, seed=0), labels={})
    trained_on(clips)
    run = plain_run(clips, 2, known_factors(PROJECTORS, [MOTION], stability=0.7), folder=folder)
    found = measure_run("ours", run, context_of(clips, clips), ResultCache(), silent)
    columns = {
        "reconstruction": ("error", "explained_variance"),
        "prediction": ("error", "hold_last_error"),
        "spectrum": ("static_gap", "dynamic_radius"),
        "cycle": ("static",),
        "factors": ("stability", "count"),
        "cost": ("parameters", "sequences", "step_seconds", "training_step_seconds", "memory"),
    }
    assert set(found.values) == {Key(metric, name) for metric, names in columns.items() for name in names}
    assert found.notes == ()
    assert context_of(clips, clips).table_labels == ()
    shown = [table.title for table in all_tables((), None) if table.lines([found])]
    assert shown == ["Scores", "Without labels", "Resources"]


def test_labels_are_read_from_codes_without_a_classifier(folder: Path, trained_on: Callable[[Sequences], None]) -> None:
    """But for those that training does not teach: here it calls every level by one name."""
    train, clips = linear_set(8, seed=0), linear_set(4, seed=1)
    train = replace(train, labels={**train.labels, "level": np.zeros(len(train), np.int64)})
    trained_on(train)
    run = plain_run(clips, 2, known_factors(PROJECTORS, [MOTION]), folder=folder)
    context = context_of(train, clips)
    assert (context.classified_labels, context.table_labels) == ((), ("tint", MOTION))
    found = measure_run("ours", run, context, ResultCache(), silent)
    assert found.notes == ()
    assert {key for key in found.values if key.metric == "probe"} == {
        Key("probe", label, part) for part in ("static", "dynamic", "chance") for label in ("tint", MOTION)
    }
    assert (
        found.values[Key("probe", "tint", "static")].mean == found.values[Key("probe", "action", "dynamic")].mean == 1
    )
    assert found.values[Key("dci", "explicitness")].mean > 0.9
    assert not {"sampling", "swap", "multifactor"} & {key.metric for key in found.values}
    asked = {key for table in all_tables(context.table_labels, context.motion_label) for key in keys_of(table)}
    assert set(found.values) <= asked


def test_errors_are_those_of_test_sequences(folder: Path, trained_on: Callable[[Sequences], None]) -> None:
    train, clips = linear_set(2, seed=0), linear_set(1, seed=1)
    trained_on(train)
    run = plain_run(train, 2, decoder=0.5, folder=folder)
    found = measure_run("ours", run, context_of(train, clips), ResultCache(), silent)
    deviation = np.sqrt(clips.x.var((0, 1)).mean())
    error = np.sqrt(np.square(clips.x).mean()) / 2 / deviation
    assert found.values[Key("reconstruction", "error")].mean == pytest.approx(error)
    assert found.values[Key("cost", "sequences")].mean == len(train)


def test_matching_and_probes_learn_from_training_sequences_and_are_scored_on_others(
    folder: Path, trained_on: Callable[[Sequences], None]
) -> None:
    """All training sequences have one level; later their tints go by other names."""
    train, clips = linear_set(8, seed=0), linear_set(4, seed=1)
    train = train.select(train.labels["level"] == 3)
    trained_on(train)
    found = known_factors(PROJECTORS, [MOTION], {"level": "one", "tint": "two", "action": "three"})
    run = plain_run(clips, 2, found, folder=folder)
    context = context_of(train, clips, known_classifier(), motion_label=MOTION)
    own = measure_run("ours", run, context, ResultCache(), silent)
    assert own.notes == (
        "factors: known, in a linear set",
        "level: no factor changes it",
        "tint: two",
        "action: three",
    )
    assert context.table_labels == ("level", "tint", "action")  # classified, though it cannot be read
    assert not any(key.metric == "probe" and key.column == "level" for key in own.values)
    assert own.values[Key("probe", "action", "dynamic")].mean == 1
    assert own.values[Key("swap", "action", "action")].mean == 1
    assert own.values[Key("swap", "level", "level")].mean == pytest.approx(1 / 4, abs=0.1)
    assert own.values[Key("dci", "explicitness")].mean > 0.9
    other = replace(train, labels={**train.labels, "tint": (train.labels["tint"] + 1) % 3})
    probed = replace(context, train=other, classifier=known_classifier(["tint", MOTION]))
    own = measure_run("ours", run, probed, ResultCache(), silent)
    assert own.values[Key("probe", "tint", "static")].mean < 0.2
    assert own.values[Key("probe", "action", "dynamic")].mean == 1


def test_sound_is_asked_who_speaks_and_stands_beside_means(
    folder: Path, monkeypatch: pytest.MonkeyPatch, trained_on: Callable[[Sequences], None]
) -> None:
    """Of forty bins those 25 that stay are the voice."""
    draw = np.random.Generator(np.random.PCG64(0))
    who = np.repeat(np.arange(6), 4)
    voice = draw.normal(size=(6, 1, 25))[who] + 0.8 * draw.normal(size=(24, 1, 25))
    x = np.concatenate([np.broadcast_to(voice, (24, 40, 25)), draw.normal(size=(24, 40, 15))], 2)
    units = replace(DOUBLE, rate=16000)
    clips = Sequences.of(x, {"speaker": who}, units=units)
    train = clips.select(range(16))
    trained_on(train)
    run = plain_run(np.diag([*[1.0] * 25, *[0.5] * 15]), 25, units=units, folder=folder)
    context = context_of(train, clips, speaker_label="speaker")
    own = measure_run("ours", run, context, ResultCache(), silent)
    assert (
        own.values[Key("eer", "static", "frozen")].mean < 0.2 < 0.3 < own.values[Key("eer", "dynamic", "frozen")].mean
    )
    assert Key("phones", "dynamic") in own.values
    assert any("kinds of sound" in note for note in own.notes)
    # Who speaks is read from means over time, in which a sign that alternates is lost: the leaky would prove nothing.
    monkeypatch.setattr(evaluate, "BASELINES", {"leaks on purpose": leaky_model})
    spectrum, cepstrum = measure_baselines(run, context, ResultCache(), silent)
    assert (spectrum.name, cepstrum.name) == ("mean spectrum", "mean cepstrum")
    for model, codes in ((spectrum, mean_spectrum(clips)), (cepstrum, mean_cepstrum(clips, train))):
        assert model.values == {Key("eer", "static", "mean"): verification_error(codes, context)}
    assert spectrum.values != cepstrum.values
    monkeypatch.setattr(evaluate, "BASELINES", {})
    assert measure_baselines(run, context_of(clips, clips), ResultCache(), silent) == []


# --- contexts


def film(labels: bool = True) -> Sequences:
    """Forty little films, of which the last ten test; bright or dark."""
    draw = np.random.Generator(np.random.PCG64(0))
    bright = np.arange(40) % 2
    x = (draw.integers(0, 50, (40, 4, 3, 32, 32)) + 150 * bright[:, None, None, None, None]).astype(np.uint8)
    parts = np.repeat(np.array([0, 1, 2], np.int8), [25, 5, 10])
    known = {"bright": bright, "action": (np.arange(40) // 2) % 2} if labels else {}
    return Sequences.of(x, known, name="puppets", split_codes=parts)


def classifier_with(accuracy: float, single_frames: bool, bright: float = 1.0) -> Classifier:
    values = {"bright": ("no", "yes"), "action": ("sit", "walk")}
    network = ClassifierNetwork((3, 32, 32), (2, 2))
    return Classifier(network, values, {"bright": bright, "action": accuracy}, {}, film().units, 10, single_frames)


@pytest.fixture
def puppets(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Run]:
    """A run on puppets, which are few here, and a classifier that is as good as one says."""

    def make(accuracy: float) -> Run:
        monkeypatch.setattr(evaluate, "open_data", lambda settings: film())
        monkeypatch.setattr(
            evaluate,
            "load_or_train_classifier",
            lambda *words, single_frames=False: classifier_with(accuracy, single_frames),
        )
        return plain_run(np.eye(2), 1, units=film().units)

    return make


def test_a_poor_classifier_of_a_known_set_ends_it(puppets: Callable[[float], Run]) -> None:
    with pytest.raises(InputError, match=r"too poor to score anything: .* puppets .* 99% .* got action 97\.00%"):
        build_context(puppets(0.97), CONFIG)


def test_a_good_classifier_is_in_the_context_and_described(puppets: Callable[[float], Run]) -> None:
    context = build_context(puppets(0.995), replace(CONFIG, limit=6))
    assert context.classifier is not None
    assert context.frame_classifier is not None
    assert not context.classifier.single_frames
    assert context.frame_classifier.single_frames
    assert context.classified_labels == ("bright", "action")
    assert (context.motion_label, context.speaker_label) == ("action", None)
    assert (len(context.train), len(context.clips)) == (25, 6)
    assert np.array_equal(context.clips.x, CONFIG.subset(film().split("test"), 6, 6).x)
    assert context.notes == (
        "puppets: 6 of 10 test sequences, 25 to train on",
        "classifier: bright 100.0%, action 99.5% on 10 clean test sequences",
        "required accuracy: 99% on puppets, reached",
        "of single frames, classifier: bright 100.0%, action 99.5% on 10 clean test frames",
        "required accuracy: 99% on puppets, reached",
        "2 repetitions, batches of 256, seed 0",
    )
    thorough = build_context(puppets(0.995), replace(CONFIG, repeats=300, limit=6))
    assert thorough.notes[-1].startswith("300 repetitions (30 of swaps and baselines), batches")


def test_a_classifier_of_frames_must_be_good_too_but_for_what_moves(
    puppets: Callable[[float], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = puppets(1.0)

    def glance(action: float, bright: float) -> None:
        def load_or_train_classifier(*words: Any, single_frames: bool = False) -> Classifier:
            return classifier_with(action, True, bright) if single_frames else classifier_with(1.0, False)

        monkeypatch.setattr(evaluate, "load_or_train_classifier", load_or_train_classifier)

    glance(action=0.3, bright=1.0)  # a frame does not show what moves
    assert build_context(run, CONFIG).notes[4] == "required accuracy: 99% on puppets, reached"
    with pytest.raises(InputError, match=r"clean test frames of puppets .* got action 30\.00%$"):
        build_context(run, replace(CONFIG, motion_label="bright"))
    glance(action=0.3, bright=0.9899)
    with pytest.raises(InputError, match=r"clean test frames of puppets .* got bright 98\.99%$"):
        build_context(run, CONFIG)


def test_labels_that_a_classifier_cannot_tell_are_left_out_of_a_users_data(
    puppets: Callable[[float], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not build_context(puppets(1.0), CONFIG).by_frequency
    run = puppets(0.4)
    run = replace(run, settings=run.settings.replaced({"data": {"path": "/mnt/mine"}}))
    context = build_context(run, CONFIG)
    assert context.by_frequency
    assert context.classified_labels == ("bright",)
    assert context.motion_label == "action"  # which it is, judged or not
    text = "action is left out: its accuracy is 40.0% on 10 clean test sequences"
    assert text in context.notes[1]
    origin = chance_results(context).origin
    assert isinstance(origin, str)
    assert origin.startswith("that two test sequences agree")

    def blind(*words: Any, single_frames: bool = False) -> Classifier:
        return classifier_with(0.4, single_frames, bright=0.5)

    monkeypatch.setattr(evaluate, "load_or_train_classifier", blind)
    context = build_context(run, CONFIG)
    assert (context.classifier, context.frame_classifier) == (None, None)
    assert context.notes[1].startswith("no classifier: the classifier is too poor to score anything: bright: its")


def test_in_the_context_are_the_sequences_that_the_run_was_trained_on(puppets: Callable[[float], Run]) -> None:
    run = puppets(1.0)
    context = build_context(replace(run, settings=run.settings.replaced({"data": {"limit": 7}})), CONFIG)
    assert np.array_equal(context.train.x, film().split("train").x[:7])
    assert len(context.clips) == 10
    assert context.notes[0] == "puppets: 10 test sequences, 7 to train on"


def test_signals_have_the_scale_that_the_run_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this reading of the data comes to; frames of video are bytes in any case."""
    everything = replace(linear_set(1, seed=0), units=replace(DOUBLE, scale=3.0, offset=1.0))
    everything = replace(everything, split_codes=np.repeat(np.array([0, 2], np.int8), 24))
    monkeypatch.setattr(evaluate, "open_data", lambda settings: everything)
    own = replace(DOUBLE, scale=2.0, offset=-1.0)
    classified: list[Sequences] = []

    def load_or_train_classifier(everything: Sequences, *words: Any) -> Classifier:
        classified.append(everything)
        raise InputError("not today")

    monkeypatch.setattr(evaluate, "load_or_train_classifier", load_or_train_classifier)
    context = build_context(plain_run(np.eye(4), 2, units=own), CONFIG)
    assert context.train.units == context.clips.units == classified[0].units == own
    monkeypatch.setattr(evaluate, "open_data", lambda settings: film())
    assert build_context(plain_run(np.eye(4), 2, units=own), CONFIG).clips.units == film().units


def test_nobody_speaks_in_a_set_without_sound(puppets: Callable[[float], Run]) -> None:
    with pytest.raises(
        InputError, match=r"--speaker-label says who speaks in recordings, got it for puppets, .* no sound"
    ):
        build_context(puppets(1.0), replace(CONFIG, speaker_label="bright"))


def test_what_moves_can_be_named(puppets: Callable[[float], Run]) -> None:
    run = puppets(1.0)
    assert build_context(run, replace(CONFIG, motion_label="bright")).motion_label == "bright"
    with pytest.raises(InputError, match="unknown label 'brigt'; did you mean 'bright'"):
        build_context(run, replace(CONFIG, motion_label="brigt"))


def test_without_classifiers_nothing_is_classified(puppets: Callable[[float], Run]) -> None:
    context = build_context(puppets(0.5), replace(CONFIG, use_classifier=False))
    assert (context.classifier, context.frame_classifier, context.classified_labels) == (None, None, ())
    applied = [each.name for each in METRICS.values() if each.applies(context)]
    assert applied == ["errors", "cost", "probes", "DCI"]  # which read labels from codes
    assert context.table_labels == ("bright", "action")


def test_where_nothing_can_be_classified_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "open_data", lambda settings: film(labels=False))
    context = build_context(plain_run(np.eye(2), 1, units=film().units), CONFIG)
    assert context.classifier is None
    assert context.classified_labels == ()
    assert context.notes[1] == "no classifier: nothing in puppets can be classified: it has no labels"


def test_of_recordings_the_whole_ones_are_in_the_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        write_sound(tmp_path / f"{number}.wav", tone(0.4, 200.0 + 40 * number))
    data = {"path": str(tmp_path), "window": 10}
    run = plain_run(np.eye(2), 1, units=replace(DOUBLE, rate=16000), data=data)
    context = build_context(run, replace(CONFIG, use_classifier=False))
    assert set(context.clips.lengths) | set(context.train.lengths) == {41}
    assert context.speaker_label is None
    assert any(note.startswith("no speaker verification: ") and "got none" in note for note in context.notes)
    whole = whole_recordings(run)
    monkeypatch.setattr(evaluate, "whole_recordings", lambda run: replace(whole, labels={"word": np.arange(10)}))
    named = build_context(run, replace(CONFIG, speaker_label="word", use_classifier=False))
    assert named.speaker_label == "word"
    assert not any("no speaker verification" in note for note in named.notes)
    unnamed = build_context(run, replace(CONFIG, use_classifier=False))
    assert unnamed.speaker_label is None
    (note,) = [note for note in unnamed.notes if note.startswith("no speaker verification: ")]
    assert "does not say who speaks: expected a label speaker, got word" in note
    with pytest.raises(InputError, match="unknown label 'wrd'; did you mean 'word'"):
        build_context(run, replace(CONFIG, speaker_label="wrd", use_classifier=False))


# --- together


@pytest.fixture(scope="module")
def oscillators(folder: Path) -> tuple[Run, EvalContext]:
    """Known factors, and a classifier of two things that stay and one that moves, all read off the first frame."""
    made_of = _LINEAR["oscillators"]
    ends = np.cumsum([len(part.block) for part in made_of])
    places = {part.name: slice(end - len(part.block), end) for part, end in zip(made_of, ends, strict=True)}
    points = {part.name: part.starts for part in made_of if part.name in ("level", "mark", "slow")}
    classifier = cast(Classifier, KnownClassifier(np.linalg.inv(_mixing("oscillators")), points, places))
    train, clips = (load_data("oscillators", part) for part in ("train", "test"))
    found = known_factors(truth("oscillators").projectors, ["slow", "fast", "fade"])
    run = plain_run(train, 3, found, data={"name": "oscillators"}, folder=folder)
    return run, context_of(train, clips, classifier, motion_label="slow")


@pytest.mark.slow
def test_a_model_that_leaks_has_a_perfect_accuracy_and_no_score(
    oscillators: tuple[Run, EvalContext], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both in one table: what the paper measures cannot tell them apart, the score can."""
    run, context = oscillators
    monkeypatch.setattr(evaluate, "BASELINES", {"leaks on purpose": leaky_model})
    own = measure_run("ours", run, context, ResultCache(), silent)
    (leaky,) = measure_baselines(run, context, ResultCache(), silent)
    assert context.classifier is not None
    clean = (context.classifier.predict(context.clips.x)["slow"] == context.clips.labels["slow"]).mean()
    assert clean == 1
    for model in (own, leaky):
        for way in ("paper", "two", "factors") if model is own else ("paper", "two"):
            assert model.values[Key("sampling", "acc", way)].mean == clean
    assert own.values[Key("static_sampled", "level", "two")].mean < 0.35
    assert leaky.values[Key("static_sampled", "level", "two")].mean == 1  # nothing was sampled
    assert leaky.values[Key("sampling", "static_diversity", "two")].mean == pytest.approx(1)
    # Of what stays nothing can be handed over alone: a level comes with its mark.
    assert own.values[Key("multifactor", "score")].mean > 0.98
    assert leaky.values[Key("swap", "mark", "level")].mean == 1
    assert leaky.values[Key("multifactor", "score")].mean < own.values[Key("multifactor", "score")].mean - 0.1
    assert own.values[Key("multifactor", "kept")].mean == 1
    assert leaky.values[Key("swap_kept", "mark", "level")].mean == pytest.approx(1 / 3, abs=0.1)
    results = Results(
        "both", [own, leaky, chance_results(context)], all_tables(context.table_labels, context.motion_label)
    )
    read = read_results(results.write(tmp_path / "both")[1])
    table = next(table for table in read.tables if table.title == "Two factors")
    cells = {name: cells for _, name, cells in table.lines(read.models)}
    way = table.rows["two"]
    assert cells[f"ours: {way}"][0] == cells[f"leaks on purpose: {way}"][0] == "100.0% ± 0.0"
    assert cells[f"ours: {way}"][4] != cells[f"leaks on purpose: {way}"][4]
    assert cells[f"ours: {way}"][5] == "1 ± 0"
    text = (tmp_path / "both.md").read_text(encoding="utf-8")
    assert "| ours: level taken |  | 100.0% ± 0.0 | 100.0% ± 0.0 |" in text  # kept, but for what was taken
    assert not any(name.startswith("chance") for name in cells)


def test_of_what_stays_a_model_that_leaks_scores_as_one_that_does_nothing(oscillators: tuple[Run, EvalContext]) -> None:
    run, context = oscillators
    classifier = cast(KnownClassifier, context.classifier)
    still = replace(classifier, points={label: classifier.points[label] for label in ("level", "mark")})
    leaky = leaky_model(run, context.train)
    leaky = replace(leaky, factors=leaky.find_factors(context.train.select(range(500))))
    values, _ = measure_swaps(leaky, replace(context, classifier=cast(Classifier, still)))
    assert values[Key("multifactor", "chance_score")].mean == chance_score((4, 3))
    assert values[Key("multifactor", "score")].mean == pytest.approx(chance_score((4, 3)), abs=0.03)


def test_what_stands_beside_a_run_is_made_when_it_is_asked_for(
    oscillators: tuple[Run, EvalContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, context = oscillators
    made: list[int] = []

    def plain(run: Run, train: Sequences, seed: int) -> Run:
        made.append(seed)
        assert train is context.train
        return replace(run, factors=None)

    monkeypatch.setattr(evaluate, "BASELINES", {"the same": plain})
    monkeypatch.setattr(Run, "find_factors", lambda self: known_factors(truth("oscillators").projectors, ["slow"]))
    results_cache = ResultCache()
    context = replace(context, config=EvalConfig(repeats=1, seed=3), clips=context.clips.select(range(100)))
    (model,) = measure_baselines(run, context, results_cache, silent)
    assert made == [3]  # once for all stages
    assert Key("cost", "parameters") not in model.values
    (again,) = measure_baselines(run, context, results_cache, silent)
    assert made == [3]
    assert again.values == model.values


def test_chance_is_one_of_as_many_values_as_there_are(oscillators: tuple[Run, EvalContext]) -> None:
    guesses = chance_results(oscillators[1]).values
    for label, share in {"level": 1 / 4, "mark": 1 / 3, "slow": 1 / 4}.items():
        for name, row in (("static_sampled", "paper"), ("dynamic_sampled", "factors"), ("factorial", "level")):
            assert guesses[Key(name, label, row)].mean == share
        assert guesses[Key("swap", label, "mark")].mean == share
        for taken in ("level", "mark", "slow"):
            assert guesses[Key("swap_kept", label, taken)].mean == share
    assert guesses[Key("multifactor", "score")].mean == chance_score((4, 3, 4))
    assert guesses[Key("multifactor", "single_score")].mean == chance_score((4, 3, 4))
    for key in (Key("multifactor", "kept"), Key("multifactor", "single_kept")):
        assert guesses[key].mean == pytest.approx((1 / 4 + 1 / 3 + 1 / 4) / 3)
    title = "One factor at a time: what is kept"
    table = next(each for each in all_tables(oscillators[1].classified_labels, "slow") if each.title == title)
    assert [name for _, name, _ in table.lines([chance_results(oscillators[1])])] == ["chance"]  # in one row
    clips = oscillators[1].clips
    assert chance_results(context_of(clips, clips)).values == {}


def test_labels_of_the_classifier_that_the_clips_lack_are_no_columns(oscillators: tuple[Run, EvalContext]) -> None:
    context = oscillators[1]
    fewer = replace(context.clips, labels={"mark": context.clips.labels["mark"]})
    assert replace(context, clips=fewer).classified_labels == ("mark",)
    assert replace(context, clips=fewer).table_labels == ("mark",)


def test_labels_that_can_be_read_are_columns_beside_those_that_are_classified(
    oscillators: tuple[Run, EvalContext],
) -> None:
    context = oscillators[1]
    assert context.classified_labels == ("level", "mark", "slow")
    assert context.table_labels == ("level", "mark", "slow", "fast", "fade")
    assert replace(context, classifier=None).table_labels == tuple(context.clips.labels)
    headings = [column.heading for column in all_tables(context.table_labels, context.motion_label)[1].columns]
    assert set(context.table_labels) <= set(headings)


def test_every_figure_has_a_column(oscillators: tuple[Run, EvalContext]) -> None:
    """A model with every figure that a table asks for has a row in each, and nothing that is measured is unseen."""
    run, context = oscillators
    few = replace(context, config=EvalConfig(repeats=1), clips=context.clips.select(range(100)))
    own = measure_run("ours", run, few, ResultCache(), silent)
    asked = {key for table in all_tables(context.table_labels, context.motion_label) for key in keys_of(table)}
    assert set(own.values) <= asked


def keys_of(table: Table) -> set[Key]:
    return {column.key(row) for column in table.columns for row in table.rows}


def test_remarks_name_the_label_that_moves(oscillators: tuple[Run, EvalContext]) -> None:
    context = oscillators[1]
    remarks = [table.remark for table in all_tables(context.classified_labels, context.motion_label)[1:3]]
    assert "all for slow and chance for level, mark" in remarks[0]
    assert "all for level, mark and chance for slow" in remarks[1]
    unnamed = [table.remark for table in all_tables(context.classified_labels, None)[1:3]]
    assert "chance for what stays" in unnamed[0]
