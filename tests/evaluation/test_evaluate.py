"""What is kept is not measured again, what cannot be measured is said, and a cheat is seen for what it is."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from diskoop import load_data
from diskoop.data.builtin.oscillators import _LINEAR, _mixing, truth
from diskoop.data.sequences import Sequences
from diskoop.errors import InputError
from diskoop.evaluation import evaluate
from diskoop.evaluation.baselines import mean_cepstrum, mean_spectrum
from diskoop.evaluation.evaluate import EvalContext, ResultCache, about, eval_context, measure, measure_beside
from diskoop.evaluation.judges import Judge, Network
from diskoop.evaluation.layout import chance, tables
from diskoop.evaluation.leaking import leaking
from diskoop.evaluation.metrics import Summary
from diskoop.evaluation.multifactor import floor
from diskoop.evaluation.protocols import ProtocolConfig, one_at_a_time
from diskoop.evaluation.results import Column, Results, Table, exactly, read_results
from diskoop.evaluation.verification import error_rate, whole_recordings
from diskoop.provenance import Origin, commit
from diskoop.run import Run
from tests.data.media import tone, write_sound
from tests.evaluation.known import DOUBLE, MOVING, PROJECTORS, Reads, found_of, linear_set, plain_run, reads

PLAN = ProtocolConfig(repeats=2)
ONE = {"a": Summary(0.5, 0.1, 0.4, 0.6, 3), "b": exactly(2.0)}


def silent(text: str) -> None:
    pass


def context_of(train: Sequences, clips: Sequences, judge: Judge | None = None, **more: Any) -> EvalContext:
    facts = {"frame_judge": None, "moving": None, "who": None, "plan": PLAN, "notes": ()} | more
    return EvalContext(train, clips, judge, **facts)


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


# --- the ledger


def never() -> evaluate.Outcome:
    raise AssertionError("this was measured already")


def test_what_is_kept_is_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    results_cache = ResultCache(path, {"model": "m", "sizes": (1, 2)})
    assert results_cache.once("first", lambda: (ONE, ["a note"])) == (ONE, ["a note"])
    assert results_cache.once("first", never) == (ONE, ["a note"])
    again = ResultCache(path, {"model": "m", "sizes": (1, 2)})
    assert again.once("first", never) == (ONE, ["a note"])
    assert again.once("second", lambda: ({}, [])) == ({}, [])
    assert list(ResultCache(path, {"model": "m", "sizes": (1, 2)}).entries) == ["first", "second"]


def test_what_belongs_to_something_else_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    ResultCache(path, {"model": "m"}).once("first", lambda: (ONE, []))
    for other in ({"model": "n"}, {"model": "m", "plan": 1}, {}):
        assert ResultCache(path, other).entries == {}
    assert ResultCache(path, {"model": "m"}).entries  # until something new is written
    ResultCache(path, {"model": "n"}).once("second", lambda: (ONE, []))
    assert ResultCache(path, {"model": "m"}).entries == {}
    assert list(ResultCache(path, {"model": "n"}).entries) == ["second"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"about": {}}', '{"entries": {}}', "\x00\x01"])
def test_a_damaged_ledger_is_begun_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ledger.json"
    path.write_text(text)
    results_cache = ResultCache(path, {})
    assert results_cache.entries == {}
    results_cache.once("first", lambda: (ONE, []))
    assert ResultCache(path, {}).once("first", never) == (ONE, [])


def test_a_ledger_is_whole_after_every_stage_and_a_crash_loses_one_only(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    results_cache = ResultCache(path, {})
    results_cache.once("first", lambda: (ONE, []))
    before = path.read_bytes()

    def crash() -> evaluate.Outcome:
        assert list(json.loads(path.read_text())["entries"]) == ["first"]
        raise MemoryError

    with pytest.raises(MemoryError):
        results_cache.once("second", crash)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.json"]
    assert list(results_cache.entries) == ["first"]


def test_a_ledger_without_a_file_remembers_all_the_same() -> None:
    results_cache = ResultCache()
    results_cache.once("first", lambda: (ONE, []))
    assert results_cache.once("first", never) == (ONE, [])


def test_figures_depend_on_whatever_they_were_measured_with() -> None:
    clips = linear_set(1, seed=0)
    run, context = plain_run(clips, 2, found_of(PROJECTORS)), context_of(clips, clips)
    mine = about(run, context)
    assert json.loads(json.dumps(mine)) == json.loads(json.dumps(about(run, context_of(clips, clips))))
    others: list[tuple[Run, EvalContext]] = [
        (plain_run(clips, 2, found_of(PROJECTORS), decoder=0.5), context),
        (replace(run, operator=replace(run.operator, source="elsewhere")), context),
        (replace(run, found=None), context),
        (replace(run, found=found_of(PROJECTORS, names={"level": "height"})), context),
        (replace(run, found=found_of({**PROJECTORS, "level": PROJECTORS["tint"]})), context),  # found anew, by chance
        (replace(run, found=found_of(PROJECTORS, left_over=["level"])), context),
        (run, context_of(clips, clips.select(range(20)))),
        (run, context_of(clips, linear_set(1, seed=1))),  # as many, but others
        (run, context_of(clips.select(range(20)), clips)),
        (run, context_of(linear_set(1, seed=1), clips)),
        (run, context_of(clips, replace(clips, labels={**clips.labels, "tint": clips.labels["tint"][::-1]}))),
        (run, context_of(clips, replace(clips, labels={"level": clips.labels["level"]}))),
        (run, context_of(clips, clips, moving="action")),
        (run, context_of(clips, clips, who="level")),
        *(
            (run, context_of(clips, clips, plan=plan))
            for plan in (ProtocolConfig(2, seed=1), ProtocolConfig(3), ProtocolConfig(2, batch=9))
        ),
    ]
    for other in others:
        assert about(*other) != mine
    assert about(run, context_of(clips, clips, plan=replace(PLAN, progress=lambda over, what: list(over)))) == mine


# --- stages


def test_a_stage_that_cannot_be_is_a_note_and_the_others_go_on(
    folder: Path, trained_on: Callable[[Sequences], None]
) -> None:
    """No factors were found: what is asked of them is said to be missing, once, and kept like anything else."""
    clips = linear_set(4, seed=0)
    trained_on(clips)
    run = plain_run(clips, 2, folder=folder)
    said: list[str] = []
    results_cache = ResultCache()
    context = context_of(clips, clips, reads(), moving=MOVING)
    found = measure("ours", run, context, results_cache, "diskoop evaluate", said.append)
    assert [note.split(":")[0] for note in found.notes] == [
        "no two factors as found",
        "no one factor at a time",
        "no DCI",
    ]
    assert all("no factors yet" in note for note in found.notes)
    for key in ("rec/rmse", "two/paper/static/acc", "leak/static/level", "cost/parameters"):
        assert key in found.figures
    assert said == [
        f"ours: {title}"
        for title in (
            "errors",
            "two factors",
            "two factors as found",
            "one factor at a time",
            "probes",
            "DCI",
            "resources",
        )
    ]
    again = measure("ours", run, context, results_cache, "diskoop evaluate", said.append)
    assert len(said) == 7
    assert (again.figures, again.notes) == (found.figures, found.notes)


def test_other_errors_are_not_swallowed() -> None:
    def broken() -> evaluate.Outcome:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        evaluate._noting("something", broken)()


def test_figures_carry_their_origin(folder: Path, trained_on: Callable[[Sequences], None]) -> None:
    clips = linear_set(1, seed=0)
    trained_on(clips)
    run = plain_run(clips, 2, folder=folder, data={"name": "oscillators"})
    run = replace(run, settings=run.settings.replaced({"train": {"seed": 7}}))
    found = measure("ours", run, context_of(clips, clips), ResultCache(), "diskoop evaluate it", silent)
    assert isinstance(found.origin, Origin)
    assert (found.origin.seed, found.origin.commit, found.origin.command) == (7, commit(), "diskoop evaluate it")
    assert "model.k=4" in found.origin.preset
    text = Results("it", [found], tables(tuple(clips.labels), MOVING)).markdown()
    assert (
        f"- ours: trained with seed 7, preset {found.origin.preset}, commit {commit()}, `diskoop evaluate it`" in text
    )


def test_without_labels_a_run_still_has_errors_a_spectrum_and_a_cost(
    folder: Path, trained_on: Callable[[Sequences], None]
) -> None:
    clips = replace(linear_set(2, seed=0), labels={})
    trained_on(clips)
    run = plain_run(clips, 2, found_of(PROJECTORS, [MOVING], stability=0.7), folder=folder)
    found = measure("ours", run, context_of(clips, clips), ResultCache(), "diskoop evaluate", silent)
    assert set(found.figures) == {
        "rec/rmse", "rec/explained", "pred/ours", "pred/held", "spectrum/static_gap", "spectrum/dynamic_radius",
        "cycle/static", "factors/stability", "factors/count",
        *(f"cost/{key}" for key in ("parameters", "sequences", "step", "trained", "memory")),
    }  # fmt: skip
    assert found.notes == ()
    assert context_of(clips, clips).shown == ()
    shown = [table.title for table in tables((), None) if table.rows([found])]
    assert shown == ["Scores", "Without labels", "Resources"]


def test_labels_are_read_from_codes_without_a_judge(folder: Path, trained_on: Callable[[Sequences], None]) -> None:
    """But for those that training does not teach: here it calls every level by one name."""
    train, clips = linear_set(8, seed=0), linear_set(4, seed=1)
    train = replace(train, labels={**train.labels, "level": np.zeros(len(train), np.int64)})
    trained_on(train)
    run = plain_run(clips, 2, found_of(PROJECTORS, [MOVING]), folder=folder)
    context = context_of(train, clips)
    assert (context.labels, context.shown) == ((), ("tint", MOVING))
    found = measure("ours", run, context, ResultCache(), "diskoop evaluate", silent)
    assert found.notes == ()
    assert {key for key in found.figures if key.startswith("leak/")} == {
        f"leak/{part}/{label}" for part in ("static", "dynamic", "chance") for label in ("tint", MOVING)
    }
    assert found.figures["leak/static/tint"].mean == found.figures["leak/dynamic/action"].mean == 1
    assert found.figures["dci/explicitness"].mean > 0.9
    assert not any(key.startswith(("two/", "multifactor/")) for key in found.figures)
    asked = {key for table in tables(context.shown, context.moving) for key in keys_of(table)}
    assert set(found.figures) <= asked


def test_errors_are_those_of_test_sequences(folder: Path, trained_on: Callable[[Sequences], None]) -> None:
    train, clips = linear_set(2, seed=0), linear_set(1, seed=1)
    trained_on(train)
    run = plain_run(train, 2, decoder=0.5, folder=folder)
    found = measure("ours", run, context_of(train, clips), ResultCache(), "diskoop evaluate", silent)
    assert found.figures["rec/rmse"].mean == pytest.approx(np.sqrt(np.square(clips.x).mean()) / 2)
    assert found.figures["cost/sequences"].mean == len(train)


def test_matching_and_probes_learn_from_training_sequences_and_are_scored_on_others(
    folder: Path, trained_on: Callable[[Sequences], None]
) -> None:
    """All training sequences have one level; later their tints go by other names."""
    train, clips = linear_set(8, seed=0), linear_set(4, seed=1)
    train = train.select(train.labels["level"] == 3)
    trained_on(train)
    found = found_of(PROJECTORS, [MOVING], {"level": "one", "tint": "two", "action": "three"})
    run = plain_run(clips, 2, found, folder=folder)
    context = context_of(train, clips, reads(), moving=MOVING)
    own = measure("ours", run, context, ResultCache(), "diskoop evaluate", silent)
    assert own.notes == (
        "factors: known, in a linear set",
        "level: no factor changes it",
        "tint: two",
        "action: three",
    )
    assert context.shown == ("level", "tint", "action")  # judged, though it cannot be read
    assert not any(key.startswith("leak/") and key.endswith("/level") for key in own.figures)
    assert own.figures["leak/dynamic/action"].mean == 1
    assert own.figures["multifactor/action/action"].mean == 1
    assert own.figures["multifactor/level/level"].mean == pytest.approx(1 / 4, abs=0.1)
    assert own.figures["dci/explicitness"].mean > 0.9
    other = replace(train, labels={**train.labels, "tint": (train.labels["tint"] + 1) % 3})
    probed = replace(context, train=other, judge=reads(["tint", MOVING]))
    own = measure("ours", run, probed, ResultCache(), "diskoop evaluate", silent)
    assert own.figures["leak/static/tint"].mean < 0.2
    assert own.figures["leak/dynamic/action"].mean == 1


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
    context = context_of(train, clips, who="speaker")
    own = measure("ours", run, context, ResultCache(), "diskoop evaluate", silent)
    assert own.figures["eer/frozen/static"].mean < 0.2 < 0.3 < own.figures["eer/frozen/dynamic"].mean
    assert "phones/dynamic" in own.figures
    assert any("kinds of sound" in note for note in own.notes)
    # Who speaks is read from means over time, in which a sign that alternates is lost: the cheat would prove nothing.
    monkeypatch.setattr(evaluate, "BESIDE", {"leaks on purpose": leaking})
    spectrum, cepstrum = measure_beside(run, context, ResultCache(), "diskoop evaluate", silent)
    assert (spectrum.name, cepstrum.name) == ("mean spectrum", "mean cepstrum")
    for model, codes in ((spectrum, mean_spectrum(clips)), (cepstrum, mean_cepstrum(clips, train))):
        assert model.figures == {"eer/mean/static": error_rate(codes, clips, "speaker", PLAN)}
    assert spectrum.figures != cepstrum.figures
    monkeypatch.setattr(evaluate, "BESIDE", {})
    assert measure_beside(run, context_of(clips, clips), ResultCache(), "diskoop evaluate", silent) == []


# --- benches


def film(labels: bool = True) -> Sequences:
    """Forty little films, of which the last ten test; bright or dark."""
    draw = np.random.Generator(np.random.PCG64(0))
    bright = np.arange(40) % 2
    x = (draw.integers(0, 50, (40, 4, 3, 32, 32)) + 150 * bright[:, None, None, None, None]).astype(np.uint8)
    parts = np.repeat(np.array([0, 1, 2], np.int8), [25, 5, 10])
    known = {"bright": bright, "action": (np.arange(40) // 2) % 2} if labels else {}
    return Sequences.of(x, known, name="puppets", parts=parts)


def judge_with(accuracy: float, of_frames: bool, bright: float = 1.0) -> Judge:
    values = {"bright": ("no", "yes"), "action": ("sit", "walk")}
    network = Network((3, 32, 32), (2, 2))
    return Judge(network, values, {"bright": bright, "action": accuracy}, {}, film().units, 10, of_frames)


@pytest.fixture
def puppets(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Run]:
    """A run on puppets, which are few here, and a judge that is as good as one says."""

    def make(accuracy: float) -> Run:
        monkeypatch.setattr(evaluate, "open_data", lambda settings: film())
        monkeypatch.setattr(evaluate, "judge_for", lambda *words, of_frames=False: judge_with(accuracy, of_frames))
        return plain_run(np.eye(2), 1, units=film().units)

    return make


def test_a_poor_judge_of_a_known_set_ends_it(puppets: Callable[[float], Run]) -> None:
    with pytest.raises(InputError, match=r"too poor to score anything: .* puppets .* 99% .* got action 97\.00%"):
        eval_context(puppets(0.97), PLAN)


def test_a_good_judge_is_on_the_bench_and_described(puppets: Callable[[float], Run]) -> None:
    context = eval_context(puppets(0.995), PLAN, limit=6)
    assert context.judge is not None
    assert context.frame_judge is not None
    assert not context.judge.of_frames
    assert context.frame_judge.of_frames
    assert context.labels == ("bright", "action")
    assert (context.moving, context.who) == ("action", None)
    assert (len(context.train), len(context.clips)) == (25, 6)
    assert np.array_equal(context.clips.x, PLAN.some(film().part("test"), 6, 6).x)
    assert context.notes == (
        "puppets: 6 of 10 test sequences, 25 to train on",
        "judge: bright 100.0%, action 99.5% on 10 clean test sequences",
        "judge's floor: 99% on puppets, reached",
        "of single frames, judge: bright 100.0%, action 99.5% on 10 clean test frames",
        "judge's floor: 99% on puppets, reached",
        "2 repetitions, batches of 256, seed 0",
    )
    thorough = eval_context(puppets(0.995), replace(PLAN, repeats=300), limit=6)
    assert thorough.notes[-1].startswith("300 repetitions (30 of swaps and of what stands beside), batches")


def test_a_judge_of_frames_must_be_good_too_but_for_what_moves(
    puppets: Callable[[float], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = puppets(1.0)

    def glance(action: float, bright: float) -> None:
        def judge_for(*words: Any, of_frames: bool = False) -> Judge:
            return judge_with(action, True, bright) if of_frames else judge_with(1.0, False)

        monkeypatch.setattr(evaluate, "judge_for", judge_for)

    glance(action=0.3, bright=1.0)  # a frame does not show what moves
    assert eval_context(run, PLAN).notes[4] == "judge's floor: 99% on puppets, reached"
    with pytest.raises(InputError, match=r"clean test frames of puppets .* got action 30\.00%$"):
        eval_context(run, PLAN, moving="bright")
    glance(action=0.3, bright=0.9899)
    with pytest.raises(InputError, match=r"clean test frames of puppets .* got bright 98\.99%$"):
        eval_context(run, PLAN)


def test_on_the_bench_are_the_sequences_that_the_run_was_trained_on(puppets: Callable[[float], Run]) -> None:
    run = puppets(1.0)
    context = eval_context(replace(run, settings=run.settings.replaced({"data": {"limit": 7}})), PLAN)
    assert np.array_equal(context.train.x, film().part("train").x[:7])
    assert len(context.clips) == 10
    assert context.notes[0] == "puppets: 10 test sequences, 7 to train on"


def test_signals_have_the_scale_that_the_run_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this reading of the data comes to; frames of video are bytes in any case."""
    everything = replace(linear_set(1, seed=0), units=replace(DOUBLE, scale=3.0, offset=1.0))
    everything = replace(everything, parts=np.repeat(np.array([0, 2], np.int8), 24))
    monkeypatch.setattr(evaluate, "open_data", lambda settings: everything)
    own = replace(DOUBLE, scale=2.0, offset=-1.0)
    judged: list[Sequences] = []

    def judge_for(everything: Sequences, *words: Any) -> Judge:
        judged.append(everything)
        raise InputError("not today")

    monkeypatch.setattr(evaluate, "judge_for", judge_for)
    context = eval_context(plain_run(np.eye(4), 2, units=own), PLAN)
    assert context.train.units == context.clips.units == judged[0].units == own
    monkeypatch.setattr(evaluate, "open_data", lambda settings: film())
    assert eval_context(plain_run(np.eye(4), 2, units=own), PLAN).clips.units == film().units


