"""A disk without room: one sentence, exit code 1, nothing half-written, and everything works once there is room."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from diskoop.run import load
from diskoop.storage import TEMPORARY
from tests.helpers.cli import TINY_OVERRIDES, Result, diskoop
from tests.helpers.disks import fill, small_disk


@pytest.fixture
def disk(tmp_path: Path, series_run: Path) -> Iterator[Path]:
    """A small disk with a run, and without a bit of room."""
    with small_disk(tmp_path / "disk", 4_000_000) as folder:
        shutil.copytree(series_run, folder / "run")
        yield folder


def _contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != "filler")
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


SEARCH = (
    "search", "-c", "oscillators", "--trials", "1", "train.steps=10", "train.device=cpu", "--out", "search",
)  # fmt: skip


@pytest.mark.parametrize("storage", ["sqlite", "journal"])
@pytest.mark.parametrize("room", [0, *(pytest.param(size, marks=pytest.mark.slow) for size in (60_000, 200_000))])
def test_a_search_ends_with_a_sentence_and_goes_on_when_there_is_room(storage: str, room: int, tmp_path: Path) -> None:
    """The first to find none may be the storage, the training of the trial, or a picture."""
    words = (*SEARCH, *(("--storage", "journal:trials.log") if storage == "journal" else ()))
    with small_disk(tmp_path / "disk", 4_000_000) as disk:
        filler = fill(disk, room)
        result = diskoop(*words, cwd=disk)
        assert result.returncode == 1, result.stdout + result.stderr
        assert "Traceback" not in result.stderr
        sentence = result.stderr.strip().splitlines()[-1]
        assert sentence.startswith(("diskoop: cannot write 'search/", "diskoop: the storage "))
        assert "no space left on device" in sentence.lower() or "database or disk is full" in sentence
        assert not [file for file in disk.rglob("*") if TEMPORARY in file.name]
        filler.unlink()
        start = time.monotonic()
        again = diskoop(*words, cwd=disk)
        assert again.returncode == 0, again.stderr
        assert time.monotonic() - start < 60  # the trial was handed on; its worker would be given up after 120 s
        assert "1 trial of 1: 1 complete" in (disk / "search" / "table.md").read_text()


def _assert_refused(result: Result) -> None:
    assert result.returncode == 1, result.stdout + result.stderr
    sentence = result.stderr.strip().splitlines()[-1]
    assert sentence.startswith("diskoop: cannot write '")
    assert "no space left on device; it takes " in sentence
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("room", [0, pytest.param(8_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "words",
    [
        ("factors", "run", "--refit"),
        ("swap", "run", "--pair", "0:1"),
        ("sample", "run", "static"),
        ("forecast", "run"),
        ("report", "run"),
        ("data", "oscillators", "--out", "sheet.png"),
        ("export", "run", "--format", "hub", "--out", "new"),
        ("export", "run", "--format", "torch", "--out", "new"),
        pytest.param(("export", "run", "--format", "onnx", "--out", "new"), marks=pytest.mark.slow),
        pytest.param(("evaluate", "run", "--limit", "32", "--no-baselines"), marks=pytest.mark.slow),
        ("train", *TINY_OVERRIDES, "train.epochs=1", "--out", "new"),
    ],
    ids=lambda words: " ".join(words[:4]),
)
def test_a_command_ends_with_a_sentence_and_leaves_what_was_there(
    words: tuple[str, ...], room: int, disk: Path
) -> None:
    before = _contents(disk)
    fill(disk, room)
    _assert_refused(diskoop(*words, cwd=disk))
    after = _contents(disk)
    assert not [name for name in after if TEMPORARY in name]
    # Small files may have found room; they are whole, and what was there has not changed.
    assert {name: after[name] for name in before if not name.endswith(("verdict.json", "factors.json"))} == {
        name: content for name, content in before.items() if not name.endswith(("verdict.json", "factors.json"))
    }
    assert load(disk / "run").factors


def test_a_new_name_that_finds_no_room_leaves_the_old_one(disk: Path) -> None:
    fill(disk, 0)
    words = ("factors", "run", "--rename", "motion=dance")
    _assert_refused(diskoop(*words, cwd=disk))
    assert load(disk / "run").require_factors().names == ["motion"]
    (disk / "filler").unlink()
    assert diskoop(*words, cwd=disk).returncode == 0
    assert load(disk / "run").require_factors().names == ["dance"]


@pytest.mark.slow
def test_a_training_that_fills_the_disk_goes_on_when_there_is_room(tmp_path: Path) -> None:
    words = ("train", *TINY_OVERRIDES, "train.epochs=3", "train.save_every=1", "--out", "run")
    assert diskoop(*words, cwd=tmp_path).returncode == 0
    with small_disk(tmp_path / "disk", 4_000_000) as disk:
        checkpoint = (tmp_path / "run" / "checkpoint.safetensors").stat().st_size
        filler = fill(disk, int(1.5 * checkpoint))  # for one checkpoint, not for the one that replaces it
        result = diskoop(*words, cwd=disk)
        _assert_refused(result)
        assert "diskoop train --resume run goes on from the last checkpoint" in result.stderr
        assert sorted(file.name for file in (disk / "run").iterdir()) == [
            "checkpoint.safetensors",
            "metrics.jsonl",
            "settings.yaml",
        ]
        filler.unlink()
        assert diskoop("train", "--resume", "run", cwd=disk).returncode == 0
        for name in ("model.safetensors", "operator.safetensors"):
            assert (disk / "run" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()
