"""Factors on disk: exact, whole, of one model, and never believed without a look."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from diskoop.analysis.discovery.results import DiscoveredFactor, DiscoveryResult
from diskoop.errors import InputError
from diskoop.factors_file import load_factors, save_factors
from diskoop.numerics import Factor
from diskoop.run_folder import RunFolder


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 3)


@pytest.fixture
def found(generator: torch.Generator) -> DiscoveryResult:
    projectors = torch.randn(3, 3, 3, generator=generator, dtype=torch.float64)
    first = DiscoveredFactor(Factor("hair", projectors[0]), 2, 0.25, 0.9, "factor", ("motion", 0.1))
    second = DiscoveredFactor(Factor("motion", projectors[1]), 1, 0.5, None, "motion", None)
    third = DiscoveredFactor(Factor("rest", projectors[2]), 1, 0.01, kind="remainder")
    return DiscoveryResult((first, second, third), "label-free", "puppets, 40 sequences", ("a note",))


def test_what_is_saved_comes_back_to_the_bit(tmp_path: Path, model: nn.Module, found: DiscoveryResult) -> None:
    folder = RunFolder(tmp_path)
    assert load_factors(folder, model, 3) is None
    save_factors(folder, found, model)
    back = load_factors(folder, model, 3)
    assert back is not None
    assert (back.names, back.method, back.found_in, back.notes) == (
        found.names,
        found.method,
        found.found_in,
        found.notes,
    )
    for mine, theirs in zip(found.factors, back.factors, strict=True):
        assert torch.equal(mine.factor.projector, theirs.factor.projector)
        assert _figures(mine) == _figures(theirs)


def _figures(each: DiscoveredFactor) -> tuple[object, ...]:
    return each.name, each.dimensions, each.strength, each.stability, each.kind, each.nearest


def test_the_first_format_is_still_read(tmp_path: Path, model: nn.Module, found: DiscoveryResult) -> None:
    """It said what moves, and what was left over was called rest."""
    folder = RunFolder(tmp_path)
    save_factors(folder, found, model)
    page = json.loads(folder.factors.read_text())
    assert page["format"] == "diskoop factors 5"
    del page["checksum"]
    for entry in page["factors"]:
        entry["moves"] = entry.pop("kind") == "motion"
    page["way"] = page.pop("method")
    del page["renamed"]
    folder.factors.write_text(json.dumps(page | {"format": "diskoop factors 1"}))
    back = load_factors(folder, model, 3)
    assert back is not None
    assert [_figures(each) for each in back.factors] == [_figures(each) for each in found.factors]
    assert torch.equal(back.factors[2].factor.projector, found.factors[2].factor.projector)
    assert (back.method, back.found_in, back.notes) == (found.method, found.found_in, found.notes)
    save_factors(folder, back, model)
    assert json.loads(folder.factors.read_text())["format"] == "diskoop factors 5"
    folder.factors.write_text(json.dumps(page))  # today's format with yesterday's entries
    with pytest.raises(InputError, match="is damaged"):
        load_factors(folder, model, 3)


def test_the_second_format_is_still_read(tmp_path: Path, model: nn.Module, found: DiscoveryResult) -> None:
    """It called the method way."""
    folder = RunFolder(tmp_path)
    save_factors(folder, found, model)
    page = json.loads(folder.factors.read_text())
    del page["checksum"]
    page["way"] = page.pop("method")
    folder.factors.write_text(json.dumps(page | {"format": "diskoop factors 2"}))
    back = load_factors(folder, model, 3)
    assert back is not None
    assert (back.names, back.method) == (found.names, found.method)


def test_what_is_left_over_is_so_under_any_name(tmp_path: Path, model: nn.Module, found: DiscoveryResult) -> None:
    folder = RunFolder(tmp_path)
    save_factors(folder, found.rename({"rest": "unused", "hair": "rest"}), model)
    back = load_factors(folder, model, 3)
    assert back is not None
    assert {each.name: each.kind for each in back.factors} == {
        "rest": "factor",
        "motion": "motion",
        "unused": "remainder",
    }


def test_factors_of_another_model_are_refused(tmp_path: Path, model: nn.Module, found: DiscoveryResult) -> None:
    save_factors(RunFolder(tmp_path), found, model)
    with pytest.raises(InputError, match="belongs to another model"):
        load_factors(RunFolder(tmp_path), nn.Linear(3, 3), 3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda page: page | {"format": "diskoop factors 9"}, "is damaged"),
        (lambda page: page["factors"][0].update(kind="rest") or page, "is damaged"),
        (lambda page: page | {"more": 1}, "is damaged"),
        (lambda page: {key: page[key] for key in page if key != "method"}, "is damaged"),
        (lambda page: page["factors"][0].update(projector=[[1.0]]) or page, "is not a matrix 3 x 3"),
        (lambda page: page["factors"][0].update(projector=[[1.0] * 3] * 2) or page, "is not a matrix 3 x 3"),
        (lambda page: page["factors"][0].update(projector=[["a"] * 3] * 3) or page, "is damaged"),
        (lambda page: page["factors"][0].update(name="static") or page, "a factor's name begins"),
        (lambda page: page["factors"][0].update(name="motion") or page, "two factors are called 'motion'"),
    ],
)
def test_damage_is_named(change: object, said: str, tmp_path: Path, model: nn.Module, found: DiscoveryResult) -> None:
    assert callable(change)
    folder = RunFolder(tmp_path)
    save_factors(folder, found, model)
    page = json.loads(folder.factors.read_text()) | {"format": "diskoop factors 3"}
    del page["checksum"]  # which would tell before anything else does
    folder.factors.write_text(json.dumps(change(page)))
    with pytest.raises(InputError, match=said):
        load_factors(folder, model, 3)
    folder.factors.write_text("{")
    with pytest.raises(InputError, match=r"is damaged .*--refit finds them again"):
        load_factors(folder, model, 3)


def test_one_digit_of_a_projector_is_noticed(tmp_path: Path, model: nn.Module, found: DiscoveryResult) -> None:
    folder = RunFolder(tmp_path)
    save_factors(folder, found, model)
    whole = json.loads(folder.factors.read_text())
    changes: list[Callable[[Any], object]] = [
        lambda page: page["factors"][0]["projector"][0].__setitem__(0, 0.123),
        lambda page: page["factors"][1].update(strength=0.9),
        lambda page: page.pop("checksum"),
        lambda page: page.update(format="diskoop factors 3"),
    ]
    for change in changes:
        page = json.loads(json.dumps(whole))
        change(page)
        folder.factors.write_text(json.dumps(page))
        with pytest.raises(InputError, match=r"does not match its checksum; .*--refit finds them again"):
            load_factors(folder, model, 3)


def test_bad_names_are_not_written(tmp_path: Path, model: nn.Module, found: DiscoveryResult) -> None:
    wrong = replace(found, factors=(found.factors[0].rename("a,b"),))
    with pytest.raises(InputError, match="got 'a,b'"):
        save_factors(RunFolder(tmp_path), wrong, model)
    assert not (tmp_path / "factors.json").exists()


def test_earlier_names_are_kept(tmp_path: Path, model: nn.Module, found: DiscoveryResult) -> None:
    folder = RunFolder(tmp_path)
    save_factors(folder, found.rename({"hair": "locks"}), model)
    back = load_factors(folder, model, 3)
    assert back is not None
    assert back.renamed == {"hair": "locks"}
    page = json.loads(folder.factors.read_text())
    folder.factors.write_text(json.dumps(page | {"renamed": {"hair": "other"}}))  # the checksum is of this, too
    with pytest.raises(InputError, match="does not match its checksum"):
        load_factors(folder, model, 3)