def test_nobody_speaks_in_a_set_without_sound(puppets: Callable[[float], Run]) -> None:
    with pytest.raises(InputError, match=r"--who says who speaks in recordings, got it for puppets, .* no sound"):
        eval_context(puppets(1.0), PLAN, who="bright")


def test_what_moves_can_be_named(puppets: Callable[[float], Run]) -> None:
    run = puppets(1.0)
    assert eval_context(run, PLAN, moving="bright").moving == "bright"
    with pytest.raises(InputError, match="unknown label 'brigt'; did you mean 'bright'"):
        eval_context(run, PLAN, moving="brigt")


def test_without_judges_nothing_is_judged(puppets: Callable[[float], Run]) -> None:
    context = eval_context(puppets(0.5), PLAN, judged=False)
    assert (context.judge, context.frame_judge, context.labels) == (None, None, ())
    stages = evaluate._stages(never, never, context)  # type: ignore[arg-type]
    assert list(stages) == ["errors", "probes", "DCI"]  # which read labels from codes
    assert context.shown == ("bright", "action")


def test_where_nothing_can_be_judged_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "open_data", lambda settings: film(labels=False))
    context = eval_context(plain_run(np.eye(2), 1, units=film().units), PLAN)
    assert context.judge is None
    assert context.labels == ()
    assert context.notes[1] == "no judge: nothing in puppets can be judged: it has no labels"


