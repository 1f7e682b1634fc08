"""What a decoder says of a file is damage; what the machine lacks is not, and nothing is concluded from it."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from diskoop.data.clips import decoding
from diskoop.errors import InputError, MissingDependencyError, ResourceError
from tests.helpers.media import moving_square, tone, write_csv, write_film, write_frames, write_sound


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (MemoryError(), "not enough memory"),
        (RuntimeError("Error : malloc failed."), "not enough memory"),
        (OSError(errno.EMFILE, "Too many open files"), "too many open files"),
        (ResourceError("cannot write the cache"), "cannot write the cache"),
    ],
)
def test_a_lack_of_the_machine_is_no_damage(failure: Exception, told: str, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"whole")
    with pytest.raises(ResourceError, match=told), decoding(tmp_path / "a.wav", "recording"):
        raise failure


@pytest.mark.parametrize(
    "failure",
    [
        ValueError("bad header"),
        OSError("image file is truncated"),
        OSError(errno.EIO, "I/O error"),
        OSError(errno.EPERM, "what FFmpeg returns for -1"),
        EOFError(),
    ],
)
def test_what_a_decoder_says_is_damage(failure: Exception, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"half")
    with (
        pytest.raises(InputError, match=r"a\.wav is damaged or no recording"),
        decoding(tmp_path / "a.wav", "recording"),
    ):
        raise failure


def test_a_name_is_no_word_on_memory(tmp_path: Path) -> None:
    file = tmp_path / "malloc.wav"
    file.write_bytes(b"half")
    with pytest.raises(InputError, match="is damaged"), decoding(file, "recording"):
        raise ValueError(f"cannot identify {file}")


def test_a_file_that_is_gone_is_not_left_out(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match="there is no file"), decoding(tmp_path / "a.wav", "recording"):
        raise FileNotFoundError


SETS: dict[str, Callable[[Path], object]] = {
    "png": lambda path: write_frames(path.with_suffix(""), moving_square(6)),
    "mp4": lambda path: write_film(path, moving_square(10)),
    "wav": lambda path: write_sound(path, tone(0.5)),
    "flac": lambda path: write_sound(path, tone(0.5)),
    "csv": lambda path: write_csv(path, {"a": np.arange(30.0), "b": np.arange(30.0) ** 2}),
    "npy": lambda path: np.save(path, np.random.default_rng(0).normal(size=(20, 3))),
    "parquet": lambda path: _parquet(path),
}


def _parquet(path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"a": np.arange(30.0), "b": np.arange(30.0) ** 2}), path)


STARVED = """
import os, resource, sys
import diskoop
from diskoop.data import clips
import av, numpy, soundfile, soxr, PIL.Image, pyarrow.parquet, scipy.signal  # imports need handles too
PIL.Image.init()
opened, real = 0, clips._append
def append(clip, good, file):
    global opened
    opened += 1
    if opened != 2:
        return real(clip, good, file)
    held = []
    try:  # the second clip finds no handle
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    try:
        real(clip, good, file)
    finally:
        for handle in held:
            os.close(handle)
clips._append = append
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
try:
    found = diskoop.load_data(sys.argv[1], "all", skip_bad=True)
    print("read", len(found), found.notes)
except diskoop.ResourceError as error:
    print("lack", error)
clips._append = real
found = diskoop.load_data(sys.argv[1], "all", skip_bad=True)
print("then", found.clip_count, found.notes)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits on handles are POSIX")
@pytest.mark.parametrize(
    "kind", [kind if kind in ("png", "wav") else pytest.param(kind, marks=pytest.mark.slow) for kind in SETS]
)
def test_skip_bad_does_not_leave_out_what_could_not_be_opened(kind: str, tmp_path: Path) -> None:
    """With every handle taken while one clip is read: the command ends, and the next one reads all of them."""
    (tmp_path / "set").mkdir()
    for number in range(3):
        SETS[kind](tmp_path / "set" / f"{number}.{kind}")
    environment = {**os.environ, "DISKOOP_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", STARVED, str(tmp_path / "set")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("lack cannot read") or (kind in ("csv", "parquet") and first.startswith("read 3")), (
        done.stdout
    )
    assert second.startswith("then 3 "), done.stdout
    assert "left out" not in done.stdout
