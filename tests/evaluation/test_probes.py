"""What is in a code is read, what is not is not, and the place where it is held is found."""

import warnings
from collections.abc import Callable
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

from diskoop.errors import InputError
from diskoop.evaluation import probes
from diskoop.evaluation.probes import Dci, compactness, dci, modularity, probe

Array = NDArray[Any]


def fresh(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def coded(labels: Array, columns: int = 3, noise: float = 0.2, seed: int = 0) -> Array:
    """Codes (n, columns) in clusters, one for each value."""
    random = fresh(seed + 100)
    return 2 * random.normal(size=(labels.max() + 1, columns))[labels] + noise * random.normal(
        size=(len(labels), columns)
    )


# --- linear probes ----------------------------------------------------------------------------------------------------


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
    found = probe(*parts)
    assert found.accuracy == pytest.approx(by_scikit_learn(*parts), abs=1e-12)
    assert found.chance == 1 / 4
    assert found.chance + 0.1 < found.accuracy < 0.999


def test_separable_codes_are_read_and_others_are_not() -> None:
    labels = fresh().integers(6, size=2000)
    assert probe(*halves(coded(labels, 8), labels)).accuracy == 1
    blind = probe(*halves(fresh(1).normal(size=(2000, 8)), labels))
    assert blind.accuracy == pytest.approx(blind.chance, abs=0.04)
    assert blind.chance == 1 / 6


def test_every_value_counts_alike() -> None:
    rare = (fresh().random(4000) < 0.05).astype(np.int64)
    codes = rare[:, None] + 0.8 * fresh(1).normal(
        size=(4000, 1)
    )  # the common value is the better guess nearly everywhere
    assert 0.65 < probe(*halves(codes, rare)).accuracy < 0.8
    nothing = probe(*halves(fresh(1).normal(size=(4000, 1)), rare))
    assert nothing.accuracy == pytest.approx(0.5, abs=0.06)


def test_values_that_the_test_lacks_do_not_count() -> None:
    labels = fresh().integers(5, size=1000)
    train, known, test, wanted = halves(coded(labels, noise=2.0), labels)
    few = wanted < 3
    found = probe(train, known, test[few], wanted[few])
    alone = [probe(train, known, test[wanted == value], wanted[wanted == value]) for value in range(3)]
    assert found.accuracy == pytest.approx(np.mean([one.accuracy for one in alone]))
    assert found.chance == 1 / 5


def test_labels_may_be_words() -> None:
    labels = fresh().integers(3, size=200)
    words = np.array(["ann", "bob", "cid"])[labels]
    codes = coded(labels, noise=1.0)
    assert probe(*halves(codes, words)) == probe(*halves(codes, labels))


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
    assert probe(*halves(more, labels)) == probe(*parts)
    only = probe(*halves(np.concatenate([constant, jitter], 1), labels))
    assert only.accuracy == only.chance  # one value for all
    faint = np.concatenate([code, 1e-4 * scale * coded(labels)], 1)  # small is not nothing
    assert probe(*halves(faint, labels)).accuracy > 0.99


@pytest.mark.filterwarnings("error")
def test_codes_without_any_content_are_at_chance() -> None:
    labels = np.arange(60) % 3
    for constant in (0.0, 0.1):
        found = probe(*halves(np.full((60, 4), constant), labels))
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
            one = probe(*halves(codes, labels))
            assert one == probe(*halves(codes, labels))


def test_many_codes_are_drawn_from_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.repeat([4, 7, 9], [900, 95, 5])
    drawn = probes._even_draw(labels, 120, fresh())
    assert len(set(drawn.tolist())) == 120
    assert dict(zip(*np.unique(labels[drawn], return_counts=True), strict=True)) == {4: 58, 7: 57, 9: 5}
    assert not np.array_equal(np.sort(drawn), np.sort(probes._even_draw(labels, 120, fresh(1))))
    assert np.array_equal(probes._even_draw(labels, 1000, fresh()), np.arange(1000))
    assert drawn[labels[drawn] == 4].std() > 200  # from everywhere

    labels = fresh().integers(4, size=1200)
    parts = halves(coded(labels, noise=2.0), labels)
    whole = probe(*parts)
    assert probe(*parts, seed=1) == whole  # nothing to draw
    monkeypatch.setattr(probes, "MOST", 60)
    assert probe(*parts) == probe(*parts)
    assert len({probe(*parts, seed=seed).accuracy for seed in range(4)} | {whole.accuracy}) > 3
    chosen = probes._even_draw(parts[1], 60, np.random.default_rng(3))
    fewer = (parts[0][chosen], parts[1][chosen], *parts[2:])
    assert probe(*parts, seed=3).accuracy == pytest.approx(by_scikit_learn(*fewer))


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
        probe(*given_parts)


# --- DCI: what the numbers mean ---------------------------------------------------------------------------------------


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


# --- DCI of codes -----------------------------------------------------------------------------------------------------

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
def clean(own: dict[str, Array], looks: dict[str, Array]) -> Dci:
    return dci(own, looks)


def test_a_group_for_each_label_is_found(clean: Dci) -> None:
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
    found = dci({"a": turned[:, :3], "b": turned[:, 3:6], "c": turned[:, 6:]}, looks)
    assert found.modularity < 0.3
    assert found.compactness < 0.45
    assert found.explicitness > 0.6
    assert (found.importance > 0.02).all()


def test_one_group_holding_everything_is_compact_only(own: dict[str, Array], looks: dict[str, Array]) -> None:
    everything = np.concatenate(list(own.values())[1:], 1)
    alone = dci({"all": everything}, looks)
    assert np.array_equal(alone.importance, [[1, 1, 1]])
    assert alone.modularity == pytest.approx(0, abs=1e-9)
    assert alone.compactness == 1
    beside = dci({"all": everything, "noise": own["noise"]}, looks)
    assert beside.modularity < 0.02
    assert beside.compactness > 0.95


def test_a_second_copy_is_found(own: dict[str, Array], looks: dict[str, Array]) -> None:
    """A leak: what two groups say is not held by the better one alone."""
    copy = coded(looks["skin"], 3, 0.1, seed=7)
    found = dci({"first": own["of skin"], "noise": own["noise"], "second": copy}, {"skin": looks["skin"]})
    assert found.importance[[0, 2], 0].min() > 0.2
    assert found.compactness < 0.6


def test_columns_that_only_speak_together_are_shuffled_together() -> None:
    random = fresh()
    one, other = random.integers(2, size=(2, 800))
    pair = np.stack([one, other], 1) + 0.1 * random.normal(size=(800, 2))
    found = dci({"pair": pair, "noise": random.normal(size=(800, 2))}, {"differ": one ^ other})
    assert found.importance[0, 0] == 1
    assert found.explicitness > 0.97
    shuffles = [random.permutation(160) for _ in range(3)]
    model = probes._trees("differ", pair[160:], (one ^ other)[160:], 0)
    parts = [slice(0, 2), slice(0, 1)]
    both, first = probes._growth(model, pair[:160], (one ^ other)[:160], parts, shuffles)
    assert min(both, first) > 1
    again = probes._growth(model, pair[:160], (one ^ other)[:160], parts, 2 * shuffles)
    assert again == pytest.approx([both, first])  # a mean, however many shuffles


def test_what_cannot_be_read_is_held_by_nobody(own: dict[str, Array]) -> None:
    luck = fresh(5).integers(5, size=800)
    found = [dci({"noise": own["noise"], "more": own["of top"]}, {"luck": luck}, seed) for seed in range(4)]
    assert sum(one.compactness == 0 for one in found) >= 3
    assert found[0].explicitness == pytest.approx(0.2, abs=0.07)
    assert found[0].importance.sum() == found[0].modularity == 0


def test_a_projected_group_is_not_read(own: dict[str, Array], looks: dict[str, Array]) -> None:
    groups = {"noise": own["noise"], "taken away": 1e-16 * own["of skin"]}
    assert dci(groups, {"skin": looks["skin"]}).importance.sum() == 0


def test_company_and_scale_have_no_influence(clean: Dci, own: dict[str, Array], looks: dict[str, Array]) -> None:
    alone = dci(own, {"top": looks["top"]})
    assert np.array_equal(alone.importance[:, 0], clean.importance[:, 1])
    assert alone.accuracy[0] == clean.accuracy[1]
    scaled = dci({name: 4 * codes - 8 for name, codes in own.items()}, {"top": looks["top"]})
    assert np.allclose(scaled.importance, alone.importance, atol=1e-6)


def test_a_seed_decides(own: dict[str, Array], looks: dict[str, Array]) -> None:
    blurred = {name: codes + fresh(len(name)).normal(size=codes.shape) for name, codes in own.items()}
    one, again, other = (dci(blurred, {"top": looks["top"]}, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.importance, again.importance)
    assert one.accuracy == again.accuracy
    assert not np.array_equal(one.accuracy, other.accuracy)


def test_a_fifth_is_kept_aside_and_one_thread_is_used(own: dict[str, Array], monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees learn noise by heart; asked about what they learnt they would be right more often than chance."""
    seen: list[Array] = []
    trees = probes._trees

    def watched(name: str, x: Array, y: Array, seed: int) -> Any:
        seen.append(x)
        assert {library["num_threads"] for library in threadpool_info()} <= {1}
        return trees(name, x, y, seed)

    monkeypatch.setattr(probes, "_trees", watched)
    luck = fresh(5).integers(2, size=800)
    assert dci({"noise": own["noise"]}, {"luck": luck}).explicitness == pytest.approx(0.5, abs=0.1)
    monkeypatch.setattr(probes, "MOST", 300)
    dci({"noise": own["noise"]}, {"luck": luck})
    dci({"noise": own["noise"]}, {"luck": luck}, seed=1)
    assert [len(x) for x in seen] == [640, 240, 240]
    assert not np.array_equal(seen[1], seen[2])  # a seed decides who is kept aside


def test_a_value_too_rare_to_be_learnt_does_not_hide_the_others() -> None:
    labels = fresh().integers(2, size=300)
    groups = {"noise": fresh(1).normal(size=(300, 2)), "own": coded(labels)}
    labels[::10] = np.arange(30) + 2  # each of these once
    found = dci(groups, {"label": labels})
    assert found.importance[:, 0].tolist() == [0, 1]
    assert 0.7 < found.explicitness < 0.97


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: dci({}, {"y": LABELS}), "expected groups of columns, got none"),
        (lambda: dci({"g": CODES}, {}), "expected labels to read from the codes, got none"),
        (lambda: dci({"g": CODES[:, 0]}, {"y": LABELS}), r"codes of g \(n, columns\), got float64 of shape \(10,\)"),
        (lambda: dci({"g": CODES, "h": CODES[:9]}, {"y": LABELS}), r"equally many codes, got g \(10, 2\), h \(9, 2\)"),
        (lambda: dci({"g": CODES * np.inf}, {"y": LABELS}), "finite codes of g"),
        (lambda: dci({"g": CODES}, {"y": LABELS[:9]}), r"10 values of y, .* got int64 of shape \(9,\)"),
        (lambda: dci({"g": CODES}, {"y": LABELS * 0.5}), "10 values of y, whole numbers or words, got float64"),
        (lambda: dci({"g": CODES[:4]}, {"y": LABELS[:4]}), "5 codes at least, .* got 4"),
        (lambda: dci({"g": CODES}, {"y": LABELS * 0}), "two values of y at least to learn from, got 0 in all 8 codes"),
    ],
)
def test_what_has_no_dci_is_said(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()
