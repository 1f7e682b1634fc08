"""A few labelled sequences name the factors, and no other label is used."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery.guided import Guided, draw_labelled, explained_variance
from diskoop.data.sets.oscillators import truth
from diskoop.errors import InputError
from tests.helpers.decompositions import ring, static_with_rotation

KNOWN = {name: torch.from_numpy(p) for name, p in truth("oscillators").projectors.items()}


def test_a_handful_of_labels_names_the_factors(parts: Decomposition) -> None:
    found = Guided().find(parts)
    assert found.names == ["level", "mark", "slow", "fast", "fade"]
    assert "labelled sequences" in found.method
    assert int(found.method.split()[2]) <= 40
    for each in found.factors:
        assert float((each.factor.projector - KNOWN[each.name]).abs().max()) < 0.1


def test_only_the_handful_is_looked_at(parts: Decomposition) -> None:
    """Forty sequences are labelled rightly; all other labels are nonsense."""
    names, labelled = ("level", "mark"), tuple(range(0, 1600, 40))
    random = np.random.Generator(np.random.PCG64(0))
    nonsense = {name: random.permutation(parts.clips.labels[name]) for name in names}
    for name in names:
        nonsense[name][list(labelled)] = parts.clips.labels[name][list(labelled)]
    wrong = replace(parts, clips=replace(parts.clips, labels=nonsense))
    clean, blind = (Guided(names, labelled=labelled).find(each) for each in (parts, wrong))
    assert clean.names == blind.names
    assert {"level", "mark"} <= set(clean.names)
    for a, b in zip(clean.factors, blind.factors, strict=True):
        assert torch.equal(a.factor.projector, b.factor.projector)


def test_the_handful_has_every_value_a_few_times(parts: Decomposition) -> None:
    codes = {name: parts.clips.labels[name] for name in ("level", "mark")}
    chosen = draw_labelled(codes, 5, np.random.Generator(np.random.PCG64(0)))
    assert min(np.bincount(of[chosen]).min() for of in codes.values()) >= 5
    assert len(chosen) == len(set(chosen.tolist())) <= 35


def test_labels_that_cannot_be_names_are_said_before_any_work(parts: Decomposition) -> None:
    odd = replace(parts, clips=replace(parts.clips, labels={"amp (%)": parts.clips.labels["level"]}))
    with pytest.raises(InputError, match=r"got 'amp \(%\)'"):
        Guided().find(odd)


def test_labels_that_are_not_there_are_named(parts: Decomposition) -> None:
    with pytest.raises(InputError, match=r"unknown label 'levle'; did you mean 'level'\?"):
        Guided(("levle",)).find(parts)
    with pytest.raises(InputError, match="has no labels"):
        Guided().find(replace(parts, clips=replace(parts.clips, labels={})))


def test_a_component_that_no_label_explains_joins_what_it_depends_on() -> None:
    """Four points on a circle and a label that tells left, middle and right: it says nothing of up and down alone."""
    random = np.random.Generator(np.random.PCG64(0))
    place = random.integers(4, size=900)
    side = np.array([2, 1, 0, 1])[place]
    parts = static_with_rotation(ring(place, 4, random), random.normal(size=(900, 2)), {"side": side})
    found = Guided().find(parts)
    assert [(each.name, each.dimensions) for each in found.factors] == [("side", 2), ("motion", 2)]


def test_what_a_label_explains_is_not_what_chance_explains() -> None:
    random = np.random.Generator(np.random.PCG64(0))
    shares = [explained_variance(random.normal(size=(30, 1)), np.arange(30) % 6) for _ in range(400)]
    assert abs(np.mean(shares)) < 0.03  # uncorrected it would be 5 / 29
    codes = np.arange(30) % 6
    assert explained_variance(codes[:, None].astype(float), codes) == pytest.approx(1)
    assert explained_variance(random.normal(size=(6, 1)), np.arange(6)) == 0  # as many values as sequences say nothing
