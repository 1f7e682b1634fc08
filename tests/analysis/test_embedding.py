"""Maps keep neighbours together, selections hold what was fixed, scores are right where the answer is known."""

from typing import Any

import numpy as np
import pytest
import torch

from diskoop.analysis.embedding import cluster_score, embed, select_fixed
from diskoop.data import Sequences, Units
from diskoop.data.sets import puppet_art
from diskoop.errors import InputError
from tests.helpers.decompositions import oscillators_as

RANDOM = np.random.Generator(np.random.PCG64(5))
FIRST, SECOND = np.repeat([0, 0, 1, 1], 20), np.repeat([0, 1, 0, 1], 20)
BLOBS = 10 * np.stack([FIRST, SECOND], 1) + RANDOM.normal(size=(80, 2))


@pytest.fixture(scope="module")
def puppets() -> Sequences:
    """All puppets' labels with next to nothing as pictures."""
    labels = puppet_art.labels()
    nothing = np.zeros((len(labels["action"]), 2, 1))
    return Sequences.of(nothing, labels, values=puppet_art.FACTORS, units=Units(dtype="float64"), name="puppets")


def test_an_embedding_keeps_neighbours_and_depends_on_its_seed_only() -> None:
    codes = np.pad(BLOBS, ((0, 0), (0, 6))) @ RANDOM.normal(size=(8, 8))
    points = embed(torch.from_numpy(codes), seed=3)
    assert points.shape == (80, 2)
    assert cluster_score(points, FIRST, SECOND).neighbour == 1
    assert np.array_equal(points, embed(codes, seed=3))


def test_codes_of_true_factors_cluster_by_their_labels() -> None:
    parts = oscillators_as("series")
    labels = parts.clips.labels
    points = embed(parts.code(["level", "mark"]))
    assert cluster_score(points, labels["level"], labels["mark"]).neighbour > 0.9


@pytest.mark.parametrize("shape", [(5, 3), (7, 1)])
def test_few_points_and_one_column_are_embedded(shape: tuple[int, int]) -> None:
    assert np.isfinite(embed(RANDOM.normal(size=shape))).all()


def test_what_cannot_be_embedded_is_named() -> None:
    with pytest.raises(InputError, match=r"of 5 sequences at least, got shape \(4, 3\)"):
        embed(np.zeros((4, 3)))
    with pytest.raises(InputError, match="NaN"):
        embed(np.full((6, 3), np.nan))
    with pytest.raises(InputError, match="6 codes that are all the same"):
        embed(np.ones((6, 3)))


def test_the_papers_selection_has_324_puppets(puppets: Sequences) -> None:
    some = select_fixed(puppets, {"top": "red star", "pants": 2})
    assert len(some) == 324
    assert {name: len(np.unique(codes)) for name, codes in some.labels.items()} == {
        "skin": 6,
        "pants": 1,
        "top": 1,
        "hair": 6,
        "action": 9,
    }
    assert "pants cream flares, top red star" in some.label_text(0)
    assert len(select_fixed(puppets, ["top", "pants"])) == 324


def test_labels_alone_are_fixed_where_most_clips_are() -> None:
    labels = {"a": np.array([0, 1, 1, 1, 0]), "b": np.array([0, 0, 1, 1, 0])}
    clips = Sequences.of(np.arange(10.0).reshape(5, 2, 1), labels, units=Units())
    chosen = select_fixed(clips.select([4, 3, 1, 2, 2]), ("a", "b"))
    assert set(zip(chosen.labels["a"].tolist(), chosen.labels["b"].tolist(), strict=True)) == {(1, 1)}
    assert len(chosen) == 3


def test_impossible_selections_are_named(puppets: Sequences) -> None:
    with pytest.raises(InputError, match=r"unknown label 'tops' of puppets; did you mean 'top'\?"):
        select_fixed(puppets, ["tops"])
    with pytest.raises(InputError, match=r"unknown top 'red stra' of puppets; did you mean 'red star'\?"):
        select_fixed(puppets, {"top": "red stra"})
    with pytest.raises(InputError, match=r"none of the 11664 clips of puppets has \{'top': 7\}"):
        select_fixed(puppets, {"top": 7})
    nothings: list[Any] = [[], {}, "top"]
    for nothing in nothings:
        with pytest.raises(InputError, match="expected labels to fix"):
            select_fixed(puppets, nothing)
    bare = Sequences.of(np.zeros((2, 2, 1)), {"who": np.arange(2)}, units=Units())
    with pytest.raises(InputError, match="its values have no names, so ask for a code"):
        select_fixed(bare, {"who": "me"})
    with pytest.raises(InputError, match="unknown label 'who' of an array; it has none"):
        select_fixed(Sequences.of(np.zeros((2, 2, 1)), units=Units()), ["who"])


def test_perfect_clusters_score_one() -> None:
    score = cluster_score(BLOBS, FIRST, SECOND)
    assert (score.combinations, score.neighbour, score.rand) == (4, 1.0, 1.0)
    assert 0.7 < score.silhouette < 1
    assert str(score).startswith("4 combinations: 100% of the nearest neighbours alike, Rand index 1.00")
    assert cluster_score(BLOBS, FIRST).combinations == 2


def test_labels_that_know_nothing_score_chance() -> None:
    mixed = RANDOM.permutation(80)
    score = cluster_score(BLOBS, FIRST[mixed], SECOND[mixed])
    assert score.combinations == 4
    assert score.neighbour == pytest.approx(1 / 4, abs=0.15)
    assert score.rand == pytest.approx(0, abs=0.06)
    assert score.silhouette < 0


def test_the_score_of_four_points_by_hand() -> None:
    points, labels = np.array([[0.0], [1.0], [10.0], [11.0]]), np.array([7, 7, 9, 9])
    assert cluster_score(points, labels).silhouette == pytest.approx((9.5 / 10.5 + 8.5 / 9.5) / 2)
    crossed = cluster_score(points, np.array([0, 1, 0, 1]))
    assert crossed.neighbour == 0
    assert crossed.rand == pytest.approx(-0.5)


def test_twins_are_each_others_neighbours() -> None:
    points = np.repeat(np.array([[0.0, 0.0], [5.0, 5.0]]), 6, axis=0)
    assert cluster_score(points, np.repeat([0, 1], 6)).neighbour == 1


def test_impossible_scores_are_named() -> None:
    with pytest.raises(InputError, match=r"expected labels of shape \(80,\), a code for each point, got \(3,\)"):
        cluster_score(BLOBS, np.arange(3))
    with pytest.raises(InputError, match="got none"):
        cluster_score(BLOBS)
    for count in (1, 80):
        with pytest.raises(InputError, match=f"expected from 2 to 79 combinations among 80 points, got {count}"):
            cluster_score(BLOBS, np.arange(80) % count)
