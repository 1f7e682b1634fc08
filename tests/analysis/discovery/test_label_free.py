"""Known factors are found without labels."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery.atoms import Atoms, find_atoms
from diskoop.analysis.discovery.label_free import Grouping, LabelFree, _merge_unstable
from diskoop.analysis.discovery.results import DiscoveryResult
from diskoop.data.sets.oscillators import truth
from diskoop.errors import InputError
from diskoop.numerics import Factor
from tests.helpers.decompositions import balanced_oscillators, behind_identity, ring, static_with_rotation

KNOWN = {name: torch.from_numpy(p) for name, p in truth("oscillators").projectors.items()}


@pytest.fixture(scope="module")
def elsewhere() -> Decomposition:
    return behind_identity("oscillators", "test")


def nearest(found: DiscoveryResult, projector: Tensor) -> Factor:
    return min((each.factor for each in found.factors), key=lambda f: float((f.projector - projector).norm()))


def with_factors(parts: Decomposition, factors: Mapping[str, Factor]) -> Decomposition:
    return replace(parts, factors={**parts.factors, **factors})


def test_known_factors_are_found_without_labels(found: DiscoveryResult) -> None:
    assert sorted(found.names) == ["factor-1", "factor-2", "motion-1", "motion-2", "motion-3"]
    assert [each.dimensions for each in found.factors] == [
        round(float(each.factor.projector.trace())) for each in found.factors
    ]
    matched = {name: nearest(found, p).name for name, p in KNOWN.items()}
    assert len(set(matched.values())) == 5
    assert all(matched[name].startswith("motion") for name in ("slow", "fast", "fade"))
    assert all((each.stability is None) == each.is_motion for each in found.factors)
    assert all(each.stability is None or each.stability > 0.95 for each in found.factors)
    assert not found.notes


def test_factors_that_are_independent_exactly_are_found_exactly() -> None:
    """Without a label, level and mark too, which share the eigenvalue 1."""
    parts = balanced_oscillators(4)
    exact = LabelFree().find(parts)
    assert len(exact.factors) == 5
    donor = np.random.Generator(np.random.PCG64(0)).permutation(len(parts))
    x = parts.z.numpy()
    for projector in KNOWN.values():
        mine = with_factors(parts, {"mine": nearest(exact, projector)}).swap("mine", donor).decode()
        assert np.allclose(mine, x + (x[donor] - x) @ projector.numpy(), atol=1e-8)


def test_known_factors_are_swapped(found: DiscoveryResult, elsewhere: Decomposition) -> None:
    """Motions have eigenvalues of their own and are exact; the static ones are estimated from 1620 sequences."""
    donor = np.roll(np.arange(len(elsewhere)), 7)
    x = elsewhere.z.numpy()
    for name, projector in KNOWN.items():
        mine = with_factors(elsewhere, {"mine": nearest(found, projector)}).swap("mine", donor).decode()
        wanted = x + (x[donor] - x) @ projector.numpy()
        error = np.abs(mine - wanted).max() / np.abs(wanted - x).max()
        assert error < (1e-8 if name in ("slow", "fast", "fade") else 0.1), name
    static = torch.stack([each.factor.projector for each in found.factors if not each.is_motion]).sum(0)
    assert torch.allclose(static, KNOWN["level"] + KNOWN["mark"], atol=1e-8)


@pytest.mark.slow
def test_it_is_the_same_every_time_whatever_the_order(parts: Decomposition, found: DiscoveryResult) -> None:
    again = LabelFree().find(parts)
    assert again.names == found.names
    assert all(
        torch.equal(a.factor.projector, b.factor.projector) for a, b in zip(again.factors, found.factors, strict=True)
    )
    other = LabelFree(seed=3).find(parts.select(np.random.Generator(np.random.PCG64(1)).permutation(len(parts))))
    for each in found.factors:
        like = nearest(other, each.factor.projector)
        assert float((like.projector - each.factor.projector).norm()) < 0.1


def test_labels_are_not_looked_at(parts: Decomposition, found: DiscoveryResult) -> None:
    blind = replace(parts, clips=replace(parts.clips, labels={}, values={}))
    assert all(
        torch.equal(a.factor.projector, b.factor.projector)
        for a, b in zip(LabelFree().find(blind).factors, found.factors, strict=True)
    )


def test_a_count_can_be_asked_for(parts: Decomposition) -> None:
    assert len(LabelFree(count=3).find(parts).factors) == 3
    with pytest.raises(InputError, match="expected a count of factors from 1 to 6, the number of parts, got 9"):
        LabelFree(count=9).find(parts)


def test_what_lasts_a_clip_and_yet_is_motion_is_found_with_the_motion() -> None:
    """A static code says which of four motions it is: it belongs with the motion, not with the colours."""
    random = np.random.Generator(np.random.PCG64(0))
    color, action = random.integers(6, size=1500), random.integers(4, size=1500)
    codes = np.concatenate([ring(color, 6, random), ring(action, 4, random)], 1)
    parts = static_with_rotation(codes, 2 * ring(action, 4, random), {"color": color, "action": action})
    found = LabelFree().find(parts)
    assert sorted(found.names) == ["factor-1", "motion"]
    motion = next(each for each in found.factors if each.is_motion)
    assert motion.dimensions == 4
    donor = np.roll(np.arange(1500), 1)
    new = with_factors(parts, {"motion": motion.factor}).swap("motion", donor)
    static = new.code("static") - parts.code("static")  # the action's half went with it, the colour's did not
    assert float(static.norm(dim=1)[action != action[donor]].min()) > 1
    assert float(static.norm(dim=1)[action == action[donor]].max()) < 0.6


def tied(share: float) -> Decomposition:
    """Three factors of five values; hair follows skin in a `share` of the sequences and is free in the others."""
    random = np.random.Generator(np.random.PCG64(1))
    skin, top = random.integers(5, size=2000), random.integers(5, size=2000)
    hair = np.where(random.uniform(size=2000) < share, skin, random.integers(5, size=2000))
    codes = np.concatenate([ring(value, 5, random) for value in (skin, hair, top)], 1)
    return static_with_rotation(codes, random.normal(size=(2000, 2)), {"skin": skin, "hair": hair, "top": top})


@pytest.mark.parametrize(("share", "dimensions"), [(0.0, [2, 2, 2]), (0.3, [2, 4]), (0.5, [2, 4])])
def test_what_is_tied_in_the_sequences_is_one_factor(share: float, dimensions: list[int]) -> None:
    """Tied factors are not independent, so they come out as one; the others do not suffer."""
    found = LabelFree().find(tied(share))
    assert sorted(each.dimensions for each in found.factors if not each.is_motion) == dimensions
    if share == 0:
        assert not found.notes
    elif share == 0.3:
        large = next(each.name for each in found.factors if each.dimensions == 4)
        assert any(f"the parts of {large} are tied the least" in note for note in found.notes)


@pytest.mark.parametrize("share", [0.6, 0.7, 0.8, 0.9])
def test_what_is_tied_too_much_to_be_found_is_said(share: float) -> None:
    """What the two have in common comes out as one factor, their rare difference as another: wrong, and it says so."""
    found = LabelFree().find(tied(share))
    assert any("two factors come apart that otherwise go together" in note for note in found.notes)
    assert sum(each.dimensions for each in found.factors) == 8  # nothing is counted twice
    assert all(each.stability is None or each.stability <= 1 for each in found.factors)


def test_pieces_that_are_not_found_again_join_what_they_depend_on(parts: Decomposition) -> None:
    atoms = find_atoms(parts)  # level, mark (two), slow, fast, fade
    mark = next([i, j] for i in range(3) for j in range(i) if atoms.similarity()[i, j] > 0.5)
    level = next(i for i in range(3) if i not in mark)
    groups = [[i] for i in range(6)]
    unsteady = [0.9 if i == level else 0.3 if i < 3 else None for i in range(6)]
    assert sorted(map(len, _merge_unstable(Grouping(atoms, groups, unsteady)))) == [1, 1, 1, 1, 2]
    assert sorted(mark) in _merge_unstable(Grouping(atoms, groups, unsteady))
    steady = [None if i >= 3 else 0.9 for i in range(6)]
    assert _merge_unstable(Grouping(atoms, groups, steady)) == groups
    alone = [0.1 if i == level else None if i >= 3 else 0.9 for i in range(6)]  # it depends on nothing
    assert _merge_unstable(Grouping(atoms, groups, alone)) == groups
    assert Grouping(atoms, groups, unsteady).mean_stability == pytest.approx(0.5)


def test_of_several_fits_the_steadiest_is_taken(
    parts: Decomposition, found: DiscoveryResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One start ends in a wrong turn."""
    refit = Atoms.refit

    def sometimes_wrong(self: Atoms, seed: int, subset: NDArray[Any] | None = None) -> Atoms:
        right = refit(self, seed, subset)
        if seed != 1:
            return right
        turn = np.linalg.qr(np.random.Generator(np.random.PCG64(3)).normal(size=(3, 3)))[0]
        c = right.components
        return replace(
            right,
            components=replace(c, to_coordinates=c.to_coordinates @ turn, from_coordinates=turn.T @ c.from_coordinates),
        )

    monkeypatch.setattr(Atoms, "refit", sometimes_wrong)
    for mine, theirs in zip(LabelFree().find(parts).factors, found.factors, strict=True):
        assert float((mine.factor.projector - theirs.factor.projector).norm()) < 1e-3


def test_sequences_that_are_all_alike_have_no_factors(parts: Decomposition) -> None:
    with pytest.raises(InputError, match="there are no factors to find: all 40 sequences are alike"):
        LabelFree().find(parts.select([0] * 40))


def test_progress_is_watched(parts: Decomposition) -> None:
    calls = []

    def watch(over: Any, what: str) -> Any:
        calls.append((len(over), what))
        return over

    LabelFree(resamples=2, progress=watch).find(parts)
    assert calls == [(2, "resampling")]
