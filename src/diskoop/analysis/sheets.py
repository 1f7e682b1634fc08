"""decoded swaps and samples as grids of cells: the contents of the paper's qualitative figures

Sources and targets are decoded like their edits, so that a cell differs from its source by the edit alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition, FactorLike
from diskoop.analysis.editing import swap_combinations, swap_cumulatively, swap_incrementally
from diskoop.data.sequences import Units
from diskoop.errors import InputError
from diskoop.numerics.mixing import Weights, over_two

Pairs = Sequence[tuple[int, int]]  # (source, target)
Part = Literal["static", "dynamic"]


@dataclass(frozen=True, eq=False)
class Cell:
    """One sequence of a sheet."""

    x: NDArray[Any]  # (time, ...) in the data's own units
    caption: str = ""
    part: Part | None = None  # the part that was swapped, which colours the caption


CellRow = Sequence[Cell | None]  # None leaves a place empty


@dataclass(frozen=True, eq=False)
class Sheet:
    """Sequences in rows and columns, to be drawn by `plots.sheets.sheet_figure`."""

    rows: Sequence[CellRow]  # an empty row is a gap
    units: Units  # of all cells
    title: str = ""
    row_headings: Sequence[str] = ()  # one for each row, or none at all
    column_headings: Sequence[str] = ()

    @property
    def cells(self) -> list[Cell]:
        """All cells, row by row."""
        return [cell for row in self.rows for cell in row if cell]


def two_factor_swaps(parts: Decomposition, pairs: Pairs) -> Sheet:
    """For each pair the source and the target, and below them the source with either part of the target.

    Args:
        parts: the sequences.
        pairs: (source, target) as indices into `parts`.
    """
    _require_pairs(pairs)
    rows: list[CellRow] = []
    for source, target in pairs:
        pair = parts.select([source, target])
        (source_title, x), (target_title, y) = pair.rows()
        rows += [[Cell(x, f"source: {source_title}"), Cell(y, f"target: {target_title}")], _both_swaps(pair), []]
    return Sheet(rows[:-1], parts.units, "What stays and what moves, exchanged")


def factorial_swap(parts: Decomposition, source: int, target: int, orders: Sequence[Sequence[str]]) -> Sheet:
    """A row for each order of factors: the source, the source after each swap, the target.

    Args:
        parts: the sequences.
        source: index of the sequence that changes.
        target: index of the sequence that the factors come from.
        orders: lists of factor names, in the order in which they are swapped.
    """
    if not orders:
        raise InputError("expected orders of factors, such as [['hair', 'skin']], got none")
    rows = []
    for order in orders:
        captions = ["source", *(f"+ {name}" for name in order), "target"]
        stages = swap_cumulatively(parts, source, target, order).rows()
        rows.append([Cell(_middle_frame(x), caption) for caption, (_, x) in zip(captions, stages, strict=True)])
    return Sheet(rows, parts.units, "One factor of the target after another")


def all_combinations(parts: Decomposition, source: int, target: int, names: Sequence[str]) -> Sheet:
    """The source, the source with every non-empty set of the target's factors `names`, the target; a row each."""
    stages = swap_combinations(parts, source, target, names).rows()
    title = "Every combination of the target's factors"
    return Sheet([[Cell(x)] for _, x in stages], parts.units, title, row_headings=[caption for caption, _ in stages])


def incremental_swap(parts: Decomposition, pairs: Pairs, what: str, sizes: Sequence[int | None]) -> Sheet:
    """A column for each pair: the source with growing sets of the target's modes.

    Args:
        parts: the sequences.
        pairs: (source, target) as indices into `parts`.
        what: "static" or "dynamic", the modes to swap.
        sizes: how many modes, growing; None is all.
    """
    _require_pairs(pairs)
    columns = [swap_incrementally(parts, source, target, what, sizes) for source, target in pairs]
    cells = [[Cell(x) for _, x in stages.rows()] for stages in columns]
    headings = [f"{parts.clips.title(source)}\n→ {parts.clips.title(target)}" for source, target in pairs]
    title = f"More and more of the target's {what} modes"
    return Sheet(list(zip(*cells, strict=True)), parts.units, title, columns[0].captions, headings)


