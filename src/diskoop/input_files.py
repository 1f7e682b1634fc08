"""files that others wrote: regular ones only, since pipes and devices never end; limits on nesting and on unpacking"""

import json
import re
import stat
from pathlib import Path
from typing import Any
from unicodedata import category

from diskoop.errors import InputError
from diskoop.memory import format_bytes

LARGE = 2**30  # bytes from which it matters how far a file expands: arrays of zeros shrink a thousandfold, too

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def exists(path: str | Path) -> bool:
    """Whether there is such a file or folder; False for what is too long for a name, or holds a NUL character."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def is_address(path: str | Path) -> bool:
    """Whether this is the address of something that may be elsewhere, and no path.

    Example:
        >>> is_address("s3://bucket/set.zarr"), is_address("clips/set.zarr")
        (True, False)
    """
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", str(path)) is not None


def absolute(path: str) -> str:
    """A path that means the same from any folder; an address does."""
    return path if is_address(path) else str(Path(path).expanduser().resolve())


def require_text(name: str | Path) -> None:
    """Raise an InputError where a name, of a file or on the command line, holds bytes that are no UTF-8.

    Python stands surrogates in for them, which no file of ours, no picture and no safetensors file can take.
    """
    try:
        str(name).encode()
    except UnicodeEncodeError:
        raise InputError(f"{str(name)!r} holds bytes that are no UTF-8, wanted text; rename it") from None


def require_regular(path: str | Path) -> None:
    """Raise an InputError where `path` is there, but no regular file; a missing one is for the reader to tell.

    Example:
        >>> require_regular("/dev/zero")
        Traceback (most recent call last):
        diskoop.errors.InputError: '/dev/zero' is a device, wanted a file
    """
    try:
        mode = Path(path).stat().st_mode
    except ValueError:  # a NUL character
        raise InputError(f"there is no file {str(path)!r}") from None
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise InputError(f"{str(path)!r} is {_KINDS.get(stat.S_IFMT(mode), 'something else')}, wanted a file")


def read_text(path: str | Path) -> str:
    """The text of a regular UTF-8 file."""
    require_regular(path)
    return Path(path).read_text(encoding="utf-8")


def check_expansion(
    path: Path, unpacked: int, max_expansion: int = 100, packed: int | None = None, allow: str = "data.max_expansion={}"
) -> None:
    """Raise an InputError where a few bytes stand for so many that they look like a bomb.

    Args:
        path: of the file.
        unpacked: bytes that it unpacks to.
        max_expansion: how many times as much as is packed that may be, where it is LARGE.
        packed: bytes that these take in the file; None: all of it.
        allow: the setting that allows more, with {} for its value; "" where there is none.
    """
    packed = path.stat().st_size if packed is None else packed
    if unpacked > LARGE and not packed:
        raise InputError(f"{path} declares {format_bytes(unpacked)} and holds none of it; make it again")
    if unpacked > LARGE and unpacked > max_expansion * packed:
        hint = f"; if it should, {allow.format(-(-unpacked // packed))} allows it" if allow else "; make it again"
        raise InputError(
            f"{path} unpacks from {format_bytes(packed)} to {format_bytes(unpacked)}, more than {max_expansion} times "
            f"as much{hint}"
        )


def parse_json(text: str) -> Any:
    """The value that JSON describes; a ValueError where it is damaged, in whatever way."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def escape_controls(text: str) -> str:
    """Control characters and bytes that are no UTF-8, which no picture can show and no file take, as `\\x00`.

    Example:
        >>> escape_controls("a\\x1eb")
        'a\\\\x1eb'
    """
    return "".join(
        character.encode("unicode_escape").decode() if category(character) in ("Cc", "Cs") else character
        for character in text
    )
