"""Factors of groups have names, kinds, strengths and warnings."""

from dataclasses import replace

import numpy as np
import pytest

from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery.factors import MIN_STABILITY, _warnings
from diskoop.analysis.discovery.guided import Guided
from diskoop.analysis.discovery.label_free import LabelFree
from diskoop.analysis.discovery.results import COLUMNS, DiscoveryResult
from tests.helpers.decompositions import ring, static_with_rotation


def test_strengths_are_shares_of_the_whole_change(found: DiscoveryResult, parts: Decomposition) -> None:
    """Behind identity networks a part's share of the change is its share of the variance, whatever the set's order."""
    total = parts.z.flatten(0, 1).var(0).sum()
    by_level = LabelFree(resamples=1, starts=1).find(parts.select(np.argsort(parts.clips.labels["level"])))
    for each in found.factors:
        expected = (parts.z @ each.factor.projector).flatten(0, 1).var(0).sum() / total
        assert each.strength == pytest.approx(float(expected), rel=0.3)
        again = min(by_level.factors, key=lambda f: float((f.factor.projector - each.factor.projector).norm()))
        assert again.strength == pytest.approx(float(expected), rel=0.3)
    strengths = [each.strength for each in found.factors]
    assert strengths == sorted(strengths, reverse=True)


def test_a_label_may_be_called_like_what_is_left_over() -> None:
    """Nobody is called twice, and the kind of a factor does not follow from its name."""
    random = np.random.Generator(np.random.PCG64(0))
    color = random.integers(6, size=900)
    codes = np.concatenate([ring(color, 6, random), 0.01 * random.normal(size=(900, 1))], 1)
    parts = static_with_rotation(codes, random.normal(size=(900, 2)), {"rest": color})
    found = Guided().find(parts)
    assert found.names == ["rest", "motion", "rest-1"]
    assert [each.kind for each in found.factors] == ["factor", "motion", "remainder"]
    assert [each.name for each in found.without_remainder] == ["rest", "motion"]
    other = found.rename({"rest-1": "unused"})
    assert [each.kind for each in other.factors] == ["factor", "motion", "remainder"]
    assert [each.row()[COLUMNS.index("")] for each in other.factors] == ["", "moves", "left over"]
    assert [each.as_dict()["kind"] for each in other.factors] == ["factor", "motion", "remainder"]


def test_what_is_not_certain_is_said() -> None:
    """Gaussian codes have no independent directions: whatever is found, another sample finds something else."""
    random = np.random.Generator(np.random.PCG64(0))
    parts = static_with_rotation(random.normal(size=(400, 5)), random.normal(size=(400, 2)), {})
    found = LabelFree().find(parts)
    assert min(each.stability for each in found.factors if not each.is_motion and each.stability is not None) < 0.7
    unstable = [each.name for each in found.factors if each.stability is not None and each.stability < MIN_STABILITY]
    (note,) = [note for note in found.notes if "unstable" in note]  # one for all of them
    assert all(f"{name} (0." in note for name in unstable)


def test_one_note_names_all_factors_it_is_about(found: DiscoveryResult) -> None:
    shaky = [replace(each, nearest=None, stability=0.25) for each in found.factors[:3]]
    first, second, third = (each.name for each in shaky)
    rare, unstable = _warnings(shaky, [first, second])
    assert rare.startswith(f"{first} and {second} are the same in most sequences and differ in a few: each may be")
    assert (
        unstable
        == f"{first} (0.25), {second} (0.25) and {third} (0.25) are unstable: resampled sequences give other factors"
    )
    alone = list(_warnings(shaky[:1], [first]))
    assert alone[0].startswith(f"{first} is the same in most sequences and differs in a few: it may be")
    assert alone[1].startswith(f"{first} (0.25) is unstable")
