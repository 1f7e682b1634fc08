"""The soak sees what is wrong, and a few of its rounds find nothing; `python benchmarks/soak.py` takes an hour."""

import random
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("it needs signals and limits of POSIX", allow_module_level=True)

from benchmarks.soak import (
    TRACEBACK,
    Attempt,
    Disk,
    Ending,
    check_files,
    choose,
    leftovers,
    make_tasks,
    outcome_of,
    soak,
)

NO_LIMIT = Attempt(None, None, None, ())
SHORT_OF_MEMORY = Attempt(0.9, None, None, ())
SMALL_DISK = Attempt(None, 0.5, None, ())


def ended(code: int, stderr: str = "", *sent: int, hung: bool = False) -> Ending:
    return Ending(("data",), code, "", stderr, sent, hung)


@pytest.mark.parametrize(
    ("ending", "attempt", "outcome"),
    [
        (ended(0), SMALL_DISK, "finished"),
        (ended(-9, "", signal.SIGKILL), NO_LIMIT, "killed"),
        (ended(1, "diskoop: stopped\n", signal.SIGINT), NO_LIMIT, "killed"),
        (ended(1, f"Exception ignored in: <f>\n{TRACEBACK}:\ndiskoop: stopped\n", signal.SIGINT), NO_LIMIT, "killed"),
        (ended(2, "a bar\ndiskoop: cannot write 'a': No space left on device\n"), SMALL_DISK, "disk full"),
        (ended(1, "diskoop: out of memory\n"), SHORT_OF_MEMORY, "out of memory"),
        (ended(-6, 'Current thread 0x1:\n  File "/lib/scipy/lu.py", line 1 in lu\n', hung=True), SHORT_OF_MEMORY,
         "library gave up"),
    ],
)  # fmt: skip
def test_endings_as_they_should_be(ending: Ending, attempt: Attempt, outcome: str) -> None:
    assert outcome_of(ending, attempt) == (outcome, [])


@pytest.mark.parametrize(
    ("ending", "attempt"),
    [
        (ended(1, "Traceback (most recent call last):\nOSError: No space left on device\n"), SMALL_DISK),
        (ended(2, "diskoop: cannot write 'a': No space left on device\n"), NO_LIMIT),
        (ended(2, "diskoop: a.png is damaged or no image (MemoryError); make it again\n"), SMALL_DISK),
        (ended(2, "diskoop: a.png is damaged or no image; make it again\n"), SHORT_OF_MEMORY),
        (ended(2, "diskoop: a.png is damaged or no image (MemoryError); make it again\n"), SHORT_OF_MEMORY),
        (ended(3, "diskoop: out of memory\n"), SHORT_OF_MEMORY),
        (ended(2, "No space left on device\n"), SMALL_DISK),
        (ended(-11), NO_LIMIT),
        (ended(-6, "", hung=True), NO_LIMIT),
        (ended(-6, 'Current thread 0x1:\n  File "/src/diskoop/run.py", line 1 in load\n'), SHORT_OF_MEMORY),
    ],
)
def test_other_endings_are_faults(ending: Ending, attempt: Attempt) -> None:
    assert outcome_of(ending, attempt)[1]


def test_damage_on_the_disk_is_found(series_run: Path, tmp_path: Path) -> None:
    disk, cache = tmp_path / "disk", tmp_path / "cache"
    shutil.copytree(series_run, disk / "run")
    for folder in (disk / "cache", cache):
        (folder / "clips-1").mkdir(parents=True)
        (folder / "clips-1" / "facts.json").write_text("{}")
        np.save(folder / "clips-1" / "frames.npy", np.zeros((4, 3)))
    assert check_files(disk, cache) == leftovers(disk) == []

    (disk / "run" / ".model-1-x.safetensors").write_bytes(b"half")
    assert check_files(disk, cache) == []  # of a process that was killed
    assert leftovers(disk) == ["run/.model-1-x.safetensors"]

    np.save(disk / "cache" / "clips-1" / "frames.npy", np.ones((4, 3)))
    (disk / "cache" / "clips-1" / "facts.json").unlink()
    model = disk / "run" / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1])
    found = "\n".join(check_files(disk, cache))
    for fault in (
        "frames.npy differs",
        "clips-1 is incomplete",
        "model.safetensors cannot be read",
        "cannot be loaded",
    ):
        assert fault in found
    (disk / "run" / "checkpoint.safetensors").unlink()
    assert "without settings or checkpoint" in "\n".join(check_files(disk, cache))


def test_choices_depend_on_the_seed_alone(tmp_path: Path) -> None:
    tasks = make_tasks(tmp_path)
    chosen = [choose(tasks, random.Random(f"0-{number}")) for number in range(200)]
    assert chosen == [choose(tasks, random.Random(f"0-{number}")) for number in range(200)]
    assert {task.kind for task, _, _ in chosen} == {"train", "factors", "swap", "data", "cache"}
    assert {len(attempts) for _, _, attempts in chosen} == {1, 2, 3}


def test_a_disk_gets_full(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk")
    try:
        if not disk.is_tmpfs:
            pytest.skip("this user may not mount a tmpfs")
        (disk.path / "first").write_bytes(bytes(2**20))
        disk.resize(disk.used() + 2**16)
        with pytest.raises(OSError, match="No space left"):
            (disk.path / "second").write_bytes(bytes(2**20))
        disk.clear()
        assert list(disk.path.iterdir()) == []
    finally:
        disk.close()
    assert not disk.path.is_mount()


@pytest.mark.slow
def test_a_few_rounds(tmp_path: Path) -> None:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        state = soak(tmp_path, minutes=5, kinds=("data",), rounds=2)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert state.faults == []
    assert state.counts["data"]["rounds"] == state.counts["data"]["equal"] == 2
    assert not (tmp_path / "worker-0").exists()