def generation(
    parts: Decomposition, what: FactorLike, generator: torch.Generator, count: int = 8, weights: Weights = over_two
) -> Sheet:
    """The first `count` sequences, each followed by itself with `what` sampled from the set.

    Args:
        parts: the set, (n, time, ...).
        what: the factors to sample.
        generator: of the random mixtures.
        count: rows of the sheet, up to n.
        weights: how sequences are mixed, see `numerics.mixing`.
    """
    if not 1 <= count <= len(parts):
        raise InputError(f"expected a count from 1 to {len(parts)}, the sequences there are, got {count}")
    sampled = parts.sample(what, generator, weights).select(range(count)).rows()
    rows = [
        [Cell(x, caption), Cell(new)]
        for (caption, x), (_, new) in zip(parts.select(range(count)).rows(), sampled, strict=True)
    ]
    name = parts.factor(what).name
    headings = ["source", f"{name} sampled, the rest kept"]
    return Sheet(rows, parts.units, f"New ones by sampling: {name}", column_headings=headings)


def factor_sheet(
    parts: Decomposition,
    names: Sequence[str],
    source: int,
    donors: Sequence[int],
    captions: Mapping[str, str] | None = None,
) -> Sheet:
    """The effect of each factor: below the donors, a row with the source and the source with that factor of each donor.

    Args:
        parts: the sequences.
        names: the factors.
        source: index of the sequence that changes.
        donors: indices of the sequences that factors come from.
        captions: additional text by factor name.
    """
    if not names or not donors:
        raise InputError(f"expected factors and donors, got {list(names)} and {list(donors)}")
    captions, count = captions or {}, len(donors)
    both = parts.select([source] * count + list(donors))
    donor_of = {i: count + i for i in range(count)}
    frames = [_middle_frame(x) for _, x in both.rows()]
    rows: list[CellRow] = [[None, *(Cell(x, "donor") for x in frames[count:])]]
    for name in names:
        swapped = both.swap(name, donor_of).rows()[:count]
        first = Cell(frames[0], "source" if name == names[0] else "")
        rows.append([first, *(Cell(_middle_frame(x)) for _, x in swapped)])
    headings = ["", *(f"{name}\n{captions.get(name, '')}".strip() for name in names)]
    return Sheet(rows, parts.units, "What each factor takes from the donors", headings)


def ablation(models: Mapping[str, Decomposition], source: int, target: int) -> Sheet:
    """A pair of clips as given, and a row for each model with the source that has either part of the target.

    Args:
        models: decompositions of the same clips, by the name of the model.
        source: index of the clip that changes.
        target: index of the clip that the parts come from.
    """
    if not models:
        raise InputError("expected decompositions by name, got none")
    pair = next(iter(models.values())).clips.select([source, target])
    given = [x[:length] for x, length in zip(pair.x, pair.lengths, strict=True)]
    rows: list[CellRow] = [[Cell(x, text) for x, text in zip(given, ("source", "target"), strict=True)], []]
    rows += [_both_swaps(parts.select([source, target])) for parts in models.values()]
    return Sheet(rows, pair.units, "The same exchange by different models", ["", "", *models])


def _both_swaps(pair: Decomposition) -> list[Cell]:
    """The first of two sequences with either part of the second."""
    static, dynamic = (pair.swap(what, {0: 1}).rows()[0][1] for what in ("static", "dynamic"))
    text = "source with the target's {} part"
    return [Cell(static, text.format("static"), "static"), Cell(dynamic, text.format("dynamic"), "dynamic")]


def _middle_frame(x: NDArray[Any]) -> NDArray[Any]:
    """The middle frame of a video; signals whole."""
    return x[len(x) // 2][None] if x.ndim == 4 else x


def _require_pairs(pairs: Pairs) -> None:
    if not pairs:
        raise InputError("expected pairs (source, target), got none")
