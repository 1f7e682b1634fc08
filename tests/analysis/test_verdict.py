"""The verdict on models whose figures are algebra: perfect, unsteady, without effect, and worse than PCA."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.verdict import (
    MAX_WITHIN,
    MIN_EXPLAINED,
    MIN_SHARE,
    NEGLIGIBLE,
    Verdict,
    judge,
    variance_between,
    variance_explained,
    variance_within,
)
from diskoop.data.sequences import Sequences, Units
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics import by_distance
from tests.helpers.decompositions import behind_identity, static_with_rotation
from tests.helpers.known_models import cut, linear_set

GOOD = Verdict("40 test clips", 0.9, 0.8, within=0.02, pca_within=0.1, static_effect=0.7, dynamic_effect=0.3)


@pytest.fixture
def rotating() -> Decomposition:
    """A static part of two dimensions, orthogonal to one that turns."""
    random = np.random.Generator(np.random.PCG64(0))
    return static_with_rotation(random.normal(size=(60, 2)), random.normal(size=(60, 2)), {})


class Along(nn.Module):
    """Latents (n, time, k) projected by `matrix` (k, k)."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.matrix = nn.Parameter(matrix)

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return z @ self.matrix


def decoded_along(parts: Decomposition, matrix: Tensor) -> Decomposition:
    return replace(parts, model=KoopmanAutoencoder(nn.Identity(), Along(matrix)))


# --- figures


def test_a_perfect_model_of_a_known_operator_is_good() -> None:
    parts = behind_identity("oscillators", "test", 100)
    verdict = judge(parts, parts, "100 test clips")
    assert (verdict.explained, verdict.pca_explained) == (1, 1)
    assert verdict.within is not None
    assert verdict.within < 1e-9
    assert verdict.problems == []
    assert verdict.has_learnt
    assert verdict.sentences()[-1].startswith("verdict: good")


def test_orthogonal_parts_share_what_differs(rotating: Decomposition) -> None:
    verdict = judge(rotating, rotating, "clips")
    assert verdict.static_effect is not None
    assert verdict.dynamic_effect is not None
    assert verdict.static_effect + verdict.dynamic_effect == pytest.approx(1)
    assert 0.1 < verdict.dynamic_effect < 0.6


def test_a_part_that_is_not_decoded_changes_nothing(rotating: Decomposition) -> None:
    for idle, other, remedy in (
        ("static", "dynamic", "a larger spectrum.static"),
        ("dynamic", "static", "a smaller spectrum.static"),
    ):
        parts = decoded_along(rotating, rotating.factors[other].projector)
        verdict = judge(parts, parts, "clips")
        assert getattr(verdict, f"{idle}_effect") < 1e-12
        assert getattr(verdict, f"{other}_effect") == pytest.approx(1)
        *little, problem = verdict.problems
        assert len(little) == (verdict.explained < MIN_EXPLAINED)  # one part alone may explain little, too
        assert problem.startswith(f"another clip's {idle} part changes 0% of what differs")
        assert remedy in problem


def test_what_turns_is_not_steady(rotating: Decomposition) -> None:
    mistaken = Decomposition.of(
        rotating.model, rotating.operator, rotating.clips, rotating.z, 2, lambda eigenvalues: -by_distance(eigenvalues)
    )
    verdict = judge(mistaken, rotating, "clips")
    assert verdict.within is not None
    assert verdict.within > 0.8
    assert verdict.pca_within == pytest.approx(0, abs=1e-12)
    assert "data.window" in " ".join(verdict.problems)


def test_the_mean_frame_explains_nothing_and_half_a_frame_what_algebra_says() -> None:
    clips = linear_set(4, seed=0)
    x = torch.from_numpy(clips.x)
    assert variance_explained(clips, [x]) == 1
    assert variance_explained(clips, x.chunk(7)) == 1
    assert variance_explained(clips, [x.mean((0, 1)).expand(x.shape)]) == pytest.approx(0)
    spread = float((x - x.mean((0, 1))).square().mean())
    assert variance_explained(clips, [x / 2]) == pytest.approx(1 - float((x / 2).square().mean()) / spread)


def test_features_count_alike_whatever_their_units() -> None:
    random = np.random.Generator(np.random.PCG64(0))
    x = random.normal(size=(50, 9, 2)) * (1000.0, 0.01) + (5000.0, 3.0)
    scale, offset = x.std((0, 1)), x.mean((0, 1))
    clips = Sequences.of(x, units=Units(tuple(scale), tuple(offset), dtype="float64"))
    made = x.copy()
    made[..., 0] = offset[0]  # of two features that vary alike one is explained
    assert variance_explained(clips, [torch.from_numpy(made)]) == pytest.approx(0.5)


def test_frames_that_are_not_there_do_not_count() -> None:
    clips = linear_set(4, seed=0)
    some = cut(clips, behind=1e6)
    real = [each[:length] for each, length in zip(some.x, some.lengths, strict=True)]
    every = np.concatenate(real)
    error = np.square(every - 0.5 * every).sum() / np.square(every - every.mean(0)).sum()
    halves = torch.from_numpy(some.x) / 2
    assert variance_explained(some, halves.chunk(5)) == pytest.approx(1 - error)
    within = sum(np.square(each - each.mean(0)).sum() for each in real)
    assert some.mask is not None
    share = variance_within(torch.from_numpy(some.x), torch.from_numpy(some.mask))
    assert share == pytest.approx(within / np.square(every - every.mean(0)).sum())


