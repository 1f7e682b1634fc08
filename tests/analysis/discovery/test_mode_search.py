"""The paper's search finds the modes of a label, and never cuts a conjugate pair."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery.mode_search import ModeSearch, accuracy_difference, label_accuracy, mode_sets
from diskoop.data.sets.oscillators import truth
from diskoop.errors import InputError
from diskoop.numerics import Spectrum, by_distance

KNOWN = {name: torch.from_numpy(p) for name, p in truth("oscillators").projectors.items()}


def test_the_criteria_differ_in_what_they_forgive() -> None:
    alone, crowd = {"hair": 0.2, "skin": 1.0}, {"hair": 0.15, "skin": 0.2}
    assert label_accuracy(crowd, "hair") < label_accuracy(alone, "hair")
    assert accuracy_difference(alone, "hair") < accuracy_difference(crowd, "hair")
    assert accuracy_difference({"hair": 0.4}, "hair") == 0.4


def seer(parts: Decomposition) -> Any:
    """A classifier that reads the truth off the frames: which corner the static code is nearest to."""
    corners = {}
    for name in ("level", "mark"):
        codes = parts.clips.labels[name]
        own = (parts.z[:, 0] @ KNOWN[name]).numpy()
        corners[name] = np.stack([own[codes == value].mean(0) for value in np.unique(codes)])

    def classifier(x: Iterator[torch.Tensor], lengths: NDArray[Any]) -> dict[str, NDArray[Any]]:
        verdict, start = {}, torch.cat([some[:, 0] for some in x])
        for name, points in corners.items():
            own = (start @ KNOWN[name]).numpy()
            verdict[name] = np.linalg.norm(own[:, None] - points, axis=-1).argmin(1)
        return verdict

    return classifier


def test_the_papers_search_finds_the_modes_of_a_label(parts: Decomposition) -> None:
    """With eigenvalues 1, 0.99 and 0.98 the modes of level and mark are their own."""
    known = truth("oscillators")
    change = {"level": 0.98, "mark": 0.99}
    own = {name: torch.from_numpy(known.projectors[name]) for name in change}
    C = torch.from_numpy(known.operator) + sum((value - 1) * own[name] for name, value in change.items())
    z = [parts.z[:256, 0]]
    for _ in range(7):
        z.append(z[-1] @ C)
    clips = parts.clips.select(range(256))
    operator = replace(parts.operator, matrix=C)
    slowly = Decomposition.of(parts.model, operator, clips, torch.stack(z, 1), 3, by_distance)
    for alone in (False, True):
        for exhaustive in (False, True):
            found = ModeSearch(seer(slowly), ("level", "mark"), alone, exhaustive).find(slowly)
            sizes = {each.name: each.dimensions for each in found.factors}
            if alone:
                assert sizes == {"level": 1, "mark": 2}
                for each in found.factors:
                    assert torch.allclose(each.factor.projector, own[each.name], atol=1e-6)
            else:  # the smallest of those that hide the label, even if others go with it
                assert all(
                    float((each.factor.projector @ own[each.name] - own[each.name]).abs().max()) < 1e-6
                    for each in found.factors
                    if each.name == "level"
                )
    with pytest.raises(InputError, match="the classifier predicts level, mark, but not slow"):
        ModeSearch(seer(slowly), ("slow",)).find(slowly)


def test_sets_of_modes_keep_pairs_whole(parts: Decomposition) -> None:
    """The dynamic modes of oscillators as if they were static: two pairs and a single one."""
    turned = replace(parts, static_modes=~parts.static_modes)
    units = parts.spectrum.conjugate_groups(turned.static_modes)
    assert sorted(map(len, units)) == [1, 2, 2]
    runs = mode_sets(turned, exhaustive=False)
    assert len(runs) == 6
    everything = mode_sets(turned, exhaustive=True)
    assert len(everything) == 7
    assert all(parts.spectrum.complete(modes) == sorted(modes) for modes in everything)
    assert {tuple(sorted(run)) for run in runs} <= {tuple(sorted(some)) for some in everything}


def test_sets_of_modes_that_cannot_be_searched_are_refused(parts: Decomposition) -> None:
    with pytest.raises(InputError, match="there are no static modes to search"):
        ModeSearch(seer(parts)).find(replace(parts, static_modes=torch.zeros(8, dtype=torch.bool)))
    many = torch.randn(20, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    spectrum = Spectrum.of(many + many.T)  # real eigenvalues
    wide = replace(parts, spectrum=spectrum, static_modes=torch.ones(20, dtype=torch.bool))
    with pytest.raises(InputError, match=r"20 static modes .* have 1048575 sets, too many to try"):
        mode_sets(wide, exhaustive=True)
    assert len(mode_sets(wide, exhaustive=False)) == 210
    blocks = mode_sets(wide, exhaustive=False, max_blocks=3)
    assert len(blocks) == 6
    assert [mode for block in blocks[:3] for mode in block] == blocks[-1] == list(range(20))  # all of them together
    assert max(map(len, blocks[:3])) <= 7
