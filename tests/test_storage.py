"""Whole or not at all."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from diskoop import storage
from diskoop.data.cache import cached_array
from diskoop.errors import InputError, ResourceError
from diskoop.storage import TEMPORARY, atomic_folder, atomic_write, cache_folder, discard, sweep, write_text
from diskoop.tensor_files import write_tensors
from tests.helpers.disks import fill, small_disk


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.txt"
    with atomic_write(target) as temporary:
        temporary.write_text("half")
        assert not target.exists()
        temporary.write_text("whole")
    assert target.read_text() == "whole"
    assert os.listdir(target.parent) == ["file.txt"]  # noqa: PTH208


def test_what_is_named_is_on_the_disk_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that loses power after the renaming must not have a name without its bytes."""
    flushed: list[str] = []
    renamed: list[list[str]] = []
    replace = Path.replace

    def rename(self: Path, target: Path) -> Path:
        renamed.append(flushed.copy())
        return replace(self, target)

    monkeypatch.setattr(storage, "_flush_to_disk", lambda path: flushed.append(path.name))
    monkeypatch.setattr(Path, "replace", rename)
    with atomic_write(tmp_path / "a.txt") as temporary:
        temporary.write_text("a")
        name = temporary.name
    assert name in renamed[-1]
    with atomic_folder(tmp_path / "folder") as temporary:
        (temporary / "inside").write_text("b")
        name = temporary.name
    assert {name, "inside"} <= set(renamed[-1])


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


KILLED = """
import os, signal, sys
from diskoop.storage import {kind}
with {kind}(sys.argv[1]) as temporary:
    ({target}).write_text("half")
    print("ready", flush=True)
    {last}
"""


def _writer(kind: str, path: Path, last: str) -> subprocess.Popen[str]:
    """A process in the middle of writing `path`."""
    target = "temporary / 'inside'" if kind == "atomic_folder" else "temporary"
    code = KILLED.format(kind=kind, target=target, last=last)
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.skipif(sys.platform == "win32", reason="files are locked on POSIX")
@pytest.mark.parametrize("kind", ["atomic_write", "atomic_folder"])
def test_what_a_killed_process_left_is_removed_by_the_next_write(kind: str, tmp_path: Path) -> None:
    alive = _writer(kind, tmp_path / "alive.bin", "signal.pause()")
    try:
        _writer(kind, tmp_path / "killed.bin", "os.kill(os.getpid(), signal.SIGKILL)").wait(30)
        (tmp_path / ".mine").write_text("not ours")
        assert len(list(tmp_path.glob(f"{TEMPORARY}*"))) == 2
        write_text(tmp_path / "next.txt", "whole")
        (left,) = tmp_path.glob(f"{TEMPORARY}*")
        assert "alive" in left.name  # it is still being written
        assert sweep(tmp_path) == []
    finally:
        alive.kill()
        alive.wait(30)
    assert sweep(tmp_path) == [left]
    assert sorted(file.name for file in tmp_path.iterdir()) == [".mine", "next.txt"]


@pytest.mark.skipif(sys.platform == "win32", reason="files are locked on POSIX")
def test_what_another_machine_writes_is_a_leftover_after_a_day_only(tmp_path: Path) -> None:
    """On some shared disks each machine keeps its locks to itself."""
    theirs = tmp_path / f"{TEMPORARY}01234567-checkpoint-abc.safetensors"
    theirs.write_text("half")
    assert sweep(tmp_path) == []
    os.utime(theirs, (0, 0))
    assert sweep(tmp_path) == [theirs]


