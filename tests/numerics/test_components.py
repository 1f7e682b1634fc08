"""Independent sources are found again; what depends on each other is grouped, and nothing else."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.stats import chi2
from sklearn.metrics import mutual_info_score

from diskoop.numerics.components import (
    DEPENDENCE_BOUNDS,
    average_linkage,
    block_dependence,
    dependence,
    independent_components,
    principal_directions,
)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(5))


def test_principal_directions_are_numpys(random: np.random.Generator) -> None:
    codes = random.normal(size=(300, 5)) @ random.normal(size=(5, 5)) + 3
    directions, variances = principal_directions(codes)
    _, sizes, expected = np.linalg.svd(codes - codes.mean(0), full_matrices=False)
    assert np.allclose(variances, sizes**2 / 300)
    assert np.allclose(np.abs(directions @ expected.T), np.eye(5), atol=1e-8)


def test_known_sources_are_found_again(random: np.random.Generator) -> None:
    sources = np.stack([random.integers(4, size=4000), random.uniform(size=4000), random.laplace(size=4000)], 1)
    codes = sources @ random.normal(size=(3, 6))
    components = independent_components(codes, principal_directions(codes)[0][:3], seed=0)
    y = components.transform(codes)
    assert np.allclose(components.from_coordinates @ components.to_coordinates, np.eye(3), atol=1e-10)
    assert np.allclose(y @ components.from_coordinates + components.mean, codes, atol=1e-8)
    assert np.allclose(y.std(0), 1)
    likeness = np.abs(np.corrcoef(sources.T, y.T)[:3, 3:])
    assert likeness.max(1).min() > 0.99
    assert sorted(likeness.argmax(1)) == [0, 1, 2]


def test_columns_that_are_uncorrelated_exactly_keep_all_their_directions() -> None:
    """Their singular vectors hold zeros, whose sign is 0."""
    grid = np.stack(np.meshgrid([-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-3.0, 0.0, 3.0]), -1).reshape(-1, 3)
    components = independent_components(grid, np.eye(3), seed=0)
    assert np.allclose(components.from_coordinates @ components.to_coordinates, np.eye(3))
    assert np.allclose(components.transform(grid).std(0), 1)


def test_rounding_does_not_turn_components(random: np.random.Generator) -> None:
    """Principal scores are uncorrelated but for rounding, and that must not decide where the search begins."""
    codes = random.laplace(size=(500, 4)) @ random.normal(size=(4, 4))
    codes -= codes.mean(0)
    directions = principal_directions(codes)[0]
    expected = independent_components(codes, directions, seed=0).to_coordinates
    for _ in range(5):
        shaken = codes * (1 + 1e-14 * random.normal(size=codes.shape))
        assert np.allclose(independent_components(shaken, directions, seed=0).to_coordinates, expected, atol=1e-6)


def test_one_direction_needs_no_turning(random: np.random.Generator) -> None:
    codes = np.outer(random.normal(size=50), [3.0, 4.0])
    components = independent_components(codes, np.array([[0.6, 0.8]]), seed=0)
    assert np.allclose(components.transform(codes) @ components.from_coordinates + components.mean, codes)
    assert np.allclose(components.from_coordinates @ components.to_coordinates, 1)


def test_dependence_is_information_between_quartiles(random: np.random.Generator) -> None:
    y = random.normal(size=(5000, 3))
    y[:, 1] = np.sin(3 * y[:, 0]) + 0.3 * y[:, 1]
    bins = np.stack([np.searchsorted(np.quantile(column, [0.25, 0.5, 0.75]), column) for column in y.T], 1)
    information = mutual_info_score(bins[:, 0], bins[:, 1]) - chi2.ppf(0.999, 9) / 10000
    assert dependence(y)[0, 1] == pytest.approx(np.sqrt(1 - np.exp(-2 * information)), abs=1e-4)
    assert dependence(y)[0, 2] < 0.06
    assert np.allclose(dependence(y), dependence(y).T)


def test_dependence_sees_what_correlation_does_not(random: np.random.Generator) -> None:
    """Six points on a circle: no correlation, and yet one coordinate says much of the other."""
    angle = np.pi / 3 * random.integers(6, size=4000) + 0.1 * random.normal(size=4000)
    y = np.stack([np.cos(angle), np.sin(angle)], 1)
    assert abs(np.corrcoef(y.T)[0, 1]) < 0.05
    assert dependence(y)[0, 1] > 0.6


def test_equal_values_are_not_told_apart_by_their_order() -> None:
    """Two independent coins in sorted rows: ties broken by place would tie the coins."""
    coins = np.array([[a, b] for a in (0.0, 1.0) for b in (0.0, 1.0)]).repeat(250, 0)
    assert dependence(coins)[0, 1] == pytest.approx(0)
    assert dependence(np.c_[coins, coins[:, 0]])[0, 2] > 0.8
    assert dependence(np.c_[coins, np.zeros(1000)])[0, 2] == pytest.approx(0)


def test_rounding_does_not_tell_equal_values_apart(random: np.random.Generator) -> None:
    """Three independent coins, each a little blurred by the others, as linear algebra leaves them."""
    coins = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)], float).repeat(100, 0)
    blurred = coins + 1e-14 * coins @ random.normal(size=(3, 3))
    assert dependence(blurred)[np.triu_indices(3, 1)].max() == pytest.approx(0)


def test_blocks_are_as_tied_as_their_columns_are_at_most(random: np.random.Generator) -> None:
    y = random.normal(size=(500, 4)).cumsum(1)
    between = dependence(y)
    blocks = block_dependence([y[:, :1], y[:, 1:3], y[:, 3:]])
    assert blocks.shape == (3, 3)
    assert blocks[0, 1] == between[0, 1:3].max()
    assert blocks[1, 2] == blocks[2, 1] == between[1:3, 3].max()


@pytest.mark.parametrize("count", [None, 2, 3, 7])
def test_groups_are_those_of_average_linkage(random: np.random.Generator, count: int | None) -> None:
    similarity = random.uniform(size=(9, 9))
    similarity = (similarity + similarity.T) / 2
    groups = average_linkage(similarity, [1] * 9, (0.55, 0.55), count)
    tree = linkage((1 - similarity)[np.triu_indices(9, 1)], "average")
    labels = fcluster(tree, 0.45, "distance") if count is None else fcluster(tree, count, "maxclust")
    assert groups == sorted([i for i in range(9) if labels[i] == label] for label in np.unique(labels))


def test_large_items_weigh_more() -> None:
    """0 and 1 join first; 2 then stands to them as the weighted mean says."""
    similarity = np.array([[1, 0.9, 0.5], [0.9, 1, 0.1], [0.5, 0.1, 1]])
    assert average_linkage(similarity, [1, 1, 1], (0.35, 0.35)) == [[0, 1], [2]]
    assert average_linkage(similarity, [3, 1, 1], (0.35, 0.35)) == [[0, 1, 2]]
    assert average_linkage(similarity, [1, 1, 1], (0.95, 0.95)) == [[0], [1], [2]]


def test_the_cut_is_made_where_the_gap_is_widest() -> None:
    """Three pairs; the pairs join at 0.37, 0.35 and 0.33, and with each other at 0.22."""
    similarity = np.full((6, 6), 0.22)
    for i, tie in enumerate((0.37, 0.35, 0.33)):
        similarity[2 * i, 2 * i + 1] = similarity[2 * i + 1, 2 * i] = tie
    assert average_linkage(similarity, [1] * 6, (0.2, 0.4)) == [[0, 1], [2, 3], [4, 5]]
    assert average_linkage(similarity, [1] * 6, (0.36, 0.372)) == [[0, 1], [2], [3], [4], [5]]
    assert average_linkage(similarity, [1] * 6, (0.1, 0.2)) == [[0, 1, 2, 3, 4, 5]]
    assert average_linkage(similarity, [1] * 6, (0.5, 0.9)) == [[i] for i in range(6)]


def test_chance_stays_below_what_belongs_together(random: np.random.Generator) -> None:
    for count in (60, 200, 4000):
        assert dependence(random.normal(size=(count, 12)))[np.triu_indices(12, 1)].max() < DEPENDENCE_BOUNDS[0]


def test_a_factor_that_stretches_another_is_not_the_same() -> None:
    """Hair and a motion that turns it: within each 0.5, between them 0.34."""
    alike = np.kron(np.eye(2), np.full((3, 3), 0.16)) + 0.34
    np.fill_diagonal(alike, 1.0)
    assert average_linkage(alike, [1] * 6) == [[0, 1, 2], [3, 4, 5]]
