"""what can be read from a code: linear probes, and DCI on groups of modes"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diskoop.errors import InputError
from diskoop.evaluation.metrics import accuracy, entropies, finite

Array = NDArray[Any]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

MOST = 20_000  # codes to learn from: more say little more, and frames come by the hundred thousand
FAINT = 1e-6  # a column that varies less than this, next to the one that varies most, is what rounding left of a zero
ROUNDING = 1e-12  # the same, next to the column's own mean
SHUFFLES = 5  # of each group
CERTAIN = 3  # standard errors by which a loss has to grow before it is taken for more than luck


# --- linear probes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Probe:
    """How well a linear classifier reads a label."""

    accuracy: float  # the mean over the label's values of the share that is named rightly
    chance: float  # what guessing gives


def probe(
    train_codes: ArrayLike, train_labels: ArrayLike, test_codes: ArrayLike, test_labels: ArrayLike, seed: int = 0
) -> Probe:
    """A logistic regression from codes (n, k) to a label (n,), learnt from some and measured on others.

    Every value counts alike, however often it occurs, in learning and in measuring. Of more than MOST training codes as
    many are drawn with `seed`, equally many of each value as far as there are.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

    x, unseen = finite(train_codes, "training codes", "(n, k)", 2), finite(test_codes, "test codes", "(n, k)", 2)
    y, wanted = _values(train_labels, "training labels", len(x)), _values(test_labels, "test labels", len(unseen))
    if unseen.shape[1] != x.shape[1]:
        raise InputError(f"expected test codes with {x.shape[1]} columns as in training, got {unseen.shape[1]}")
    values = np.unique(y)
    if len(values) < 2:
        raise InputError(f"expected training labels of two values at least, got {values[0]} only")
    if len(new := np.setdiff1d(wanted, values)):
        raise InputError(f"the test labels show {_few(new)}, which no training label does")
    chosen = _even_draw(y, MOST, np.random.default_rng(seed))
    x, y = x[chosen], y[chosen]
    centre, scale = _standard(x)
    model = LogisticRegression(class_weight="balanced", max_iter=1000)
    with threadpool_limits(1), warnings.catch_warnings():  # more threads hardly help, and wait for each other
        warnings.simplefilter("ignore", ConvergenceWarning)  # a probe that could be a little better still is one
        model.fit((x - centre) * scale, y)
    said = model.predict((unseen - centre) * scale)
    shares = [accuracy(said[wanted == value], wanted[wanted == value]) for value in np.unique(wanted)]
    return Probe(float(np.mean(shares)), 1 / len(values))


def _even_draw(labels: Array, most: int, generator: np.random.Generator) -> Indices:
    """At most `most` places in `labels`: as many of each value, but all of the rare ones."""
    if len(labels) <= most:
        return np.arange(len(labels))
    order = generator.permutation(len(labels))
    by_value = order[np.argsort(labels[order], kind="stable")]
    counts = np.unique(labels, return_counts=True)[1]
    turn = np.concatenate([np.arange(count) for count in counts])  # the how-manieth of its value
    return by_value[np.argsort(turn, kind="stable")[:most]]


def _standard(x: Floats) -> tuple[Floats, Floats]:
    """What to take off each column and what to multiply it with; 0 for those that hold nothing.

    A projected code has columns that would be 0 but for rounding; blown up to unit variance they would tell what the
    projection took away.
    """
    centre, spread = x.mean(0), x.std(0)
    faint = spread <= np.maximum(FAINT * spread.max(), ROUNDING * np.abs(centre))
    return centre, np.where(faint, 0, 1 / np.where(faint, 1, spread))


# --- DCI --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Dci:
    """Which group of columns each label is read from; 1 is best everywhere."""

    groups: tuple[str, ...]
    labels: tuple[str, ...]
    importance: Floats  # (groups, labels): columns sum to 1, or are 0 where no group says anything of a label
    accuracy: Floats  # (labels,) on codes that were not learnt from

    @property
    def modularity(self) -> float:
        return modularity(self.importance)

    @property
    def compactness(self) -> float:
        return compactness(self.importance)

    @property
    def explicitness(self) -> float:
        return float(self.accuracy.mean())


def modularity(importance: Floats) -> float:
    """Whether a group is about one label only, the mean over groups (groups, labels), each by how much it says."""
    total = importance.sum(1)
    return float(_concentration(importance) @ total / total.sum()) if total.any() else 0.0


def compactness(importance: Floats) -> float:
    """Whether a label is held by one group only, the mean over labels; 0 for one that no group holds."""
    return float(_concentration(importance.T).mean())


def _concentration(rows: Floats) -> Floats:
    """(n,) for (n, m): 1 where a row has one entry, 0 where all are equal; a row of nothing has 0."""
    total = rows.sum(1)
    some = total > 0
    out = np.zeros(len(rows))
    spread = entropies(rows[some] / total[some, None]) if some.any() else 0.0
    out[some] = 1 - spread / np.log(max(rows.shape[1], 2))  # of a single column nothing can be spread
    return out


