"""Figures of trials: on validation clips, without labels, and 1 where a swap is what it should be."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from diskoop.analysis.decomposition import Decomposition
from diskoop.errors import InputError
from diskoop.evaluation.protocols.reconstruction import swap_consistency
from diskoop.evaluation.registry import EvalConfig
from diskoop.run import Run, load
from diskoop.search.figures import measure, require_validation
from diskoop.settings import Settings


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
