"""which directions answer for which factor, found in three ways; judges come in as callables"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import combinations, count
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.atoms import Atoms, find_atoms, visible_from
from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.editing import PARTS
from diskoop.analysis.effects import effects
from diskoop.errors import InputError, suggest
from diskoop.numerics.components import CUT, group
from diskoop.numerics.factors import Factor

Array = NDArray[Any]
# Chunks (some, time, ...) of n sequences, as `Decomposition.decoded` has them, and n lengths -> label -> (n,) codes.
Verdict = Callable[[Iterator[Tensor], Array], Mapping[str, Array]]
Progress = Callable[
    [Sequence[Any], str], Iterable[Any]
]  # something to loop over, and what for: a progress bar goes here

# What a factor is, whatever its name: something that stays, something that holds modes of the dynamic part, or the
# directions that are in no factor.
Kind = Literal["factor", "motion", "remainder"]

COLUMNS = ("factor", "dimensions", "strength", "stability", "", "depends most on")
MOST_UNITS = 16  # 65,535 sets
UNSETTLED = 0.05  # strength of what is left over that is worth a word
RARE = 2.5  # excess kurtosis: a component that is the same in nearly all sequences has more
STABLE = 0.6  # what is found again less than this should not be relied on
SUSPICIOUS = sum(CUT) / 2  # factors that depend on each other this much may be tied in the data
LOOSE = 0.5  # a factor whose parts depend on each other less than this might be two
LEAST_EXPLAINED = 0.15  # a component of which no label explains this much has no name


@dataclass(frozen=True, eq=False)
class DiscoveredFactor:
    """A factor, and what is known of it."""

    factor: Factor
    dimensions: int
    strength: float  # of what changes in the frames when everything is swapped, the share that changes with this alone
    stability: float | None = None  # from 0 to 1: how much of it is found again in resampled sequences; None: not tried
    kind: Kind = "factor"
    nearest: tuple[str, float] | None = None  # the other factor it depends on most, and how much

    @property
    def name(self) -> str:
        return self.factor.name

    @property
    def moves(self) -> bool:
        return self.kind == "motion"

    def facts(self) -> dict[str, Any]:
        """What is known of it, all but the projector, as JSON would have it."""
        return {"name": self.name, **{key: value for key, value in vars(self).items() if key != "factor"}}

    def row(self) -> tuple[str, ...]:
        """What is known of it, a word for each of COLUMNS."""
        stability = "" if self.stability is None else f"{self.stability:.2f}"
        nearest = "" if self.nearest is None else f"{self.nearest[0]} ({self.nearest[1]:.2f})"
        kind = {"factor": "", "motion": "moves", "remainder": "left over"}[self.kind]
        return self.name, str(self.dimensions), f"{self.strength:.1%}", stability, kind, nearest

    def renamed(self, name: str) -> "DiscoveredFactor":
        return replace(self, factor=replace(self.factor, name=name))


@dataclass(frozen=True, eq=False)
class DiscoveryResult:
    """Factors that one way of looking found in some sequences."""

    factors: tuple[DiscoveredFactor, ...]
    way: str  # how they were found
    source: str  # in which sequences
    notes: tuple[str, ...] = ()  # what one should know before trusting them

    def __repr__(self) -> str:
        return f"Found({', '.join(self.names)}: {self.way}, in {self.source})"

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.factors]

    @property
    def without_remainder(self) -> tuple[DiscoveredFactor, ...]:
        """Those that stand for something: all but the directions that are in no factor."""
        return tuple(each for each in self.factors if each.kind != "remainder")

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        lines = ["".join(f"<th>{head}</th>" for head in COLUMNS)]
        lines += ["".join(f"<td>{cell}</td>" for cell in each.row()) for each in self.factors]
        rows = "".join(f"<tr>{line}</tr>" for line in lines)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<table><caption>{self.way}, in {escape(self.source)}</caption>{rows}</table>{notes}"

    def renamed(self, names: Mapping[str, str]) -> "DiscoveryResult":
        """With other names, {old: new}."""
        for old in names:
            if old not in self.names:
                raise InputError(f"unknown factor {old!r}; {suggest(old, self.names)}")
        after = [names.get(name, name) for name in self.names]
        for name in after:
            check_name(name)
            if after.count(name) > 1:
                raise InputError(f"two factors would be called {name!r}")
        ties = [
            each.nearest and (names.get(each.nearest[0], each.nearest[0]), each.nearest[1]) for each in self.factors
        ]
        old_words = re.compile("|".join(rf"\b{re.escape(old)}(?![\w-])" for old in names))
        return replace(
            self,
            notes=tuple(old_words.sub(lambda found: names[found[0]], note) if names else note for note in self.notes),
            factors=tuple(
                replace(each.renamed(name), nearest=tie)
                for each, name, tie in zip(self.factors, after, ties, strict=True)
            ),
        )


def check_name(name: str) -> None:
    """An InputError unless a factor can be called this: it is typed on command lines, in lists and beside numbers."""
    if name in PARTS or not re.fullmatch(r"[^\W\d][\w -]*", name) or name != name.strip():
        raise InputError(
            f"a factor's name begins with a letter, has letters, digits, blanks, - and _, and is not "
            f"{' or '.join(PARTS)}; got {name!r}"
        )


class FactorDiscovery(Protocol):
    """A way to find factors. It sees the sequences it is given and no others: score what it finds elsewhere."""

    def find(self, parts: Decomposition) -> DiscoveryResult: ...


def no_progress(over: Sequence[Any], what: str) -> Iterable[Any]:
    """No progress display."""
    return over


@dataclass(frozen=True)
class LabelFree:
    """Independent static components and blocks of dynamic modes, grouped where they depend on each other.

    What lasts a whole clip although a person calls it motion (walking, as against waving) is a static component on
    which the dynamic part depends, so it ends up in one factor with it.

    Of fits from several starting points the steadiest is taken: the one whose factors are found again most in fits to
    resampled sequences. The assumption is that factors vary independently of each other in the sequences.
    """

    count: int | None = None  # how many factors; None: as many as the dependence says
    resamples: int = 10
    starts: int = 10  # fits differ in where they begin; three were too few for one model of eleven
    seed: int = 0
    progress: Progress = no_progress

    def find(self, parts: Decomposition) -> DiscoveryResult:
        atoms = find_atoms(parts, self.seed)
        if self.count is not None and not 1 <= self.count <= len(atoms):
            raise InputError(
                f"expected a count of factors from 1 to {len(atoms)}, the parts there are, got {self.count}"
            )
        others = [self._resampled(atoms, number) for number in self.progress(range(self.resamples), "resampling")]
        fits = [atoms, *(atoms.turned(self.seed + start) for start in range(1, self.starts))]
        best = max((self._grouped(fit, others) for fit in fits), key=lambda fit: fit.steadiness)
        groups = (
            best.groups if self.count is not None else _visible(parts, best.atoms, _without_strays(best), self.seed)
        )
        stability = [_stability(best.atoms, members, others) for members in groups]
        return _assembled(parts, best.atoms, groups, stability, "label-free", self.seed)

    def _resampled(self, atoms: Atoms, number: int) -> "_Grouped":
        """Factors in sequences drawn with replacement."""
        random = np.random.Generator(np.random.PCG64([self.seed, number]))
        some = random.integers(len(atoms.codes), size=len(atoms.codes))
        return self._grouped(atoms.turned(self.seed + self.starts + number, some), some=some)  # starts of its own

    def _grouped(self, atoms: Atoms, others: Sequence["_Grouped"] = (), some: Array | None = None) -> "_Grouped":
        groups = group(atoms.similarity(some), atoms.sizes, count=self.count)
        return _Grouped(atoms, groups, [_stability(atoms, members, others) for members in groups])


@dataclass(frozen=True, eq=False)
class _Grouped:
    """Atoms, which of them belong together, and how much of each group is found again elsewhere."""

    atoms: Atoms
    groups: list[list[int]]
    stability: list[float | None]

    @property
    def steadiness(self) -> float:
        known = [(figure, len(g)) for figure, g in zip(self.stability, self.groups, strict=True) if figure is not None]
        return sum(figure * size for figure, size in known) / max(sum(size for _, size in known), 1)


def _without_strays(grouped: _Grouped) -> list[list[int]]:
    """The groups, but for static ones that are not found again: they join what they depend on most, if they do.

    Such a group is a piece of something larger that each fit cuts in another way.
    """
    between, groups = grouped.atoms.similarity(), list(grouped.groups)
    strays = [
        (stability, members)
        for members, stability in zip(grouped.groups, grouped.stability, strict=True)
        if stability is not None and stability < STABLE and max(members) < grouped.atoms.still
    ]
    for _, members in sorted(strays):
        others = [each for each in groups if each != members]
        if members not in groups or not others:  # another stray has joined it
            continue
        ties = {
            place: between[np.ix_(members, each)].mean()
            for place, each in enumerate(others)
            if len(members) == 1 or max(each) < grouped.atoms.still  # a lone component may belong to a motion
        }
        nearest = max(ties, key=lambda place: ties[place], default=None)
        if nearest is not None and ties[nearest] >= CUT[0]:
            groups = [*others[:nearest], *others[nearest + 1 :], sorted(others[nearest] + members)]
    return sorted(groups)


def _visible(parts: Decomposition, atoms: Atoms, groups: list[list[int]], seed: int) -> list[list[int]]:
    """The groups whose swap changes something in the frames; the strongest is kept whatever it does."""
    seen = np.array(effects(parts, [atoms.joined(members) for members in groups], seed))
    least = min(visible_from(seen), seen.max(initial=0))
    return [members for members, effect in zip(groups, seen, strict=True) if effect >= least]


def _stability(atoms: Atoms, members: list[int], others: Sequence[_Grouped]) -> float | None:
    """The mean overlap (what is in both, of what is in either) with the most similar group of each other fit.

    Only the static components are fitted anew, so of motion alone nothing is known.
    """
    if not others or all(member >= atoms.still for member in members):
        return None
    overlaps = []
    for other in others:
        shared = _shared(atoms, other.atoms)[members].sum(0)  # (atoms,): how much of the members lies in each of theirs
        both = [shared[theirs].sum() for theirs in other.groups]
        overlaps.append(max(b / (len(members) + len(g) - b) for b, g in zip(both, other.groups, strict=True)))
    return float(np.mean(overlaps))


def _shared(atoms: Atoms, other: Atoms) -> Array:
    """(atoms, atoms): the share of each atom's variance that lies in each of another fit's; rows sum to 1."""
    still = atoms.still
    share = np.eye(len(atoms))
    if still:
        mine, theirs = (np.concatenate(each.columns[:still], 1) for each in (atoms, other))
        share[:still, :still] = np.corrcoef(mine.T, theirs.T)[:still, still:] ** 2
    return share


@dataclass(frozen=True)
class Guided:
    """The same atoms, each given to the label that explains it best on a handful of labelled sequences.

    Only the labels of those sequences are looked at. An atom that no label explains joins the one it depends on.
    """

    labels: tuple[str, ...] = ()  # none: all there are
    per_value: int = 5
    labelled: tuple[int, ...] | None = None  # which sequences to believe; None: `per_value` of each value are drawn
    seed: int = 0

    def find(self, parts: Decomposition) -> DiscoveryResult:
        names = _known_labels(parts, self.labels)
        codes = {name: parts.clips.labels[name] for name in names}
        random = np.random.Generator(np.random.PCG64(self.seed))
        chosen = _handful(codes, self.per_value, random) if self.labelled is None else np.array(self.labelled)
        atoms = find_atoms(parts, self.seed)
        explained = np.array(
            [[explained_by(columns[chosen], codes[name][chosen]) for name in names] for columns in atoms.columns]
        )  # (atoms, labels)
        owner = np.where(explained.max(1) >= LEAST_EXPLAINED, explained.argmax(1), -1)
        between = atoms.similarity()
        for atom in np.flatnonzero(owner < 0):
            ties = [
                between[atom, owner == label].mean() if (owner == label).any() else 0.0 for label in range(len(names))
            ]
            owner[atom] = int(np.argmax(ties)) if max(ties) >= np.mean(CUT) else -1
        groups = {name: np.flatnonzero(owner == label).tolist() for label, name in enumerate(names)}
        answered = {name: members for name, members in groups.items() if members}
        loose = [[atom] for atom in np.flatnonzero(owner < 0).tolist()]
        way = f"guided by {len(chosen)} labelled sequences"
        everyone = [*answered.values(), *loose]
        found = _assembled(parts, atoms, everyone, [None] * len(everyone), way, self.seed, list(answered))
        missing = [name for name in names if name not in answered]
        notes = tuple(f"nothing answers for {name} on {len(chosen)} labelled sequences" for name in missing)
        return replace(found, notes=found.notes + notes)


def _handful(codes: Mapping[str, Array], per_value: int, random: np.random.Generator) -> Array:
    """A few sequences among which every value of every label occurs `per_value` times, if there are as many."""
    order = random.permutation(len(next(iter(codes.values()))))
    chosen: list[int] = []
    for of in codes.values():
        for value in np.unique(of):
            have = sum(of[i] == value for i in chosen)
            fresh = [int(i) for i in order if of[i] == value and i not in chosen]
            chosen += fresh[: max(per_value - have, 0)]
    return np.array(sorted(chosen))


def explained_by(columns: Array, codes: Array) -> float:
    """The share of variance that a label explains, less what chance explains; the mean over columns."""
    member = codes[:, None] == np.unique(codes)  # (n, values)
    count, values = member.shape
    if count <= values:
        return 0.0
    means = (member.T @ columns) / member.sum(0)[:, None]
    left = np.square(columns - means[member.argmax(1)]).sum(0) / (count - values)
    total = np.square(columns - columns.mean(0)).sum(0) / (count - 1)
    return float((1 - left / np.maximum(total, 1e-300)).mean())


# Accuracies after a swap, and a label -> the smaller the better.
Criterion = Callable[[Mapping[str, float], str], float]


def lowest(kept: Mapping[str, float], label: str) -> float:
    """The paper's: the label is recognised the least."""
    return kept[label]


