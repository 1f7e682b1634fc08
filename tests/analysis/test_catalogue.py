"""Factors on disk: exact, whole, of one model, and never believed without a look."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from diskoop.analysis.catalogue import load_found, save_found
from diskoop.analysis.discovery import Found, FoundFactor
from diskoop.errors import InputError
from diskoop.numerics import Factor
from diskoop.training.checkpoint import RunFolder


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 3)


@pytest.fixture
def found(generator: torch.Generator) -> Found:
    projectors = torch.randn(2, 3, 3, generator=generator, dtype=torch.float64)
    first = FoundFactor(Factor("hair", projectors[0]), 2, 0.25, 0.9, False, ("motion", 0.1))
    second = FoundFactor(Factor("motion", projectors[1]), 1, 0.5, None, True, None)
    return Found((first, second), "label-free", "puppets, 40 sequences", ("a note",))


def test_what_is_saved_comes_back_to_the_bit(tmp_path: Path, model: nn.Module, found: Found) -> None:
    folder = RunFolder(tmp_path)
    assert load_found(folder, model, 3) is None
    save_found(folder, found, model)
    back = load_found(folder, model, 3)
    assert back is not None
    assert (back.names, back.way, back.source, back.notes) == (found.names, found.way, found.source, found.notes)
    for mine, theirs in zip(found.factors, back.factors, strict=True):
        assert torch.equal(mine.factor.projector, theirs.factor.projector)
        assert _figures(mine) == _figures(theirs)


def _figures(each: FoundFactor) -> tuple[object, ...]:
    return each.name, each.dimensions, each.strength, each.stability, each.moves, each.nearest


def test_factors_of_another_model_are_refused(tmp_path: Path, model: nn.Module, found: Found) -> None:
    save_found(RunFolder(tmp_path), found, model)
    with pytest.raises(InputError, match="belongs to another model"):
        load_found(RunFolder(tmp_path), nn.Linear(3, 3), 3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda page: page | {"format": "diskoop factors 9"}, "is damaged"),
        (lambda page: page | {"more": 1}, "is damaged"),
        (lambda page: {key: page[key] for key in page if key != "way"}, "is damaged"),
        (lambda page: page["factors"][0].update(projector=[[1.0]]) or page, "is not a matrix 3 x 3"),
        (lambda page: page["factors"][0].update(projector=[[1.0] * 3] * 2) or page, "is not a matrix 3 x 3"),
        (lambda page: page["factors"][0].update(projector=[["a"] * 3] * 3) or page, "is damaged"),
        (lambda page: page["factors"][0].update(name="static") or page, "a factor's name begins"),
        (lambda page: page["factors"][0].update(name="motion") or page, "two factors are called 'motion'"),
    ],
)
def test_damage_is_named(change: object, said: str, tmp_path: Path, model: nn.Module, found: Found) -> None:
    assert callable(change)
    folder = RunFolder(tmp_path)
    save_found(folder, found, model)
    folder.factors.write_text(json.dumps(change(json.loads(folder.factors.read_text()))))
    with pytest.raises(InputError, match=said):
        load_found(folder, model, 3)
    folder.factors.write_text("{")
    with pytest.raises(InputError, match=r"is damaged .*--anew finds them again"):
        load_found(folder, model, 3)


def test_bad_names_are_not_written(tmp_path: Path, model: nn.Module, found: Found) -> None:
    wrong = replace(found, factors=(found.factors[0].renamed("a,b"),))
    with pytest.raises(InputError, match="got 'a,b'"):
        save_found(RunFolder(tmp_path), wrong, model)
    assert not (tmp_path / "factors.json").exists()
