"""Factors are found in sequences of which the factors are known."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diskoop.analysis.atoms import Atoms, find_atoms
from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery import (
    COLUMNS,
    DiscoveryResult,
    Guided,
    LabelFree,
    ModeSearch,
    _Grouped,
    _handful,
    _without_strays,
    check_name,
    explained_by,
    lowest,
    lowest_alone,
    mode_sets,
)
from diskoop.data import Sequences, Units
from diskoop.data.builtin.oscillators import truth
from diskoop.errors import InputError
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics import Factor, Spectrum, by_distance, fit_operator
from tests.analysis.known import balanced_oscillators, behind_identity

KNOWN = {name: torch.from_numpy(p) for name, p in truth("oscillators").projectors.items()}


@pytest.fixture(scope="module")
def parts() -> Decomposition:
    return behind_identity("oscillators", "train")


@pytest.fixture(scope="module")
def elsewhere() -> Decomposition:
    return behind_identity("oscillators", "test")


@pytest.fixture(scope="module")
def found(parts: Decomposition) -> DiscoveryResult:
    return LabelFree().find(parts)


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
    assert all((each.stability is None) == each.moves for each in found.factors)
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
    static = torch.stack([each.factor.projector for each in found.factors if not each.moves]).sum(0)
    assert torch.allclose(static, KNOWN["level"] + KNOWN["mark"], atol=1e-8)


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
    with pytest.raises(InputError, match="expected a count of factors from 1 to 6, the parts there are, got 9"):
        LabelFree(count=9).find(parts)


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


def made_of(codes: NDArray[Any], motion: NDArray[Any], labels: Mapping[str, NDArray[Any]]) -> Decomposition:
    """Sequences that stay at `codes` (n, d), beside a rotation that starts at `motion` (n, 2)."""
    angle, time = 0.9, 10
    turn = 0.8 * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    courses = [motion]
    for _ in range(time - 1):
        courses.append(courses[-1] @ turn)
    x = np.concatenate([np.repeat(codes[:, None], time, 1), np.stack(courses, 1)], -1)
    mixing = np.linalg.qr(np.random.Generator(np.random.PCG64(2)).normal(size=(x.shape[-1],) * 2))[0]
    clips = Sequences.of(x @ mixing, dict(labels), units=Units(dtype="float64"))
    z = torch.from_numpy(clips.x)
    model = KoopmanAutoencoder(nn.Identity(), nn.Identity())
    return Decomposition.of(model, fit_operator(z, ridge=0), clips, z, codes.shape[1], by_distance)


def ring(values: NDArray[Any], count: int, random: np.random.Generator) -> NDArray[Any]:
    """Points on a circle, as a factor of `count` colours might be coded."""
    angle = 2 * np.pi * values / count
    return np.stack([np.cos(angle), np.sin(angle)], 1) + 0.05 * random.normal(size=(len(values), 2))


def test_what_lasts_a_clip_and_yet_is_motion_is_found_with_the_motion() -> None:
    """A static code says which of four motions it is: it belongs with the motion, not with the colours."""
    random = np.random.Generator(np.random.PCG64(0))
    color, action = random.integers(6, size=1500), random.integers(4, size=1500)
    codes = np.concatenate([ring(color, 6, random), ring(action, 4, random)], 1)
    parts = made_of(codes, 2 * ring(action, 4, random), {"color": color, "action": action})
    found = LabelFree().find(parts)
    assert sorted(found.names) == ["factor-1", "motion"]
    motion = next(each for each in found.factors if each.moves)
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
    return made_of(codes, random.normal(size=(2000, 2)), {"skin": skin, "hair": hair, "top": top})


@pytest.mark.parametrize(("share", "dimensions"), [(0.0, [2, 2, 2]), (0.3, [2, 4]), (0.5, [2, 4])])
def test_what_is_tied_in_the_sequences_is_one_factor(share: float, dimensions: list[int]) -> None:
    """Tied factors are not independent, so they come out as one; the others do not suffer."""
    found = LabelFree().find(tied(share))
    assert sorted(each.dimensions for each in found.factors if not each.moves) == dimensions
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


def test_what_is_not_certain_is_said() -> None:
    """Gaussian codes have no independent directions: whatever is found, another sample finds something else."""
    random = np.random.Generator(np.random.PCG64(0))
    parts = made_of(random.normal(size=(400, 5)), random.normal(size=(400, 2)), {})
    found = LabelFree().find(parts)
    assert min(each.stability for each in found.factors if not each.moves and each.stability is not None) < 0.7
    assert any("unstable" in note for note in found.notes)


def test_a_handful_of_labels_names_the_factors(parts: Decomposition) -> None:
    found = Guided().find(parts)
    assert found.names == ["level", "mark", "slow", "fast", "fade"]
    assert "labelled sequences" in found.way
    assert int(found.way.split()[2]) <= 40
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
    chosen = _handful(codes, 5, np.random.Generator(np.random.PCG64(0)))
    assert min(np.bincount(of[chosen]).min() for of in codes.values()) >= 5
    assert len(chosen) == len(set(chosen.tolist())) <= 35


def test_labels_that_cannot_be_names_are_said_before_any_work(parts: Decomposition) -> None:
    odd = replace(parts, clips=replace(parts.clips, labels={"amp (%)": parts.clips.labels["level"]}))
    with pytest.raises(InputError, match=r"got 'amp \(%\)'"):
        Guided().find(odd)


def test_a_label_may_be_called_like_what_is_left_over() -> None:
    """Nobody is called twice, and the kind of a factor does not follow from its name."""
    random = np.random.Generator(np.random.PCG64(0))
    color = random.integers(6, size=900)
    codes = np.concatenate([ring(color, 6, random), 0.01 * random.normal(size=(900, 1))], 1)
    parts = made_of(codes, random.normal(size=(900, 2)), {"rest": color})
    found = Guided().find(parts)
    assert found.names == ["rest", "motion", "rest-1"]
    assert [each.kind for each in found.factors] == ["factor", "motion", "remainder"]
    assert [each.name for each in found.without_remainder] == ["rest", "motion"]
    other = found.renamed({"rest-1": "unused"})
    assert [each.kind for each in other.factors] == ["factor", "motion", "remainder"]
    assert [each.row()[COLUMNS.index("")] for each in other.factors] == ["", "moves", "left over"]
    assert [each.facts()["kind"] for each in other.factors] == ["factor", "motion", "remainder"]


def test_a_component_that_no_label_explains_joins_what_it_depends_on() -> None:
    """Four points on a circle and a label that tells left, middle and right: it says nothing of up and down alone."""
    random = np.random.Generator(np.random.PCG64(0))
    place = random.integers(4, size=900)
    side = np.array([2, 1, 0, 1])[place]
    parts = made_of(ring(place, 4, random), random.normal(size=(900, 2)), {"side": side})
    found = Guided().find(parts)
    assert [(each.name, each.dimensions) for each in found.factors] == [("side", 2), ("motion", 2)]


def test_what_a_label_explains_is_not_what_chance_explains() -> None:
    random = np.random.Generator(np.random.PCG64(0))
    shares = [explained_by(random.normal(size=(30, 1)), np.arange(30) % 6) for _ in range(400)]
    assert abs(np.mean(shares)) < 0.03  # uncorrected it would be 5 / 29
    codes = np.arange(30) % 6
    assert explained_by(codes[:, None].astype(float), codes) == pytest.approx(1)
    assert explained_by(random.normal(size=(6, 1)), np.arange(6)) == 0  # as many values as sequences say nothing


def test_pieces_that_are_not_found_again_join_what_they_depend_on(parts: Decomposition) -> None:
    atoms = find_atoms(parts)  # level, mark (two), slow, fast, fade
    mark = next([i, j] for i in range(3) for j in range(i) if atoms.similarity()[i, j] > 0.5)
    level = next(i for i in range(3) if i not in mark)
    groups = [[i] for i in range(6)]
    unsteady = [0.9 if i == level else 0.3 if i < 3 else None for i in range(6)]
    assert sorted(map(len, _without_strays(_Grouped(atoms, groups, unsteady)))) == [1, 1, 1, 1, 2]
    assert sorted(mark) in _without_strays(_Grouped(atoms, groups, unsteady))
    steady = [None if i >= 3 else 0.9 for i in range(6)]
    assert _without_strays(_Grouped(atoms, groups, steady)) == groups
    alone = [0.1 if i == level else None if i >= 3 else 0.9 for i in range(6)]  # it depends on nothing
    assert _without_strays(_Grouped(atoms, groups, alone)) == groups
    assert _Grouped(atoms, groups, unsteady).steadiness == pytest.approx(0.5)


def test_of_several_fits_the_steadiest_is_taken(
    parts: Decomposition, found: DiscoveryResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One start ends in a wrong turn."""
    turned = Atoms.turned

    def sometimes_wrong(self: Atoms, seed: int, some: NDArray[Any] | None = None) -> Atoms:
        right = turned(self, seed, some)
        if seed != 1:
            return right
        turn = np.linalg.qr(np.random.Generator(np.random.PCG64(3)).normal(size=(3, 3)))[0]
        c = right.components
        return replace(right, components=replace(c, reading=c.reading @ turn, writing=turn.T @ c.writing))

    monkeypatch.setattr(Atoms, "turned", sometimes_wrong)
    for mine, theirs in zip(LabelFree().find(parts).factors, found.factors, strict=True):
        assert float((mine.factor.projector - theirs.factor.projector).norm()) < 1e-3


