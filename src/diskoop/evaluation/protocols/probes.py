"""metrics of codes: which labels linear probes read from either part, DCI of the factors"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from diskoop.analysis.decomposition import Decomposition, mean_over_frames
from diskoop.data.sequences import Sequences
from diskoop.errors import InputError, counted
from diskoop.evaluation.metrics import accuracy, check_finite, entropies
from diskoop.evaluation.registry import EvalContext, Outcome, label_columns, metric
from diskoop.evaluation.results import Column, Key, Table, Values, single_value
from diskoop.numerics.factors import SPECTRAL_PARTS
from diskoop.run import Run

Array = NDArray[Any]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

MAX_CODES = 20_000  # to learn from: more hardly help, and frames come by the hundred thousand
MIN_DEVIATION = 1e-6  # a column that varies less than this, next to the one that varies most, is rounding error
ROUNDING = 1e-12  # the same, next to the column's own mean
SHUFFLES = 5  # of each group
MIN_STANDARD_ERRORS = 3  # by which a loss has to grow to be significant
PROBE_CLIPS = 2000  # sequences to learn a label from
MIN_TEST_CLIPS = 10  # to test probes and DCI on: of fewer, an accuracy has a standard error above 16 points
STRETCHES = 4  # of time, over each of which a code is averaged


# --- linear probes


@dataclass(frozen=True)
class Probe:
    """How well a linear classifier reads a label."""

    accuracy: float  # balanced: the mean of the accuracies on each of the label's values
    chance: float


def fit_probe(
    train_codes: ArrayLike, train_labels: ArrayLike, test_codes: ArrayLike, test_labels: ArrayLike, seed: int = 0
) -> Probe:
    """Fit a logistic regression from codes to a label and test it on other codes.

    Every value counts alike, however often it occurs, in fitting and in testing.

    Args:
        train_codes: (n, k).
        train_labels: (n,).
        test_codes: (m, k).
        test_labels: (m,); values that are not among `train_labels` are an error.
        seed: draws MAX_CODES training codes where there are more, equally many of each value as far as there are.

    Example:
        >>> codes = np.eye(3)[np.arange(60) % 3]
        >>> fit_probe(codes, np.arange(60) % 3, codes[:6], np.arange(6) % 3)
        Probe(accuracy=1.0, chance=0.3333333333333333)
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

    x = check_finite(train_codes, "training codes", "(n, k)", 2)
    test_x = check_finite(test_codes, "test codes", "(n, k)", 2)
    y = _check_labels(train_labels, "training labels", len(x))
    truth = _check_labels(test_labels, "test labels", len(test_x))
    if test_x.shape[1] != x.shape[1]:
        raise InputError(f"expected test codes with {x.shape[1]} columns as in training, got {test_x.shape[1]}")
    values = np.unique(y)
    if len(values) < 2:
        raise InputError(f"expected training labels of two values at least, got {values[0]} only")
    if len(new := np.setdiff1d(truth, values)):
        raise InputError(f"the test labels show {_list_few(new)}, which no training label does")
    chosen = _balanced_draw(y, MAX_CODES, np.random.default_rng(seed))
    x, y = x[chosen], y[chosen]
    centre, scale = _standardization(x)
    model = LogisticRegression(class_weight="balanced", max_iter=1000)
    with threadpool_limits(1), warnings.catch_warnings():  # more threads hardly help, and wait for each other
        warnings.simplefilter("ignore", ConvergenceWarning)  # a probe that is not quite converged still is one
        model.fit((x - centre) * scale, y)
    predicted = model.predict((test_x - centre) * scale)
    accuracies = [accuracy(predicted[truth == value], truth[truth == value]) for value in np.unique(truth)]
    return Probe(float(np.mean(accuracies)), 1 / len(values))


def _balanced_draw(labels: Array, count: int, generator: np.random.Generator) -> Indices:
    """At most `count` places in `labels`: as many of each value, but all of the rare ones."""
    if len(labels) <= count:
        return np.arange(len(labels))
    order = generator.permutation(len(labels))
    by_value = order[np.argsort(labels[order], kind="stable")]
    counts = np.unique(labels, return_counts=True)[1]
    turn = np.concatenate([np.arange(count) for count in counts])  # 0 for the first of its value
    return by_value[np.argsort(turn, kind="stable")[:count]]


def _standardization(x: Floats) -> tuple[Floats, Floats]:
    """What to subtract from each column and what to multiply it with; 0 for those that are constant.

    A projected code has columns that would be 0 but for rounding; scaled to unit variance they would reveal what the
    projection removed.
    """
    centre, spread = x.mean(0), x.std(0)
    constant = spread <= np.maximum(MIN_DEVIATION * spread.max(), ROUNDING * np.abs(centre))
    return centre, np.where(constant, 0, 1 / np.where(constant, 1, spread))


# --- DCI