def lowest_alone(kept: Mapping[str, float], label: str) -> float:
    """The label is recognised the least and every other one still is."""
    others = [share for name, share in kept.items() if name != label]
    return kept[label] - float(np.mean(others)) if others else kept[label]


@dataclass(frozen=True)
class ModeSearch:
    """The paper's: of all sets of static modes the one whose swap makes a judge lose sight of a factor.

    Conjugate pairs stay whole. Sets are runs of neighbouring modes unless `exhaustive`; of equally good ones the
    smallest is taken. It is made for a batch decomposed with its own operator.
    """

    judge: Verdict
    labels: tuple[str, ...] = ()  # none: all there are
    criterion: Criterion = lowest
    exhaustive: bool = False
    seed: int = 0
    progress: Progress = no_progress

    def find(self, parts: Decomposition) -> DiscoveryResult:
        tried = self.tried(parts)
        factors = []
        for name in _known_labels(parts, self.labels):
            modes = tried.best(name, self.criterion)
            factor = Factor(name, parts.factor(modes).projector.cpu())
            factors.append(DiscoveredFactor(factor, len(modes), effects(parts, [factor.projector], self.seed)[0]))
        return DiscoveryResult(tuple(factors), f"searched {len(tried.candidates)} sets of modes", _source(parts))

    def tried(self, parts: Decomposition) -> "ModeSearchResult":
        """What a judge still recognises after a swap of each set of modes."""
        names = _known_labels(parts, self.labels)
        donors = np.random.Generator(np.random.PCG64(self.seed)).permutation(len(parts))
        candidates = mode_sets(parts, self.exhaustive)
        if not candidates:
            raise InputError("there are no static modes to search; spectrum.static is 0")
        kept = []
        for modes in self.progress(candidates, "sets of modes"):
            new = parts.swap(modes, donors)
            verdict = self.judge(new.decoded(), new.lengths)
            if unknown := [name for name in names if name not in verdict]:
                raise InputError(f"the judge says nothing of {', '.join(unknown)}, only of {', '.join(verdict)}")
            kept.append(
                {
                    name: float((verdict[name] == parts.clips.labels[name]).mean())
                    for name in verdict
                    if name in parts.clips.labels
                }
            )
        return ModeSearchResult(candidates, kept)


