"""the memory of this machine, and sentences about what would not fit"""

import os
import re
from contextlib import suppress
from pathlib import Path

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container, "max" where there is none

ALLOCATION_FAILED = re.compile(
    # The last ones are all that oneDNN, threads, the loader of libraries and Pillow's encoders say.
    r"malloc|bad_alloc|(can't|cannot|unable to) allocate|(out of|insufficient|not enough) memory"
    r"|could not create a primitive|can't start new thread|cannot map zero-fill pages|failed to map segment"
    r"|codec configuration error when writing",
    re.IGNORECASE,
)

PROBE_BYTES = 1 << 26  # what a machine that has enough can spare


def total_memory() -> int | None:
    """Bytes of memory that this machine, or the container we are in, has; None where the system does not tell."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
    with suppress(OSError, ValueError):
        total = min(total, int(CGROUP_LIMIT.read_text()))
    return total if total > 0 else None


def anonymous_memory() -> float:
    """MiB of this process without mapped files, whose pages the system may drop; of Linux alone."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


def format_bytes(count: float) -> str:
    """A number of bytes in words.

    Example:
        >>> format_bytes(512), format_bytes(3_140_000), format_bytes(10**15), format_bytes(10**40)
        ('512 bytes', '3.1 MB', '1000.0 TB', 'over 1000 TB')
    """
    if count > 1000e12:
        return "over 1000 TB"
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"


def lacks_memory(error: BaseException) -> bool:
    """Whether an exception says that memory could not be allocated; not every library has a class of its own for that.

    Example:
        >>> lacks_memory(MemoryError()), lacks_memory(RuntimeError("malloc failed")), lacks_memory(KeyError("memory"))
        (True, True, False)
    """
    return isinstance(error, MemoryError) or ALLOCATION_FAILED.search(str(error)) is not None


def is_exhausted() -> bool:
    """Whether not even a little more memory is to be had: then an exception may come of that, whatever it says."""
    try:
        bytearray(PROBE_BYTES)
    except MemoryError:
        return True
    return False


def memory_sentence(error: BaseException) -> str:
    """What to tell of an exception that lacks memory."""
    total = total_memory()
    there = "" if total is None else f" of the {format_bytes(total)} that this machine has"
    return f"there is not enough memory{there} ({' '.join(str(error).split())[:200] or 'no size was told'})"