@dataclass(frozen=True, eq=False)
class DciScores:
    """DCI: which group of columns each label is read from; 1 is best everywhere."""

    groups: tuple[str, ...]
    labels: tuple[str, ...]
    importance: Floats  # (groups, labels): columns sum to 1, or are 0 where no group is informative
    accuracy: Floats  # (labels,) on test codes

    @property
    def modularity(self) -> float:
        """How far each group of codes is about one label."""
        return modularity(self.importance)

    @property
    def compactness(self) -> float:
        """How far each label is in one group of codes."""
        return compactness(self.importance)

    @property
    def explicitness(self) -> float:
        """How well labels are read, the mean of `accuracy`."""
        return float(self.accuracy.mean())


def modularity(importance: Floats) -> float:
    """Whether a group is about one label only: (groups, labels) -> the mean over groups, weighted by importance."""
    total = importance.sum(1)
    return float(_concentration(importance) @ total / total.sum()) if total.any() else 0.0


def compactness(importance: Floats) -> float:
    """Whether a label is in one group only: (groups, labels) -> the mean over labels; 0 for one that is in none."""
    return float(_concentration(importance.T).mean())


def _concentration(rows: Floats) -> Floats:
    """(n, m) -> (n,): 1 where a row has one entry, 0 where all are equal or 0."""
    total = rows.sum(1)
    some = total > 0
    out = np.zeros(len(rows))
    spread = entropies(rows[some] / total[some, None]) if some.any() else 0.0
    out[some] = 1 - spread / np.log(max(rows.shape[1], 2))  # a single column has entropy 0
    return out


