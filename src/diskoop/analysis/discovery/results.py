"""results of factor discovery, the protocol of its methods and their registry; a method is a module beside it"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, Literal, Protocol, TypeVar

from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition, unknown_factor
from diskoop.errors import InputError, suggest
from diskoop.numerics.factors import SPECTRAL_PARTS, Factor
from diskoop.tensor_files import checksum

Array = NDArray[Any]
# A classifier: (chunks of decoded sequences, see `Decomposition.decoded`; lengths (n,)) -> label -> (n,) codes
Predict = Callable[[Iterator[Tensor], Array], Mapping[str, Array]]
Progress = Callable[[Sequence[Any], str], Iterable[Any]]  # (items, description) -> the same items, with a display

# A static factor, one with modes of the dynamic part, or the directions that are in no factor
Kind = Literal["factor", "motion", "remainder"]

MIN_STRENGTH = 0.01  # of a factor that is worth a row and a picture
COLUMNS = ("factor", "dimensions", "strength", "stability", "", "depends most on")


@dataclass(frozen=True, eq=False)
class DiscoveredFactor:
    """A factor and its statistics."""

    factor: Factor
    dimensions: int
    strength: float  # change of the frames when it is swapped, relative to swapping everything
    stability: float | None = None  # from 0 to 1: overlap with the factors of resampled sequences; None: not measured
    kind: Kind = "factor"
    nearest: tuple[str, float] | None = None  # the factor it depends on most, and the dependence

    @property
    def name(self) -> str:
        """The name of its factor."""
        return self.factor.name

    @property
    def is_motion(self) -> bool:
        """Whether it is what moves."""
        return self.kind == "motion"

    def as_dict(self) -> dict[str, Any]:
        """Name and statistics, without the projector, for JSON."""
        return {"name": self.name, **{key: value for key, value in vars(self).items() if key != "factor"}}

    def row(self) -> tuple[str, ...]:
        """Its row of a table with COLUMNS."""
        stability = "" if self.stability is None else f"{self.stability:.2f}"
        nearest = "" if self.nearest is None else f"{self.nearest[0]} ({self.nearest[1]:.2f})"
        kind = {"factor": "", "motion": "moves", "remainder": "left over"}[self.kind]
        return self.name, str(self.dimensions), f"{self.strength:.1%}", stability, kind, nearest

    def rename(self, name: str) -> "DiscoveredFactor":
        """The same under another name."""
        return replace(self, factor=replace(self.factor, name=name))


@dataclass(frozen=True, eq=False)
class DiscoveryResult:
    """The factors that a method discovered in a set of sequences."""

    factors: tuple[DiscoveredFactor, ...]
    method: str
    found_in: str  # the sequences
    notes: tuple[str, ...] = ()  # warnings
    renamed: Mapping[str, str] = field(default_factory=dict)  # names that factors had before -> those they have now

    def __repr__(self) -> str:
        return f"DiscoveryResult({', '.join(self.names)}: {self.method}, in {self.found_in})"

    @property
    def names(self) -> list[str]:
        """Names of all factors, in order."""
        return [factor.name for factor in self.factors]

    @property
    def without_remainder(self) -> tuple[DiscoveredFactor, ...]:
        """All factors but the remainder."""
        return tuple(factor for factor in self.factors if factor.kind != "remainder")

    @property
    def weak(self) -> tuple[DiscoveredFactor, ...]:
        """Factors whose swap changes less than MIN_STRENGTH of what changes; none where all are so weak."""
        weak = tuple(factor for factor in self.factors if factor.strength < MIN_STRENGTH)
        return weak if len(weak) < len(self.factors) else ()

    @property
    def checksum(self) -> str:
        """Of names and projectors, to notice that scores are of other factors."""
        return checksum({factor.name: factor.factor.projector.cpu() for factor in self.factors})

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        lines = ["".join(f"<th>{head}</th>" for head in COLUMNS)]
        lines += ["".join(f"<td>{cell}</td>" for cell in factor.row()) for factor in self.factors]
        rows = "".join(f"<tr>{line}</tr>" for line in lines)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<table><caption>{self.method}, in {escape(self.found_in)}</caption>{rows}</table>{notes}"

    def rename(self, names: Mapping[str, str]) -> "DiscoveryResult":
        """The same with other names, {old: new}, in factors and notes."""
        for old in names:
            if old not in self.names:
                raise unknown_factor(old, self.names, self.renamed)
        new_names = [names.get(name, name) for name in self.names]
        for name in new_names:
            check_name(name)
            if new_names.count(name) > 1:
                raise InputError(f"two factors would be called {name!r}")
        nearest = [
            factor.nearest and (names.get(factor.nearest[0], factor.nearest[0]), factor.nearest[1])
            for factor in self.factors
        ]
        before = {old: names.get(name, name) for old, name in self.renamed.items()} | dict(names)
        pattern = re.compile("|".join(rf"\b{re.escape(old)}(?![\w-])" for old in names))
        return replace(
            self,
            notes=tuple(pattern.sub(lambda match: names[match[0]], note) if names else note for note in self.notes),
            factors=tuple(
                replace(factor.rename(name), nearest=other)
                for factor, name, other in zip(self.factors, new_names, nearest, strict=True)
            ),
            renamed={old: name for old, name in before.items() if old not in new_names},
        )


def check_name(name: str) -> None:
    """Raise an InputError unless `name` is a valid factor name, which is typed on command lines and in lists."""
    if name in SPECTRAL_PARTS or not re.fullmatch(r"[^\W\d][\w -]*", name) or name != name.strip():
        raise InputError(
            f"a factor's name begins with a letter, has letters, digits, blanks, - and _, and is not "
            f"{' or '.join(SPECTRAL_PARTS)}; got {name!r}"
        )


class FactorDiscovery(Protocol):
    """A method that finds factors in a decomposition; score them on other sequences."""

    def find(self, parts: Decomposition) -> DiscoveryResult:
        """The factors of the sequences in `parts`."""
        ...


Method = TypeVar("Method", bound=FactorDiscovery)
DISCOVERY_METHODS: dict[str, type[FactorDiscovery]] = {}  # by the name that `diskoop factors --method` takes


def discovery_method(name: str) -> Callable[[type[Method]], type[Method]]:
    """Decorator that registers a dataclass with a method `find` as a way to find factors.

    Its fields are its options; `diskoop factors` sets those that it has an option for (`count`, `labels`, `per_value`,
    `exhaustive`, `alone`), and `progress` to a progress bar. A method with a field `predict` gets a classifier of the
    run's data there, and its `find` a batch decomposed with its own operator, as in the paper.

    Args:
        name: that `diskoop factors --method` takes.

    Example:
        >>> @discovery_method("nothing")
        ... @dataclass(frozen=True)
        ... class Nothing:
        ...     def find(self, parts):
        ...         return DiscoveryResult((), "nothing", parts.clips.name)
        >>> "nothing" in DISCOVERY_METHODS
        True
        >>> del DISCOVERY_METHODS["nothing"]  # an example only
    """

    def register(method: type[Method]) -> type[Method]:
        if name in DISCOVERY_METHODS:
            raise ValueError(f"there is a discovery method {name!r} already")
        DISCOVERY_METHODS[name] = method
        return method

    return register


def no_progress(items: Sequence[Any], description: str) -> Iterable[Any]:
    """No progress display."""
    return items


def require_labels(parts: Decomposition, names: Sequence[str]) -> list[str]:
    """`names`, or all labels if there are none; an InputError unless they exist and are valid factor names."""
    labels = parts.clips.labels
    for name in names:
        if name not in labels:
            raise InputError(f"unknown label {name!r}; {suggest(name, labels)}")
    if not labels:
        raise InputError(f"{parts.clips.name} has no labels; this method of discovery needs some")
    for name in names or labels:
        check_name(name)  # before any work is done
    return list(names or labels)