def test_of_recordings_the_whole_ones_are_on_the_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        write_sound(tmp_path / f"{number}.wav", tone(0.4, 200.0 + 40 * number))
    data = {"path": str(tmp_path), "window": 10}
    run = plain_run(np.eye(2), 1, units=replace(DOUBLE, rate=16000), data=data)
    context = eval_context(run, PLAN, judged=False)
    assert set(context.clips.lengths) | set(context.train.lengths) == {41}
    assert context.who is None  # nobody said
    assert any(note.startswith("no speaker verification: ") and "got none" in note for note in context.notes)
    whole = whole_recordings(run)
    monkeypatch.setattr(evaluate, "whole_recordings", lambda run: replace(whole, labels={"word": np.arange(10)}))
    named = eval_context(run, PLAN, who="word", judged=False)
    assert named.who == "word"
    assert not any("no speaker verification" in note for note in named.notes)
    unnamed = eval_context(run, PLAN, judged=False)
    assert unnamed.who is None
    (note,) = [note for note in unnamed.notes if note.startswith("no speaker verification: ")]
    assert "does not say who speaks: expected a label speaker, got word" in note
    with pytest.raises(InputError, match="unknown label 'wrd'; did you mean 'word'"):
        eval_context(run, PLAN, who="wrd", judged=False)


