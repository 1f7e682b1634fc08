"""Results can be renamed and shown, and names are checked."""

from dataclasses import replace

import pytest
import torch

from diskoop.analysis.discovery.results import DiscoveryResult, check_name
from diskoop.errors import InputError


def test_factors_are_renamed(found: DiscoveryResult) -> None:
    renamed = found.rename({"factor-1": "level", "motion-2": "fast spin"})
    assert {"level", "fast spin", "factor-2"} <= set(renamed.names)
    assert [
        torch.equal(a.factor.projector, b.factor.projector) for a, b in zip(found.factors, renamed.factors, strict=True)
    ]
    ties = {each.nearest[0] for each in renamed.factors if each.nearest}
    assert "factor-1" not in ties
    noted = replace(found, notes=("factor-1 and factor-12 and motion-2 are tied",)).rename({"factor-1": "level"})
    assert noted.notes == ("level and factor-12 and motion-2 are tied",)
    with pytest.raises(InputError, match=r"unknown factor 'factor-9'; did you mean"):
        found.rename({"factor-9": "x"})
    with pytest.raises(InputError, match="two factors would be called 'factor-2'"):
        found.rename({"factor-1": "factor-2"})


def test_who_uses_an_earlier_name_is_told_the_new_one(found: DiscoveryResult) -> None:
    twice = found.rename({"factor-1": "level"}).rename({"level": "height", "factor-2": "factor-1"})
    assert twice.renamed == {"level": "height", "factor-2": "factor-1"}  # factor-1 is another one's name by now
    with pytest.raises(InputError, match=r"unknown factor 'level'; it is now called 'height'"):
        twice.rename({"level": "x"})
    assert found.rename({"factor-1": "level"}).rename({"level": "factor-1"}).renamed == {"level": "factor-1"}


def test_a_notebook_sees_a_table(found: DiscoveryResult) -> None:
    table = found._repr_html_()
    assert table.count("<tr>") == 1 + len(found.factors)
    assert all(f"<td>{name}</td>" in table for name in found.names)


@pytest.mark.parametrize("name", ["static", "dynamic", "", "3", "a,b", "a+b", "a=b", " a", "a:b", "7up"])
def test_names_that_could_be_misread_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="a factor's name begins with a letter"):
        check_name(name)
    check_name("hair-colour_2 of Müller")
