"""What holds exactly behind identity networks holds behind trained ones, nearly."""

from pathlib import Path

import numpy as np
import pytest

from diskoop import load
from diskoop.data.sets.oscillators import truth
from diskoop.settings import Settings
from diskoop.training import loop
from tests.helpers.training import Quiet

TOLERANCE = 0.1  # root mean squared error of a swap, of what the swap should change


@pytest.mark.slow
def test_a_trained_run_finds_and_swaps_the_known_factors(tmp_path: Path) -> None:
    settings = Settings.of(
        {
            "data": {"name": "oscillators"},
            "model": {"k": 8, "h": 32, "dropout": 0.0},
            "spectrum": {"static": 3, "radius": 0.96, "dynamic_penalty": "hinge"},
            "loss": {"pred": 10, "cycle": 2},
            "train": {"epochs": 40, "lr": 0.01, "schedule": "cosine", "device": "cpu"},
        }
    )
    loop.train(settings, tmp_path / "run", reporter=Quiet())
    run = load(tmp_path / "run")
    run = run.save_factors(run.find_factors())
    clips, known = run.data("test"), truth("oscillators")
    parts, x = run.decompose(clips), clips.x
    assert len(parts.factors) == 7  # static, dynamic and the five that made the set

    def error(name: str, projector: np.ndarray) -> float:
        donor = np.roll(np.arange(len(x)), 7)
        wanted = (x[donor] - x) @ projector
        away = parts.swap(name, donor).decode() - x - wanted
        return float(np.sqrt(np.square(away).mean() / np.square(wanted).mean()))

    static = np.sum([known.projectors[name] for name in known.static], axis=0)
    assert error("static", static) < TOLERANCE
    assert error("dynamic", np.eye(8) - static) < TOLERANCE
    assert run.factors is not None
    errors = {name: [error(mine, p) for mine in run.factors.names] for name, p in known.projectors.items()}
    best = {name: run.factors.names[int(np.argmin(each))] for name, each in errors.items()}
    assert len(set(best.values())) == 5
    assert all(min(each) < 3 * TOLERANCE for each in errors.values())
