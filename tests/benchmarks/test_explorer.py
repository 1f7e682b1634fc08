"""The benchmark runs. Speed is for people to look at: `python -m benchmarks.explorer`."""

from pathlib import Path

from benchmarks.explorer import measure


def test_clicks_are_timed(video_run: Path) -> None:
    facts = measure(video_run, clicks=3)
    assert facts["frame"] == (3, 32, 32)
    assert 0 < facts["server"] <= facts["click to picture"] <= facts["95 of 100"] * 1.01
