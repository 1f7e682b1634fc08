"""decoded swaps and samples as grids of cells: the contents of the paper's qualitative figures

Receivers and donors are shown as they were given, so that one sees what the model lost, and decoded like their edits,
so that a cell differs from its receiver by the edit alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition, FactorLike
from diskoop.analysis.editing import swap_combinations, swap_cumulatively, swap_incrementally
from diskoop.data.sequences import Units
from diskoop.errors import InputError
from diskoop.numerics.factors import SPECTRAL_PARTS
from diskoop.numerics.mixing import Weights, pair_weights

Pairs = Sequence[tuple[int, int]]  # (receiver, donor)
Part = Literal["static", "dynamic"]
ROLES = ("receiver", "donor")
RECONSTRUCTED = "as the model draws it"
STAGE_CAPTIONS = ("receiver, original", f"receiver, {RECONSTRUCTED}", f"donor, {RECONSTRUCTED}", "donor, original")
MAX_NAMED_DONORS = 4  # of a mixture


@dataclass(frozen=True, eq=False)
class Cell:
    """One sequence of a sheet."""

    x: NDArray[Any]  # (time, ...) in the data's own units
    caption: str = ""
    part: Part | None = None  # the part that was swapped, which colours the caption
    forecast_from: int | None = None  # the first frame of a forecast, which a line marks


CellRow = Sequence[Cell | None]  # None leaves a place empty


@dataclass(frozen=True, eq=False)
class Sheet:
    """Sequences in rows and columns, to be drawn by `plots.sheets.sheet_figure`."""

    rows: Sequence[CellRow]  # an empty row is a gap
    units: Units  # of all cells
    title: str = ""
    row_headings: Sequence[str] = ()  # one for each row, or none at all
    column_headings: Sequence[str] = ()
    remark: str = ""  # below all

    @property
    def cells(self) -> list[Cell]:
        """All cells, row by row."""
        return [cell for row in self.rows for cell in row if cell]


def two_factor_swaps(parts: Decomposition, pairs: Pairs) -> Sheet:
    """For each pair the receiver and the donor, and below them the receiver with either part of the donor.

    Args:
        parts: the sequences.
        pairs: (receiver, donor) as indices into `parts`.
    """
    _require_pairs(pairs)
    rows: list[CellRow] = []
    for receiver, donor in pairs:
        pair = parts.select([receiver, donor])
        decoded = [Cell(x, f"{role}, {RECONSTRUCTED}") for role, (_, x) in zip(ROLES, pair.rows(), strict=True)]
        rows += [_originals(pair), decoded, _both_swaps(pair), []]
    return Sheet(rows[:-1], parts.units, "What stays and what moves, exchanged")


def factorial_swap(parts: Decomposition, receiver: int, donor: int, orders: Sequence[Sequence[str]]) -> Sheet:
    """A row for each order of factors: the receiver, the receiver after each swap, the donor.

    Args:
        parts: the sequences.
        receiver: index of the sequence that changes.
        donor: index of the sequence that the factors come from.
        orders: lists of factor names, in the order in which they are swapped.
    """
    if not orders:
        raise InputError("expected orders of factors, such as [['hair', 'skin']], got none")
    rows = []
    for order in orders:
        swapped = [x for _, x in swap_cumulatively(parts, receiver, donor, order).rows()]
        stages = list(zip(("", *(f"+ {name}" for name in order), ""), swapped, strict=True))
        shown = _between_originals(parts, receiver, donor, stages)
        rows.append([Cell(_middle_frame(x), caption) for caption, x in shown])
    return Sheet(rows, parts.units, "One factor of the donor after another", remark=_roles(parts, receiver, donor))


def all_combinations(parts: Decomposition, receiver: int, donor: int, names: Sequence[str]) -> Sheet:
    """The receiver, the receiver with every non-empty set of the donor's factors `names`, the donor; a row each."""
    stages = _between_originals(parts, receiver, donor, swap_combinations(parts, receiver, donor, names).rows())
    headings, remark = [caption for caption, _ in stages], _roles(parts, receiver, donor)
    title = "Every combination of the donor's factors"
    return Sheet([[Cell(x)] for _, x in stages], parts.units, title, headings, remark=remark)


def incremental_swap(parts: Decomposition, pairs: Pairs, what: str, sizes: Sequence[int | None]) -> Sheet:
    """A column for each pair: the receiver with growing sets of the donor's modes.

    Args:
        parts: the sequences.
        pairs: (receiver, donor) as indices into `parts`.
        what: "static" or "dynamic", the modes to swap.
        sizes: how many modes, growing; None is all.
    """
    _require_pairs(pairs)
    columns = [_between_originals(parts, *pair, swap_incrementally(parts, *pair, what, sizes).rows()) for pair in pairs]
    cells = [[Cell(x) for _, x in stages] for stages in columns]
    headings = [f"{parts.clips.title(receiver)}\n→ {parts.clips.title(donor)}" for receiver, donor in pairs]
    title = f"More and more of the donor's {what} modes"
    captions = [caption for caption, _ in columns[0]]
    return Sheet(list(zip(*cells, strict=True)), parts.units, title, captions, headings)


