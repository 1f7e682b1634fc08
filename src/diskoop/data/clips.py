"""clips in files: found by kind, read once, checked, laid end to end in the cache"""

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

from diskoop.data.cache import FrameFile, advancing, digest, kept_once
from diskoop.data.scaling import NOT_NUMBERS, are_numbers
from diskoop.errors import InputError, Unavailable

Blocks = Iterator[NDArray[Any]]  # frames (some, ...), a few at a time, so that memory does not grow with the clip
SKIP = "--skip-bad leaves it out"


@dataclass(frozen=True)
class Clip:
    """One sequence that can be read."""

    name: str  # what labels call it: its path below the folder that was given
    place: str  # what messages call it: where a person would look
    blocks: Callable[[], Blocks]
    labels: dict[str, str] = field(default_factory=dict)  # what its file says about it, once it has been read
    notes: list[str] = field(default_factory=list)  # what a person should know about it, once it has been read


def file_clips(root: Path, files: Sequence[Path], read: Callable[[Path], Blocks]) -> list[Clip]:
    """A clip for each file, named by its path below `root`."""
    return [Clip(file.relative_to(root).as_posix(), str(file), partial(read, file)) for file in files]


@dataclass(frozen=True, eq=False)
class ClipFrames:
    """Clips that lie in one array of frames."""

    frames: NDArray[Any]  # (total, ...)
    names: list[str]
    lengths: NDArray[np.int64]
    labels: dict[str, list[str]]
    notes: tuple[str, ...]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, x: NDArray[Any], lengths: NDArray[np.int64] | None = None) -> "ClipFrames":
        """The sequences of an array (n, time, ...), which have no names; `lengths` (n,) says which are shorter."""
        count, time = x.shape[:2]
        lengths = np.full(count, time) if lengths is None else lengths
        return cls(x.reshape(count * time, *x.shape[2:]), [], lengths, {}, (), np.arange(count) * time)

    def select(self, at: NDArray[np.int64]) -> "ClipFrames":
        """Some of them; `labels` stay as they are."""
        names = [self.names[clip] for clip in at] if self.names else []
        return replace(self, names=names, lengths=self.lengths[at], starts=self.starts[at])


def gather(
    title: str,
    files: Sequence[Path],
    find: Callable[[], Iterable[Clip]],
    readers: Sequence[ModuleType],
    options: Any,
    skip_bad: bool,
) -> ClipFrames:
    """The frames of all clips that `find` lists, read unless the same `files` were read so before.

    `readers` are the modules that make frames of them. What cannot be read is an InputError, or with `skip_bad` left
    out and noted.
    """
    seen = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = digest(*readers, options, skip_bad, seen)

    def write(file: FrameFile) -> dict[str, Any]:
        clips = list(find())
        good: list[Clip] = []
        lengths: list[int] = []
        notes: list[str] = []
        with advancing(f"reading {title}", len(clips)) as advance:
            for clip in clips:
                begin = file.count
                try:
                    _append(clip, good, file)
                except Unavailable:
                    raise
                except InputError as error:
                    if not skip_bad:
                        raise InputError(f"{error} ({SKIP})") from None
                    file.rewind(begin)
                    notes.append(f"left out: {error}")
                else:
                    good.append(clip)
                    notes.extend(clip.notes)
                    lengths.append(file.count - begin)
                advance(1)
        if not good:
            raise InputError(f"none of the {len(clips)} clips in {title} can be used; the first: {notes[0]}")
        labels = {name: [clip.labels[name] for clip in good] for name in good[0].labels}
        names = [clip.name for clip in good]
        return {"names": names, "lengths": lengths, "labels": labels, "notes": notes}

    frames, facts = kept_once(title, key, write)
    lengths = np.array(facts["lengths"], np.int64)
    return ClipFrames(
        frames, facts["names"], lengths, facts["labels"], tuple(facts["notes"]), lengths.cumsum() - lengths
    )


def _append(clip: Clip, good: list[Clip], file: FrameFile) -> None:
    """The clip's frames to the file, if they are sound and of the shape that the first clip had."""
    begin = file.count
    for block in clip.blocks():
        if file.frame is not None and file.count and block.shape[1:] != file.frame[0]:
            first = good[0].place if good else clip.place
            raise InputError(
                f"{clip.place} has frames of shape {block.shape[1:]} where {first} has {file.frame[0]}: all must be "
                "alike"
            )
        sound = are_numbers(block)
        if not sound.all():
            at = file.count - begin + int(np.argmin(sound))
            raise InputError(f"{clip.place} holds {NOT_NUMBERS} in frame {at}; mend it")
        file.append(block)
    if file.count - begin < 2:
        raise InputError(f"{clip.place} has {_frames(file.count - begin)}: dynamics need at least 2")


def _frames(count: int) -> str:
    return f"{count} frame{'s' if count != 1 else ''}"


@contextmanager
def decoding(file: Path, what: str) -> Iterator[None]:
    """A block that hands a user's file to a decoder, which may meet damage with any exception there is."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"there is no file {str(file)!r}") from None
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{file} is damaged or no {what} ({reason}); make it again") from None


def natural(text: object) -> list[tuple[int, int, str]]:
    """A sort key that puts frame 9 before frame 10, and tells any two texts apart."""
    parts = re.split(r"([0-9]+)", str(text).lower())
    return [
        *((0, int(part), "") if part[:1] in "0123456789" else (1, 0, part) for part in parts if part),
        (2, 0, str(text)),
    ]


def files_below(folder: Path) -> list[Path]:
    """All files, in natural order; hidden ones (names with a dot first) are the system's, not the user's."""
    found: list[Path] = []
    seen: set[Path] = set()
    waiting = [folder]
    while waiting:  # links are followed, but none twice
        here = waiting.pop()
        if here.resolve() in seen:
            continue
        seen.add(here.resolve())
        visible = [entry for entry in here.iterdir() if not entry.name.startswith(".")]
        found += [entry for entry in visible if entry.is_file()]
        waiting += [entry for entry in visible if entry.is_dir()]
    return sorted(found, key=lambda path: natural(path.relative_to(folder).as_posix()))
