"""files written whole or not at all; where caches live"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diskoop.errors import InputError


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """A temporary name beside `path`; it takes the name `path` when the block ends well, and is removed otherwise."""
    path = Path(path)
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes files private; give this one the permissions an ordinary open() would have given.
        temporary.chmod(0o666 & ~_umask())
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        with _naming(path):
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """The same for a folder that is not there yet, or is empty."""
    path = Path(path)
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        with _naming(path):
            if path.is_dir():
                path.rmdir()  # Windows does not rename over an empty folder
            temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """A place that cannot be written to is the user's to mend."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror or error}") from None


def write_text(path: str | Path, text: str) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def cache_folder() -> Path:
    """DISKOOP_CACHE, or `diskoop` in the folder where this system keeps caches."""
    if given := os.environ.get("DISKOOP_CACHE"):
        return Path(given).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return base / "diskoop"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
