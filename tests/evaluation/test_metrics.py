"""Scores are right where the answer is known, agree with other libraries, and refuse what they cannot score."""

import tracemalloc
from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.spatial.distance import pdist
from scipy.special import rel_entr, softmax
from scipy.stats import bootstrap
from scipy.stats import entropy as scipy_entropy
from sklearn.metrics import accuracy_score, roc_curve
from sklearn.metrics.pairwise import cosine_similarity
from torchmetrics.functional.classification import binary_eer

from diskoop.errors import InputError
from diskoop.evaluation import metrics
from diskoop.evaluation.metrics import (
    Summary,
    accuracy,
    conditional_entropy,
    cosine_similarities,
    distinct_pairs,
    diversity,
    eer_differences,
    eer_interval,
    entropies,
    equal_error_rate,
    global_consistency,
    inception_score,
    local_consistency,
    marginal_entropy,
    probabilities,
    reconstruction_error,
    summarize,
)

Array = NDArray[Any]


def fresh(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def verdicts(n: int = 50, values: int = 9, seed: int = 0) -> Array:
    return probabilities(3 * fresh(seed).normal(size=(n, values)))


def voices(speakers: int = 24, each: int = 8, apart: float = 1.0, seed: int = 0) -> tuple[Array, Array]:
    random = fresh(seed)
    who = np.repeat(np.arange(speakers), each)
    return random.normal(size=(len(who), 12)) + apart * random.normal(size=(speakers, 12))[who], who


# --- verdicts


def test_accuracy_is_the_share_that_agrees() -> None:
    one, other = fresh().integers(3, size=(2, 200))
    assert accuracy(one, other) == accuracy_score(other, one)
    assert accuracy(["ann", "bob", "cid"], ["ann", "bob", "dan"]) == 2 / 3
    assert accuracy(one, one) == 1


def test_probabilities_are_a_softmax_that_does_not_overflow() -> None:
    logits = 10 * fresh().normal(size=(20, 7))
    p = probabilities(logits.astype(np.float32))
    assert p.dtype == np.float64
    assert np.allclose(p, softmax(logits.astype(np.float32).astype(np.float64), axis=1), rtol=1e-13)
    assert np.allclose(probabilities(logits + 1e4), probabilities(logits), rtol=1e-9)
    assert np.array_equal(probabilities([[1e9, -1e9]]), [[1.0, 0.0]])
    assert np.allclose(probabilities([[1e4, 1e4], [0.0, 0.0]]), 0.5)  # rows have nothing to do with each other


def test_entropies_are_those_of_scipy() -> None:
    p = verdicts()
    p[0], p[1] = np.eye(9)[0], 1 / 9  # zeros are fine
    assert np.allclose(entropies(p), scipy_entropy(p, axis=1), atol=1e-14)
    assert conditional_entropy(p) == pytest.approx(scipy_entropy(p, axis=1).mean(), rel=1e-13)
    assert marginal_entropy(p) == pytest.approx(scipy_entropy(p.mean(0)), rel=1e-13)


def test_the_inception_score_is_the_mean_divergence_from_the_marginal() -> None:
    p = verdicts()
    divergence = rel_entr(p, p.mean(0)).sum(1).mean()
    assert np.log(inception_score(p)) == pytest.approx(divergence, rel=1e-12)
    assert np.log(inception_score(p)) == pytest.approx(marginal_entropy(p) - conditional_entropy(p), rel=1e-12)


def test_certain_and_even_verdicts_reach_the_papers_ceilings() -> None:
    p = np.tile(np.eye(9), (4, 1))
    assert inception_score(p) == pytest.approx(9, rel=1e-14)
    assert conditional_entropy(p) == 0
    assert marginal_entropy(p) == pytest.approx(2.197, abs=3e-4)


def test_verdicts_that_tell_nothing_score_1() -> None:
    undecided, collapsed = np.full((5, 4), 0.25), np.tile(np.eye(4)[2], (5, 1))
    assert inception_score(undecided) == inception_score(collapsed) == 1
    assert conditional_entropy(undecided) == pytest.approx(np.log(4))
    assert marginal_entropy(collapsed) == 0


@given(seed=some.integers(0, 10**6), n=some.integers(1, 20), values=some.integers(1, 8))
def test_entropies_are_bounded(seed: int, n: int, values: int) -> None:
    p = verdicts(n, values, seed)
    assert -1e-12 <= conditional_entropy(p) <= marginal_entropy(p) + 1e-12 <= np.log(values) + 2e-12
    assert 1 - 1e-12 <= inception_score(p) <= values + 1e-9
    assert inception_score(p[::-1]) == pytest.approx(inception_score(p))


# --- who speaks


def test_cosines_are_those_of_scikit_learn_at_any_scale() -> None:
    codes, _ = voices(6, 3)
    cosines = cosine_similarities(codes)
    assert np.allclose(cosines, cosine_similarity(codes), atol=1e-14)
    scales = np.logspace(-250, 250, len(codes))[:, None]
    assert np.allclose(cosine_similarities(codes * scales), cosines, atol=1e-13)
    assert np.abs(cosine_similarities(np.repeat(codes, 3, 0))).max() == 1


def test_pairs_are_the_distinct_ones() -> None:
    codes, _ = voices(4, 3)
    who = np.array(list("abbacdcabdda"))
    scores, same = distinct_pairs(codes, who)
    assert len(scores) == len(same) == 12 * 11 // 2
    for (one, other), score, alike in zip(combinations(range(12), 2), scores, same, strict=True):
        assert score == pytest.approx(cosine_similarity(codes[[one]], codes[[other]])[0, 0])
        assert alike == (who[one] == who[other])


def by_scikit_learn(scores: Array, same: Array, weights: Array | None = None) -> float:
    accepted, found, _ = roc_curve(same, scores, sample_weight=weights, drop_intermediate=False)
    return float(brentq(lambda rate: 1 - rate - np.interp(rate, accepted, found), 0, 1, xtol=1e-14))


@pytest.mark.parametrize("apart", [0.0, 0.5, 1.0, 2.0])
def test_the_equal_error_rate_is_that_of_scikit_learns_curve(apart: float) -> None:
    scores, same = distinct_pairs(*voices(apart=apart))
    assert equal_error_rate(scores, same) == pytest.approx(by_scikit_learn(scores, same), abs=1e-12)
    coarse = scores.round(1)  # many ties
    assert len(np.unique(coarse)) < 25
    assert equal_error_rate(coarse, same) == pytest.approx(by_scikit_learn(coarse, same), abs=1e-12)


@pytest.mark.parametrize("digits", [1, 15])
def test_the_equal_error_rate_is_near_that_of_torchmetrics(digits: int) -> None:
    """Theirs is the mean of both rates at the nearest threshold, so at most a step of the curve away."""
    scores, same = distinct_pairs(*voices())
    scores = scores.round(digits)
    theirs = float(binary_eer(torch.from_numpy((scores + 1) / 2), torch.from_numpy(same.astype(np.int64))))
    accepted, found, _ = roc_curve(same, scores, drop_intermediate=False)
    step = max(np.diff(accepted).max(), np.diff(found).max())
    assert equal_error_rate(scores, same) == pytest.approx(theirs, abs=step)
    assert digits == 1 or step < 2e-3


@pytest.mark.parametrize(
    ("scores", "same", "rate"),
    [
        ([4, 3, 2, 1], [1, 1, 0, 0], 0),
        ([4, 3, 2, 1], [0, 0, 1, 1], 1),
        ([4, 3, 2, 1], [1, 0, 1, 0], 1 / 2),
        ([1, 1, 1, 1], [1, 0, 1, 0], 1 / 2),  # a draw decides
        ([3, 2, 2, 1], [1, 1, 0, 0], 1 / 4),  # the tie is a line from (0, 1/2) to (1/2, 1) of the curve, which
        ([5, 4, 4, 4, 3, 2], [1, 1, 0, 0, 1, 0], 4 / 9),  # meets 1 - rate at 1/4; here from (0, 1/3) to (2/3, 2/3)
        ([2, 1, 0], [1, 0, 1], 1 / 2),
    ],
)
def test_known_equal_error_rates(scores: list[float], same: list[int], rate: float) -> None:
    assert equal_error_rate(scores, same) == pytest.approx(rate, abs=1e-15)
    assert equal_error_rate(scores[::-1], [bool(one) for one in same[::-1]]) == pytest.approx(rate, abs=1e-15)


def test_scores_that_tell_nothing_err_half_the_time() -> None:
    random = fresh()
    assert equal_error_rate(random.normal(size=40_000), random.random(40_000) < 0.1) == pytest.approx(0.5, abs=0.015)


marked = some.lists(some.tuples(some.integers(-6, 6), some.booleans(), some.integers(0, 3)), min_size=2, max_size=40)


def both_kinds(pairs: list[tuple[int, bool, int]]) -> tuple[Array, Array, Array]:
    pairs = [*pairs, (0, True, 1), (1, False, 2)]
    scores, same, weights = (np.array(column) for column in zip(*pairs, strict=True))
    return scores.astype(float), same, weights


@given(marked)
def test_only_the_order_of_scores_matters(pairs: list[tuple[int, bool, int]]) -> None:
    scores, same, _ = both_kinds(pairs)
    rate = equal_error_rate(scores, same)
    assert 0 <= rate <= 1
    assert equal_error_rate(np.exp(scores), same) == equal_error_rate(scores**3 - 1e3, same) == rate
    assert equal_error_rate(scores[::-1], same[::-1]) == rate


@given(marked)
def test_turning_the_scores_round_exchanges_the_two_errors(pairs: list[tuple[int, bool, int]]) -> None:
    scores, same, _ = both_kinds(pairs)
    rate = equal_error_rate(scores, same)
    assert equal_error_rate(-scores, ~same) == pytest.approx(rate, abs=1e-12)
    assert equal_error_rate(-scores, same) == pytest.approx(1 - rate, abs=1e-12)


@given(marked)
def test_a_weight_is_so_many_pairs(pairs: list[tuple[int, bool, int]]) -> None:
    scores, same, weights = both_kinds(pairs)
    repeated = equal_error_rate(np.repeat(scores, weights), np.repeat(same, weights))
    assert equal_error_rate(scores, same, weights) == pytest.approx(repeated, abs=1e-12)
    assert equal_error_rate(scores, same, 0.3 * weights) == pytest.approx(repeated, abs=1e-12)
    assert repeated == pytest.approx(by_scikit_learn(scores, same, weights), abs=1e-9)


def spelled_out(codes: Array, who: Array, generator: np.random.Generator) -> float:
    """The rate of one draw of speakers, pair by pair, no two pairs joining copies of a speaker."""
    speakers = np.unique(who)
    drawn = speakers[generator.integers(len(speakers), size=len(speakers))]
    rows = [(copy, name, row) for copy, name in enumerate(drawn) for row in np.flatnonzero(who == name)]
    cosines = cosine_similarities(codes)
    scores, same = [], []
    for (copy, name, row), (other_copy, other_name, other_row) in combinations(rows, 2):
        if name == other_name and copy != other_copy:
            continue
        scores.append(cosines[row, other_row])
        same.append(copy == other_copy)
    return equal_error_rate(scores, same)


def test_the_interval_is_that_of_draws_spelled_out() -> None:
    codes, who = voices(7, 4, apart=1.5)
    codes, who = codes[3:], who[3:] + 10  # unequal speakers, numbered from 10
    rates = [spelled_out(codes, who, generator) for generator in [fresh(4)] for _ in range(60)]
    for level in (0.5, 0.95):
        found = eer_interval(codes, who, fresh(4), resamples=60, level=level)
        assert found == pytest.approx(np.quantile(rates, [(1 - level) / 2, (1 + level) / 2]), abs=1e-12)
    assert len(set(rates)) > 20


def test_the_interval_holds_the_rate_and_depends_on_its_generator_only() -> None:
    codes, who = voices()
    low, high = eer_interval(codes, who, fresh())
    assert 0 < low < equal_error_rate(*distinct_pairs(codes, who)) < high < 0.5
    assert (low, high) == eer_interval(codes, np.char.zfill(who.astype(str), 2), fresh())  # names will do
    assert (low, high) == eer_interval(codes, who, fresh())
    assert (low, high) != eer_interval(codes, who, fresh(1))
    narrower = eer_interval(codes, who, fresh(), level=0.5)
    assert low < narrower[0] < narrower[1] < high


def test_draws_without_a_rate_are_drawn_again() -> None:
    codes, who = voices(2, 3, apart=50.0)  # half of all draws have one speaker only
    assert eer_interval(codes, who, fresh(), resamples=40) == (0, 0)
    alone = np.arange(6)
    alone[1] = 0  # only speaker 0 has two codes
    assert all(0 <= end <= 1 for end in eer_interval(codes, alone, fresh(), resamples=40))


# --- sequences


@given(
    some.lists(some.lists(some.integers(-2, 4), min_size=1, max_size=7), min_size=1, max_size=6),
    some.integers(-3, 5),
    some.integers(0, 3),
)
def test_consistency_counts_real_frames(clips: list[list[int]], filler: int, more: int) -> None:
    time = max(map(len, clips)) + more
    codes = np.array([clip + [filler] * (time - len(clip)) for clip in clips])
    lengths = [len(clip) for clip in clips]
    most = sum(Counter(clip).most_common(1)[0][1] for clip in clips)
    assert global_consistency(codes, lengths) == most / sum(lengths)
    pairs = [pair for clip in clips for pair in pairwise(clip)]
    if pairs:
        assert local_consistency(codes, lengths) == np.mean([one == other for one, other in pairs])


def test_known_consistencies() -> None:
    constant, alternating = np.repeat([[3], [5]], 6, 1), np.tile([0, 1], (2, 3))
    halves = np.repeat([[0, 1]], 4, 1)
    assert global_consistency(constant) == local_consistency(constant) == 1
    assert (global_consistency(alternating), local_consistency(alternating)) == (0.5, 0)
    assert (global_consistency(halves), local_consistency(halves)) == (0.5, 6 / 7)


def test_diversity_is_a_ratio_of_mean_distances() -> None:
    random = fresh()
    x, real = random.normal(size=(7, 4, 3)), 2 + 3 * random.normal(size=(9, 4, 3))
    wanted = pdist(x.reshape(7, -1)).mean() / pdist(real.reshape(9, -1)).mean()
    assert diversity(x, real) == pytest.approx(wanted, rel=1e-13)
    assert diversity(real, real) == pytest.approx(1, rel=1e-14)
    assert diversity(2 * real, real) == pytest.approx(2, rel=1e-13)
    assert diversity(real + 1e8, real) == pytest.approx(1, rel=1e-6)


def test_distances_are_root_mean_squared() -> None:
    assert metrics.mean_distance(np.array([[0.0, 0.0], [3.0, 3.0], [3.0, -3.0]]), "rows") == pytest.approx(
        (3 + 3 + 6 / np.sqrt(2)) / 3
    )


def test_diversity_of_tensors_is_that_of_arrays() -> None:
    x = fresh().integers(0, 256, (9, 4, 3), np.uint8)
    real = fresh().integers(0, 200, (7, 4, 3), np.uint8)
    wanted = diversity(x, real)
    assert diversity(torch.from_numpy(x), torch.from_numpy(real)) == pytest.approx(wanted, rel=1e-14)
    assert diversity(x, real, real_distance=metrics.mean_distance(real, "rows")) == wanted
    with pytest.raises(InputError, match=r"samples \(n, 4, 3\) as the data are, got \(9, 3, 3\)"):
        diversity(torch.from_numpy(x)[:, :3], torch.from_numpy(real))
    with pytest.raises(InputError, match="finite samples"):
        diversity(torch.full((9, 4, 3), torch.nan), torch.from_numpy(real))


def test_a_collapse_has_no_diversity() -> None:
    random = fresh()
    real = random.normal(size=(5, 3, 2)) + 1e3
    assert diversity(np.repeat(real[:1] / 3, 11, 0), real) == 0
    nearly = real[:1] + 1e-6 * random.normal(size=(11, 3, 2))
    assert diversity(nearly, real) == pytest.approx(
        pdist(nearly.reshape(11, -1)).mean() / pdist(real.reshape(5, -1)).mean()
    )


def test_bytes_do_not_overflow_however_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    random = fresh()
    x, real = (random.integers(0, 256, (n, 3, 3, 4, 4)).astype(np.uint8) for n in (6, 8))
    wanted = pdist(x.reshape(6, -1).astype(float)).mean() / pdist(real.reshape(8, -1).astype(float)).mean()
    assert diversity(x, real) == pytest.approx(wanted, rel=1e-13)
    assert diversity(x.astype(np.float32), np.asfortranarray(real)) == pytest.approx(wanted, rel=1e-13)
    for block in (1, 100, 6 * 144):
        monkeypatch.setattr(metrics, "BLOCK", block)
        assert diversity(x, real) == pytest.approx(wanted, rel=1e-13)


def test_a_large_set_is_taken_a_block_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the size of the set is ever made of float64."""
    x = fresh().integers(0, 256, (64, 4, 3, 32, 32), np.uint8)
    monkeypatch.setattr(metrics, "BLOCK", x.size // 16)
    tracemalloc.start()
    diversity(x, x)
    reconstruction_error(x, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * x.size  # float64 would be 8


def test_the_reconstruction_error_is_in_the_units_given() -> None:
    random = fresh()
    x, y = random.normal(size=(2, 5, 4, 3))
    error = reconstruction_error(x, y)
    assert error == pytest.approx(np.sqrt(np.mean((x - y) ** 2)), rel=1e-14)
    assert reconstruction_error(7 * x, 7 * y) == pytest.approx(7 * error)
    assert reconstruction_error(x, x) == 0
    black, white = np.zeros((2, 3, 1, 2, 2), np.uint8), np.full((2, 3, 1, 2, 2), 255, np.uint8)
    assert reconstruction_error(black, white) == reconstruction_error(white, black) == 255
    assert reconstruction_error(black + np.uint8(1), black.astype(np.float32)) == 1


def test_the_reconstruction_error_is_over_real_frames() -> None:
    random = fresh()
    x, y = random.normal(size=(2, 3, 5, 2))
    lengths = np.array([1, 5, 3])
    real = np.arange(5) < lengths[:, None]
    x[~real] = np.nan
    wanted = np.sqrt(np.mean((x - y)[real] ** 2))
    assert reconstruction_error(x, y, lengths) == pytest.approx(wanted, rel=1e-14)


# --- repetitions


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_a_summary_is_scipys_percentile_bootstrap(level: float) -> None:
    values = fresh().normal(3, 2, size=6)
    summary = summarize(values, fresh(1), resamples=400, level=level)
    theirs = bootstrap(
        (values,), np.mean, n_resamples=400, confidence_level=level, method="percentile", rng=fresh(1)
    ).confidence_interval
    assert (summary.low, summary.high) == pytest.approx((theirs.low, theirs.high), rel=1e-12)
    assert summary.mean == pytest.approx(values.mean())
    assert summary.std == pytest.approx(np.sqrt(np.square(values - values.mean()).sum() / 5))
    assert summary.count == 6


def test_many_repetitions_have_the_interval_of_the_normal_law() -> None:
    summary = summarize(fresh().normal(size=2000), fresh(1))
    assert summary.std is not None
    assert summary.low is not None
    assert summary.high is not None
    half = 1.96 * summary.std / np.sqrt(2000)
    assert (summary.low, summary.high) == pytest.approx((summary.mean - half, summary.mean + half), abs=0.1 * half)


def test_one_repetition_has_no_spread() -> None:
    assert summarize([0.25], fresh()) == summarize(0.25, fresh()) == Summary(0.25, None, None, None, 1)
    assert summarize([2, 2, 2], fresh()) == Summary(2.0, 0.0, 2.0, 2.0, 3)


@settings(max_examples=30)
@given(some.lists(some.floats(-100, 100), min_size=2, max_size=8))
def test_the_interval_lies_among_the_values(values: list[float]) -> None:
    summary = summarize(values, fresh(), resamples=50)
    assert summary.low is not None
    assert summary.high is not None
    assert min(values) - 1e-9 <= summary.low <= summary.high <= max(values) + 1e-9


# --- what cannot be scored

CODES, WHO = voices(3, 2)
NAN = np.full((3, 2), np.nan)
CLIPS = np.ones((3, 4, 2))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: accuracy([1, 2, 3], [1, 2]), r"predicted and true values \(n,\), got \(3,\) and \(2,\)"),
        (lambda: accuracy([], []), r"got \(0,\) and \(0,\)"),
        (lambda: accuracy([[1, 2]], [[1, 2]]), r"got \(1, 2\) and \(1, 2\)"),
        (lambda: probabilities([1.0, 2.0]), r"logits \(n, values\), got float64 of shape \(2,\)"),
        (lambda: probabilities(NAN), "finite logits, got some that are infinite or no numbers"),
        (lambda: probabilities(np.ones((2, 2)) * 1j), "got complex128"),
        (lambda: entropies(np.ones((0, 3))), r"probabilities \(n, values\), got float64 of shape \(0, 3\)"),
        (lambda: inception_score([[0.5, 0.5], [0.5, 0.4]]), "sum to 1 in each row, got 0.9 in row 1"),
        (lambda: conditional_entropy([[50.0, 50.0]]), "sum to 1 in each row, got 100 in row 0"),
        (lambda: marginal_entropy([[1.5, -0.5]]), "from 0 to 1, got -0.5"),
        (lambda: cosine_similarities([1.0, 2.0]), r"codes \(n, k\), got float64 of shape \(2,\)"),
        (lambda: cosine_similarities([[1.0, 0.0], [0.0, 0.0]]), "have a direction, got only zeros in row 1"),
        (lambda: cosine_similarities([["a", "b"]]), "codes .*, got <U1"),
        (lambda: distinct_pairs(CODES, WHO[:-1]), r"for each code, got codes \(6, 12\) and speakers \(5,\)"),
        (lambda: distinct_pairs(CODES, WHO[:, None]), r"speakers \(6, 1\)"),
        (lambda: distinct_pairs(CODES, [7] * 6), "two speakers at least, got 6 of 1"),
        (lambda: distinct_pairs(CODES, range(6)), "two codes of one speaker at least, got 6 codes of as many speakers"),
        (lambda: equal_error_rate([], []), r"scores \(pairs,\), got float64 of shape \(0,\)"),
        (lambda: equal_error_rate([1.0, np.nan], [0, 1]), "finite scores"),
        (lambda: equal_error_rate([1.0, 2.0], [0, 1, 1]), r"for 2 pairs whether .* got \[0 1 1\]"),
        (lambda: equal_error_rate([1.0, 2.0], [0, 2]), r"got \[0 2\]"),
        (lambda: equal_error_rate([1.0, 2.0], [1, 1]), "both kinds, got 2 of the same speaker and 0 of different"),
        (lambda: equal_error_rate([1.0, 2.0], [1, 0], [0, 1]), "got 0 of the same speaker and 1 of different"),
        (lambda: equal_error_rate([1.0, 2.0], [1, 0], [-1, 1]), r"2 weights that are not negative, got \[-1.  1.\]"),
        (lambda: equal_error_rate([1.0, 2.0], [1, 0], [1]), r"2 weights .* got \[1.\]"),
        (lambda: eer_interval(CODES, WHO, fresh(), resamples=0), "got 0 and 0.95"),
        (lambda: eer_interval(CODES, WHO, fresh(), level=1.0), "a level between 0 and 1, got 200 and 1.0"),
        (lambda: eer_interval(CODES, [7] * 6, fresh()), "two speakers at least"),
        (lambda: global_consistency([1, 2]), r"whole numbers \(n, time\) as frame codes, got int64 of shape \(2,\)"),
        (lambda: global_consistency(np.ones((2, 3))), "got float64"),
        (lambda: local_consistency([[1, 2]], [3]), r"1 lengths from 1 to 2, got \[3\]"),
        (lambda: global_consistency([[1, 2]], [0]), r"from 1 to 2, got \[0\]"),
        (lambda: global_consistency([[1, 2]], [1, 2]), r"1 lengths from 1 to 2, got \[1 2\]"),
        (lambda: global_consistency([[1, 2]], [1.5]), r"got \[1.5\]"),
        (lambda: local_consistency([[1, 2], [3, 4]], [1, 1]), "two frames at least, got 2 of one"),
        (lambda: diversity(CLIPS[:, :3], CLIPS), r"samples \(n, 4, 2\) as the data are, got \(3, 3, 2\)"),
        (lambda: diversity(CLIPS[:1], CLIPS + fresh().random((3, 4, 2))), "two samples at least, got 1"),
        (lambda: diversity(CLIPS, CLIPS[:1]), "two real sequences at least, got 1"),
        (lambda: diversity(CLIPS, CLIPS), "3 real sequences that are all the same"),
        (lambda: diversity(NAN, fresh().random((3, 2))), "finite samples"),
        (lambda: diversity(np.arange(3), np.arange(3)), r"samples \(n, time, ...\), got int64 of shape \(3,\)"),
        (lambda: reconstruction_error(CLIPS, CLIPS[:2]), r"of one shape, got \(3, 4, 2\) and \(2, 4, 2\)"),
        (lambda: reconstruction_error(CLIPS, CLIPS, [5, 1, 1]), r"3 lengths from 1 to 4, got \[5 1 1\]"),
        (lambda: reconstruction_error(CLIPS[:0], CLIPS[:0]), r"got float64 of shape \(0, 4, 2\)"),
        (lambda: reconstruction_error(NAN, NAN), "finite sequences"),
        (lambda: summarize([], fresh()), r"values \(n,\), got float64 of shape \(0,\)"),
        (lambda: summarize([1.0, np.inf], fresh()), "finite values"),
        (lambda: summarize([1.0, 2.0], fresh(), level=95), "a level between 0 and 1, got 1000 and 95"),
    ],
)
def test_what_cannot_be_scored_is_said(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()


@pytest.mark.filterwarnings("error")
def test_what_is_not_finite_is_said_once() -> None:
    for bad in (np.inf, np.nan, 1e200):
        x = fresh().random((3, 4))
        x[1, 2] = bad
        with pytest.raises(InputError, match="finite samples"):
            diversity(x, fresh().random((3, 4)))
        with pytest.raises(InputError, match="finite sequences"):
            reconstruction_error(x, np.zeros((3, 4)))


def test_probabilities_may_be_rounded() -> None:
    p = verdicts().astype(np.float32)
    assert inception_score(p) == pytest.approx(inception_score(verdicts()), rel=1e-5)


def test_what_is_given_stays_as_it_is() -> None:
    codes, who = voices(4, 3)
    scores, same = distinct_pairs(codes, who)
    given_arrays = (codes, who, scores, same)
    before = [array.copy() for array in given_arrays]
    for array in given_arrays:
        array.flags.writeable = False
    cosine_similarities(codes)
    equal_error_rate(scores, same, np.abs(scores))
    eer_interval(codes, who, fresh(), resamples=3)
    diversity(codes, codes)
    assert all(np.array_equal(one, other) for one, other in zip(given_arrays, before, strict=True))


def test_a_paired_difference_of_error_rates() -> None:
    random = np.random.default_rng(0)
    speakers = np.repeat(np.arange(12), 6)
    centres = random.normal(size=(12, 5))[speakers]
    clear, noisy = (centres + level * random.normal(size=centres.shape) for level in (0.3, 1.0))
    draws = eer_differences(clear, noisy, speakers, np.random.default_rng(1))
    assert np.quantile(draws, 0.975) < 0  # clearer codes have the smaller error
    assert np.array_equal(eer_differences(noisy, clear, speakers, np.random.default_rng(1)), -draws)
    assert not eer_differences(noisy, noisy, speakers, np.random.default_rng(1)).any()
    rates = [equal_error_rate(*distinct_pairs(each, speakers)) for each in (clear, noisy)]
    assert draws.mean() == pytest.approx(rates[0] - rates[1], abs=0.03)
