"""The command that lists and clears the cache."""

import json
import sys
from pathlib import Path

import pytest

from diskoop.storage import HOST, TEMPORARY, atomic_write
from tests.helpers.cli import answer, diskoop

KEY = "0123456789ab"


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    for name, size in ((f"puppets-32-{KEY}", 5000), (f"faces-32-{KEY}", 300)):
        (folder / name).mkdir(parents=True)
        (folder / name / "frames.npy").write_bytes(b"1" * size)
    (folder / f"{TEMPORARY}{HOST}-puppets-64-{KEY}-a1b2c3d4").mkdir()
    (folder / f".faces-64-{KEY}-a1b2c3d4.npy").write_bytes(b"1" * 40)  # left by an earlier version
    (folder / "mine.txt").write_text("not ours")
    monkeypatch.setenv("DISKOOP_CACHE", str(folder))
    return folder


def test_it_lists_names_and_sizes(own_cache: Path, tmp_path: Path) -> None:
    result = diskoop("cache", cwd=tmp_path)
    assert result.returncode == 0
    assert f"{own_cache}: 5.3 kB" in result.stdout
    assert f"puppets-32-{KEY}" in result.stdout
    assert "left by a process that was killed" in result.stdout
    assert "mine.txt" not in result.stdout
    facts = answer("cache", "pup", cwd=tmp_path)
    assert [entry["name"] for entry in facts["entries"]] == [f"puppets-32-{KEY}"]
    assert (facts["bytes"], facts["cleared"]) == (5000, [])


def test_it_clears_what_it_lists_and_nothing_else(own_cache: Path, tmp_path: Path) -> None:
    assert answer("cache", "faces", "--clear", cwd=tmp_path)["cleared"] == [f"faces-32-{KEY}"]
    with atomic_write(own_cache / f"voices-{KEY}.npy") as being_written:
        (own_cache / f"{TEMPORARY}{HOST}-later").mkdir()  # atomic_write has removed the one that was there
        result = diskoop("cache", "--clear", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        kept = {"mine.txt"} if sys.platform != "win32" else {"mine.txt", f"{TEMPORARY}{HOST}-later"}
        assert {file.name for file in own_cache.iterdir()} == {*kept, being_written.name}
    assert "holds nothing" not in result.stdout


def test_an_unknown_entry_and_an_empty_cache_are_told(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = diskoop("cache", "pupets", "--clear", cwd=tmp_path)
    assert result.returncode == 2
    assert "begins with 'pupets'; it holds puppets-32-" in result.stderr
    assert (own_cache / f"puppets-32-{KEY}").exists()
    monkeypatch.setenv("DISKOOP_CACHE", str(tmp_path / "none"))
    assert "holds nothing" in diskoop("cache", cwd=tmp_path).stdout
    assert json.loads(diskoop("cache", "--json", cwd=tmp_path).stdout)["entries"] == []
