"""the decorator by which metrics of protocols/ register, and what each is given: EvalConfig and EvalContext

A metric is one function of a run and an EvalContext, registered with what it needs and the tables it fills:

    @metric("brightness", requires=("labels",), tables=brightness_tables)
    def brightness(run: Run, context: EvalContext) -> Outcome:
        return Outcome({Key("brightness", "mean"): single_value(...)})

It is then measured by `diskoop evaluate`, of the run and of its baselines, and its tables are in every result.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from diskoop.analysis.discovery.results import Progress, no_progress
from diskoop.data.sequences import Indices, Sequences
from diskoop.errors import InputError
from diskoop.evaluation.classifiers import Classifier
from diskoop.evaluation.metrics import summarize
from diskoop.evaluation.results import Column, Key, Table, Values, single_value
from diskoop.run import Run

Requirement = Literal["classifier", "frame_classifier", "labels", "speakers", "video", "factors"]

MOTION_LABELS = ("action", "expression", "motion", "emotion", "activity", "gesture")
# The paper repeats its sampling 300 times. What it does not repeat, swaps and baselines, is repeated this often at
# most: each time goes over all test sequences, so the mean is known well by then.
MAX_SWAP_REPEATS = 30


@dataclass(frozen=True)
class EvalConfig:
    """How to evaluate.

    Args:
        repeats: of sampling, where the paper has 300; of swaps MAX_SWAP_REPEATS at most.
        batch_size: of the paper's protocols.
        seed: of every random draw.
        limit: test sequences at most.
        motion_label: the label that says what is done; by default one of MOTION_LABELS.
        speaker_label: of sound, the label that says who speaks.
        baselines: whether to measure baselines too.
        use_classifier: whether to measure what needs a classifier.
        search_batches: batches in which the paper's mode search runs; None: all.
        search_blocks: blocks of neighbouring modes that it swaps, where there are more modes; None: single modes.
        command: what is written down as the origin of the values.
        progress: wraps loops that take long.
    """

    repeats: int = 3
    batch_size: int = 256
    seed: int = 0
    limit: int | None = None
    motion_label: str | None = None
    speaker_label: str | None = None
    baselines: bool = True
    use_classifier: bool = True
    search_batches: int | None = None
    search_blocks: int | None = None
    command: str = "from Python"
    progress: Progress = field(default=no_progress, compare=False)

    @property
    def swap_repeats(self) -> int:
        return min(self.repeats, MAX_SWAP_REPEATS)

    def for_baselines(self) -> "EvalConfig":
        """The same with fewer repetitions."""
        return replace(self, repeats=self.swap_repeats)

    def generator(self, *purpose: int) -> np.random.Generator:
        """A random generator of its own for each purpose, given as a few numbers."""
        # One more than each: zeros at the end would not count.
        return np.random.Generator(np.random.PCG64([self.seed, *(number + 1 for number in purpose)]))

    def batches(self, count: int) -> list[Indices]:
        """All of `count` indices once, shuffled, in batches of equal size or nearly so."""
        return np.array_split(self.generator(0).permutation(count), max(1, round(count / self.batch_size)))

    def subset(self, clips: Sequences, count: int, purpose: int) -> Sequences:
        """At most `count` of `clips`, drawn by the seed, in their order."""
        return clips.select(np.sort(self.generator(purpose).permutation(len(clips))[:count]))

    def summarize(self, repetitions: Sequence[Mapping[Key, float]]) -> Values:
        """Repetitions that measured the same things -> mean, deviation and interval of each."""
        return {key: summarize([each[key] for each in repetitions], self.generator(1)) for key in repetitions[0]}


@dataclass(frozen=True, eq=False)
class EvalContext:
    """The same sequences, classifiers and settings for every model that is measured.

    Args:
        train: what the run was trained on.
        clips: test sequences; neither trained on nor used to match factors to labels.
        classifier: of whole sequences.
        config: how to measure.
        frame_classifier: of single frames.
        motion_label: the label that says what is done.
        speaker_label: the label that says who speaks.
        notes: what a reader should know of all this.
        by_frequency: whether chance comes from the frequencies of the labels in `clips`, as of a user's own data; else
            it is 1 / number of values, as in published scores.
    """

    train: Sequences
    clips: Sequences
    classifier: Classifier | None = None
    config: EvalConfig = field(default_factory=EvalConfig)
    frame_classifier: Classifier | None = None
    motion_label: str | None = None
    speaker_label: str | None = None
    notes: tuple[str, ...] = ()
    by_frequency: bool = False

    @property
    def classified_labels(self) -> tuple[str, ...]:
        known = () if self.classifier is None else self.classifier.labels
        return tuple(label for label in known if label in self.clips.labels)

    @property
    def readable_labels(self) -> tuple[str, ...]:
        return readable_labels(self.train, self.clips)

    @property
    def table_labels(self) -> tuple[str, ...]:
        """Labels that tables have a column for."""
        return tuple(dict.fromkeys((*self.classified_labels, *self.readable_labels)))

    def value_count(self, label: str) -> float:
        """How many values a label has, or as how many equally frequent ones they count; 1 / it is chance."""
        return effective_value_count(self.clips, label) if self.by_frequency else value_count(self.clips, label)

    def require_classifier(self) -> Classifier:
        if self.classifier is None:
            raise InputError("expected a classifier, got None")
        return self.classifier

    def provides(self, requirement: Requirement) -> bool:
        """Whether a metric that needs this can be measured; of factors only trying tells."""
        return {
            "classifier": self.classifier is not None,
            "frame_classifier": self.frame_classifier is not None,
            "labels": bool(self.readable_labels),
            "speakers": self.speaker_label is not None,
            "video": self.clips.is_video,
            "factors": True,
        }[requirement]


def readable_labels(train: Sequences, clips: Sequences) -> tuple[str, ...]:
    """Labels that can be learnt from `train` and predicted in `clips`: not speakers, where no one is in both."""
    known = {label: np.unique(train.labels[label]) for label in clips.labels if label in train.labels}
    return tuple(
        label for label, codes in known.items() if len(codes) > 1 and np.isin(clips.labels[label], codes).all()
    )


def find_motion_label(labels: Iterable[str]) -> str | None:
    """The label that says what is done, if one is called so.

    Example:
        >>> find_motion_label(["hair", "action"])
        'action'
    """
    known = list(labels)
    return next((name for name in MOTION_LABELS if name in known), None)


# --- metrics


class Outcome(NamedTuple):
    """What a metric measured, and what a reader should know of it."""

    values: Values
    notes: Sequence[str] = ()


Measure = Callable[[Run, EvalContext], Outcome]
# The labels that have columns, and the motion label -> the tables a metric fills.
BuildTables = Callable[[Sequence[str], str | None], Sequence[Table]]


@dataclass(frozen=True)
class Metric:
    """A registered metric; see `metric`."""

    name: str
    measure: Measure
    requires: tuple[Requirement, ...] = ()
    tables: BuildTables | None = None
    chance: Callable[[EvalContext], Values] | None = None
    baselines: bool = True

    def applies(self, context: EvalContext) -> bool:
        return all(map(context.provides, self.requires))


METRICS: dict[str, Metric] = {}


def metric(
    name: str,
    requires: tuple[Requirement, ...] = (),
    tables: BuildTables | None = None,
    chance: Callable[[EvalContext], Values] | None = None,
    baselines: bool = True,
) -> Callable[[Measure], Measure]:
    """Decorator that registers a function (run, context) -> `Outcome` as a metric of `diskoop evaluate`.

    Args:
        name: in progress messages and caches.
        requires: what it needs; without it, it is left out. With "factors" the run it is given has some.
        tables: (labels that have columns, motion label or None) -> the tables it fills.
        chance: (context) -> the values that guessing reaches, where they are known.
        baselines: whether it is measured of baselines too.
    """

    def register(measure: Measure) -> Measure:
        if name in METRICS:
            raise ValueError(f"there is a metric {name!r} already")
        METRICS[name] = Metric(name, measure, requires, tables, chance, baselines)
        return measure

    return register


def all_tables(labels: Sequence[str], motion_label: str | None) -> list[Table]:
    """The tables of every metric, those that need labels first; tables of one title become one."""
    tables: dict[str, Table] = {}
    for each in sorted(METRICS.values(), key=lambda each: not each.requires):
        for table in () if each.tables is None else each.tables(labels, motion_label):
            known = tables.get(table.title)
            tables[table.title] = table if known is None else replace(known, columns=[*known.columns, *table.columns])
    return list(tables.values())


def label_columns(metric: str, labels: Sequence[str]) -> list[Column]:
    """A column in percent for each label."""
    return [Column(label, metric, label, percent=True) for label in labels]


def label_chance(metric: str, rows: Sequence[str], context: EvalContext) -> Values:
    """What guessing each label reaches, the same in all rows."""
    labels = context.classified_labels
    return {Key(metric, label, row): single_value(1 / context.value_count(label)) for row in rows for label in labels}


def value_count(clips: Sequences, label: str) -> int:
    """How many values a label has."""
    words = clips.values.get(label)
    return int(clips.labels[label].max()) + 1 if words is None else len(words)


def effective_value_count(clips: Sequences, label: str) -> float:
    """As how many equally frequent values those of a label count: 1 / the chance that two of `clips` have the same.

    That chance, the sum of squared frequencies, is how often a donor's value shows where nothing was taken, and how
    often the own one is kept where everything was.

    Example:
        >>> clips = diskoop.load_data("oscillators", "test")
        >>> clips = replace(clips, labels={"hair": (np.arange(400) % 4 == 0).astype(int)})  # a quarter and the rest
        >>> effective_value_count(clips, "hair")  # 1 / (1 / 16 + 9 / 16)
        1.6
    """
    counts = np.unique(clips.labels[label], return_counts=True)[1]
    return float(len(clips) ** 2 / np.square(counts).sum())