def test_the_criteria_differ_in_what_they_forgive() -> None:
    alone, crowd = {"hair": 0.2, "skin": 1.0}, {"hair": 0.15, "skin": 0.2}
    assert lowest(crowd, "hair") < lowest(alone, "hair")
    assert lowest_alone(alone, "hair") < lowest_alone(crowd, "hair")
    assert lowest_alone({"hair": 0.4}, "hair") == 0.4


def test_labels_that_are_not_there_are_named(parts: Decomposition) -> None:
    with pytest.raises(InputError, match=r"unknown label 'levle'; did you mean 'level'\?"):
        Guided(("levle",)).find(parts)
    with pytest.raises(InputError, match="has no labels"):
        Guided().find(replace(parts, clips=replace(parts.clips, labels={})))


def seer(parts: Decomposition) -> Any:
    """A judge that reads the truth off the frames: which corner the static code is nearest to."""
    corners = {}
    for name in ("level", "mark"):
        codes = parts.clips.labels[name]
        own = (parts.z[:, 0] @ KNOWN[name]).numpy()
        corners[name] = np.stack([own[codes == value].mean(0) for value in np.unique(codes)])

    def judge(x: Iterator[torch.Tensor], lengths: NDArray[Any]) -> dict[str, NDArray[Any]]:
        verdict, start = {}, torch.cat([some[:, 0] for some in x])
        for name, points in corners.items():
            own = (start @ KNOWN[name]).numpy()
            verdict[name] = np.linalg.norm(own[:, None] - points, axis=-1).argmin(1)
        return verdict

    return judge


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
    for criterion in (lowest, lowest_alone):
        for exhaustive in (False, True):
            found = ModeSearch(seer(slowly), ("level", "mark"), criterion, exhaustive).find(slowly)
            sizes = {each.name: each.dimensions for each in found.factors}
            if criterion is lowest_alone:
                assert sizes == {"level": 1, "mark": 2}
                for each in found.factors:
                    assert torch.allclose(each.factor.projector, own[each.name], atol=1e-6)
            else:  # the smallest of those that hide the label, even if others go with it
                assert all(
                    float((each.factor.projector @ own[each.name] - own[each.name]).abs().max()) < 1e-6
                    for each in found.factors
                    if each.name == "level"
                )
    with pytest.raises(InputError, match="the judge says nothing of slow, only of level, mark"):
        ModeSearch(seer(slowly), ("slow",)).find(slowly)


