"""Whole or not at all."""

import os
import stat
import sys
from pathlib import Path

import pytest

from diskoop.errors import InputError
from diskoop.storage import atomic_folder, atomic_write, cache_folder, write_text


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.txt"
    with atomic_write(target) as temporary:
        temporary.write_text("half")
        assert not target.exists()
        temporary.write_text("whole")
    assert target.read_text() == "whole"
    assert os.listdir(target.parent) == ["file.txt"]  # noqa: PTH208


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    write_text(target, "old")
    with pytest.raises(KeyboardInterrupt):
        _interrupted_write(target)
    assert target.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file.txt"]


def _interrupted_write(target: Path) -> None:
    with atomic_write(target) as temporary:
        temporary.write_text("new")
        raise KeyboardInterrupt


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_permissions_are_those_of_an_ordinary_file(tmp_path: Path) -> None:
    (tmp_path / "ordinary").write_text("")
    write_text(tmp_path / "ours", "")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE((tmp_path / "ordinary").stat().st_mode)


def test_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "runs" / "one"
    with atomic_folder(target) as temporary:
        (temporary / "file").write_text("x")
        assert not target.exists()
    assert [file.name for file in target.iterdir()] == ["file"]
    assert [file.name for file in target.parent.iterdir()] == ["one"]
    (tmp_path / "empty").mkdir()
    with atomic_folder(tmp_path / "empty") as temporary:
        (temporary / "file").write_text("x")
    assert (tmp_path / "empty" / "file").exists()


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=r"cannot write .*file/inside"):
        write_text(tmp_path / "file" / "inside", "x")
    with pytest.raises(InputError, match="cannot write"):
        write_text(tmp_path, "x")
    assert (tmp_path / "file").read_text() == "mine"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_the_cache_can_be_moved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DISKOOP_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("DISKOOP_CACHE")
    assert cache_folder().name == "diskoop"
