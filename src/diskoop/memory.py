"""the memory of this machine, and sentences about what would not fit"""

import os
from contextlib import suppress
from pathlib import Path

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container, "max" where there is none


def total_memory() -> int | None:
    """Bytes of memory that this machine, or the container we are in, has; None where the system does not tell."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
    with suppress(OSError, ValueError):
        total = min(total, int(CGROUP_LIMIT.read_text()))
    return total if total > 0 else None


def format_bytes(count: float) -> str:
    """A number of bytes in words.

    Example:
        >>> format_bytes(3 * 2**20), format_bytes(10**15), format_bytes(10**40)
        ('3 MiB', '909 TiB', 'over 1000 TiB')
    """
    if count >= 1000 * 2**40:
        return "over 1000 TiB"
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"


def lacks_memory(error: BaseException) -> bool:
    """Whether an exception says that memory could not be allocated; torch has no class of its own for that."""
    words = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    )
