"""Figures of trials: on validation clips, and 1 where a swap is what it should be."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery.results import DiscoveryResult
from diskoop.data.registry import DATA_SETS, DataSet
from diskoop.errors import InputError
from diskoop.evaluation.protocols.reconstruction import swap_consistency
from diskoop.evaluation.protocols.swaps import chance_score
from diskoop.evaluation.registry import EvalConfig
from diskoop.run import Run, load
from diskoop.search import figures
from diskoop.search.figures import measure, require_classifier, require_validation
from diskoop.settings import Settings
from tests.helpers.known_models import POINTS, PROJECTORS, known_classifier, known_factors, linear_set, plain_run


@pytest.fixture(scope="module")
def run(series_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("figures") / "run"
    shutil.copytree(series_run, path)
    return load(path)


def test_figures_are_those_of_verdict_and_swaps(run: Run) -> None:
    figures = measure(run, ["explained", "steady", "cycle", "kept"])
    verdict = run.verdict("val")
    assert verdict.clips == "180 validation clips of oscillators"
    assert verdict.within is not None
    assert (figures["explained"], figures["steady"]) == (verdict.explained, 1 - verdict.within)
    again = swap_consistency(run, run.decompose(run.data("val")), EvalConfig())
    assert figures["cycle"] == pytest.approx(1 - again.cycle)
    assert figures["kept"] == pytest.approx(again.kept)
    assert measure(run, ["kept"]) == {"kept": figures["kept"]}


class Perfect(Run):
    """Encodes what it decodes without any loss, or with a dynamic part that a swap has wiped out."""

    def decompose(self, clips: object, operator: str = "frozen") -> Decomposition:
        return self.swapped  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize(("share", "kept"), [(1.0, 1.0), (0.5, 0.75), (0.0, 0.0)])
def test_kept_is_the_share_of_variance_that_is_as_before(run: Run, share: float, kept: float) -> None:
    parts = run.decompose(run.data("val"))
    parts = replace(parts, z=parts.z.double() - parts.dynamic.double().mean((0, 1)))
    config = EvalConfig()
    swapped = parts.swap("static", config.generator(7).permutation(len(parts)))
    perfect = Perfect(**vars(run))
    after = swapped.static.double() + share * swapped.dynamic.double()
    object.__setattr__(perfect, "swapped", replace(swapped, z=after))
    found = swap_consistency(perfect, parts, config)
    assert found.kept == pytest.approx(kept, abs=1e-4)
    assert found.cycle == pytest.approx(0, abs=1e-4)


def test_a_run_without_two_parts_has_no_static_figures(run: Run) -> None:
    whole = replace(run, settings=run.settings.replaced({"spectrum": {"static": 0}}))
    with pytest.raises(InputError, match="cycle, kept cannot be told: it takes a static and a dynamic part"):
        measure(whole, ["cycle", "kept"])
    assert torch.isfinite(torch.tensor(measure(run, ["cycle"])["cycle"]))


def test_a_search_takes_validation_clips() -> None:
    none = Settings.of({"data": {"name": "oscillators", "val_fraction": 0}})
    with pytest.raises(InputError, match=r"2 validation clips at least, and oscillators has 0; data.val_fraction=0.1"):
        require_validation(none)
    require_validation(none.replaced({"data": {"val_fraction": 0.1}}))


# --- with labels


@pytest.fixture
def labelled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """A run around a known operator, and a classifier that never errs; labels of the test split mean nothing."""
    clips = linear_set(6, seed=0)
    splits = (np.arange(len(clips)) % 3).astype(np.int8)
    random = np.random.Generator(np.random.PCG64(1))
    labels = {name: np.where(splits == 2, random.permutation(codes), codes) for name, codes in clips.labels.items()}
    clips = replace(clips, labels=labels, split_codes=splits)
    monkeypatch.setitem(DATA_SETS, "linear", DataSet(lambda settings: clips, ()))
    monkeypatch.setattr(figures, "load_or_train_classifier", lambda *_: known_classifier())
    return plain_run(clips.split("train"), 2, data={"name": "linear"}, folder=tmp_path)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (known_factors(PROJECTORS, names=dict(zip(PROJECTORS, "abc", strict=True))), 1.0),  # matched by swaps
        (known_factors({"all": np.eye(4)}), chance_score([len(points) for points in POINTS.values()])),
    ],
    ids=["a factor for each label", "one for all"],
)
def test_the_score_is_of_factors_found_in_training_clips_and_judged_on_validation_clips(
    labelled: Run, found: DiscoveryResult, wanted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "find_factors", lambda run: found)
    assert measure(labelled, ["score"])["score"] == pytest.approx(wanted, abs=0.05)  # chance is a frequency
    assert labelled.folder.factors.exists()


def test_data_without_labels_have_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    clips = replace(linear_set(1, seed=0), labels={}, split_codes=np.repeat(np.array([0, 1, 2], np.int8), 16))
    monkeypatch.setitem(DATA_SETS, "linear", DataSet(lambda settings: clips, ()))
    with pytest.raises(InputError, match="nothing in a linear set can be classified: it has no labels"):
        require_classifier(Settings.of({"data": {"name": "linear"}}), "cpu")
