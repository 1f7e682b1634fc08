"""`diskoop swap` says what it takes together."""

from pathlib import Path

from tests.helpers.cli import diskoop


def test_factors_named_together_are_taken_together(series_run: Path, tmp_path: Path) -> None:
    words = ("swap", str(series_run), "static", "dynamic", "--pair", "0:9", "--out", "both")
    assert "taken all at once: static, dynamic (--gradual static,dynamic takes" in diskoop(*words, cwd=tmp_path).stdout
    alone = diskoop("swap", str(series_run), "static", "--pair", "0:9", "--out", "one", cwd=tmp_path)
    assert "at once" not in alone.stdout
    assert "all taken at once" in " ".join(diskoop("swap", "--help", cwd=tmp_path).stdout.replace("│", " ").split())
