"""What `diskoop data` says: everything that becomes of a user's columns, before anyone trains on them."""

from pathlib import Path

import numpy as np

from diskoop import load_data
from diskoop.cli.data import _fact_lines
from diskoop.workflows.describe import describe_data
from tests.helpers.media import write_csv


def test_features_are_told_with_their_ranges(tmp_path: Path) -> None:
    random = np.random.Generator(np.random.PCG64(0))
    for number in range(3):
        columns = {
            "a": np.arange(40) - 10 * number,
            "b": random.random(40),
            "on": np.array(["no", "yes"])[np.arange(40) % 2],
        }
        write_csv(tmp_path / f"{number}.csv", columns)
    facts = describe_data(load_data(tmp_path, "all"))
    assert facts["features"] == ["a", "b", "on=no", "on=yes"]
    assert facts["feature_ranges"]["a"] == [-20, 39]
    assert facts["feature_ranges"]["on=yes"] == [0, 1]
    assert facts["range"] == [-20, 39]
    lines = _fact_lines("feature_ranges", facts["feature_ranges"])
    assert lines[:2] == ["features (4):", "  a: -20 to 39"]
    assert lines[-1] == "  on: one of 2 words: no, yes"
    many = _fact_lines("feature_ranges", {f"f{n}": [0.0, 1.0] for n in range(40)})
    assert many == ["features: f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11 and 28 more"]
