"""the clips that an explorer shows: examples or splits of a run's own data, and uploaded files"""

import re
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from threading import RLock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diskoop.data import SPLITS, Sequences, load_split, open_data, without_splits
from diskoop.data.sequences import SplitName
from diskoop.errors import InputError, ResourceError, suggest
from diskoop.run import Run
from diskoop.storage import cached_in, scratch_folder, write_errors

UPLOADS = "uploads"  # the split of uploaded files
EXAMPLES = "examples"  # the split of clips that come with a run
MAX_PAGE = 200  # clips in a page of a listing
# Advice to use an option of the command line: in brackets, or a clause of its own.
OPTION_HINT = re.compile(r" \(--[a-z][^()]*\)|;[^;(]* --[a-z][^;(]*")


def without_options(text: str) -> str:
    """A sentence without advice to use options, which a page does not have.

    Example:
        >>> without_options("a.csv is empty (--skip-bad leaves it out)")
        'a.csv is empty'
        >>> without_options("hair and skin may go together; a larger --count parts them")
        'hair and skin may go together'
    """
    return OPTION_HINT.sub("", text)


@dataclass(frozen=True)
class ClipId:
    """A clip by its split and its index there, as text `test/12`."""

    split: str
    index: int

    @classmethod
    def parse(cls, text: str) -> "ClipId":
        split, slash, index = text.rpartition("/")
        if not (slash and split and index.isascii() and index.isdecimal() and len(index) < 12):
            raise InputError(f"expected a clip such as test/12, got {text!r}")
        return cls(split, int(index))

    def __str__(self) -> str:
        return f"{self.split}/{self.index}"


@dataclass(frozen=True)
class Upload:
    """A file that was uploaded: its sequences are clips `first` to `last` of the split UPLOADS."""

    name: str
    clips: Sequences
    first: int

    @property
    def last(self) -> int:
        return self.first + len(self.clips) - 1


