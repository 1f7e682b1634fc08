"""factors.json: the discovered factors of a run, with names and projectors"""

import json
from hashlib import sha256
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from diskoop.analysis.discovery.results import DiscoveredFactor, DiscoveryResult, Kind, check_name
from diskoop.errors import InputError
from diskoop.input_files import require_regular
from diskoop.numerics.factors import Factor
from diskoop.run_folder import RunFolder
from diskoop.storage import write_text
from diskoop.tensor_files import weights_checksum

LATEST: Literal["diskoop factors 5"] = "diskoop factors 5"
HAVE_CHECKSUM = ("diskoop factors 4", LATEST)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _EntryBase(_Strict):
    """The fields of a factor in every format."""

    name: str
    dimensions: int
    strength: float
    stability: float | None
    nearest: tuple[str, float] | None
    projector: list[list[float]]  # (k, k)


class _Entry(_EntryBase):
    kind: Kind


class _EntryV1(_EntryBase):
    """Format 1 had no kinds: the remainder was identified by its name."""

    moves: bool

    def upgrade(self) -> _Entry:
        kind: Kind = "motion" if self.moves else "remainder" if self.name == "rest" else "factor"
        return _Entry(kind=kind, **self.model_dump(exclude={"moves"}))


class _Header(_Strict):
    """The fields of the file in every format."""

    model: str  # checksum of the model's weights
    method: str = Field(validation_alias=AliasChoices("method", "way"))  # formats 1 and 2 called it way
    source: str
    notes: list[str]


class _Page(_Header):
    format: Literal["diskoop factors 2", "diskoop factors 3", "diskoop factors 4", "diskoop factors 5"] = LATEST
    factors: list[_Entry]
    renamed: dict[str, str] = {}  # earlier names -> those of now; formats before 5 had none
    checksum: str = ""  # of all the rest; formats before 4 had none


class _PageV1(_Header):
    format: Literal["diskoop factors 1"]
    factors: list[_EntryV1]

    def upgrade(self) -> _Page:
        entries = [entry.upgrade() for entry in self.factors]
        return _Page(**self.model_dump(exclude={"format", "factors"}), factors=entries)


_ANY_PAGE: TypeAdapter[_Page | _PageV1] = TypeAdapter(Annotated[_Page | _PageV1, Field(discriminator="format")])


def save_factors(folder: RunFolder, result: DiscoveryResult, model: torch.nn.Module) -> None:
    """Write `factors.json` atomically; `model` is the one whose latents the factors belong to."""
    for name in result.names:
        check_name(name)
        if result.names.count(name) > 1:
            raise InputError(f"two factors are called {name!r}")
    page = _Page(
        model=weights_checksum(model),
        method=result.method,
        source=result.found_in,
        notes=list(result.notes),
        factors=[_Entry(**item.as_dict(), projector=item.factor.projector.tolist()) for item in result.factors],
        renamed=dict(result.renamed),
    )
    content = page.model_dump()
    write_text(folder.factors, json.dumps(content | {"checksum": _checksum(content)}) + "\n")


def _checksum(content: dict[str, Any]) -> str:
    """SHA-256 of the file's JSON, less the checksum itself; whatever fields a later version may add."""
    rest = {name: value for name, value in content.items() if name != "checksum"}
    return sha256(json.dumps(rest).encode()).hexdigest()


def load_factors(folder: RunFolder, model: torch.nn.Module, k: int) -> DiscoveryResult | None:
    """Read `factors.json` in any format; None if there is none.

    Raises:
        InputError: the file is damaged, or belongs to another model.
    """
    if not folder.factors.exists():
        return None
    hint = f"diskoop factors {folder.name} --refit finds them again"
    require_regular(folder.factors)
    try:
        content = folder.factors.read_bytes()
        stored = _ANY_PAGE.validate_json(content)
    except (ValidationError, OSError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise InputError(f"{folder.factors} is damaged ({first}); {hint}") from None
    page = stored.upgrade() if isinstance(stored, _PageV1) else stored
    has_checksum = isinstance(stored, _Page) and (stored.checksum or stored.format in HAVE_CHECKSUM)
    if has_checksum and page.checksum != _checksum(json.loads(content)):
        raise InputError(f"{folder.factors} is damaged: its content does not match its checksum; {hint}")
    if page.model != weights_checksum(model):
        raise InputError(f"{folder.factors} belongs to another model than {folder.model}; {hint}")
    factors: list[DiscoveredFactor] = []
    for entry in page.factors:
        check_name(entry.name)
        if entry.name in (factor.name for factor in factors):
            raise InputError(f"{folder.factors}: two factors are called {entry.name!r}; {hint}")
        if {len(entry.projector), *map(len, entry.projector)} != {k} or not np.isfinite(entry.projector).all():
            raise InputError(f"{folder.factors}: the projector of {entry.name!r} is not a matrix {k} x {k}; {hint}")
        factor = Factor(entry.name, torch.tensor(entry.projector, dtype=torch.float64))
        factors.append(
            DiscoveredFactor(factor, entry.dimensions, entry.strength, entry.stability, entry.kind, entry.nearest)
        )
    return DiscoveryResult(tuple(factors), page.method, page.source, tuple(page.notes), page.renamed)
