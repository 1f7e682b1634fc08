"""exceptions whose message is one sentence for the user, suggestions for misspelt names, counts in words"""

import difflib
from collections.abc import Iterable
from typing import Any


class InputError(ValueError):
    """Bad input; the message quotes what came and what was wanted. The command line ends with exit code 2."""


class MissingDependencyError(InputError):
    """Input that cannot be read for want of a package that is not installed."""


class ResourceError(Exception):
    """A lack of the machine's, whatever the input: a full disk, too little memory, too few file handles.

    The message is one sentence. The command line ends with exit code 1.
    """


class Stopped(Exception):  # noqa: N818 - it is no error
    """Work that was interrupted, with its state saved. The command line ends with exit code 1."""


class Diverged(Stopped):
    """A training whose loss or latents are no finite numbers any more: the same settings would end there again."""


def suggest(given: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them.

    Example:
        >>> suggest("pupets", ["puppets", "faces"])
        "did you mean 'puppets'?"
    """
    known = sorted(known)
    # The right key in the wrong section comes first: model.static for spectrum.static.
    near = [name for name in known if "." in name and name.rpartition(".")[2] == given.rpartition(".")[2]]
    folded = {name.casefold(): name for name in known}
    near = near or [folded[name] for name in difflib.get_close_matches(given.casefold(), folded, n=1, cutoff=0.6)]
    return f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(known)}"


def counted(count: int, noun: str) -> str:
    """A count with its noun, in the plural unless it is one.

    Example:
        >>> counted(1, "test clip"), counted(1200, "test clip")
        ('1 test clip', '1200 test clips')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def quoted(value: Any, longest: int = 200) -> str:
    """A value as Python writes it, shortened where it is long: someone has to read it.

    Example:
        >>> quoted("a"), quoted("x" * 300, longest=12), quoted(10**5000)
        ("'a'", "'xxxxxxxxxxx...", 'a number of 16610 bits')
    """
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of more than 4300 digits
        return f"a number of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"
    return text if len(text) <= longest else f"{text[:longest]}..."
