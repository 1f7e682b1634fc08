"""factors.json: the factors found in a run, with their projectors and their names"""

import json
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from diskoop.analysis.discovery import DiscoveredFactor, DiscoveryResult, Kind, check_name
from diskoop.errors import InputError
from diskoop.numerics.factors import Factor
from diskoop.storage import write_text
from diskoop.training.checkpoint import RunFolder, weights_checksum


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Known(_Strict):
    """What every format says of a factor."""

    name: str
    dimensions: int
    strength: float
    stability: float | None
    nearest: tuple[str, float] | None
    projector: list[list[float]]  # (k, k): what of a latent z belongs to the factor is z @ projector


class _Entry(_Known):
    kind: Kind


class _EntryOne(_Known):
    """The first format had no kinds: what was left over was known by its name."""

    moves: bool

    def converted(self) -> _Entry:
        kind: Kind = "motion" if self.moves else "remainder" if self.name == "rest" else "factor"
        return _Entry(kind=kind, **self.model_dump(exclude={"moves"}))


class _Header(_Strict):
    """What every format says of all factors together."""

    model: str  # the checksum of the network whose latents these are
    way: str
    source: str
    notes: list[str]


class _Page(_Header):
    format: Literal["diskoop factors 2"] = "diskoop factors 2"
    factors: list[_Entry]


class _PageOne(_Header):
    format: Literal["diskoop factors 1"]
    factors: list[_EntryOne]

    def converted(self) -> _Page:
        entries = [entry.converted() for entry in self.factors]
        return _Page(**self.model_dump(exclude={"format", "factors"}), factors=entries)


_ANY_PAGE: TypeAdapter[_Page | _PageOne] = TypeAdapter(Annotated[_Page | _PageOne, Field(discriminator="format")])


def save_factors(folder: RunFolder, found: DiscoveryResult, model: torch.nn.Module) -> None:
    """Write `factors.json`, whole; it replaces the one before."""
    for name in found.names:
        check_name(name)
        if found.names.count(name) > 1:
            raise InputError(f"two factors are called {name!r}")
    entries = [_Entry(**each.facts(), projector=each.factor.projector.tolist()) for each in found.factors]
    page = _Page(
        model=weights_checksum(model), way=found.way, source=found.source, notes=list(found.notes), factors=entries
    )
    write_text(folder.factors, json.dumps(page.model_dump()) + "\n")


def load_factors(folder: RunFolder, model: torch.nn.Module, k: int) -> DiscoveryResult | None:
    """What `save_factors` wrote, in today's format or the first, None where nothing was.

    An InputError if it is damaged or of another model.
    """
    if not folder.factors.exists():
        return None
    again = f"diskoop factors {folder.path} --anew finds them again"
    try:
        written = _ANY_PAGE.validate_json(folder.factors.read_bytes())
    except (ValidationError, OSError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise InputError(f"{folder.factors} is damaged ({first}); {again}") from None
    page = written.converted() if isinstance(written, _PageOne) else written
    if page.model != weights_checksum(model):
        raise InputError(f"{folder.factors} belongs to another model than {folder.model}; {again}")
    factors: list[DiscoveredFactor] = []
    for entry in page.factors:
        check_name(entry.name)
        if entry.name in (each.name for each in factors):
            raise InputError(f"{folder.factors}: two factors are called {entry.name!r}; {again}")
        if {len(entry.projector), *map(len, entry.projector)} != {k} or not np.isfinite(entry.projector).all():
            raise InputError(f"{folder.factors}: the projector of {entry.name!r} is not a matrix {k} x {k}; {again}")
        factor = Factor(entry.name, torch.tensor(entry.projector, dtype=torch.float64))
        factors.append(
            DiscoveredFactor(factor, entry.dimensions, entry.strength, entry.stability, entry.kind, entry.nearest)
        )
    return DiscoveryResult(tuple(factors), page.way, page.source, tuple(page.notes))
