"""a run, or what stands beside it -> every figure that its data allow"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from diskoop.analysis.discovery import DiscoveryResult
from diskoop.data import open_data
from diskoop.data.cache import digest
from diskoop.data.sequences import Sequences
from diskoop.errors import InputError, suggest
from diskoop.evaluation.baselines import mean_cepstrum, mean_spectrum, pca_dmd, slow_features, untrained
from diskoop.evaluation.inspection import (
    consistency,
    disentanglement,
    errors,
    leaks,
    limited,
    readable,
    resources,
)
from diskoop.evaluation.judges import Judge, judge_for
from diskoop.evaluation.leaking import leaking
from diskoop.evaluation.metrics import Summary
from diskoop.evaluation.protocols import (
    ProtocolConfig,
    factorial,
    moving_label,
    one_at_a_time,
    two_factors,
    two_factors_as_found,
)
from diskoop.evaluation.results import Figures, Measured
from diskoop.evaluation.verification import error_rate, phones, speakers, who_speaks, whole_recordings
from diskoop.provenance import Origin, commit, nearest_preset
from diskoop.run import Run
from diskoop.storage import write_text
from diskoop.training.checkpoint import checksum, weights_checksum
from diskoop.training.loop import fingerprint
from diskoop.training.progress import Reporter

Outcome = tuple[Figures, list[str]]
Stages = dict[str, Callable[[], Outcome]]

BESIDE = {
    "PCA + DMD": pca_dmd,
    "slow features": slow_features,
    "untrained network": untrained,
    "leaks on purpose": leaking,
}


# --- what everything is measured with


@dataclass(frozen=True, eq=False)
class EvalContext:
    """The same sequences, the same judges and the same plan for every model."""

    train: Sequences
    clips: Sequences  # neither trained on nor matched on
    judge: Judge | None
    frame_judge: Judge | None
    moving: str | None  # the label that says what is done
    who: str | None  # the label that says who speaks
    plan: ProtocolConfig
    notes: tuple[str, ...]  # what the reader of a figure should know of all this

    @property
    def labels(self) -> tuple[str, ...]:
        """Those that are judged."""
        return () if self.judge is None else tuple(label for label in self.judge.labels if label in self.clips.labels)

    @property
    def shown(self) -> tuple[str, ...]:
        """Those that a table has a column for."""
        return tuple(dict.fromkeys((*self.labels, *readable(self.train, self.clips))))


def eval_context(
    run: Run,
    plan: ProtocolConfig,
    limit: int | None = None,
    moving: str | None = None,
    who: str | None = None,
    judged: bool = True,
    reporter: Reporter | None = None,
) -> EvalContext:
    """The test split of the run's data (at most `limit` sequences of it), and judges that are good enough for it.

    Without `judged` there are none, and nothing that takes one is measured. Of recordings the whole ones are taken,
    whatever windows the run was trained on.
    """
    settings = run.settings.data
    sounds = run.units.rate is not None
    everything = whole_recordings(run) if sounds else open_data(settings)
    if not everything.is_video:  # the scale that the run knows, whatever this reading of its data comes to
        everything = replace(everything, units=run.units)
    train, clips = limited(everything.part("train"), settings.limit), everything.part("test")
    if moving is not None and moving not in clips.labels:
        known = suggest(moving, clips.labels) if clips.labels else f"{clips.name} has none"
        raise InputError(f"unknown label {moving!r}; {known}")
    total = len(clips)
    clips = clips if limit is None else plan.some(clips, limit, 6)
    share = "" if len(clips) == total else f" of {total}"
    notes = [f"{clips.name}: {len(clips)}{share} test sequences, {len(train)} to train on"]
    speaks = None
    if sounds:
        try:
            speaks = who_speaks(clips, who)
        except InputError as error:
            if who is not None:
                raise
            notes.append(f"no speaker verification: {error}")
    elif who is not None:
        raise InputError(f"--who says who speaks in recordings, got it for {clips.name}, which has no sound")
    device = str(next(run.model.parameters()).device)
    judge = frame_judge = None
    try:
        judge = judge_for(everything, settings, device, reporter) if judged else None
    except InputError as error:
        notes.append(f"no judge: {error}")
    moves = moving or moving_label(() if judge is None else judge.labels)
    if judge is not None and moves is None:
        notes.append(f"no Acc: which of {', '.join(judge.labels)} says what is done, if one does, --moves tells")
    if judge is not None:
        notes += [judge.describe(), judge.require(settings)]
        if everything.is_video:
            frame_judge = judge_for(everything, settings, device, reporter, of_frames=True)
            notes += [f"of single frames, {frame_judge.describe()}", frame_judge.require(settings, (moves or "",))]
    fewer = f" ({len(plan.swaps)} of swaps and of what stands beside)" if len(plan.swaps) < plan.repeats else ""
    notes.append(f"{plan.repeats} repetitions{fewer}, batches of {plan.batch}, seed {plan.seed}")
    return EvalContext(train, clips, judge, frame_judge, moves, speaks, plan, tuple(notes))


# --- what was measured already


@dataclass
class ResultCache:
    """Outcomes by name, kept in a file as they come, so that an interrupted evaluation goes on where it was."""

    path: Path | None = None
    about: Mapping[str, Any] = field(default_factory=dict)  # what they depend on; others than these are forgotten
    entries: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            try:
                facts = json.loads(self.path.read_text(encoding="utf-8"))
                self.entries = facts["entries"] if facts["about"] == json.loads(json.dumps(self.about)) else {}
            except (ValueError, KeyError, TypeError):  # damaged: measured anew
                self.entries = {}

    def once(self, name: str, stage: Callable[[], Outcome]) -> Outcome:
        """The outcome of `stage`, from the file if it is there."""
        if name not in self.entries:
            figures, notes = stage()
            self.entries[name] = {"figures": {key: asdict(value) for key, value in figures.items()}, "notes": notes}
            if self.path is not None:
                write_text(self.path, json.dumps({"about": self.about, "entries": self.entries}))
        entry = self.entries[name]
        return {key: Summary(**value) for key, value in entry["figures"].items()}, list(entry["notes"])


def about(run: Run, context: EvalContext) -> dict[str, Any]:
    """What figures depend on: the weights, the factors, the code, the plan, what was looked at and which labels."""
    plan = {key: value for key, value in vars(context.plan).items() if key != "progress"}
    return {
        "model": weights_checksum(run.model),
        "operator": run.operator.source,
        "factors": None if run.found is None else _factors(run.found),
        "commit": commit(),
        "plan": plan,
        "clips": [fingerprint(each) for each in (context.train, context.clips)],
        "labels": [context.moving, context.who, *(_labels(each) for each in (context.train, context.clips))],
    }


def _labels(clips: Sequences) -> str:
    return digest({name: codes.tolist() for name, codes in clips.labels.items()})


def _factors(found: DiscoveryResult) -> list[Any]:
    """Factors that were found anew may well have the names of the old ones, so their projectors count too."""
    projectors = checksum({each.name: each.factor.projector.cpu() for each in found.factors})
    return [found.names, [each.kind for each in found.factors], found.source, projectors]


# --- one model after another


def measure(
    name: str, run: Run, context: EvalContext, results_cache: ResultCache, command: str, say: Callable[[str], None]
) -> Measured:
    """Every figure of the run itself."""
    stages = _stages(lambda: run, lambda: run, context) | _stages_alone(run, context)
    return _measured(name, run, stages, results_cache, command, say)


def measure_beside(
    run: Run, context: EvalContext, results_cache: ResultCache, command: str, say: Callable[[str], None]
) -> list[Measured]:
    """The models that stand beside it, factors found in each without labels, and for sound the means over time."""
    context = replace(context, plan=context.plan.beside)
    models = []
    for name, make in BESIDE.items():
        if make is leaking and context.who is not None:
            continue  # signs that alternate vanish in a mean over time, and prove nothing
        # Made when a figure is asked for, if at all.
        plain = cache(partial(make, run, context.train, context.plan.seed))
        models.append(
            _measured(
                name, run, _stages(plain, cache(partial(_with_factors, plain)), context), results_cache, command, say
            )
        )
    if context.who is not None:
        models += [
            _measured(name, run, stages, results_cache, command, say) for name, stages in _means(context).items()
        ]
    return models


def _measured(
    name: str, run: Run, stages: Stages, results_cache: ResultCache, command: str, say: Callable[[str], None]
) -> Measured:
    figures: Figures = {}
    notes: list[str] = []
    for title, stage in stages.items():
        key = f"{name}: {title}"
        if key not in results_cache.entries:
            say(key)
        more, said = results_cache.once(key, _noting(title, stage))
        figures |= more
        notes += said
    seed, preset = run.settings.train.seed, nearest_preset(run.settings)
    return Measured(name, figures, Origin(seed, preset, commit(), command), tuple(dict.fromkeys(notes)))


def _noting(title: str, stage: Callable[[], Outcome]) -> Callable[[], Outcome]:
    """A stage whose data do not allow it is a note, and the others go on."""

    def attempt() -> Outcome:
        try:
            return stage()
        except InputError as error:
            return {}, [f"no {title}: {error}"]

    return attempt


def _stages(run: Callable[[], Run], known: Callable[[], Run], context: EvalContext) -> Stages:
    """What any model is asked; `known` is the run with its factors, or an InputError where none can be found."""
    clips, train, plan, judge, moving = context.clips, context.train, context.plan, context.judge, context.moving
    stages: Stages = {"errors": lambda: (errors(run(), clips, plan), [])}
    if judge is not None:
        stages["two factors"] = lambda: (two_factors(run(), clips, judge, moving, plan), [])
        stages["two factors as found"] = lambda: (two_factors_as_found(known(), clips, judge, moving, plan), [])
        stages["one factor at a time"] = lambda: one_at_a_time(known(), train, clips, judge, plan)
    if labels := readable(train, clips):
        stages["probes"] = lambda: (leaks(run(), train, clips, labels, plan), [])
        stages["DCI"] = lambda: (disentanglement(known(), clips, labels, plan), [])
    if (who := context.who) is not None:
        stages["speakers"] = lambda: (speakers(run(), clips, who, plan), [])
        stages["phones"] = lambda: _with_note(*phones(run(), train, clips, plan))
    return stages


def _stages_alone(run: Run, context: EvalContext) -> Stages:
    """What only the run itself is asked: it takes long, or would say nothing of a baseline."""
    clips, plan, moving = context.clips, context.plan, context.moving
    judge, frame_judge = context.judge, context.frame_judge
    stages: Stages = {"resources": lambda: (resources(run), [])}
    if judge is not None and context.clips.is_video:
        stages["factorial swaps"] = lambda: (factorial(run, clips, judge, moving, plan), [])
    if frame_judge is not None:
        stages["consistency"] = lambda: (consistency(run, clips, frame_judge, moving, plan), [])
    return stages


def _means(context: EvalContext) -> dict[str, Stages]:
    """A recording's mean spectrum and cepstrum, which nobody trained."""
    clips, train = context.clips, context.train
    return {
        "mean spectrum": {"speakers": lambda: _mean_rate(mean_spectrum(clips), context)},
        "mean cepstrum": {"speakers": lambda: _mean_rate(mean_cepstrum(clips, train), context)},
    }


def _mean_rate(codes: Any, context: EvalContext) -> Outcome:
    return {"eer/mean/static": error_rate(codes, context.clips, context.who or "", context.plan)}, []


def _with_note(figures: Figures, note: str) -> Outcome:
    return figures, [note]


def _with_factors(plain: Callable[[], Run]) -> Run:
    """With factors found without labels."""
    run = plain()
    return replace(run, found=run.find_factors())
