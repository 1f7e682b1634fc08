"""atomic writes of files and folders; the cache folder"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from diskoop.errors import InputError


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yields a temporary path that replaces `path` when the block ends well, and is removed otherwise.

    Example:
        >>> with atomic_write(folder / "a.txt") as temporary:
        ...     _ = temporary.write_text("done")
        >>> (folder / "a.txt").read_text()
        'done'
    """
    path = Path(path)
    with _write_errors(path):
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
        with _write_errors(path):
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """The same for a folder that does not exist yet, or is empty."""
    path = Path(path)
    with _write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        with _write_errors(path):
            if path.is_dir():
                path.rmdir()  # Windows does not rename over an empty folder
            temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into an InputError that names `path`."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror or error}") from None


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


_cache: ContextVar[Path | None] = ContextVar("cache", default=None)


@contextmanager
def cached_in(folder: Path) -> Iterator[None]:
    """Use another cache folder in this thread while the block runs, so that its contents can be thrown away."""
    token = _cache.set(folder)
    try:
        yield
    finally:
        _cache.reset(token)


def cache_folder() -> Path:
    """DISKOOP_CACHE, or `diskoop` in the system's folder for caches."""
    if (chosen := _cache.get()) is not None:
        return chosen
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


def unused_path(folder: Path, name: str, *suffixes: str) -> Path:
    """`folder`/NAME-1, NAME-2 and so on with the first of `suffixes`: the first that exists with none of them."""
    number = 1
    while any((folder / f"{name}-{number}{suffix}").exists() for suffix in suffixes or [""]):
        number += 1
    return folder / f"{name}-{number}{suffixes[0] if suffixes else ''}"