def generation(
    parts: Decomposition, what: FactorLike, generator: torch.Generator, count: int = 8, weights: Weights = pair_weights
) -> Sheet:
    """The first `count` sequences, each followed by its reconstruction and by itself with `what` sampled from the set.

    Args:
        parts: the set, (n, time, ...).
        what: the factors to sample.
        generator: of the random mixtures.
        count: rows of the sheet, up to n.
        weights: how sequences are mixed, see `numerics.mixing`.
    """
    if not 1 <= count <= len(parts):
        raise InputError(f"expected a count from 1 to {len(parts)}, the sequences there are, got {count}")
    mixture = weights(len(parts), generator)
    decoded, sampled = (each.select(range(count)).rows() for each in (parts, parts.mix(what, mixture)))
    factor = factor_text(parts.factor(what).name)
    rows = [
        [
            Cell(parts.original(i), title),
            Cell(x),
            Cell(new, f"{parts.clips.sequence_name(i)} with {factor} of {_donors_text(parts, mixture[i])}"),
        ]
        for i, ((title, x), (_, new)) in enumerate(zip(decoded, sampled, strict=True))
    ]
    headings = ["receiver, original", f"receiver, {RECONSTRUCTED}", f"{factor} sampled, the rest kept"]
    return Sheet(rows, parts.units, f"New ones by sampling {factor}", column_headings=headings)


def factor_sheet(
    parts: Decomposition,
    names: Sequence[str],
    receiver: int,
    donors: Sequence[int],
    captions: Mapping[str, str] | None = None,
) -> Sheet:
    """The effect of each factor: below receiver and donors, a row with the receiver that has that factor of each donor.

    Args:
        parts: the sequences.
        names: the factors.
        receiver: index of the sequence that changes.
        donors: indices of the sequences that factors come from.
        captions: additional text by factor name.
    """
    if not names or not donors:
        raise InputError(f"expected factors and donors, got {list(names)} and {list(donors)}")
    captions, count = captions or {}, len(donors)
    both = parts.select([receiver] * count + list(donors))
    donor_of = {i: count + i for i in range(count)}
    shown = [0, *donor_of.values()]
    decoded = [_middle_frame(x) for _, x in both.rows()]
    rows: list[CellRow] = [
        [Cell(_middle_frame(both.original(i))) for i in shown],
        [Cell(decoded[i]) for i in shown],
    ]
    for name in names:
        swapped = both.swap(name, donor_of).rows()[:count]
        rows.append([Cell(decoded[0]), *(Cell(_middle_frame(x)) for _, x in swapped)])
    headings = [f"{name}\n{captions.get(name, '')}".strip() for name in names]
    titles = [both.clips.title(i) for i in shown]
    return Sheet(
        rows,
        parts.units,
        "What each factor takes from the donors",
        ["original", RECONSTRUCTED, *headings],
        [f"receiver: {titles[0]}", *(f"donor: {title}" for title in titles[1:])],
    )


def ablation(models: Mapping[str, Decomposition], receiver: int, donor: int) -> Sheet:
    """A pair of clips as given, and a row for each model with the receiver that has either part of the donor.

    Args:
        models: decompositions of the same clips, by the name of the model.
        receiver: index of the clip that changes.
        donor: index of the clip that the parts come from.
    """
    if not models:
        raise InputError("expected decompositions by name, got none")
    first = next(iter(models.values()))
    rows: list[CellRow] = [_originals(first.select([receiver, donor])), []]
    rows += [_both_swaps(parts.select([receiver, donor])) for parts in models.values()]
    return Sheet(rows, first.units, "The same exchange by different models", ["", "", *models])


def factor_text(name: str) -> str:
    """`the static part`, or the name of any other factor."""
    return f"the {name} part" if name in SPECTRAL_PARTS else name


def _both_swaps(pair: Decomposition) -> list[Cell]:
    """The first of two sequences with either part of the second."""
    static, dynamic = (pair.swap(what, {0: 1}).rows()[0][1] for what in ("static", "dynamic"))
    text = "receiver with the donor's {} part"
    return [Cell(static, text.format("static"), "static"), Cell(dynamic, text.format("dynamic"), "dynamic")]


def _originals(pair: Decomposition) -> list[Cell]:
    """Receiver and donor as they were given."""
    return [Cell(pair.original(i), f"{role}, original: {pair.clips.title(i)}") for i, role in enumerate(ROLES)]


def _between_originals(
    parts: Decomposition, receiver: int, donor: int, stages: Sequence[tuple[str, NDArray[Any]]]
) -> list[tuple[str, NDArray[Any]]]:
    """The decoded stages of a swap, from receiver to donor, between the two as they were given."""
    captions = [*STAGE_CAPTIONS[:2], *(caption for caption, _ in stages[1:-1]), *STAGE_CAPTIONS[2:]]
    return list(zip(captions, [parts.original(receiver), *(x for _, x in stages), parts.original(donor)], strict=True))


def _roles(parts: Decomposition, receiver: int, donor: int) -> str:
    return f"receiver: {parts.clips.title(receiver)}\ntarget: {parts.clips.title(donor)}"


def _donors_text(parts: Decomposition, weights: Tensor) -> str:
    """The sequences of a mixture (n,) and their shares, or how many there are."""
    donors = weights.nonzero().flatten().tolist()
    if len(donors) > MAX_NAMED_DONORS:
        return f"{len(donors)} clips"
    return " and ".join(f"{parts.clips.sequence_name(i)} ({float(weights[i]):.0%})" for i in donors)


def _middle_frame(x: NDArray[Any]) -> NDArray[Any]:
    """The middle frame of a video; signals whole."""
    return x[len(x) // 2][None] if x.ndim == 4 else x


def _require_pairs(pairs: Pairs) -> None:
    if not pairs:
        raise InputError("expected pairs (receiver, donor), got none")