def test_steady_codes_have_no_variance_within_and_equal_means_all_of_it() -> None:
    random = np.random.Generator(np.random.PCG64(0))
    codes = torch.from_numpy(random.normal(size=(20, 1, 3)))
    assert variance_within(codes.expand(-1, 8, -1)) == pytest.approx(0, abs=1e-12)
    assert variance_within(torch.cat([codes, -codes], 1)) == pytest.approx(1)
    assert variance_within(torch.ones(4, 5, 2)) == 0  # nothing varies


def test_one_clip_or_one_part_has_no_other_to_swap_with(rotating: Decomposition) -> None:
    alone = rotating.select([0])
    undivided = Decomposition.of(rotating.model, rotating.operator, rotating.clips, rotating.z, 0, by_distance)
    for parts in (alone, undivided):
        verdict = judge(parts, parts, "clips")
        assert (verdict.within, verdict.static_effect, verdict.dynamic_effect) == (None, None, None)
        assert verdict.problems == []
        assert len(verdict.sentences()) == 2
        assert verdict.conclusion.startswith("verdict: open: ")


# --- what they come to


@pytest.mark.parametrize(
    ("explained", "pca", "learnt", "words"),
    [
        (0.9, 0.8, True, ""),
        (0.76, 0.8, True, ""),  # nobody would see the difference
        (0.7, 0.8, True, "explains 70% of the variance, less than PCA of the same size (80%)"),
        (0.39, 0.8, False, "explains 39% of the variance where PCA of the same size explains 80%: it has not learnt"),
        (0.09, 0.44, False, "explains 9% of the variance where PCA of the same size explains 44%: it has not learnt"),
        (-1.36, 0.44, False, "explains -136% of the variance where"),
        (0.24, 0.2, True, "frames look much like their mean; it takes more clips"),
        (0.04, 0.07, False, "it has not learnt these clips; train longer (train.steps or train.epochs)"),
        (0.04, 0.01, False, "these clips are not like those it was trained on"),
    ],
)
def test_less_than_pca_is_poor_and_less_than_half_of_it_nothing(
    explained: float, pca: float, learnt: bool, words: str
) -> None:
    verdict = replace(GOOD, explained=explained, pca_explained=pca)
    assert verdict.has_learnt is learnt
    assert bool(verdict.problems) is bool(words)
    assert words in "".join(verdict.problems)
    assert verdict.sentences()[-1].startswith("verdict: poor: " if words else "verdict: good: ")


def test_poor_figures_are_said_with_a_remedy() -> None:
    unsteady = replace(GOOD, within=MAX_WITHIN + 0.19)
    assert unsteady.problems == [
        "39% of the static part's variance lies within clips, so it does not stay; see more time in a clip (a longer "
        "data.window, or data.every=2 of videos), or try another spectrum.static"
    ]
    assert replace(GOOD, within=MAX_WITHIN).problems == []
    both = replace(GOOD, within=0.5, dynamic_effect=NEGLIGIBLE / 2)
    assert len(both.problems) == 2
    assert both.conclusion.count(". And ") == 1
    wild = replace(GOOD, static_effect=30.0, dynamic_effect=29.0)
    assert "changes 30 times what differs between the two" in wild.problems[0]
    assert replace(wild, explained=0.0).problems == replace(GOOD, explained=0.0).problems  # one thing after another


def test_where_little_moves_a_dynamic_part_need_not_change_much() -> None:
    little = replace(GOOD, dynamic_effect=0.03)
    assert len(little.problems) == len(replace(little, differs=0.93).problems) == 1
    assert replace(little, differs=0.95).problems == []
    assert len(replace(little, dynamic_effect=0.0, differs=0.95).problems) == 1
    assert MIN_SHARE * (1 - 0.95) < 0.03 < MIN_SHARE * (1 - 0.93)


def test_where_clips_hardly_differ_a_static_part_need_not_change_much() -> None:
    little = replace(GOOD, static_effect=0.03)
    assert len(little.problems) == len(replace(little, differs=0.07).problems) == 1
    assert replace(little, differs=0.06).problems == []
    assert len(replace(GOOD, dynamic_effect=0.03, differs=0.01).problems) == 1


def test_clips_differ_by_the_variance_that_is_not_within_them(rotating: Decomposition) -> None:
    x = torch.from_numpy(rotating.clips.x)
    lengths = rotating.clips.lengths - np.arange(len(x)) % 3
    mask = torch.arange(x.shape[1]) < torch.from_numpy(lengths).unsqueeze(1)
    whole, shorter = (variance_between(clips) for clips in (rotating.clips, replace(rotating.clips, lengths=lengths)))
    assert whole == pytest.approx(1 - variance_within(x))
    assert shorter == pytest.approx(1 - variance_within(x, mask))
    assert shorter != pytest.approx(whole)


def test_the_figures_come_before_the_verdict_and_are_json_too() -> None:
    assert GOOD.sentences()[:2] == [
        "on 40 test clips the model explains 90% of the variance (PCA of the same size 80%, the mean frame 0%)",
        "2% of the static part's variance lies within clips (PCA + DMD 10%); another clip's static part changes 70% of "
        "what differs between the two, its dynamic part 30% of it",
    ]
    facts = GOOD.as_dict()
    assert (facts["explained"], facts["has_learnt"], facts["problems"]) == (0.9, True, [])