@dataclass(frozen=True)
class ModeSearchResult:
    """Sets of modes, and the share of each label that was still recognised when they were swapped."""

    candidates: list[list[int]]
    kept: list[dict[str, float]]

    def best(self, label: str, criterion: Criterion) -> list[int]:
        """The set that `criterion` likes best for a label; of equally good ones the smallest."""
        scored = zip(self.kept, self.candidates, strict=True)
        return min(scored, key=lambda each: (criterion(each[0], label), len(each[1])))[1]


def mode_sets(parts: Decomposition, exhaustive: bool) -> list[list[int]]:
    """Sets of static modes with whole conjugate pairs: runs of neighbours, or all there are."""
    units = parts.spectrum.units(parts.static_modes)
    total = len(units)
    if exhaustive and total > MOST_UNITS:
        raise InputError(
            f"{total} static modes (a pair counts as one) have {2**total - 1} sets, too many to try; "
            f"{MOST_UNITS} modes are the most that can be searched exhaustively"
        )
    runs: Iterator[Sequence[int]]
    if exhaustive:
        runs = (some for size in range(1, total + 1) for some in combinations(range(total), size))
    else:
        runs = (range(begin, begin + size) for size in range(1, total + 1) for begin in range(total - size + 1))
    return [[mode for unit in run for mode in units[unit]] for run in runs]


