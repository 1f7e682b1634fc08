"""frames that are read chunk by chunk: few of them in memory, a shuffle within a window, samples

A set that is larger than memory, and perhaps than the disk, stays where it is. Sequences are read by their chunks, of
which a stated number stays in memory. An epoch takes the chunks in a random order, and shuffles sequences within a
window of that stream; what needs no more than a part of the set draws it out of a few chunks.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from gzip import BadGzipFile
from lzma import LZMAError
from threading import RLock
from typing import Any, Protocol
from zipfile import BadZipFile
from zlib import error as ZlibError

import numpy as np
from numpy.typing import NDArray

from diskoop.data.scaling import NON_FINITE, are_finite
from diskoop.data.sequences import SPLIT_NAMES, Indices, Sequences
from diskoop.errors import InputError, MissingDependencyError, ResourceError, counted
from diskoop.memory import format_bytes, lacks_memory

SPARE_CHUNKS = 4  # beyond those that a window spans: chunks begin and end inside it
RUN = 8  # chunks that stay together where sequences cross from one into the next: at its end one is read twice
SAMPLE_CHUNKS = 16  # that a sample is drawn from at least: neighbours in a chunk are often alike

# What decoders raise. Every file system has classes of its own for the rest, most of them OSErrors.
DECODING_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, LookupError, RuntimeError, SyntaxError),
    *(TypeError, ValueError, BadGzipFile, BadZipFile, LZMAError, ZlibError, struct.error),
)


@contextmanager
def reading(what: str, kind: str = "") -> Iterator[None]:
    """Turn what goes wrong while a part of a set is read into a sentence.

    Args:
        what: is read.
        kind: what it should be, where it may be something else.

    Raises:
        InputError: a decoder says that it is damaged.
        MissingDependencyError: it cannot be read for want of a package.
        ResourceError: the network, a permission, memory or a handle is lacking. Another time it may be there.
    """
    try:
        yield
    except (InputError, ResourceError):
        raise
    except ImportError as error:
        raise MissingDependencyError(f"reading {what} needs another package: {error}") from None
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if lacks_memory(error) or not isinstance(error, DECODING_ERRORS):
            raise ResourceError(f"cannot read {what}: {reason}") from None
        raise InputError(f"{what} is damaged{kind and f' or no {kind}'} ({reason}); make it again") from None


class ChunkSource(Protocol):
    """An array of sequences (n, time, ...) that can be read in parts."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, time, ...)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the frames."""

    @property
    def bounds(self) -> Indices:
        """First sequence of each chunk, and n; (chunks + 1,)."""

    @property
    def span(self) -> int:
        """Frames of a chunk; less than `time` where sequences are cut too."""

    def read(self, rows: slice, frames: slice) -> NDArray[Any]:
        """These frames of these sequences, (rows, frames, ...); all lie in one chunk."""


