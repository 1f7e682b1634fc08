"""what ends a command early, said in one sentence"""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input: the message quotes what came and what was wanted. The command line ends with exit code 2."""


class Unavailable(InputError):  # noqa: N818 - what it lacks is the message
    """The same where no file is at fault but the machine: a reader that is not installed, a disk that is full."""


class Stopped(Exception):  # noqa: N818 - being asked to stop is no error
    """Work that ended before its time, with what it had done saved. The command line ends with exit code 1."""


def suggest(given: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the nearest known one, or all of them."""
    known = sorted(known)
    # The right key in the wrong section comes first: model.static for spectrum.static.
    near = [name for name in known if "." in name and name.rpartition(".")[2] == given.rpartition(".")[2]]
    near = near or difflib.get_close_matches(given, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(known)}"