def test_sets_of_modes_keep_pairs_whole(parts: Decomposition) -> None:
    """The dynamic modes of oscillators as if they were static: two pairs and a single one."""
    turned = replace(parts, static_modes=~parts.static_modes)
    units = parts.spectrum.units(turned.static_modes)
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


def test_sequences_that_are_all_alike_have_no_factors(parts: Decomposition) -> None:
    with pytest.raises(InputError, match="there are no factors to find: all 40 sequences are alike"):
        LabelFree().find(parts.select([0] * 40))


def test_progress_is_watched(parts: Decomposition) -> None:
    seen = []

    def watch(over: Any, what: str) -> Any:
        seen.append((len(over), what))
        return over

    LabelFree(resamples=2, progress=watch).find(parts)
    assert seen == [(2, "resampling")]


def test_factors_are_renamed(found: DiscoveryResult) -> None:
    renamed = found.renamed({"factor-1": "level", "motion-2": "fast spin"})
    assert {"level", "fast spin", "factor-2"} <= set(renamed.names)
    assert [
        torch.equal(a.factor.projector, b.factor.projector) for a, b in zip(found.factors, renamed.factors, strict=True)
    ]
    ties = {each.nearest[0] for each in renamed.factors if each.nearest}
    assert "factor-1" not in ties
    noted = replace(found, notes=("factor-1 and factor-12 and motion-2 are tied",)).renamed({"factor-1": "level"})
    assert noted.notes == ("level and factor-12 and motion-2 are tied",)
    with pytest.raises(InputError, match=r"unknown factor 'factor-9'; did you mean"):
        found.renamed({"factor-9": "x"})
    with pytest.raises(InputError, match="two factors would be called 'factor-2'"):
        found.renamed({"factor-1": "factor-2"})


def test_a_notebook_sees_a_table(found: DiscoveryResult) -> None:
    table = found._repr_html_()
    assert table.count("<tr>") == 1 + len(found.factors)
    assert all(f"<td>{name}</td>" in table for name in found.names)


@pytest.mark.parametrize("name", ["static", "dynamic", "", "3", "a,b", "a+b", "a=b", " a", "a:b", "7up"])
def test_names_that_could_be_misread_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="a factor's name begins with a letter"):
        check_name(name)
    check_name("hair-colour_2 of Müller")
