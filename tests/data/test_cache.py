"""What is kept is written once, whole, and mapped; a file that grows is an ordinary .npy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays

from diskoop.data.cache import FrameWriter, cached_array, cached_frames, digest, load_mmap, progress_bar
from diskoop.errors import InputError


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


def test_titles_with_markup_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal, where the bar is drawn
    with progress_bar("reading [/clips] and [bold]", 2) as advance:
        advance(2)
