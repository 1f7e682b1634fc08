"""How much memory there is, in words, and what says that it was not enough."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from diskoop import memory


def test_a_container_may_have_less_than_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CGROUP_LIMIT", tmp_path / "memory.max")
    whole = memory.total_memory()
    assert whole is not None
    assert whole > 2**26
    for text, total in (("max\n", whole), (f"{2**20}\n", 2**20), (f"{2**70}\n", whole)):
        (tmp_path / "memory.max").write_text(text)
        assert memory.total_memory() == total


def test_a_system_may_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.sysconf")
    assert memory.total_memory() is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_mapped_files_do_not_count(tmp_path: Path) -> None:
    before = memory.anonymous_memory()
    np.save(tmp_path / "x.npy", np.ones(2**22))  # 32 MiB
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert mapped.sum() == 2**22
    assert memory.anonymous_memory() < before + 16


def test_a_lack_of_memory_is_recognised_whoever_raises_it() -> None:
    for allocate in (lambda: np.empty(2**56), lambda: torch.empty(2**56)):
        with pytest.raises((MemoryError, RuntimeError)) as caught:
            allocate()
        assert memory.lacks_memory(caught.value)
    assert not memory.lacks_memory(RuntimeError("shapes differ"))
    assert not memory.lacks_memory(ValueError("expected memory, got lstm"))


@pytest.mark.parametrize(
    "text",
    [
        "could not create a primitive",  # oneDNN
        "can't start new thread",
        "ft2font.so: cannot map zero-fill pages",
        "libx.so: failed to map segment from shared object",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes",
        "std::bad_alloc",
        "codec configuration error when writing image file",  # Pillow, where zlib gets none
    ],
)
def test_what_libraries_say_without_memory_is_known(text: str) -> None:
    assert memory.lacks_memory(RuntimeError(text))


@pytest.mark.skipif(sys.platform != "linux", reason="limits on data are Linux's")
def test_an_exception_of_any_kind_without_memory_is_a_lack_of_it(tmp_path: Path) -> None:
    """Libraries that run out of memory raise what they can."""
    code = (
        "import resource, sys\n"
        "from diskoop.cli import app\n"
        "def odd(*words, **more): raise SystemError('error return without exception set')\n"
        "app.app = odd\n"
        "if sys.argv[1] == 'limited':\n"
        "    used = 1024 * int(open('/proc/self/status').read().split('VmData:')[1].split()[0])\n"
        "    resource.setrlimit(resource.RLIMIT_DATA, (used + (16 << 20),) * 2)\n"
        "app.main()\n"
    )
    for argument, told in (("limited", "diskoop: there is not enough memory"), ("free", "SystemError: error return")):
        words = [sys.executable, "-c", code, argument]
        done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path)
        assert done.returncode == 1
        assert told in done.stderr
        assert ("Traceback" in done.stderr) == (argument == "free")