def _known_labels(parts: Decomposition, wanted: Sequence[str]) -> list[str]:
    known = parts.clips.labels
    for name in wanted:
        if name not in known:
            raise InputError(f"unknown label {name!r}; {suggest(name, known)}")
    if not known:
        raise InputError(f"{parts.clips.name} has no labels; this way of finding factors needs some")
    for name in wanted or known:
        check_name(name)  # before any work is done: it becomes a factor's
    return list(wanted or known)


def _assembled(
    parts: Decomposition,
    atoms: Atoms,
    groups: Sequence[list[int]],
    stability: Sequence[float | None],
    way: str,
    seed: int,
    names: Sequence[str] = (),
) -> DiscoveryResult:
    """Factors out of groups of atoms: the strongest first, named where `names` has no name, at the end what is left."""
    projectors = [atoms.joined(members) for members in groups]
    rest = atoms.rest + atoms.joined(set(range(len(atoms))) - {member for members in groups for member in members})
    strengths = effects(parts, [*projectors, rest], seed)
    named = len(names)
    order = [*range(named), *sorted(range(named, len(groups)), key=lambda g: -strengths[g])]
    moving = [any(i >= atoms.still for i in members) for members in groups]
    titles = [*names, *(_free(title, names) for title in _titles([moving[g] for g in order[named:]]))]
    between = atoms.similarity()
    factors = []
    for place, g in enumerate(order):
        others = [
            (float(between[np.ix_(groups[g], groups[h])].mean()), titles[there])
            for there, h in enumerate(order)
            if h != g
        ]
        tie, other = max(others, default=(0.0, ""))
        rank = round(float(torch.trace(projectors[g])))
        nearest = (other, tie) if others else None
        factor = Factor(titles[place], projectors[g])
        kind: Kind = "motion" if moving[g] else "factor"
        factors.append(DiscoveredFactor(factor, rank, strengths[g], stability[g], kind, nearest))
    unused = round(float(torch.trace(rest)))
    if unused:
        left_over = Factor(_free("rest", titles), rest)
        factors.append(DiscoveredFactor(left_over, unused, strengths[-1], kind="remainder"))
    rare = [title for title, g in zip(titles, order, strict=True) if all(_is_rare(atoms.columns[i]) for i in groups[g])]
    notes = list(_warnings(factors, rare))
    if not names:  # what has a label's name is that label's
        notes += _loosest([groups[g] for g in order], titles, between)
    if unused and strengths[-1] > UNSETTLED:
        notes.append(
            f"{factors[-1].name} ({strengths[-1]:.0%} of what changes) is static by its eigenvalues and yet does not "
            "stay within a clip: a smaller spectrum.static or a longer training may help"
        )
    return DiscoveryResult(tuple(factors), way, _source(parts), tuple(notes))


