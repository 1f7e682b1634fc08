"""What is kept is written once, whole, and mapped; a file that grows is an ordinary .npy."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays

from diskoop.data import cache
from diskoop.data.cache import (
    FrameWriter,
    cache_entries,
    cached_array,
    cached_frames,
    digest,
    load_mmap,
    progress_bar,
)
from diskoop.errors import InputError
from diskoop.storage import TEMPORARY, discard


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DISKOOP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    some.lists(some.integers(0, 5), max_size=6),
    arrays.array_shapes(min_dims=1, max_dims=3, max_side=4),
    some.sampled_from(["u1", "f4", "f8", "u2"]),
    some.integers(0, 12),
)
def test_a_growing_file_is_what_went_in(
    tmp_path: Path, counts: list[int], shape: tuple[int, ...], dtype: str, back: int
) -> None:
    counts = [2, *counts]
    blocks = [(np.arange(n * int(np.prod(shape))) % 200).reshape(n, *shape).astype(dtype) for n in counts]
    whole = np.concatenate(blocks)
    kept = min(back, len(whole))
    with (tmp_path / "grown.npy").open("wb+") as stream:
        file = FrameWriter(stream)
        for block in blocks:
            file.append(block)
        file.truncate(kept)
        if kept == 0:
            file.append(blocks[0])
        file.append(blocks[0])
        file.finish()
    expected = np.concatenate([whole[:kept] if kept else blocks[0], blocks[0]])
    assert np.array_equal(load_mmap(tmp_path / "grown.npy"), expected)
    assert np.array_equal(np.load(tmp_path / "grown.npy"), expected)


def test_another_kind_may_follow_when_all_is_forgotten(tmp_path: Path) -> None:
    with (tmp_path / "grown.npy").open("wb+") as stream:
        file = FrameWriter(stream)
        file.truncate(0)
        file.append(np.zeros((3, 5), np.float32))
        file.truncate(0)
        file.append(np.ones((2, 7), np.uint8))
        file.finish()
    assert np.array_equal(load_mmap(tmp_path / "grown.npy"), np.ones((2, 7), np.uint8))


def test_frames_are_written_once_and_mapped(own_cache: Path) -> None:
    times = []

    def write(file: FrameWriter) -> dict[str, Any]:
        times.append(1)
        file.append(np.arange(6.0).reshape(3, 2))
        return {"names": ["a"]}

    for _ in range(2):
        frames, facts = cached_frames("mine", "key", write)
        assert isinstance(frames, np.memmap)
        assert not frames.flags.writeable
        assert frames.tolist() == [[0, 1], [2, 3], [4, 5]]
        assert facts == {"names": ["a"]}
    assert len(times) == 1


def test_another_process_may_be_faster(own_cache: Path) -> None:
    def write(value: float) -> Callable[[FrameWriter], dict[str, Any]]:
        def append(file: FrameWriter) -> dict[str, Any]:
            if value == 1:  # while this one is at it, the other one comes and goes
                cached_frames("mine", "key", write(2))
            file.append(np.full((3, 2), value))
            return {}

        return append

    frames, _ = cached_frames("mine", "key", write(1))
    assert (frames == 2).all()
    assert [path.name for path in own_cache.iterdir()] == ["mine-key"]


def test_a_failure_leaves_nothing(own_cache: Path) -> None:
    def fail(file: FrameWriter) -> dict[str, Any]:
        file.append(np.zeros((1, 1)))
        raise InputError("no")

    def stop(out: Any, advance: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(InputError):
        cached_frames("mine", "key", fail)
    with pytest.raises(KeyboardInterrupt):
        cached_array("mine", "key", (2, 2), stop)
    assert list(own_cache.iterdir()) == []


def test_a_key_depends_on_all_its_parts() -> None:
    import diskoop.errors
    import diskoop.storage

    keys = [digest(1, "a"), digest(1, "b"), digest("1a"), digest(diskoop.errors), digest(diskoop.storage)]
    assert len(set(keys)) == len(keys)
    assert digest(1, "a") == keys[0]


KEY = "0123456789ab"


def _draw(times: list[int]) -> np.ndarray[Any, Any]:
    """An entry of the cache that notes how often it is made."""

    def fill(out: Any, advance: Callable[[int], None]) -> None:
        times.append(1)
        out[:] = np.arange(out.size).reshape(out.shape)

    return cached_array("mine", KEY, (300, 7), fill, np.float64)


def _flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: _flip(entry / "frames.npy", -5),
        lambda entry: _flip(entry / "frames.npy", 3),
        lambda entry: (entry / "frames.npy").write_bytes((entry / "frames.npy").read_bytes()[:-9]),
        lambda entry: (entry / "frames.npy").write_bytes(b""),
        lambda entry: (entry / "frames.npy").unlink(),
        lambda entry: (entry / "facts.json").write_text('{"format": "diskoop cache 1"}'),
        lambda entry: (entry / "facts.json").write_text("["),
        lambda entry: (entry / "facts.json").unlink(),
    ],
)
def test_a_damaged_entry_is_told_and_made_again(
    damage: Callable[[Path], None], own_cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    times: list[int] = []
    _draw(times)
    damage(own_cache / f"mine-{KEY}")
    again = _draw(times)
    assert len(times) == 2
    assert np.array_equal(again.ravel(), np.arange(2100))
    assert f"mine-{KEY} is damaged" in " ".join(capfd.readouterr().err.split())
    _draw(times)
    assert len(times) == 2


@pytest.mark.parametrize("kind", ["a file in its place", "a folder for its facts"])
def test_an_entry_of_another_kind_is_made_again(kind: str, own_cache: Path) -> None:
    times: list[int] = []
    _draw(times)
    entry = own_cache / f"mine-{KEY}"
    if kind == "a file in its place":
        shutil.rmtree(entry)
        entry.write_text("what?")
    else:
        (entry / "facts.json").unlink()
        (entry / "facts.json").mkdir()
    assert np.array_equal(_draw(times).ravel(), np.arange(2100))
    assert len(times) == 2


def test_an_entry_that_is_cleared_as_soon_as_it_is_made_is_made_again(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[int] = []
    find = cache.find_cached

    def cleared(name: str, key: str) -> Any:
        if len(times) == 1:
            discard(cache.entry_folder(name, key))
        return find(name, key)

    monkeypatch.setattr(cache, "find_cached", cleared)
    assert np.array_equal(_draw(times).ravel(), np.arange(2100))
    assert len(times) == 2


def test_metadata_are_covered_by_the_checksum(own_cache: Path) -> None:
    times = []

    def write(file: FrameWriter) -> dict[str, Any]:
        times.append(1)
        file.append(np.arange(6.0).reshape(3, 2))
        return {"lengths": [3]}

    cached_frames("mine", KEY, write)
    facts = own_cache / f"mine-{KEY}" / "facts.json"
    facts.write_text(facts.read_text().replace('"lengths": [3]', '"lengths": [2]'))
    assert cached_frames("mine", KEY, write)[1] == {"lengths": [3]}
    assert len(times) == 2


def test_an_entry_that_nobody_touched_is_not_read_again(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []
    _draw(times)
    monkeypatch.setattr(cache, "_checksum", lambda *_: pytest.fail("it was read"))
    assert np.array_equal(_draw(times).ravel(), np.arange(2100))
    monkeypatch.undo()
    monkeypatch.setenv("DISKOOP_CACHE", str(own_cache))
    (own_cache / f"mine-{KEY}" / "frames.npy").touch()
    read: list[Path] = []
    checksum = cache._checksum

    def noted(frames: Path, metadata: dict[str, Any]) -> str:
        read.append(frames)
        return checksum(frames, metadata)

    monkeypatch.setattr(cache, "_checksum", noted)
    for _ in range(2):
        _draw(times)
    assert (len(times), len(read)) == (1, 1)


def test_the_cache_lists_its_own_files_only(own_cache: Path) -> None:
    _draw([])
    (own_cache / "notes.txt").write_text("a file of somebody else")
    (own_cache / "thesis").mkdir()
    (own_cache / f"classifier-{KEY}.safetensors").write_text("weights")
    (own_cache / f".puppets-64-{KEY}-a1b2c3d4.npy").write_text("half")  # left by an earlier version
    (own_cache / "backup-202401151230").mkdir()
    (own_cache / "backup-202401151230" / "thesis.txt").write_text("a folder of somebody else")
    (own_cache / "notes-202401151230.npy").write_text("a file of somebody else")
    (own_cache / f"{TEMPORARY}faces-32-{KEY}-a1b2c3d4").mkdir()
    entries = {entry.path.name: entry for entry in cache_entries()}
    assert {name: entry.is_temporary for name, entry in entries.items()} == {
        f"mine-{KEY}": False,
        f"classifier-{KEY}.safetensors": False,
        f".puppets-64-{KEY}-a1b2c3d4.npy": False,
        f"{TEMPORARY}faces-32-{KEY}-a1b2c3d4": True,
    }
    assert entries[f"mine-{KEY}"].bytes > 2100 * 8


def test_titles_with_markup_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal, where the bar is drawn
    with progress_bar("reading [/clips] and [bold]", 2) as advance:
        advance(2)
