"""atomic writes of files and folders, full disks, leftovers of killed processes; the cache folder"""

import atexit
import errno
import gc
import os
import platform
import re
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path

from diskoop.errors import InputError, ResourceError, Stopped
from diskoop.memory import format_bytes

if sys.platform != "win32":
    import fcntl

TEMPORARY = ".diskoop-tmp-"  # how the names of temporary files and folders begin
ABANDONED_SECONDS = 86_400  # where files cannot be locked, a temporary one that is older is a leftover
PROBE = bytes(1 << 16)  # what a disk that is not full takes
NO_SPACE = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
NO_SPACE_TEXT = re.compile(r"\d+ requested and \d+ written")  # numpy passes on no error number
# What is wrong with a path that somebody gave; anything else that keeps a file from being written is the machine's.
BAD_PATH = {
    errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY,
    errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL,
}  # fmt: skip
# Temporary names tell the machine too: there are disks that many share, whose locks each keeps to itself.
HOST = sha256(platform.node().encode()).hexdigest()[:8]


@contextmanager
def atomic_write(path: str | Path, size: int | None = None) -> Iterator[Path]:
    """Yields a temporary path that replaces `path` when the block ends well, and is removed otherwise.

    Args:
        path: of the file.
        size: its bytes, where they are known beforehand: a full disk is told with them.

    Raises:
        InputError: nothing can be written there.
        ResourceError: the disk is full.

    Example:
        >>> with atomic_write(folder / "a.txt") as temporary:
        ...     _ = temporary.write_text("done")
        >>> (folder / "a.txt").read_text()
        'done'
    """
    path = Path(path)

    def make() -> Path:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{TEMPORARY}{HOST}-{path.stem}-", suffix=path.suffix)
        os.close(handle)
        return Path(name)

    with _temporary(path, make, size) as temporary:
        yield temporary
        # mkstemp makes files private; give this one the permissions an ordinary open() would have given.
        temporary.chmod(0o666 & ~_umask())
        _flush_to_disk(temporary)
        with write_errors(path):
            temporary.replace(path)
            _flush_to_disk(path.parent)


@contextmanager
def atomic_folder(path: str | Path, size: int | None = None) -> Iterator[Path]:
    """The same for a folder that does not exist yet, or is empty."""
    path = Path(path)

    def make() -> Path:
        return Path(tempfile.mkdtemp(dir=path.parent, prefix=f"{TEMPORARY}{HOST}-{path.name}-"))

    with _temporary(path, make, size) as temporary:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        for inside in temporary.rglob("*"):
            _flush_to_disk(inside)
        _flush_to_disk(temporary)
        with write_errors(path):
            if path.is_dir():
                path.rmdir()  # Windows does not rename over an empty folder
            temporary.replace(path)
            _flush_to_disk(path.parent)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for files that nobody keeps, among the system's temporary ones; removed at the end, or as a leftover."""
    path = Path(tempfile.gettempdir()) / "scratch"

    def make() -> Path:
        return Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}{HOST}-"))

    with _temporary(path, make, None) as temporary:
        yield temporary


@contextmanager
def _temporary(path: Path, make: Callable[[], Path], size: int | None) -> Iterator[Path]:
    """A temporary file or folder next to `path`, locked while it is in use and removed at the end.

    A lock ends with its process, however that ends, so what nobody has locked is a leftover. Those beside `path` are
    removed first.
    """
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent)
    while True:
        with write_errors(path):
            temporary = make()
        handle = _lock(temporary)
        if temporary.exists():
            break
        _release(handle)  # another process has taken it for a leftover before it was locked
    try:
        yield temporary
    except (InputError, Stopped):
        raise
    except ResourceError as error:  # of a file inside, which was to have another name
        raise ResourceError(str(error).replace(str(temporary), str(path))) from None
    except MemoryError:
        gc.collect()  # what follows needs a little, too
        raise
    except Exception as error:
        if _is_full(error, temporary):
            raise ResourceError(_no_space(path, error, size, bytes_of(temporary))) from error
        raise
    finally:
        try:
            remove(temporary)
        except (OSError, MemoryError):  # once more when the process ends, with its memory free again
            atexit.register(sweep, temporary.parent)
        _release(handle)