class ChunkedFrames:
    """The frames (total, ...) of the sequences of a source, read when asked for; stands in for an array.

    Args:
        source: what is read.
        window: frames of the stream of chunks that an epoch is shuffled within; so many stay in memory.
        longest: frames of the longest sequence that will be read; it may cross chunks.
    """

    def __init__(self, source: ChunkSource, window: int, longest: int) -> None:
        self.source, self.window = source, window
        count, self.time = source.shape[:2]
        self.shape = (count * self.time, *source.shape[2:])
        self.dtype, self.ndim = source.dtype, len(self.shape)
        self.frame_bytes = int(np.prod(self.shape[1:])) * self.dtype.itemsize
        self.nbytes = self.shape[0] * self.frame_bytes
        self.spans = -(-self.time // source.span)  # chunks along time
        self.reach = min(self.spans, 1 + -(-(longest - 1) // source.span)) - 1  # chunks that a sequence may go on into
        self.chunk_count = (len(source.bounds) - 1) * self.spans
        self._chunks: dict[int, NDArray[Any]] = {}  # in the order in which they were read
        self._held = 0  # bytes
        self._lock = RLock()  # the reader thread trains ahead while another one validates

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def chunk_frames(self) -> int:
        """Frames of the largest chunk."""
        return int(np.diff(self.source.bounds).max()) * self.source.span

    @property
    def capacity(self) -> int:
        """Bytes of chunks that stay in memory at most."""
        return (self.window + (SPARE_CHUNKS + self.reach) * self.chunk_frames) * self.frame_bytes

    def __getitem__(self, key: Any) -> NDArray[Any]:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step != 1:
                raise IndexError(f"frames that are read in chunks have no step, got {step}")
            x, filled = np.empty((max(0, stop - start), *self.shape[1:]), self.dtype), 0
            for piece in self._pieces(start, stop):
                if len(piece) == len(x):  # all of it lies in one chunk
                    x = piece
                    break
                x[filled : filled + len(piece)] = piece  # and its chunk may leave memory
                filled += len(piece)
            if len(x) and not (finite := are_finite(x)).all():
                row = (start + int(np.argmin(finite))) // self.time
                raise InputError(f"{self.source.name}: sequence {row} holds {NON_FINITE}; mend it")
            return x
        if isinstance(key, int | np.integer):
            first = int(key) + (len(self) if key < 0 else 0)
            if not 0 <= first < len(self):
                raise IndexError(f"expected a frame from 0 to {len(self) - 1}, got {key}")
            frame: NDArray[Any] = self[first : first + 1][0]
            return frame
        places, back = np.unique(np.arange(len(self))[key] if _is_mask(key) else np.asarray(key), return_inverse=True)
        return np.stack([self[int(place)] for place in places])[back]

    def _pieces(self, start: int, stop: int) -> Iterator[NDArray[Any]]:
        """Frames from `start` to before `stop`, chunk by chunk."""
        while start < stop:
            row, frame = divmod(start, self.time)
            along = frame // self.source.span
            end = min(self.time, (along + 1) * self.source.span)
            count = min(end - frame, stop - start)
            chunk, first = self._chunk(row, along)
            begin = frame - along * self.source.span
            yield chunk[row - first, begin : begin + count]
            start += count

    def _chunk(self, row: int, along: int) -> tuple[NDArray[Any], int]:
        """The chunk (rows, frames, ...) that holds a part of sequence `row`, and its first sequence."""
        across = int(np.searchsorted(self.source.bounds, row, side="right")) - 1
        first, number = int(self.source.bounds[across]), across * self.spans + along
        with self._lock:
            if number not in self._chunks:
                # Room is made before, so that the bound holds while a chunk is read. What was read first goes first: an
                # epoch needs no chunk for longer than the window, but perhaps its last sequence long after the others.
                rows = slice(first, int(self.source.bounds[across + 1]))
                frames = slice(along * self.source.span, min(self.time, (along + 1) * self.source.span))
                size = (rows.stop - rows.start) * (frames.stop - frames.start) * self.frame_bytes
                while self._chunks and self._held + size > self.capacity:
                    self._held -= self._chunks.pop(next(iter(self._chunks))).nbytes
                self._chunks[number] = chunk = self._read(rows, frames)
                self._held += chunk.nbytes
            return self._chunks[number], first

    def _read(self, rows: slice, frames: slice) -> NDArray[Any]:
        what = f"the chunk of sequences {rows.start} to {rows.stop - 1} in {self.source.name}"
        with reading(what):
            x = self.source.read(rows, frames)
        wanted = (rows.stop - rows.start, frames.stop - frames.start, *self.shape[1:])
        if x.shape != wanted or x.dtype != self.dtype:
            raise InputError(f"{what} is {x.dtype} {x.shape}, wanted {self.dtype} {wanted}; make it again")
        x.flags.writeable = False  # slices of it are handed out
        return x

    def chunk_of(self, starts: Indices) -> Indices:
        """The chunk that holds each of these frames, (n,)."""
        row, frame = np.divmod(starts, self.time)
        chunks: Indices = self._across(row) * self.spans + frame // self.source.span
        return chunks

    def _across(self, rows: Indices) -> Indices:
        found: Indices = np.searchsorted(self.source.bounds, rows, side="right") - 1
        return found

    def shuffled(self, starts: Indices, lengths: Indices, random: np.random.Generator) -> Indices:
        """An order of sequences, (n,): runs of chunks at random, sequences within a window of them.

        A run is one chunk, or where sequences cross from one into the next several that follow one another: each chunk
        is then read for its own run, and the first of a run may be read once more for the run before.

        Every sequence is delayed by less than the window in the stream of chunks, so that no more than the window and
        the chunks at its ends are needed at a time.

        Args:
            starts: first frame of each sequence, (n,).
            lengths: frames of each, (n,).
            random: draws the order.
        """
        heights = np.repeat(np.diff(self.source.bounds), self.spans)  # (chunks,) sequences
        edges = np.minimum(np.arange(self.spans + 1) * self.source.span, self.time)
        widths = np.tile(np.diff(edges), len(self.source.bounds) - 1)  # (chunks,) frames
        sizes, chunk = heights * widths, self.chunk_of(starts)
        runs, is_cut = self._runs(chunk, self.chunk_of(starts + lengths - 1), random)
        sizes = np.where(is_cut, (1 + self.reach) * sizes, sizes)  # what is read after a run takes memory too
        place = np.argsort(random.permutation(runs[-1] + 1))  # (runs,)
        stream = np.argsort(place[runs], kind="stable")  # (chunks,) in the order in which they are read
        begins = np.empty(self.chunk_count, np.int64)
        begins[stream] = sizes[stream].cumsum() - sizes[stream]
        row, frame = np.divmod(starts, self.time)
        inside = (row - self.source.bounds[self._across(row)]) * widths[chunk] + frame % self.source.span
        delay = random.random(len(starts)) * self.window
        shuffled: Indices = np.argsort(begins[chunk] + inside + delay, kind="stable")
        return shuffled

    def _runs(self, first: Indices, last: Indices, random: np.random.Generator) -> tuple[Indices, NDArray[np.bool_]]:
        """The run of each chunk, (chunks,), and whether it ends one that sequences cross the end of, (chunks,).

        Args:
            first: chunk in which each sequence begins, (n,).
            last: chunk in which it ends, (n,).
            random: draws where long runs are cut, so that other sequences cross the cuts in another epoch.
        """
        begun, ended = (np.bincount(chunks, minlength=self.chunk_count) for chunks in (first, last))
        crossed = (begun - ended).cumsum() > 0  # (chunks,) some sequence goes on into the next chunk
        begins = ~np.roll(crossed, 1)
        if crossed.any():
            shift = np.repeat(random.integers(RUN * self.reach, size=len(self.source.bounds) - 1), self.spans)
            begins |= (np.arange(self.chunk_count) % self.spans + shift) % (RUN * self.reach) == 0
        return begins.cumsum() - 1, crossed & np.roll(begins, -1)


def _is_mask(key: Any) -> bool:
    return np.asarray(key).dtype == bool


def is_chunked(data: Sequences) -> bool:
    """Whether the frames of a set are read chunk by chunk."""
    return isinstance(data.frames, ChunkedFrames)


def shuffled_order(data: Sequences, random: np.random.Generator) -> Indices:
    """The order of an epoch, (n,): a permutation; of a set that is read chunk by chunk one within a window.

    Example:
        >>> data = Sequences.of(np.zeros((4, 8, 3, 32, 32), np.uint8))
        >>> sorted(shuffled_order(data, np.random.default_rng(0)).tolist())
        [0, 1, 2, 3]
    """
    if isinstance(data.frames, ChunkedFrames):
        return data.frames.shuffled(data.starts, data.lengths, random)
    return random.permutation(len(data))


def sample_indices(data: Sequences, count: int | None, seed: int = 0) -> Indices:
    """`count` sequences at most, in the order of the set or of its chunks; None takes all.

    Of a set that is read chunk by chunk they come at random out of some chunks; who reads them in this order reads each
    chunk once.

    Args:
        data: the sequences.
        count: how many.
        seed: of the draw.

    Example:
        >>> sample_indices(Sequences.of(np.zeros((4, 8, 3, 32, 32), np.uint8)), count=9)
        array([0, 1, 2, 3])
    """
    random = np.random.Generator(np.random.PCG64(seed))
    takes_all = count is None or count >= len(data)
    if not isinstance(data.frames, ChunkedFrames):
        return np.arange(len(data)) if takes_all else np.sort(random.permutation(len(data))[:count])
    chunk, pool = data.frames.chunk_of(data.starts), np.arange(len(data))
    if count is not None and count < len(data):
        rank = random.permutation(data.frames.chunk_count)[chunk]
        fewest = np.unique(rank)[:SAMPLE_CHUNKS][-1]
        pool = random.permutation(np.flatnonzero(rank <= max(fewest, np.sort(rank)[count - 1])))[:count]
        pool.sort()
    return pool[np.argsort(chunk[pool], kind="stable")]


def hold_sample(data: Sequences, count: int | None, limit: int | None = None) -> Sequences:
    """A set that is read chunk by chunk, as a sample of each split in memory; None takes all and holds nothing.

    Args:
        data: any other set is returned as it is.
        count: sequences of each split at most.
        limit: how many sequences of the training split there are to draw from.
    """
    if count is None or not is_chunked(data):
        return data
    splits = [np.arange(len(data))]
    if data.split_codes is not None:
        splits = [np.flatnonzero(data.split_codes == code) for code in range(len(SPLIT_NAMES))]
        splits[0] = splits[0][:limit]
    splits = [part for part in splits if len(part)]
    chosen = [part[sample_indices(data.select(part), count)] for part in splits]
    if sum(map(len, chosen)) == len(data):
        note: tuple[str, ...] = ()
    else:
        pairs = list(zip(chosen, splits, strict=True))
        drawn = " + ".join(f"{len(some)} of {len(part)}" for some, part in pairs) + " sequences"
        if data.clip_count < len(data):
            clips = [[data.select(indices).clip_count for indices in pair] for pair in pairs]
            drawn += ", windows of " + " + ".join(f"{some} of {part}" for some, part in clips) + " clips"
        note = (f"a sample in memory: {drawn} (data.sample = {count} of each split)",)
    held = in_memory(data.select(np.sort(np.concatenate(chosen))))
    return replace(held, notes=(*held.notes, *note))


def in_memory(data: Sequences) -> Sequences:
    """The same sequences with their frames in one array in memory, overlapping ones apart."""
    ends = data.lengths.cumsum()
    frames = np.empty((int(ends[-1]), *data.frames.shape[1:]), data.frames.dtype)
    for index in sample_indices(data, None):
        start, length, end = data.starts[index], data.lengths[index], ends[index]
        frames[end - length : end] = data.frames[start : start + length]
    return replace(data, frames=frames, starts=ends - data.lengths)


def chunk_notes(frames: ChunkedFrames, sample: int | None) -> list[str]:
    """How much is read, how much of it is in memory at most, and what a sample is taken for."""
    count, step = len(frames.source.bounds) - 1, frames.chunk_frames * frames.frame_bytes
    notes = [
        f"{format_bytes(frames.nbytes)} are read in {counted(count * frames.spans, 'chunk')} of up to "
        f"{format_bytes(step)}, of which {format_bytes(frames.capacity)} are in memory at most (data.shuffle_window)"
    ]
    if sample is not None:
        notes.append(
            f"up to {sample} sequences of each split, out of {min(SAMPLE_CHUNKS, frames.chunk_count)} chunks or more, "
            "validate, and fit principal components, scales and the frozen operator (data.sample)"
        )
    return notes
