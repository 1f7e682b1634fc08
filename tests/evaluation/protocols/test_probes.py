"""What is in a code is read, what is not is not, and the place where it is held is found."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from diskoop.data.sequences import Sequences
from diskoop.errors import InputError
from diskoop.evaluation.baselines import leaky_model
from diskoop.evaluation.protocols import probes
from diskoop.evaluation.protocols.probes import (
    DciScores,
    compactness,
    compute_dci,
    fit_probe,
    measure_dci,
    measure_probes,
    modularity,
    time_code,
)
from diskoop.evaluation.registry import EvalConfig, EvalContext
from diskoop.evaluation.results import Key, Values
from diskoop.numerics import Factor
from diskoop.run import Run
from tests.helpers.known_models import DOUBLE, MOTION, POINTS, PROJECTORS, known_factors, linear_set, plain_run

Array = NDArray[Any]


def fresh(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def coded(labels: Array, columns: int = 3, noise: float = 0.2, seed: int = 0) -> Array:
    """Codes (n, columns) in clusters, one for each value."""
    random = fresh(seed + 100)
    return 2 * random.normal(size=(labels.max() + 1, columns))[labels] + noise * random.normal(
        size=(len(labels), columns)
    )


# --- linear probes


def halves(codes: Array, labels: Array) -> tuple[Array, Array, Array, Array]:
    middle = len(labels) // 2
    return codes[:middle], labels[:middle], codes[middle:], labels[middle:]


def by_scikit_learn(train: Array, labels: Array, test: Array, wanted: Array) -> float:
    model = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=1000))
    return float(balanced_accuracy_score(wanted, model.fit(train, labels).predict(test)))


@pytest.mark.parametrize("noise", [1.0, 3.0])
def test_a_probe_is_scikit_learns_pipeline(noise: float) -> None:
    labels = np.minimum(fresh().geometric(0.4, size=1200), 4)  # 1 is common, 4 is rare
    codes = coded(labels, 5, noise) * [1, 10, 100, 1e-3, 1] + [0, 0, 50, 0, -3]
    parts = halves(codes, labels)
    found = fit_probe(*parts)
    assert found.accuracy == pytest.approx(by_scikit_learn(*parts), abs=1e-12)
    assert found.chance == 1 / 4
    assert found.chance + 0.1 < found.accuracy < 0.999


def test_separable_codes_are_read_and_others_are_not() -> None:
    labels = fresh().integers(6, size=2000)
    assert fit_probe(*halves(coded(labels, 8), labels)).accuracy == 1
    blind = fit_probe(*halves(fresh(1).normal(size=(2000, 8)), labels))
    assert blind.accuracy == pytest.approx(blind.chance, abs=0.04)
    assert blind.chance == 1 / 6


def test_every_value_counts_alike() -> None:
    rare = (fresh().random(4000) < 0.05).astype(np.int64)
    codes = rare[:, None] + 0.8 * fresh(1).normal(
        size=(4000, 1)
    )  # the common value is the better guess nearly everywhere
    assert 0.65 < fit_probe(*halves(codes, rare)).accuracy < 0.8
    nothing = fit_probe(*halves(fresh(1).normal(size=(4000, 1)), rare))
    assert nothing.accuracy == pytest.approx(0.5, abs=0.06)


def test_values_that_the_test_lacks_do_not_count() -> None:
    labels = fresh().integers(5, size=1000)
    train, known, test, wanted = halves(coded(labels, noise=2.0), labels)
    few = wanted < 3
    found = fit_probe(train, known, test[few], wanted[few])
    alone = [fit_probe(train, known, test[wanted == value], wanted[wanted == value]) for value in range(3)]
    assert found.accuracy == pytest.approx(np.mean([one.accuracy for one in alone]))
    assert found.chance == 1 / 5


def test_labels_may_be_words() -> None:
    labels = fresh().integers(3, size=200)
    words = np.array(["ann", "bob", "cid"])[labels]
    codes = coded(labels, noise=1.0)
    assert fit_probe(*halves(codes, words)) == fit_probe(*halves(codes, labels))


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_what_rounding_left_of_a_zero_is_not_read(scale: float) -> None:
    """A constant column is harmless, and so is one that a projection took away but for the last digits."""
    labels = fresh().integers(4, size=800)
    code = scale * fresh(1).normal(size=(800, 2))
    parts = halves(code, labels)
    taken = scale * 1e-16 * coded(labels)
    constant = np.full((800, 1), 0.1 * scale)
    jitter = 1e9 * scale * (1 + 1e-15 * labels[:, None])
    more = np.concatenate([taken, code, constant, jitter], 1)
    assert fit_probe(*halves(more, labels)) == fit_probe(*parts)
    only = fit_probe(*halves(np.concatenate([constant, jitter], 1), labels))
    assert only.accuracy == only.chance  # one value for all
    faint = np.concatenate([code, 1e-4 * scale * coded(labels)], 1)  # small is not nothing
    assert fit_probe(*halves(faint, labels)).accuracy > 0.99


@pytest.mark.filterwarnings("error")
def test_codes_without_any_content_are_at_chance() -> None:
    labels = np.arange(60) % 3
    for constant in (0.0, 0.1):
        found = fit_probe(*halves(np.full((60, 4), constant), labels))
        assert found.accuracy == pytest.approx(found.chance)


def test_probes_converge_quietly() -> None:
    random = fresh()
    labels = random.integers(5, size=600)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for codes in (
            random.standard_cauchy(size=(600, 6)),
            coded(labels, 3) @ random.normal(size=(3, 20)),  # collinear
            np.concatenate([coded(labels, 6, 0.0)] * 2, 1),  # separable without end
            random.normal(size=(600, 400)),  # as many columns as codes
        ):
            one = fit_probe(*halves(codes, labels))
            assert one == fit_probe(*halves(codes, labels))


def test_many_codes_are_drawn_from_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.repeat([4, 7, 9], [900, 95, 5])
    drawn = probes._balanced_draw(labels, 120, fresh())
    assert len(set(drawn.tolist())) == 120
    assert dict(zip(*np.unique(labels[drawn], return_counts=True), strict=True)) == {4: 58, 7: 57, 9: 5}
    assert not np.array_equal(np.sort(drawn), np.sort(probes._balanced_draw(labels, 120, fresh(1))))
    assert np.array_equal(probes._balanced_draw(labels, 1000, fresh()), np.arange(1000))
    assert drawn[labels[drawn] == 4].std() > 200  # from everywhere

    labels = fresh().integers(4, size=1200)
    parts = halves(coded(labels, noise=2.0), labels)
    whole = fit_probe(*parts)
    assert fit_probe(*parts, seed=1) == whole  # nothing to draw
    monkeypatch.setattr(probes, "MAX_CODES", 60)
    assert fit_probe(*parts) == fit_probe(*parts)
    assert len({fit_probe(*parts, seed=seed).accuracy for seed in range(4)} | {whole.accuracy}) > 3
    chosen = probes._balanced_draw(parts[1], 60, np.random.default_rng(3))
    fewer = (parts[0][chosen], parts[1][chosen], *parts[2:])
    assert fit_probe(*parts, seed=3).accuracy == pytest.approx(by_scikit_learn(*fewer))


CODES, LABELS = fresh().normal(size=(10, 2)), np.arange(10) % 2


@pytest.mark.parametrize(
    ("given_parts", "sentence"),
    [
        ((CODES[0], LABELS, CODES, LABELS), r"training codes \(n, k\), got float64 of shape \(2,\)"),
        ((CODES, LABELS, CODES[:0], LABELS[:0]), r"test codes \(n, k\), got float64 of shape \(0, 2\)"),
        ((CODES * np.nan, LABELS, CODES, LABELS), "finite training codes"),
        ((CODES * 1j, LABELS, CODES, LABELS), "got complex128"),
        ((CODES, LABELS[:9], CODES, LABELS), r"10 training labels, whole numbers or words, got int64 of shape \(9,\)"),
        ((CODES, LABELS, CODES, LABELS * 0.5), "10 test labels, whole numbers or words, got float64"),
        ((CODES, LABELS, CODES[:, :1], LABELS), "2 columns as in training, got 1"),
        ((CODES, LABELS * 0 + 3, CODES, LABELS), "two values at least, got 3 only"),
        ((CODES, LABELS, CODES, LABELS * 7), "the test labels show 7, which no training label does"),
        ((CODES, LABELS, CODES, np.arange(10)), "show 2, 3, 4 and 5 more, which"),
    ],
)
def test_what_cannot_be_probed_is_said(given_parts: tuple[Array, Array, Array, Array], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        fit_probe(*given_parts)


# --- DCI: what the numbers mean


def test_one_group_for_each_label_is_modular_and_compact() -> None:
    assert modularity(np.eye(4)) == compactness(np.eye(4)) == 1
    idle = np.eye(4)[:, :3]  # the last group says nothing
    assert modularity(idle) == compactness(idle) == 1


def test_everything_everywhere_is_neither() -> None:
    assert modularity(np.full((3, 5), 1 / 3)) == pytest.approx(0, abs=1e-12)
    assert compactness(np.full((3, 5), 1 / 3)) == pytest.approx(0, abs=1e-12)


def test_one_group_that_holds_everything_is_compact_only() -> None:
    for importance in (np.ones((1, 5)), np.array([[1.0] * 5, [0.0] * 5])):
        assert modularity(importance) == pytest.approx(0, abs=1e-12)
        assert compactness(importance) == 1


def test_one_label_in_many_groups_is_modular_only() -> None:
    assert modularity(np.full((4, 1), 0.25)) == 1
    assert compactness(np.full((4, 1), 0.25)) == pytest.approx(0, abs=1e-12)
    assert modularity(np.ones((1, 1))) == compactness(np.ones((1, 1))) == 1


def test_what_nobody_holds_is_not_compact() -> None:
    assert modularity(np.zeros((2, 3))) == compactness(np.zeros((2, 3))) == 0
    assert compactness(np.array([[1.0, 0.0], [0.0, 0.0]])) == 0.5
    assert modularity(np.array([[1.0, 0.0], [0.0, 0.0]])) == 1


def test_groups_count_by_what_they_say() -> None:
    importance = np.array([[1.0, 0.5], [0.0, 0.5]])
    mixed = 1 + (2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3)) / np.log(2)
    assert modularity(importance) == pytest.approx((1.5 * mixed + 0.5 * 1) / 2)
    assert compactness(importance) == pytest.approx((1 + 0) / 2)


@given(arrays.arrays(np.float64, some.tuples(some.integers(1, 5), some.integers(1, 5)), elements=some.floats(0, 1)))
def test_modularity_and_compactness_are_shares(importance: Array) -> None:
    for share in (modularity(importance), compactness(importance)):
        assert -1e-9 <= share <= 1 + 1e-9
    assert modularity(importance[::-1]) == pytest.approx(modularity(importance), abs=1e-9)
    assert compactness(importance[:, ::-1]) == pytest.approx(compactness(importance), abs=1e-9)


# --- DCI of codes

KINDS = {"skin": 6, "top": 4, "action": 9}


@pytest.fixture(scope="module")
def looks() -> dict[str, Array]:
    random = fresh(3)
    return {name: random.integers(count, size=800) for name, count in KINDS.items()}


@pytest.fixture(scope="module")
def own(looks: dict[str, Array]) -> dict[str, Array]:
    """A group for each label, named in another order, and one of noise."""
    groups = {f"of {name}": coded(codes, 3, 0.1, seed) for seed, (name, codes) in enumerate(looks.items())}
    return {"noise": fresh(9).normal(size=(800, 2)), **dict(reversed(groups.items()))}


@pytest.fixture(scope="module")
def clean(own: dict[str, Array], looks: dict[str, Array]) -> DciScores:
    return compute_dci(own, looks)


def test_a_group_for_each_label_is_found(clean: DciScores) -> None:
    assert clean.groups == ("noise", "of action", "of top", "of skin")
    assert clean.labels == ("skin", "top", "action")
    assert np.allclose(clean.importance, [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]], atol=0.02)
    assert clean.modularity > 0.97
    assert clean.compactness > 0.97
    assert clean.explicitness > 0.97
    assert clean.explicitness == pytest.approx(clean.accuracy.mean())
    assert np.allclose(clean.importance.sum(0), 1)


def test_everything_mixed_is_explicit_but_not_modular(own: dict[str, Array], looks: dict[str, Array]) -> None:
    columns = np.concatenate(list(own.values())[1:], 1)  # (n, 9)
    turned = columns @ np.linalg.qr(fresh().normal(size=(9, 9)))[0]
    found = compute_dci({"a": turned[:, :3], "b": turned[:, 3:6], "c": turned[:, 6:]}, looks)
    assert found.modularity < 0.3
    assert found.compactness < 0.45
    assert found.explicitness > 0.6
    assert (found.importance > 0.02).all()


def test_one_group_holding_everything_is_compact_only(own: dict[str, Array], looks: dict[str, Array]) -> None:
    everything = np.concatenate(list(own.values())[1:], 1)
    alone = compute_dci({"all": everything}, looks)
    assert np.array_equal(alone.importance, [[1, 1, 1]])
    assert alone.modularity == pytest.approx(0, abs=1e-9)
    assert alone.compactness == 1
    beside = compute_dci({"all": everything, "noise": own["noise"]}, looks)
    assert beside.modularity < 0.02
    assert beside.compactness > 0.95


def test_a_second_copy_is_found(own: dict[str, Array], looks: dict[str, Array]) -> None:
    """A leak: what two groups say is not held by the better one alone."""
    copy = coded(looks["skin"], 3, 0.1, seed=7)
    found = compute_dci({"first": own["of skin"], "noise": own["noise"], "second": copy}, {"skin": looks["skin"]})
    assert found.importance[[0, 2], 0].min() > 0.2
    assert found.compactness < 0.6


def test_columns_that_only_speak_together_are_shuffled_together() -> None:
    random = fresh()
    one, other = random.integers(2, size=(2, 800))
    pair = np.stack([one, other], 1) + 0.1 * random.normal(size=(800, 2))
    found = compute_dci({"pair": pair, "noise": random.normal(size=(800, 2))}, {"differ": one ^ other})
    assert found.importance[0, 0] == 1
    assert found.explicitness > 0.97
    shuffles = [random.permutation(160) for _ in range(3)]
    model = probes._fit_trees("differ", pair[160:], (one ^ other)[160:], 0)
    parts = [slice(0, 2), slice(0, 1)]
    both, first = probes._loss_increases(model, pair[:160], (one ^ other)[:160], parts, shuffles)
    assert min(both, first) > 1
    again = probes._loss_increases(model, pair[:160], (one ^ other)[:160], parts, 2 * shuffles)
    assert again == pytest.approx([both, first])  # a mean, however many shuffles


def test_what_cannot_be_read_is_held_by_nobody(own: dict[str, Array]) -> None:
    luck = fresh(5).integers(5, size=800)
    found = [compute_dci({"noise": own["noise"], "more": own["of top"]}, {"luck": luck}, seed) for seed in range(4)]
    assert sum(one.compactness == 0 for one in found) >= 3
    assert found[0].explicitness == pytest.approx(0.2, abs=0.07)
    assert found[0].importance.sum() == found[0].modularity == 0


def test_a_projected_group_is_not_read(own: dict[str, Array], looks: dict[str, Array]) -> None:
    groups = {"noise": own["noise"], "taken away": 1e-16 * own["of skin"]}
    assert compute_dci(groups, {"skin": looks["skin"]}).importance.sum() == 0


def test_company_and_scale_have_no_influence(clean: DciScores, own: dict[str, Array], looks: dict[str, Array]) -> None:
    alone = compute_dci(own, {"top": looks["top"]})
    assert np.array_equal(alone.importance[:, 0], clean.importance[:, 1])
    assert alone.accuracy[0] == clean.accuracy[1]
    scaled = compute_dci({name: 4 * codes - 8 for name, codes in own.items()}, {"top": looks["top"]})
    assert np.allclose(scaled.importance, alone.importance, atol=1e-6)


def test_a_seed_decides(own: dict[str, Array], looks: dict[str, Array]) -> None:
    blurred = {name: codes + fresh(len(name)).normal(size=codes.shape) for name, codes in own.items()}
    one, again, other = (compute_dci(blurred, {"top": looks["top"]}, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.importance, again.importance)
    assert one.accuracy == again.accuracy
    assert not np.array_equal(one.accuracy, other.accuracy)


def test_a_fifth_is_kept_aside_and_one_thread_is_used(own: dict[str, Array], monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees learn noise by heart; asked about what they learnt they would be right more often than chance."""
    seen: list[Array] = []
    trees = probes._fit_trees

    def watched(name: str, x: Array, y: Array, seed: int) -> Any:
        seen.append(x)
        assert {library["num_threads"] for library in threadpool_info()} <= {1}
        return trees(name, x, y, seed)

    monkeypatch.setattr(probes, "_fit_trees", watched)
    luck = fresh(5).integers(2, size=800)
    assert compute_dci({"noise": own["noise"]}, {"luck": luck}).explicitness == pytest.approx(0.5, abs=0.1)
    monkeypatch.setattr(probes, "MAX_CODES", 300)
    compute_dci({"noise": own["noise"]}, {"luck": luck})
    compute_dci({"noise": own["noise"]}, {"luck": luck}, seed=1)
    assert [len(x) for x in seen] == [640, 240, 240]
    assert not np.array_equal(seen[1], seen[2])  # a seed decides who is kept aside