def dci(groups: Mapping[str, ArrayLike], labels: Mapping[str, ArrayLike], seed: int = 0) -> Dci:
    """DCI of groups of columns, name -> codes (n, columns), against labels, name -> (n,).

    Boosted trees read each label from all columns of 80% of the codes. A group's importance is how much their loss on
    the other 20% grows when the group is shuffled there. Of more than MOST codes as many are drawn with `seed`.
    """
    import sklearn.ensemble  # noqa: F401 - only a library that is loaded can be told how many threads to use
    from threadpoolctl import threadpool_limits

    x, parts = _stacked(groups)
    if not labels:
        raise InputError("expected labels to read from the codes, got none")
    known = {name: _values(codes, f"values of {name}", len(x)) for name, codes in labels.items()}
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(x))[:MOST]
    test, train = np.split(order, [len(order) // 5])
    if not len(test):
        raise InputError(f"expected 5 codes at least, to learn from four and test on one, got {len(x)}")
    shuffles = [generator.permutation(len(test)) for _ in range(SHUFFLES)]  # for all alike, whoever is in company
    centre, scale = _standard(x)
    x = (x - centre) * scale  # trees mind no scale, but would read what rounding left
    columns, shares = [], []
    with threadpool_limits(1):
        for name, y in known.items():
            model = _trees(name, x[train], y[train], seed)
            columns.append(_growth(model, x[test], y[test], parts, shuffles))
            shares.append(accuracy(model.predict(x[test]), y[test]))
    importance = np.stack(columns, 1)
    total = importance.sum(0)
    return Dci(tuple(groups), tuple(labels), importance / np.where(total > 0, total, 1), np.array(shares))


def _trees(name: str, x: Floats, y: Array, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    if (y == y[0]).all():
        raise InputError(f"expected two values of {name} at least to learn from, got {y[0]} in all {len(y)} codes")
    # Gains summed inside the trees, DCI's usual importance, are taken on what was learnt by heart and belong to single
    # columns; the loss on other codes does not, and a group shuffled as one keeps columns that only speak together. The
    # trees with such gains also take minutes where these take seconds. Each split looks at a few columns drawn anew, or
    # whichever of two groups says a thing a little better would be read alone, and that both say it never be found.
    return HistGradientBoostingClassifier(
        max_iter=50,
        learning_rate=0.2,
        max_leaf_nodes=8,
        min_samples_leaf=10,
        max_features=0.25,
        early_stopping=False,
        random_state=seed,
    ).fit(x, y)


def _growth(model: Any, x: Floats, y: Array, parts: list[slice], shuffles: list[Indices]) -> Floats:
    """By how much a model's mean loss grows as each group of columns is shuffled, (groups,)."""
    loss = _losses(model, x, y)
    grown = np.zeros(len(parts))
    for group, columns in enumerate(parts):
        more = np.zeros(len(x))
        for shuffle in shuffles:
            shuffled = x.copy()
            shuffled[:, columns] = x[shuffle, columns]
            more += (_losses(model, shuffled, y) - loss) / len(shuffles)
        # What may be luck is nothing: a label that cannot be read would else be held by whichever group was lucky.
        if more.mean() > CERTAIN * more.std() / np.sqrt(len(x)):
            grown[group] = more.mean()
    return grown


def _losses(model: Any, x: Floats, y: Array) -> Floats:
    """-log of the probability that a model gives the true value, (n,)."""
    right = (model.predict_proba(x) * (y[:, None] == model.classes_)).sum(1)  # 0 for a value it never saw
    losses: Floats = -np.log(np.maximum(right, 1e-12))
    return losses


def _stacked(groups: Mapping[str, ArrayLike]) -> tuple[Floats, list[slice]]:
    """All columns side by side, and where those of each group are."""
    if not groups:
        raise InputError("expected groups of columns, got none")
    codes = {name: finite(given, f"codes of {name}", "(n, columns)", 2) for name, given in groups.items()}
    if len({len(x) for x in codes.values()}) > 1:
        shapes = ", ".join(f"{name} {x.shape}" for name, x in codes.items())
        raise InputError(f"expected groups of equally many codes, got {shapes}")
    ends = np.cumsum([x.shape[1] for x in codes.values()]).tolist()
    return np.concatenate(list(codes.values()), 1), [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]


# --- what comes in ----------------------------------------------------------------------------------------------------


def _values(labels: ArrayLike, what: str, count: int) -> Array:
    y = np.asarray(labels)
    if y.shape != (count,) or y.dtype.kind not in "buiUS":
        raise InputError(f"expected {count} {what}, whole numbers or words, got {y.dtype} of shape {y.shape}")
    return y


def _few(values: Array) -> str:
    words = ", ".join(map(str, values[:3]))
    return f"{words} and {len(values) - 3} more" if len(values) > 3 else words
