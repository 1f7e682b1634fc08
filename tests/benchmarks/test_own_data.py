"""Real sets as a stranger would bring them: what is measured of a run, and that a run is trained once."""

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import own_data

BRIEF = {"model": {"k": 5, "h": 8, "pooled": 0}, "spectrum": {"static": 2}, "train": {"steps": 5}}


def test_a_run_is_measured_beside_pca_and_trained_once(tmp_path: Path) -> None:
    run, facts = own_data.train_timed("oscillators", tmp_path / "run", "series", 3, **BRIEF)
    assert run.settings.train.seed == 3
    assert facts["sequences"] == {"train": len(run.data("train")), "test": 400}
    # After five steps the model is still PCA, or nearly.
    assert facts["explained, ours"] == pytest.approx(facts["explained, PCA + DMD"], abs=0.02)
    assert 0.5 < facts["explained, PCA + DMD"] < 1
    assert facts["verdict"][-1].startswith("verdict: ")
    again = own_data.train_timed("oscillators", tmp_path / "run", "series", 3, **BRIEF)[1]
    assert again == facts


def test_swaps_are_judged_by_what_is_in_the_pixels() -> None:
    x = np.zeros((4, 16, 3, 32, 32), np.uint8)
    x[:2, :, 0] = 200  # two are red
    x[1::2, 8:, 1, :16] = 100  # two get green in the second half
    assert np.array_equal(own_data._mean_frames(x)[0], own_data._mean_frames(x[:1, :3])[0])
    assert own_data._mean_frames(x).shape == (4, 3 * 8 * 8)
    motion = own_data._motion(x)
    assert not motion[[0, 2]].any()
    assert np.array_equal(motion[1], motion[3])


def test_an_unknown_case_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["own_data.py", "data", "out", "speach"])
    with pytest.raises(SystemExit):
        own_data.main()
    assert "unknown case 'speach'; there are actions, air" in capsys.readouterr().err
