"""clips in files: listed, read once, checked, concatenated in the cache"""

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.data.cache import FrameWriter, cached_frames, digest, progress_bar
from diskoop.data.gaps import Segment, in_segments
from diskoop.data.scaling import NON_FINITE, are_finite
from diskoop.errors import InputError, MissingDependencyError, ResourceError, counted
from diskoop.input_files import require_regular, require_text
from diskoop.memory import lacks_memory
from diskoop.storage import NO_SPACE

Blocks = Iterator[NDArray[Any]]  # frames (count, ...), a few at a time, so that memory does not grow with the clip
SKIP_HINT = "--skip-bad leaves it out"


@dataclass(frozen=True)
class Clip:
    """One sequence that can be read."""

    name: str  # for labels: its path relative to the data set's folder
    place: str  # for messages: where to look for it
    read_blocks: Callable[[], Blocks]
    labels: dict[str, str] = field(default_factory=dict)  # what its file tells, filled while it is read
    notes: list[str] = field(default_factory=list)  # sentences about it, filled while it is read
    # Pieces without a missing value where some are missing, filled while it is read; none: it is whole.
    segments: list[Segment] = field(default_factory=list)


def file_clips(root: Path, files: Sequence[Path], read: Callable[[Path], Blocks]) -> list[Clip]:
    """A clip for each file, named by its path relative to `root`."""
    return [Clip(file.relative_to(root).as_posix(), str(file), partial(read, file)) for file in files]


@dataclass(frozen=True, eq=False)
class ClipFrames:
    """The frames of n clips in one array."""

    frames: NDArray[Any]  # (total, ...)
    names: list[str]  # (n,), or none
    lengths: NDArray[np.int64]  # (n,)
    labels: dict[str, list[str]]  # name -> (n,)
    notes: tuple[str, ...]
    starts: NDArray[np.int64]  # (n,)
    segments: list[list[Segment]] = field(default_factory=list)  # (n,), or none: pieces of clips with missing values
    features: tuple[str, ...] = ()  # names of a signal's features, where the files have them

    @classmethod
    def of(cls, x: NDArray[Any], lengths: NDArray[np.int64] | None = None) -> "ClipFrames":
        """The unnamed sequences of an array (n, time, ...); `lengths` (n,) where some are shorter."""
        count, time = x.shape[:2]
        lengths = np.full(count, time) if lengths is None else lengths
        return cls(x.reshape(count * time, *x.shape[2:]), [], lengths, {}, (), np.arange(count) * time)

    def select(self, indices: NDArray[np.int64]) -> "ClipFrames":
        """A subset of the clips; `labels` are left as they are."""
        names = [self.names[clip] for clip in indices] if self.names else []
        segments = [self.segments[clip] for clip in indices] if self.segments else []
        return replace(self, names=names, lengths=self.lengths[indices], starts=self.starts[indices], segments=segments)


def read_clips(
    title: str,
    files: Sequence[Path],
    list_clips: Callable[[], Iterable[Clip]],
    readers: Sequence[ModuleType],
    options: Any,
    skip_bad: bool,
    facts: Callable[[], tuple[list[str], list[str]]] = lambda: ([], []),
) -> ClipFrames:
    """The frames of all clips, from the cache if the same files were read the same way before.

    Args:
        title: of the set, for the progress bar and messages.
        files: all files that are read; their paths, sizes and times enter the cache key.
        list_clips: the clips in these files; called only if they are not in the cache.
        readers: modules that decode them, whose source enters the cache key.
        options: plain JSON that enters the cache key.
        skip_bad: whether to leave out what cannot be read, with a note, instead of raising an InputError.
        facts: names of the features and notes about all clips, asked for after they were read.
    """
    state = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = digest(*readers, options, skip_bad, state)

    def write(file: FrameWriter) -> dict[str, Any]:
        clips = list(list_clips())
        good: list[Clip] = []
        lengths: list[int] = []
        notes: list[str] = []
        with progress_bar(f"reading {title}", len(clips)) as advance:
            for clip in clips:
                begin = file.count
                try:
                    _append(clip, good, file)
                except MissingDependencyError:
                    raise
                except InputError as error:
                    if not skip_bad:
                        raise InputError(f"{error} ({SKIP_HINT})") from None
                    file.truncate(begin)
                    notes.append(f"left out: {error}")
                else:
                    good.append(clip)
                    notes.extend(clip.notes)
                    lengths.append(file.count - begin)
                advance(1)
        if not good:
            raise InputError(f"none of the {len(clips)} clips in {title} can be used; the first: {notes[0]}")
        labels = {name: [clip.labels[name] for clip in good] for name in good[0].labels}
        features, set_notes = facts()
        return {
            "names": [clip.name for clip in good],
            "lengths": lengths,
            "labels": labels,
            "notes": set_notes + notes,
            "segments": [clip.segments for clip in good] if any(clip.segments for clip in good) else [],
            "features": features,
        }

    frames, metadata = cached_frames(title, key, write)
    lengths = np.array(metadata["lengths"], np.int64)
    starts = lengths.cumsum() - lengths
    return ClipFrames(
        frames,
        metadata["names"],
        lengths,
        metadata["labels"],
        tuple(metadata["notes"]),
        starts,
        metadata.get("segments", []),  # frames that were cached by an earlier version have none
        tuple(metadata.get("features", ())),
    )