# --- together


@pytest.fixture(scope="module")
def oscillators(folder: Path) -> tuple[Run, EvalContext]:
    """Known factors, and a judge of two things that stay and one that moves, all read off the first frame."""
    made_of = _LINEAR["oscillators"]
    ends = np.cumsum([len(part.block) for part in made_of])
    places = {part.name: slice(end - len(part.block), end) for part, end in zip(made_of, ends, strict=True)}
    points = {part.name: part.starts for part in made_of if part.name in ("level", "mark", "slow")}
    judge = cast(Judge, Reads(np.linalg.inv(_mixing("oscillators")), points, places))
    train, clips = (load_data("oscillators", part) for part in ("train", "test"))
    found = found_of(truth("oscillators").projectors, ["slow", "fast", "fade"])
    run = plain_run(train, 3, found, data={"name": "oscillators"}, folder=folder)
    return run, context_of(train, clips, judge, moving="slow")


def test_a_model_that_leaks_has_a_perfect_accuracy_and_no_score(
    oscillators: tuple[Run, EvalContext], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both in one table: what the paper measures cannot tell them apart, the score can."""
    run, context = oscillators
    monkeypatch.setattr(evaluate, "BESIDE", {"leaks on purpose": leaking})
    own = measure("ours", run, context, ResultCache(), "diskoop evaluate", silent)
    (cheat,) = measure_beside(run, context, ResultCache(), "diskoop evaluate", silent)
    assert context.judge is not None
    clean = (context.judge.predict(context.clips.x)["slow"] == context.clips.labels["slow"]).mean()
    assert clean == 1
    for model in (own, cheat):
        for way in ("paper", "two", "found") if model is own else ("paper", "two"):
            assert model.figures[f"two/{way}/static/acc"].mean == clean
    assert own.figures["two/two/static/kept/level"].mean < 0.35
    assert cheat.figures["two/two/static/kept/level"].mean == 1  # nothing was sampled
    assert cheat.figures["two/two/static/diversity"].mean == pytest.approx(1)
    # Of what stays nothing can be handed over alone: a level comes with its mark.
    assert own.figures["multifactor/score"].mean > 0.98
    assert cheat.figures["multifactor/level/mark"].mean == 1
    assert cheat.figures["multifactor/score"].mean < own.figures["multifactor/score"].mean - 0.1
    assert own.figures["kept/score"].mean == 1
    assert cheat.figures["kept/level/mark"].mean == pytest.approx(1 / 3, abs=0.1)
    results = Results("both", [own, cheat, chance(context)], tables(context.shown, context.moving))
    read = read_results(results.write(tmp_path / "both")[1])
    table = next(table for table in read.tables if table.title == "Two factors")
    cells = {name: cells for _, name, cells in table.rows(read.models)}
    way = next(text for text, begin in table.kinds.items() if begin == "two/two/static/")
    assert cells[f"ours: {way}"][0] == cells[f"leaks on purpose: {way}"][0] == "100.0% ± 0.0"
    assert cells[f"ours: {way}"][4] != cells[f"leaks on purpose: {way}"][4]
    assert cells[f"ours: {way}"][5] == "1 ± 0"
    text = (tmp_path / "both.md").read_text(encoding="utf-8")
    assert "| ours: level taken |  | 100.0% ± 0.0 | 100.0% ± 0.0 |" in text  # kept, but for what was taken
    assert not any(name.startswith("chance") for name in cells)


def test_of_what_stays_a_model_that_leaks_scores_as_one_that_does_nothing(oscillators: tuple[Run, EvalContext]) -> None:
    run, context = oscillators
    judge = cast(Reads, context.judge)
    still = replace(judge, points={label: judge.points[label] for label in ("level", "mark")})
    cheat = leaking(run, context.train)
    cheat = replace(cheat, found=cheat.find_factors(context.train.select(range(500))))
    figures, _ = one_at_a_time(cheat, context.train, context.clips, cast(Judge, still), PLAN)
    assert figures["multifactor/floor"].mean == floor((4, 3))
    assert figures["multifactor/score"].mean == pytest.approx(floor((4, 3)), abs=0.03)


def test_what_stands_beside_a_run_is_made_when_it_is_asked_for(
    oscillators: tuple[Run, EvalContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, context = oscillators
    made: list[int] = []

    def plain(run: Run, train: Sequences, seed: int) -> Run:
        made.append(seed)
        assert train is context.train
        return replace(run, found=None)

    monkeypatch.setattr(evaluate, "BESIDE", {"the same": plain})
    monkeypatch.setattr(Run, "find_factors", lambda self: found_of(truth("oscillators").projectors, ["slow"]))
    results_cache = ResultCache()
    context = replace(context, plan=ProtocolConfig(repeats=1, seed=3), clips=context.clips.select(range(100)))
    (model,) = measure_beside(run, context, results_cache, "diskoop evaluate", silent)
    assert made == [3]  # once for all stages
    assert "cost/parameters" not in model.figures
    (again,) = measure_beside(run, context, results_cache, "diskoop evaluate", silent)
    assert made == [3]
    assert again.figures == model.figures


def test_chance_is_one_of_as_many_values_as_there_are(oscillators: tuple[Run, EvalContext]) -> None:
    guesses = chance(oscillators[1]).figures
    for label, share in {"level": 1 / 4, "mark": 1 / 3, "slow": 1 / 4}.items():
        for begin in ("two/paper/static/kept", "two/found/dynamic/kept", "factorial/level", "multifactor/mark"):
            assert guesses[f"{begin}/{label}"].mean == share
        for taken in ("level", "mark", "slow"):
            assert guesses[f"kept/{taken}/{label}"].mean == share
    assert guesses["multifactor/score"].mean == floor((4, 3, 4))
    assert guesses["multifactor-single/score"].mean == floor((4, 3, 4))
    for key in ("kept/score", "kept-single/score"):
        assert guesses[key].mean == pytest.approx((1 / 4 + 1 / 3 + 1 / 4) / 3)
    title = "One factor at a time: what is kept"
    table = next(each for each in tables(oscillators[1].labels, "slow") if each.title == title)
    assert [name for _, name, _ in table.rows([chance(oscillators[1])])] == ["chance"]  # in one row
    clips = oscillators[1].clips
    assert chance(context_of(clips, clips)).figures == {}


def test_labels_of_the_judge_that_the_clips_lack_are_no_columns(oscillators: tuple[Run, EvalContext]) -> None:
    context = oscillators[1]
    fewer = replace(context.clips, labels={"mark": context.clips.labels["mark"]})
    assert replace(context, clips=fewer).labels == ("mark",)
    assert replace(context, clips=fewer).shown == ("mark",)


def test_labels_that_can_be_read_are_columns_beside_those_that_are_judged(oscillators: tuple[Run, EvalContext]) -> None:
    context = oscillators[1]
    assert context.labels == ("level", "mark", "slow")
    assert context.shown == ("level", "mark", "slow", "fast", "fade")
    assert replace(context, judge=None).shown == tuple(context.clips.labels)
    headings = [column.heading for column in tables(context.shown, context.moving)[1].columns]
    assert set(context.shown) <= set(headings)


def test_every_figure_has_a_column(oscillators: tuple[Run, EvalContext]) -> None:
    """A model with every figure that a table asks for has a row in each, and nothing that is measured is unseen."""
    run, context = oscillators
    few = replace(context, plan=ProtocolConfig(repeats=1), clips=context.clips.select(range(100)))
    own = measure("ours", run, few, ResultCache(), "diskoop evaluate", silent)
    asked = {key for table in tables(context.shown, context.moving) for key in keys_of(table)}
    assert set(own.figures) <= asked


def keys_of(table: Table) -> set[str]:
    def key(column: Column, begin: str) -> str:
        return column.key[1:] if column.key.startswith("/") else begin + column.key

    return {key(column, begin) for column in table.columns for begin in table.kinds.values()}


def test_wishes_name_the_label_that_moves(oscillators: tuple[Run, EvalContext]) -> None:
    context = oscillators[1]
    remarks = [table.remark for table in tables(context.labels, context.moving)[1:3]]
    assert "all for slow and chance for level, mark" in remarks[0]
    assert "all for level, mark and chance for slow" in remarks[1]
    unnamed = [table.remark for table in tables(context.labels, None)[1:3]]
    assert "chance for what stays" in unnamed[0]