def sweep(folder: Path) -> list[Path]:
    """Remove what killed processes have left in a folder: temporary files and folders that nobody holds.

    Returns:
        What was removed.
    """
    removed = []
    for leftover in folder.glob(f"{TEMPORARY}*"):
        with suppress(OSError), _abandoned(leftover) as is_abandoned:  # another user's, or removed just now
            if is_abandoned:
                remove(leftover)
                removed.append(leftover)
    return removed


@contextmanager
def _abandoned(temporary: Path) -> Iterator[bool]:
    """Whether the process that made it has ended; then it is locked in the block, so that nobody begins to use it."""
    is_old = time.time() - temporary.stat().st_mtime > ABANDONED_SECONDS
    if sys.platform == "win32" or not temporary.name.startswith(f"{TEMPORARY}{HOST}-"):
        yield is_old
        return
    handle = os.open(temporary, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_abandoned = True
    except BlockingIOError:  # it is in use
        is_abandoned = False
    except OSError:  # the disk knows no locks
        is_abandoned = is_old
    try:
        yield is_abandoned
    finally:
        os.close(handle)


def discard(path: Path) -> None:
    """Remove a file or a folder: it is gone at once, and whoever is killed while its content goes leaves a leftover."""
    going = path.with_name(f"{TEMPORARY}{HOST}-{path.name}-{secrets.token_hex(4)}")
    with write_errors(path), suppress(FileNotFoundError):  # another process was faster
        path.replace(going)
        remove(going)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _lock(temporary: Path) -> int | None:
    """A handle that locks a file or folder until it is released; None where that is impossible."""
    if sys.platform == "win32":
        return None
    try:
        handle = os.open(temporary, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with suppress(OSError):  # the disk knows no locks
        fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def _release(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)


def _flush_to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if sys.platform == "win32" and path.is_dir():
        return  # folders cannot be opened there
    handle = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into an InputError that names `path`, or a ResourceError if the machine is to blame."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL character
        number = getattr(error, "errno", None)
        if number in NO_SPACE:
            raise ResourceError(_no_space(path, error, None, 0)) from None
        sentence = f"cannot write {str(path)!r}: {getattr(error, 'strerror', None) or error}"
        raise (InputError if number in BAD_PATH or isinstance(error, ValueError) else ResourceError)(sentence) from None


def _is_full(error: BaseException, temporary: Path) -> bool:
    """Whether an exception while `temporary` was written is due to a full disk.

    Not every library passes on the error number, so the disk is asked to take a little more.
    """
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    if any(_errno(cause) in NO_SPACE or NO_SPACE_TEXT.search(str(cause)) for cause in causes):
        return True
    try:
        with (temporary / "probe" if temporary.is_dir() else temporary).open("ab") as stream:
            stream.write(PROBE)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as probed:
        return probed.errno in NO_SPACE
    return False


def _errno(error: BaseException) -> int | None:
    """The error number; libraries that are written in Rust have it in the text."""
    told = re.search(r"os error (\d+)", str(error))
    return int(told[1]) if told else getattr(error, "errno", None)


def _no_space(path: Path, error: BaseException, size: int | None, written: int) -> str:
    """The sentence about a full disk: the path, what it takes and what is free."""
    number = _errno(error)
    reason = os.strerror(number if number is not None and number in NO_SPACE else errno.ENOSPC).lower()
    takes = f"it takes {format_bytes(size)}" if size else f"it takes more than {format_bytes(written)}"
    folder = next(parent for parent in (path, *path.absolute().parents) if parent.is_dir())
    free = shutil.disk_usage(folder).free + written
    hint = "; `diskoop cache` lists what is in the cache, and DISKOOP_CACHE moves it"
    in_cache = path.absolute().is_relative_to(cache_folder().absolute())
    return f"cannot write {str(path)!r}: {reason}; {takes}, {format_bytes(free)} are free{hint if in_cache else ''}"


def bytes_of(path: Path) -> int:
    """Bytes that a file, or all files in a folder, take on the disk."""
    files = path.rglob("*") if path.is_dir() else [path]
    stats = [file.lstat() for file in files if file.is_file()]
    # An array with room reserved for it only in part has fewer blocks than its length says.
    return sum(min(stat.st_size, getattr(stat, "st_blocks", stat.st_size) * 512) for stat in stats)


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