def test_a_value_too_rare_to_be_learnt_does_not_hide_the_others() -> None:
    labels = fresh().integers(2, size=300)
    groups = {"noise": fresh(1).normal(size=(300, 2)), "own": coded(labels)}
    labels[::10] = np.arange(30) + 2  # each of these once
    found = compute_dci(groups, {"label": labels})
    assert found.importance[:, 0].tolist() == [0, 1]
    assert 0.7 < found.explicitness < 0.97


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: compute_dci({}, {"y": LABELS}), "expected groups of columns, got none"),
        (lambda: compute_dci({"g": CODES}, {}), "expected labels to read from the codes, got none"),
        (
            lambda: compute_dci({"g": CODES[:, 0]}, {"y": LABELS}),
            r"codes of g \(n, columns\), got float64 of shape \(10,\)",
        ),
        (
            lambda: compute_dci({"g": CODES, "h": CODES[:9]}, {"y": LABELS}),
            r"equally many codes, got g \(10, 2\), h \(9, 2\)",
        ),
        (lambda: compute_dci({"g": CODES * np.inf}, {"y": LABELS}), "finite codes of g"),
        (lambda: compute_dci({"g": CODES}, {"y": LABELS[:9]}), r"10 values of y, .* got int64 of shape \(9,\)"),
        (lambda: compute_dci({"g": CODES}, {"y": LABELS * 0.5}), "10 values of y, whole numbers or words, got float64"),
        (lambda: compute_dci({"g": CODES[:4]}, {"y": LABELS[:4]}), "5 codes at least, .* got 4"),
        (
            lambda: compute_dci({"g": CODES}, {"y": LABELS * 0}),
            "two values of y at least to learn from, got 0 in all 8 codes",
        ),
    ],
)
def test_what_has_no_dci_is_said(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()


# --- metrics

CONFIG = EvalConfig(repeats=1)


@pytest.fixture(scope="module")
def clips() -> Sequences:
    return linear_set(4, seed=1)


@pytest.fixture(scope="module")
def run(clips: Sequences) -> Run:
    return plain_run(clips, 2, known_factors(PROJECTORS, [MOTION], stability=0.8))


def only(clips: Sequences, labels: Sequence[str]) -> Sequences:
    return replace(clips, labels={label: clips.labels[label] for label in labels})


def leaks(run: Run, train: Sequences, clips: Sequences, labels: Sequence[str], config: EvalConfig) -> Values:
    return measure_probes(run, EvalContext(train, only(clips, labels), config=config)).values


def disentanglement(run: Run, clips: Sequences, labels: Sequence[str], config: EvalConfig) -> Values:
    return measure_dci(run, EvalContext(clips, only(clips, labels), config=config)).values


def test_a_label_is_read_from_the_part_that_holds_it(run: Run, clips: Sequences) -> None:
    values = leaks(run, linear_set(8, seed=2), clips, list(POINTS), CONFIG)
    for label, points in POINTS.items():
        chance = 1 / len(points)
        own, other = ("dynamic", "static") if label == MOTION else ("static", "dynamic")
        assert values[Key("probe", label, own)].mean == 1
        assert values[Key("probe", label, other)].mean == pytest.approx(chance, abs=0.1)
        assert values[Key("probe", label, "chance")].mean == chance


def test_too_few_test_clips_are_not_probed(run: Run, clips: Sequences) -> None:
    windows = replace(clips.select(range(40)), clips=np.arange(40) // 40)  # all of one clip
    for few, count in ((clips.select(range(9)), "9 test clips"), (windows, "1 test clip")):
        for measure in (measure_probes, measure_dci):
            with pytest.raises(InputError, match=f"^{count} of .* would say nothing, at least 10 are wanted; a larger"):
                measure(run, EvalContext(clips, few, config=CONFIG))


def test_values_that_nobody_taught_are_not_asked_for(run: Run, clips: Sequences) -> None:
    train = linear_set(4, seed=2)

    class Fewer(EvalConfig):
        def subset(self, clips: Sequences, count: int, purpose: int) -> Sequences:
            return clips.select(clips.labels["level"] != 2)

    values = leaks(run, train, clips, ["level"], Fewer(repeats=1))
    assert values[Key("probe", "level", "static")].mean == 1
    assert values[Key("probe", "level", "chance")].mean == pytest.approx(1 / 3)


def test_what_is_held_in_the_first_frames_only_is_seen() -> None:
    """A mean over all frames drowns it: afterwards comes noise, and much of it."""
    draw = np.random.Generator(np.random.PCG64(4))
    labels = {"start": np.arange(200) % 2}
    x = 20 * draw.normal(size=(200, 40, 2))
    x[:, :10, 0] = labels["start"][:, None]
    clips = Sequences.of(x, labels, units=DOUBLE)
    values = leaks(plain_run(np.diag([0.5, 1.0]), 1), clips, clips, ["start"], CONFIG)
    assert values[Key("probe", "start", "dynamic")].mean == 1
    assert values[Key("probe", "start", "static")].mean < 0.7


def test_what_turns_its_sign_from_frame_to_frame_is_seen(run: Run, clips: Sequences) -> None:
    """The model that leaks keeps the level in its dynamic part, where it has no mean over two frames."""
    train = linear_set(8, seed=2)
    cheat = leaky_model(run, train)
    parts = cheat.decompose(clips)
    first, *means = np.split(time_code(parts, "dynamic"), 1 + probes.STRETCHES, axis=1)
    own = [codes[:, 2:] @ PROJECTORS["level"] for codes in (first, *means)]  # behind what stays and is not drawn
    assert np.allclose(own[0], clips.x[:, 0] @ PROJECTORS["level"], atol=1e-6)
    assert np.abs(own[1:]).max() < 1e-6
    values = leaks(cheat, train, clips, ["level"], CONFIG)
    assert values[Key("probe", "level", "dynamic")].mean == 1
    assert leaks(run, train, clips, ["level"], CONFIG)[Key("probe", "level", "dynamic")].mean < 0.4  # an honest one


@pytest.mark.parametrize(
    ("length", "means"),
    [
        (16, [1.5, 5.5, 9.5, 13.5]),
        (8, [0.5, 2.5, 4.5, 6.5]),
        (6, [0, 1.5, 3, 4.5]),  # stretches of 1, 2, 1 and 2 frames
        (4, [0, 1, 2, 3]),
        (3, [0, 0, 1, 2]),  # shorter than the stretches are many: a frame stands for two of them
        (2, [0, 0, 1, 1]),
    ],
)
def test_a_code_is_the_first_frame_and_means_over_stretches_of_time(length: int, means: list[float]) -> None:
    """Beside a sequence of 16 frames, whose code is the same in any company."""
    time = np.arange(16.0)
    x = np.stack([np.stack([time, 10 * time], 1), np.stack([-time, time + 5], 1)])
    parts = plain_run(np.diag([1, 0.5]), 1).decompose(Sequences.of(x, lengths=np.array([16, length]), units=DOUBLE))
    codes = time_code(parts, "static").reshape(2, 5, 2)
    assert np.allclose(codes[0, :, 0], [0, 1.5, 5.5, 9.5, 13.5])
    assert np.allclose(codes[1, :, 0], [0, *-np.array(means)])
    assert not codes[..., 1].any()
    codes = time_code(parts, "dynamic").reshape(2, 5, 2)
    assert np.allclose(codes[1, :, 1], np.array([0, *means]) + 5)
    assert not codes[..., 0].any()


def test_short_sequences_to_learn_from_and_longer_ones_to_read(run: Run) -> None:
    """Their codes have the same columns."""
    train, clips = linear_set(6, seed=2, steps=3), linear_set(2, seed=3, steps=9)
    assert leaks(run, train, clips, ["level"], CONFIG)[Key("probe", "level", "static")].mean == 1


def test_known_factors_are_disentangled(clips: Sequences) -> None:
    run = plain_run(clips, 2, known_factors(PROJECTORS, [MOTION]))
    rest = known_factors({"unused": np.eye(4)}, remainder=["unused"]).factors
    assert run.factors is not None
    run = replace(run, factors=replace(run.factors, factors=(*run.factors.factors, *rest)))
    values = disentanglement(run, linear_set(10, seed=2), list(POINTS), CONFIG)
    assert {key for key, value in values.items() if value.mean > 0.97} == {
        Key("dci", "modularity"),
        Key("dci", "compactness"),
        Key("dci", "explicitness"),
    }


def test_factors_that_hold_half_of_everything_are_not(clips: Sequences) -> None:
    """Two of the features, whatever they mean: every label is in both."""
    halves = {"one": np.diag([1.0, 1, 0, 0]), "two": np.diag([0, 0, 1.0, 1])}
    values = disentanglement(plain_run(clips, 2, known_factors(halves)), linear_set(10, seed=2), list(POINTS), CONFIG)
    assert values[Key("dci", "modularity")].mean < 0.5
    assert values[Key("dci", "compactness")].mean < 0.7


def test_coordinates_are_as_many_as_there_are_directions() -> None:
    draw = np.random.Generator(np.random.PCG64(0))
    codes = draw.normal(size=(50, 2)) @ draw.normal(size=(2, 7)) + 3
    few = probes._remove_null_directions(codes)
    assert few.shape == (50, 2)
    apart = [np.linalg.norm(x[:, None] - x, axis=-1) for x in (codes, few)]
    assert np.allclose(*apart)
    assert probes._remove_null_directions(np.ones((5, 3))).shape == (5, 0)


def test_a_factor_that_says_nothing_is_left_out_of_dci(clips: Sequences) -> None:
    nothing = {**PROJECTORS, "nothing": np.zeros((4, 4))}
    with_it, without = (
        disentanglement(plain_run(clips, 2, known_factors(some)), linear_set(4, seed=2), ["level", "tint"], CONFIG)
        for some in (nothing, PROJECTORS)
    )
    assert with_it == without


def test_a_factor_is_asked_for_by_name(run: Run, clips: Sequences) -> None:
    parts = run.decompose(clips)
    parts.factors["twice"] = Factor("twice", 2 * parts.factors["static"].projector)
    assert np.allclose(time_code(parts, "twice"), 2 * time_code(parts, "static"))