def compute_dci(groups: Mapping[str, ArrayLike], labels: Mapping[str, ArrayLike], seed: int = 0) -> DciScores:
    """DCI of groups of columns.

    Boosted trees read each label from all columns of 80% of the codes. A group's importance is how much their loss on
    the other 20% grows when the group is shuffled there.

    Args:
        groups: name -> codes, (n, columns).
        labels: name -> (n,).
        seed: of the split, the shuffles and the trees; draws MAX_CODES codes where there are more.
    """
    import sklearn.ensemble  # noqa: F401 - threads can be limited of loaded libraries only
    from threadpoolctl import threadpool_limits

    x, parts = _stack_groups(groups)
    if not labels:
        raise InputError("expected labels to read from the codes, got none")
    known = {name: _check_labels(codes, f"values of {name}", len(x)) for name, codes in labels.items()}
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(x))[:MAX_CODES]
    test, train = np.split(order, [len(order) // 5])
    if not len(test):
        raise InputError(f"expected 5 codes at least, to learn from four and test on one, got {len(x)}")
    shuffles = [generator.permutation(len(test)) for _ in range(SHUFFLES)]  # the same for all groups
    centre, scale = _standardization(x)
    x = (x - centre) * scale  # trees need no scaling, but would read rounding errors
    columns, accuracies = [], []
    with threadpool_limits(1):
        for name, y in known.items():
            model = _fit_trees(name, x[train], y[train], seed)
            columns.append(_loss_increases(model, x[test], y[test], parts, shuffles))
            accuracies.append(accuracy(model.predict(x[test]), y[test]))
    importance = np.stack(columns, 1)
    total = importance.sum(0)
    return DciScores(tuple(groups), tuple(labels), importance / np.where(total > 0, total, 1), np.array(accuracies))


def _fit_trees(name: str, x: Floats, y: Array, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    if (y == y[0]).all():
        raise InputError(f"expected two values of {name} at least to learn from, got {y[0]} in all {len(y)} codes")
    # Gains summed inside the trees, DCI's usual importance, are of training codes and of single columns; the loss on
    # test codes is not, and a group that is shuffled as one keeps interactions between its columns. The trees with such
    # gains also take minutes where these take seconds. Each split looks at a few columns drawn anew, or of two groups
    # that are equally informative only the slightly better one would be read.
    return HistGradientBoostingClassifier(
        max_iter=50,
        learning_rate=0.2,
        max_leaf_nodes=8,
        min_samples_leaf=10,
        max_features=0.25,
        early_stopping=False,
        random_state=seed,
    ).fit(x, y)


def _loss_increases(model: Any, x: Floats, y: Array, parts: list[slice], shuffles: list[Indices]) -> Floats:
    """By how much a model's mean loss grows as each group of columns is shuffled, (groups,)."""
    loss = _losses(model, x, y)
    increases = np.zeros(len(parts))
    for group, columns in enumerate(parts):
        more = np.zeros(len(x))
        for shuffle in shuffles:
            shuffled = x.copy()
            shuffled[:, columns] = x[shuffle, columns]
            more += (_losses(model, shuffled, y) - loss) / len(shuffles)
        # Else a label that cannot be read would be in whichever group increased the loss by chance.
        if more.mean() > MIN_STANDARD_ERRORS * more.std() / np.sqrt(len(x)):
            increases[group] = more.mean()
    return increases


def _losses(model: Any, x: Floats, y: Array) -> Floats:
    """-log of the probability that a model gives the true value, (n,)."""
    right = (model.predict_proba(x) * (y[:, None] == model.classes_)).sum(1)  # 0 for a value that is not in training
    losses: Floats = -np.log(np.maximum(right, 1e-12))
    return losses


def _stack_groups(groups: Mapping[str, ArrayLike]) -> tuple[Floats, list[slice]]:
    """All columns in one array, and the slice of each group."""
    if not groups:
        raise InputError("expected groups of columns, got none")
    codes = {name: check_finite(given, f"codes of {name}", "(n, columns)", 2) for name, given in groups.items()}
    if len({len(x) for x in codes.values()}) > 1:
        shapes = ", ".join(f"{name} {x.shape}" for name, x in codes.items())
        raise InputError(f"expected groups of equally many codes, got {shapes}")
    ends = np.cumsum([x.shape[1] for x in codes.values()]).tolist()
    return np.concatenate(list(codes.values()), 1), [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]


# --- metrics


def time_code(parts: Decomposition, what: str) -> Floats:
    """(n, (1 + STRETCHES) * k): the part that belongs to `what` in the first frame, and its means over stretches.

    What changes its sign from frame to frame has no mean, and shows in the first frame.
    """
    part = parts.factors[what].part(parts.z.double())
    lengths = torch.from_numpy(parts.lengths).to(part.device)
    at = torch.arange(part.shape[1], device=part.device)
    columns = [part[:, 0]]
    for stretch in range(STRETCHES):  # in a sequence of fewer frames some belong to two
        begin, end = (lengths * stretch // STRETCHES, lengths * (stretch + 1) // STRETCHES)
        inside = (at >= begin.unsqueeze(1)) & (at < torch.maximum(end, begin + 1).unsqueeze(1))
        columns.append(mean_over_frames(part, inside))
    codes: Floats = torch.cat(columns, 1).cpu().numpy()
    return codes


def _probe_tables(labels: Sequence[str], motion_label: str | None) -> list[Table]:
    rows = {"static": "from the static part", "dynamic": "from the dynamic part", "chance": "chance"}
    remark = "Balanced accuracy on test sequences, learnt from training sequences."
    return [Table("What a linear probe reads", label_columns("probe", labels), remark, rows)]


@metric("probes", requires=("labels",), tables=_probe_tables)
def measure_probes(run: Run, context: EvalContext) -> Outcome:
    """What a linear probe reads of each label from either part, and chance."""
    _require_test_clips(context.clips)
    config, clips = context.config, context.clips
    train = config.subset(context.train, PROBE_CLIPS, 6)
    train_parts, test_parts = run.decompose(train), run.decompose(clips)
    values: Values = {}
    for part in SPECTRAL_PARTS:
        train_codes, test_codes = time_code(train_parts, part), time_code(test_parts, part)
        for label in context.readable_labels:
            known = np.isin(clips.labels[label], train.labels[label])
            result = fit_probe(
                train_codes, train.labels[label], test_codes[known], clips.labels[label][known], config.seed
            )
            values[Key("probe", label, part)] = single_value(result.accuracy)
            values[Key("probe", label, "chance")] = single_value(result.chance)
    return Outcome(values)


def _dci_tables(labels: Sequence[str], motion_label: str | None) -> list[Table]:
    columns = ("modularity", "compactness", "explicitness")
    return [Table("Scores", [Column(column, "dci", column, better="↑") for column in columns])]


@metric("DCI", requires=("labels", "factors"), tables=_dci_tables)
def measure_dci(run: Run, context: EvalContext) -> Outcome:
    """DCI of the discovered factors."""
    _require_test_clips(context.clips)
    parts = run.decompose(context.clips)
    names = [each.name for each in run.require_factors().without_remainder]
    groups = {name: _remove_null_directions(time_code(parts, name)) for name in names}
    groups = {name: codes for name, codes in groups.items() if codes.shape[1]}
    labels = {label: context.clips.labels[label] for label in context.readable_labels}
    result = compute_dci(groups, labels, context.config.seed)
    columns = ("modularity", "compactness", "explicitness")
    return Outcome({Key("dci", column): single_value(getattr(result, column)) for column in columns})


def _remove_null_directions(codes: Floats) -> Floats:
    """The same codes, centred, in as many columns as they have directions."""
    centred = codes - codes.mean(0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    coordinates: Floats = centred @ directions[sizes > 1e-6 * max(sizes[0], 1e-300)].T
    return coordinates


# --- input checks


def _require_test_clips(clips: Sequences) -> None:
    """Windows of one clip are alike, so clips count."""
    if clips.clip_count < MIN_TEST_CLIPS:
        raise InputError(
            f"{counted(clips.clip_count, 'test clip')} of {clips.name} would say nothing, at least {MIN_TEST_CLIPS} "
            "are wanted; a larger data.test_fraction holds out more"
        )


def _check_labels(labels: ArrayLike, what: str, count: int) -> Array:
    y = np.asarray(labels)
    if y.shape != (count,) or y.dtype.kind not in "buiUS":
        raise InputError(f"expected {count} {what}, whole numbers or words, got {y.dtype} of shape {y.shape}")
    return y


def _list_few(values: Array) -> str:
    listed = ", ".join(map(str, values[:3]))
    return f"{listed} and {len(values) - 3} more" if len(values) > 3 else listed
