"""Time series: train on an array, read codes with scikit-learn, forecast.

    python examples/series.py           # a minute on two cores
    python examples/series.py --quick   # seconds

The array is (n, time, feature); `diskoop.train("table.csv", ...)` reads tables.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

import diskoop


def oscillations(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two sensors on one of three levels (which one is the label), with an oscillation of random phase: (n, 24, 2)."""
    random = np.random.default_rng(seed)
    level, phase = random.integers(3, size=count), random.uniform(0, 2 * np.pi, (count, 1))
    angle = 0.6 * np.arange(24) + phase
    x = np.stack([level[:, None] + np.cos(angle), 0.5 * level[:, None] + np.sin(angle)], -1)
    return x + 0.05 * random.standard_normal(x.shape), level


def main(out: Path, quick: bool = False) -> tuple[float, float]:
    x, level = oscillations(400 if quick else 4000)
    run = diskoop.train(
        x,
        out / "series",
        model={"k": 8, "h": 32, "dropout": 0.0},
        spectrum={"static": 2, "radius": 1.0, "dynamic_penalty": "ball"},
        train={"epochs": 3 if quick else 20, "lr": 0.004},
    )
    codes = run.transform(x)[:, : run.settings.model.k]  # the static half
    accuracy = float(cross_val_score(LogisticRegression(max_iter=1000), codes, level).mean())

    parts = run.decompose(x[:100])
    future = parts.forecast(steps=12, observed=12).decode()[:, 12:]
    error = float(np.sqrt(np.square(future - x[:100, 12:]).mean()))
    print(f"level read from the static code: {accuracy:.0%}; error of 12 frames ahead: {error:.2f}")
    return accuracy, error


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"))
    parser.add_argument("--quick", action="store_true")
    main(**vars(parser.parse_args()))