def _source(parts: Decomposition) -> str:
    return f"{parts.clips.name}, {len(parts)} sequences"


def _loosest(groups: Sequence[list[int]], titles: Sequence[str], between: Array) -> Iterator[str]:
    """Which factor might be two: nothing tells factors that go together in all clips from one of several dimensions."""
    held = {title: _held(between[np.ix_(g, g)]) for title, g in zip(titles, groups, strict=True) if len(g) > 1}
    title = min(held, key=lambda name: held[name], default=None)
    if title is not None and held[title] < LOOSE:
        yield (
            f"the parts of {title} are tied the least ({held[title]:.2f}): if it looks like two factors, they may go "
            "together in these sequences; a larger --count parts them"
        )


def _held(between: Array) -> float:
    """How much the last two groups depend on each other that become one."""
    first, second = group(between, [1] * len(between), count=2)
    return float(between[np.ix_(first, second)].mean())


def _is_rare(columns: Array) -> bool:
    deviations = (columns - columns.mean(0)) / np.maximum(columns.std(0), 1e-300)
    return bool(((deviations**4).mean(0) - 3 > RARE).all())


def _free(title: str, taken: Sequence[str]) -> str:
    """`title`, or with a number that no label has."""
    numbered = (f"{title}-{number}" for number in count(1))
    return title if title not in taken else next(name for name in numbered if name not in taken)


def _titles(moving: Sequence[bool]) -> list[str]:
    titles, counts = [], {True: 0, False: 0}
    for moves in moving:
        counts[moves] += 1
        alone = moves and sum(moving) == 1
        titles.append("motion" if alone else f"{'motion' if moves else 'factor'}-{counts[moves]}")
    return titles


def _warnings(factors: Sequence[DiscoveredFactor], rare: Sequence[str]) -> Iterator[str]:
    """What one should know before trusting these factors."""
    for name in rare:
        yield (
            f"{name} is the same in most sequences and differs in a few: it may be where two factors come apart that "
            "otherwise go together"
        )
    said = set()
    for each in factors:
        if each.nearest is not None and each.nearest[1] >= SUSPICIOUS:
            pair = tuple(sorted((each.name, each.nearest[0])))
            if pair not in said:
                said.add(pair)
                yield (
                    f"{pair[0]} and {pair[1]} depend on each other ({each.nearest[1]:.2f}, where 0 is not at all): "
                    "they may be tied in these sequences, or one may hold some of the other"
                )
        if each.stability is not None and each.stability < STABLE:
            yield f"{each.name} is unstable ({each.stability:.2f}): resampled sequences give other factors"