@pytest.mark.parametrize("writer", ["text", "numpy", "npz", "safetensors", "Pillow", "WebP", "Parquet"])
def test_what_is_locked_is_what_is_written(writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that renames a file of its own over the locked one would leave it without a lock."""
    made: list[int] = []
    lock = storage._lock

    def noted(temporary: Path) -> int | None:
        made.append(temporary.stat().st_ino)
        return lock(temporary)

    monkeypatch.setattr(storage, "_lock", noted)
    path = tmp_path / f"out{SUFFIXES[writer]}"
    WRITERS[writer](path)
    assert made == [path.stat().st_ino]
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EIO, ResourceError), (errno.EMFILE, ResourceError), (errno.EROFS, InputError)]
)
def test_what_keeps_a_file_from_being_written_is_the_machine_or_its_path(
    number: int, kind: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(kind, match=r"cannot write '.*out\.txt': "), storage.write_errors(tmp_path / "out.txt"):
        raise OSError(number, os.strerror(number))


def test_a_name_with_a_nul_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        write_text(tmp_path / "a\0b" / "c.txt", "x")


def test_a_file_inside_a_new_folder_is_told_by_the_name_it_was_to_have(tmp_path: Path) -> None:
    def write() -> None:
        with atomic_folder(tmp_path / "disk" / "run") as folder:
            write_text(folder / "large.txt", "x" * 2_000_000)

    with small_disk(tmp_path / "disk", 1_000_000) as disk:
        with pytest.raises(ResourceError, match=r"cannot write '.*/disk/run/large\.txt'"):
            write()
        assert list(disk.iterdir()) == []


def test_a_temporary_file_that_is_swept_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = storage._lock
    swept: list[Path] = []

    def late(temporary: Path) -> int | None:
        if not swept:
            swept.extend(sweep(tmp_path))
        return lock(temporary)

    monkeypatch.setattr(storage, "_lock", late)
    write_text(tmp_path / "file.txt", "whole")
    assert len(swept) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["file.txt"]
    assert (tmp_path / "file.txt").read_text() == "whole"


WRITERS = {
    "text": lambda path: write_text(path, "x" * 400_000),
    "numpy": lambda path: _within(path, lambda file: np.save(file, np.zeros(50_000))),
    "npz": lambda path: _within(path, lambda file: np.savez(file, x=np.zeros(50_000))),
    "safetensors": lambda path: write_tensors(path, "example", {"a": torch.zeros(100_000)}, {}),
    "Pillow": lambda path: _within(path, lambda file: _noise().save(file)),
    "WebP": lambda path: _within(path, lambda file: _noise().save(file, lossless=True)),
    "Parquet": lambda path: _within(path, _write_parquet),
}
SUFFIXES = {"text": ".txt", "numpy": ".npy", "npz": ".npz", "safetensors": ".safetensors", "Pillow": ".png"}
SUFFIXES |= {"WebP": ".webp", "Parquet": ".parquet"}


def _within(path: Path, write: Callable[[Path], object]) -> None:
    with atomic_write(path) as temporary:
        write(temporary)


def _noise() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (400, 400, 3), np.uint8))


def _write_parquet(path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"a": np.random.default_rng(0).normal(size=50_000)}), path)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("room", [0, 100_000])
def test_a_full_disk_is_a_sentence_whoever_writes(writer: str, room: int, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1_000_000) as disk:
        path = disk / f"out{SUFFIXES[writer]}"
        filler = fill(disk, room)
        with pytest.raises(
            ResourceError, match=r"^cannot write '.*out\.\w+': no space left on device; it takes .*free"
        ):
            WRITERS[writer](path)
        assert [file.name for file in disk.iterdir()] == ["filler"]
        filler.unlink()
        WRITERS[writer](path)
        assert path.stat().st_size > 100_000


def test_a_known_size_is_told_and_other_faults_are_not_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1_000_000) as disk:
        with (
            pytest.raises(ResourceError, match=r"it takes 2\.0 MB, 1\.0 MB are free"),
            atomic_write(disk / "large", 2_000_000) as temporary,
        ):
            temporary.write_bytes(bytes(2_000_000))
        with pytest.raises(KeyError), atomic_write(disk / "wrong"):
            raise KeyError("a mistake of ours")
        assert list(disk.iterdir()) == []


def test_a_full_cache_says_how_to_move_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_disk(tmp_path / "disk", 1_000_000) as disk:
        monkeypatch.setenv("DISKOOP_CACHE", str(disk))
        with pytest.raises(ResourceError, match=r"it takes 8\.0 MB, 1\.0 MB are free; `diskoop cache` lists"):
            cached_array("mine", "0" * 12, (1_000_000,), lambda out, advance: None, np.float64)
        assert list(disk.iterdir()) == []


def test_what_is_discarded_is_gone_at_once_and_its_rest_is_a_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "entry").mkdir()
    (tmp_path / "entry" / "frames.npy").write_text("x")

    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(storage, "remove", killed)
    with pytest.raises(KeyboardInterrupt):
        discard(tmp_path / "entry")
    monkeypatch.undo()
    assert not (tmp_path / "entry").exists()
    assert len(sweep(tmp_path)) == 1
    assert list(tmp_path.iterdir()) == []
    discard(tmp_path / "entry")  # another process was faster


def test_what_cannot_be_removed_for_want_of_memory_is_removed_when_the_process_ends(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from diskoop import storage\n"
        "remove, tries = storage.remove, []\n"
        "def starved(path):\n"
        "    tries.append(path)\n"
        "    if len(tries) == 1: raise MemoryError\n"
        "    remove(path)\n"
        "storage.remove = starved\n"
        "try:\n"
        "    with storage.atomic_folder(sys.argv[1]) as folder:\n"
        "        (folder / 'half').write_text('x')\n"
        "        raise MemoryError\n"
        "except MemoryError: print('raised')\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout == "raised\n"
    assert list(tmp_path.iterdir()) == []