class ClipLibrary:
    """All clips that pages may show. Nothing else of the disk can be reached through it.

    Args:
        run: whose data it shows; they are opened when first asked for.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = RLock()
        self._everything: Sequences | None = None
        self.problem: str | None = None  # why the run's own data cannot be read
        self._splits: dict[str, Sequences] = {}
        self._uploads: list[Upload] = []
        self._count = 0  # of files that were uploaded, readable or not
        self._open_files = ExitStack()
        self._folder = self._open_files.enter_context(scratch_folder())

    def close(self) -> None:
        """Delete what was uploaded."""
        self._open_files.close()

    def splits(self) -> dict[str, int]:
        """Name of each split that has clips -> how many; the one to begin with comes first.

        Uploads come last, and alone where the run's own data cannot be read.
        """
        with self._lock:
            uploaded = sum(len(each.clips) for each in self._uploads)
            return self._own_splits() | ({UPLOADS: uploaded} if uploaded else {})

    def _own_splits(self) -> dict[str, int]:
        if self._run.has_examples:  # the set itself may take minutes to draw
            return {EXAMPLES: len(self.clips(EXAMPLES))}
        try:
            everything = self._open()
        except InputError as error:
            self.problem = without_options(str(error))
            return {}
        names: tuple[SplitName, ...] = ("test", "val", "train")
        sizes = {name: everything.split_size(name) for name in names}
        known: dict[str, int] = {name: size for name, size in sizes.items() if size} or {"all": len(everything)}
        if "train" in known:
            known["train"] = len(self.clips("train"))  # of which data.limit may leave out some
        return known

    def _open(self) -> Sequences:
        """All sequences of the run's own data, opened once."""
        if self._everything is None:
            self._everything = open_data(self._run.settings.data)
        return self._everything

    def clips(self, split: str) -> Sequences:
        """The clips of a split of the run's own data."""
        with self._lock:
            if split == EXAMPLES and split not in self._splits:
                self._splits[split] = self._run.examples()
            if split not in self._splits:
                if split not in SPLITS:
                    raise InputError(f"unknown split {split!r}; {suggest(split, SPLITS)}")
                self._splits[split] = load_split(self._run.settings.data, split, self._open())
            return self._splits[split]

    def find(self, clip: ClipId) -> tuple[Sequences, int]:
        """The set that holds a clip, and its index there."""
        if clip.split == UPLOADS:
            for upload in self._uploads:
                if upload.first <= clip.index <= upload.last:
                    return upload.clips, clip.index - upload.first
            raise InputError(f"there is no uploaded clip {clip.index}; files are forgotten when the explorer ends")
        clips = self.clips(clip.split)
        if clip.index >= len(clips):
            raise InputError(f"expected a clip of {clip.split} from 0 to {len(clips) - 1}, got {clip.index}")
        return clips, clip.index

    def upload_name(self, clip: ClipId) -> str:
        """The file that an uploaded clip came from."""
        return next(each.name for each in self._uploads if each.first <= clip.index <= each.last)

    def describe(self, clip: ClipId) -> dict[str, Any]:
        """A clip as a JSON object: id, name, labels, number of frames."""
        clips, index = self.find(clip)
        return {
            "id": str(clip),
            "name": clips.sequence_name(index),
            "labels": clips.label_values(index),
            "frames": int(clips.lengths[index]),
        }

    def listing(
        self, split: str, first: int = 0, count: int = 24, labels: dict[str, str] | None = None, text: str = ""
    ) -> dict[str, Any]:
        """A page of the clips of a split, as a JSON object.

        Args:
            split: its name.
            first: clips to skip.
            count: clips at most.
            labels: label -> value that they have.
            text: part of their names.

        Returns:
            `total`, how many match, and their descriptions as `clips`.
        """
        matching = self._matching(split, labels or {}, text.casefold())
        page = matching[first : first + min(count, MAX_PAGE)]
        return {"total": len(matching), "clips": [self.describe(ClipId(split, int(index))) for index in page]}

    def label_values(self, split: str) -> dict[str, list[str]]:
        """Label -> the values that clips of a split have, in words."""
        if split == UPLOADS:
            return {}
        clips = self.clips(split)
        return {
            name: [clips.value_name(name, code) for code in np.unique(codes)] for name, codes in clips.labels.items()
        }

    def _matching(self, split: str, labels: dict[str, str], text: str) -> NDArray[np.int64]:
        if split == UPLOADS:
            names = [each.clips.sequence_name(i) for each in self._uploads for i in range(len(each.clips))]
            return np.array([i for i, name in enumerate(names) if text in name.casefold()], np.int64)
        clips = self.clips(split)
        selected = np.ones(len(clips), bool)
        for name, value in labels.items():
            if name not in clips.labels:
                raise InputError(f"unknown label {name!r}; {suggest(name, clips.labels)}")
            codes = np.unique(clips.labels[name])
            wanted = [code for code in codes if clips.value_name(name, code) == value]
            selected &= np.isin(clips.labels[name], wanted)
        indices = np.flatnonzero(selected)
        if text:
            indices = np.array([i for i in indices if text in clips.sequence_name(int(i)).casefold()], np.int64)
        return indices

    def upload(self, name: str, content: bytes) -> list[str]:
        """Read a file that was uploaded, as the run's own data are read.

        Args:
            name: of the file; only its last part counts.
            content: its bytes.

        Returns:
            The ids of its clips.

        Raises:
            InputError: it cannot be read, or is not what the run was trained on.
        """
        safe = PurePosixPath(name.replace("\\", "/")).name
        if not safe or safe.startswith(".") or not safe.isprintable() or len(safe.encode()) > 200:
            raise InputError(f"expected the name of a file such as walk.mp4, got {name!r}")
        with self._lock:
            self._count += 1
            folder = self._folder / str(self._count)
            folder.mkdir()
            file = folder / safe
            try:
                with write_errors(file):
                    file.write_bytes(content)
                clips = self._read(file)
            except (InputError, ResourceError) as error:
                shutil.rmtree(folder)
                raise type(error)(str(error).replace(str(file), safe).replace(str(folder), safe)) from None
            first = self._uploads[-1].last + 1 if self._uploads else 0
            self._uploads.append(Upload(safe, clips, first))
            return [str(ClipId(UPLOADS, index)) for index in range(first, first + len(clips))]

    def _read(self, file: Path) -> Sequences:
        wanted = self._run.frame_shape
        with cached_in(self._folder / "cache"):  # deleted with the file
            clips = open_data(without_splits(self._run.settings_for(file)))
        if clips.shape[2:] != wanted:
            raise InputError(
                f"{file.name} has frames of shape {tuple(clips.shape[2:])}, and this run was trained on {wanted}"
            )
        self._run.decompose(clips.select([0]))  # checks the names of features, too
        if clips.is_video and clips.units != (units := self._run.units):  # fractions where the run has bytes
            frames = units.from_model(clips.units.to_model(torch.from_numpy(np.array(clips.frames)))).numpy()
            clips = replace(clips, frames=frames, units=units)
        return replace(clips, clip_names=[file.name]) if clips.clip_count == 1 else clips