def _append(clip: Clip, good: list[Clip], file: FrameWriter) -> None:
    """Append the clip's frames if they are finite and of the first clip's shape."""
    begin = file.count
    for block in clip.read_blocks():
        if file.frame is not None and file.count and block.shape[1:] != file.frame[0]:
            first = good[0].place if good else clip.place
            raise InputError(
                f"{clip.place} has frames of shape {block.shape[1:]} where {first} has {file.frame[0]}: all must have "
                "one shape"
            )
        finite = are_finite(block)
        if clip.segments:  # what is in none of them may be missing
            finite |= ~in_segments(clip.segments, file.count - begin, len(block))
        if not finite.all():
            at = file.count - begin + int(np.argmin(finite))
            raise InputError(f"{clip.place} holds {NON_FINITE} in frame {at}; mend it")
        file.append(block)
    count = file.count - begin
    if count < 2:
        raise InputError(f"{clip.place} has {counted(count, 'frame')}: dynamics need at least 2")


# Error numbers that are no word on a file's content; others, such as EIO and EPERM, decoders use for damage too.
LACKS = NO_SPACE | {errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETIMEDOUT}


@contextmanager
def decoding(file: Path, kind: str) -> Iterator[None]:
    """Turn what a decoder says of the user's `file` into an InputError.

    Raises:
        InputError: the file is damaged, or of another kind.
        MissingDependencyError: it is not there.
        ResourceError: it could not be read for want of memory, file handles or access. Another time it may be, so
            nothing may be concluded from it.
    """
    try:
        yield
    except (InputError, ResourceError):
        raise
    except FileNotFoundError:
        raise MissingDependencyError(f"there is no file {str(file)!r}") from None
    except Exception as error:
        if lack := _lack(error, file):
            raise ResourceError(f"cannot read {str(file)!r}: {lack}") from None
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{file} is damaged or no {kind} ({reason}); make it again") from None


def _lack(error: Exception, file: Path) -> str | None:
    """What the machine lacked when a decoder failed; None if the file is to blame."""
    if isinstance(error, MemoryError) or lacks_memory(RuntimeError(str(error).replace(str(file), ""))):
        return "not enough memory"
    if (number := getattr(error, "errno", None)) in LACKS:
        return os.strerror(number).lower()
    try:  # not every decoder tells why it could not read
        with file.open("rb") as stream:
            while stream.read(1 << 20):
                pass
    except OSError as failure:
        return (failure.strerror or str(failure)).lower()
    return None


def natural_key(text: object) -> list[tuple[int, int, str]]:
    """A sort key with frame 9 before frame 10, and different for any two texts.

    Example:
        >>> sorted(["img10", "img9", "IMG2"], key=natural_key)
        ['IMG2', 'img9', 'img10']
    """
    parts = re.split(r"([0-9]+)", str(text).lower())
    return [
        *(_number_key(part) if part[:1] in "0123456789" else (1, 0, part) for part in parts if part),
        (2, 0, str(text)),
    ]


def _number_key(digits: str) -> tuple[int, int, str]:
    """Sorts whole numbers by their size without converting them: Python refuses to read one of 5000 digits."""
    significant = digits.lstrip("0")
    return 0, len(significant), significant


def list_files(folder: Path) -> list[Path]:
    """All files below a folder in natural order, without hidden ones; links are followed, but none twice.

    Raises:
        InputError: one is no regular file but a pipe, say, or a link to nothing, or its name is no text.
    """
    files: list[Path] = []
    visited: set[Path] = set()
    pending = [folder]
    while pending:
        here = pending.pop()
        if here.resolve() in visited:
            continue
        visited.add(here.resolve())
        visible = [entry for entry in here.iterdir() if not entry.name.startswith(".")]
        for entry in visible:
            require_text(entry)
            if entry.is_dir():
                pending.append(entry)
                continue
            if not entry.exists():
                raise InputError(f"{entry} is a link to a file that is not there; mend it or take it away")
            require_regular(entry)
            files.append(entry)
    return sorted(files, key=lambda path: natural_key(path.relative_to(folder).as_posix()))
