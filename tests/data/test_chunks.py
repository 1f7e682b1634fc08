"""What is read chunk by chunk is what is there; few chunks are in memory, and every epoch is shuffled."""

import errno
import zlib
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from diskoop.data import Sequences, Units
from diskoop.data.chunks import ChunkedFrames, hold_sample, in_memory, reading, sample_indices, shuffled_order
from diskoop.data.scaling import frame_deviations
from diskoop.errors import InputError, MissingDependencyError, ResourceError
from diskoop.memory import format_bytes

COUNT, TIME = 300, 6
X = np.arange(COUNT * TIME * 2, dtype=np.float64).reshape(COUNT, TIME, 2)


@dataclass
class Watched:
    """A source in memory that notes what is read."""

    x: NDArray[Any] = field(default_factory=lambda: X)
    rows: int = 7
    span: int = TIME
    name: str = "watched"
    reads: list[tuple[int, int]] = field(default_factory=list)
    fault: Exception | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.x.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    @property
    def bounds(self) -> NDArray[np.int64]:
        return np.append(np.arange(0, len(self.x), self.rows), len(self.x))

    def read(self, rows: slice, frames: slice) -> NDArray[Any]:
        self.reads.append((rows.start, frames.start))
        if self.fault is not None:
            raise self.fault
        return self.x[rows, frames]


def chunked(source: Watched, window: int = 40, **more: Any) -> Sequences:
    frames = ChunkedFrames(source, window * TIME, TIME)
    starts = np.arange(len(source.x)) * TIME
    lengths = np.full(len(source.x), TIME)
    return Sequences(cast(NDArray[Any], frames), starts, lengths, units=Units(dtype="float64"), **more)


@pytest.mark.parametrize(("rows", "span"), [(1, TIME), (7, TIME), (7, 4), (300, 1), (1000, TIME)])
def test_sequences_and_frames_are_those_of_the_source(rows: int, span: int) -> None:
    data = chunked(Watched(rows=rows, span=span))
    indices = np.array([299, 0, 13, 14, 13])
    assert np.array_equal(data.read(indices), X[indices])
    assert np.array_equal(data.x, X)
    assert np.array_equal(data.frames[-1], X[-1, -1])
    assert np.array_equal(data.frames[np.array([1700, 5, 1700])], X.reshape(-1, 2)[[1700, 5, 1700]])
    assert data.frames[5:5].shape == (0, 2)
    with pytest.raises(IndexError):
        data.frames[len(data.frames)]
    assert data.frames.nbytes == X.nbytes


@pytest.mark.parametrize(("rows", "span"), [(1, TIME), (7, TIME), (50, TIME), (7, 3)])
def test_an_epoch_holds_every_sequence_once_and_reads_no_chunk_twice(rows: int, span: int) -> None:
    source = Watched(rows=rows, span=span)
    data = chunked(source)
    if span < TIME:  # windows that lie within one chunk along time
        data = Sequences(
            data.frames, np.arange(2 * COUNT) * span, np.full(2 * COUNT, span), units=Units(dtype="float64")
        )
    order = shuffled_order(data, np.random.default_rng(0))
    assert sorted(order.tolist()) == list(range(len(data)))
    for index in order:
        data.read([int(index)])
    count = cast(ChunkedFrames, data.frames).chunk_count
    assert len(set(source.reads)) == count
    assert len(source.reads) == count


def windows(
    source: Watched, window: int, stride: int, shuffle_window: int, every: Any = slice(None)
) -> tuple[Sequences, ChunkedFrames]:
    """Windows of the rows of a source, which may cross chunks along time."""
    rows, time = source.shape[:2]
    offsets = np.arange(0, time - window + 1, stride)
    starts = (np.arange(rows)[:, None] * time + offsets).ravel()[every]
    frames = ChunkedFrames(source, shuffle_window * window, window)
    clips = starts // time
    places: dict[str, Any] = {"clips": clips, "offsets": starts % time, "labels": {"row": clips}}
    as_array, lengths = cast(NDArray[Any], frames), np.full(len(starts), window)
    return Sequences(as_array, starts, lengths, units=Units(dtype="float64"), **places), frames


LONG = np.arange(6 * 6000, dtype=np.float64).reshape(6, 6000, 1)


@pytest.mark.parametrize(
    ("window", "stride", "span", "most"),
    [
        (25, 25, 50, 1.0),  # aligned: none crosses a chunk
        (20, 20, 50, 1 + 1 / 8),  # every other chunk is crossed into the next
        (20, 17, 50, 1 + 1 / 8),
        (100, 30, 40, 1 + 1 / 8),  # a window touches up to four chunks
        (20, 17, 1500, 1 + 1 / 8),  # all chunks of a row follow one another
    ],
)
def test_an_epoch_of_windows_that_cross_chunks_reads_each_about_once(
    window: int, stride: int, span: int, most: float
) -> None:
    source = Watched(x=LONG, rows=2, span=span)
    data, frames = windows(source, window, stride, shuffle_window=200)
    orders = [shuffled_order(data, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])
    for order in orders[1:]:
        source.reads.clear()
        frames._chunks.clear()
        frames._held = 0
        assert sorted(order.tolist()) == list(range(len(data)))
        for index in order:
            data.read([int(index)])
            assert frames._held <= frames.capacity
        assert len(set(source.reads)) == frames.chunk_count
        assert len(source.reads) <= most * frames.chunk_count
    # Those that follow one another in an epoch are seldom neighbours in the set.
    assert (np.abs(np.diff(data.starts[orders[0]])) <= 2 * window).mean() < 0.1


def test_memory_stays_within_the_bound_that_is_told() -> None:
    source = Watched()
    data = chunked(source)
    frames = cast(Any, data.frames)
    bound = (40 + 4 * 7) * TIME * 2 * 8
    assert frames.capacity == bound
    most = 0
    for index in shuffled_order(data, np.random.default_rng(0)):
        data.read([int(index)])
        held = sum(chunk.nbytes for chunk in frames._chunks.values())
        assert held == frames._held
        most = max(most, held)
    assert bound / 2 < most <= bound
    assert format_bytes(bound) == "6.5 kB"


def test_the_order_is_a_function_of_its_seed_and_shuffles_within_the_window() -> None:
    data = chunked(Watched(rows=1), window=40)
    first, same, other = (shuffled_order(data, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)
    stream = np.random.default_rng(1).permutation(COUNT)  # the chunks, which are single sequences here
    place = np.empty(COUNT, np.int64)
    place[stream] = np.arange(COUNT)
    shift = place[first] - np.arange(COUNT)
    assert np.abs(shift).max() < 40  # nothing moves further than the window
    assert shift.std() > 5  # and it does move
    neighbours = np.abs(np.diff(shuffled_order(chunked(Watched(rows=50), window=100), np.random.default_rng(0))))
    assert (neighbours == 1).mean() < 0.1


def test_a_sample_comes_out_of_some_chunks_and_is_the_same_for_a_split_as_for_the_set() -> None:
    source = Watched()
    codes = (np.arange(COUNT) % 5 == 0).astype(np.int8)
    data = chunked(source, split_codes=codes, labels={"number": np.arange(COUNT)})
    train = data.split("train")
    chosen = train.select(sample_indices(train, 25)).labels["number"]
    assert len(set(chosen.tolist())) == 25
    assert not (codes[chosen] == 1).any()
    chunks, counts = np.unique(chosen // 7, return_counts=True)
    assert 10 <= len(chunks) <= 16  # of five or six each
    assert counts.max() <= 5
    held = hold_sample(data, 25)
    assert isinstance(held.frames, np.ndarray)
    assert held.split("train").labels["number"].tolist() == chosen.tolist()
    assert np.array_equal(held.x, X[held.labels["number"]])
    assert len(source.reads) == len(set(source.reads))  # in the order of the set, so none is read twice
    assert held.notes == ("a sample in memory: 25 of 240 + 25 of 60 sequences (data.sample = 25 of each split)",)
    assert max(hold_sample(data, 25, limit=30).split("train").labels["number"]) < 40
    assert hold_sample(data, None) is data
    assert hold_sample(held, 3) is held
    many = sample_indices(train, 200)  # more than sixteen chunks hold
    assert len(set(many.tolist())) == 200
    assert np.array_equal(sample_indices(train, 240), np.arange(240))


def test_a_sample_of_windows_is_spread_over_recordings_and_reads_a_chunk_once() -> None:
    recordings = np.random.default_rng(0).normal(size=(200, 1, 1)) + np.zeros((1, 400, 1))  # a level of its own each
    source = Watched(x=recordings, rows=20, span=100)
    data, frames = windows(source, window=16, stride=4, shuffle_window=40)
    chosen = sample_indices(data, 512)
    assert len(set(chosen.tolist())) == 512
    assert len(set(data.labels["row"][chosen].tolist())) > 100  # of the 200 that are in ten chunks and on
    drawn = data.select(chosen)
    for index in range(len(drawn)):
        drawn.read([index])
    assert len(source.reads) == len(set(source.reads)) <= 2 * 16  # each with the next one, into which windows cross
    assert frame_deviations(in_memory(drawn))[0] == pytest.approx(recordings.std(), rel=0.25)
    source.reads.clear()
    held = hold_sample(data, 512)
    assert np.array_equal(held.x, recordings[held.labels["row"], :16])
    clips = len(set(held.labels["row"].tolist()))
    assert held.notes == (
        f"a sample in memory: 512 of {len(data)} sequences, windows of {clips} of 200 clips "
        "(data.sample = 512 of each split)",
    )
    source.reads.clear()
    whole = data.select(sample_indices(data, None))  # all of them, each chunk with its neighbours along time
    for index in range(len(whole)):
        whole.read([index])
    assert len(source.reads) == frames.chunk_count


def test_deviations_need_no_more_than_a_few_chunks() -> None:
    data = chunked(Watched())
    assert np.allclose(frame_deviations(data), X.reshape(-1, 2).std(0))
    assert np.allclose(frame_deviations(in_memory(data)), X.reshape(-1, 2).std(0))


class PayloadError(Exception):
    """What a network library may raise that is no OSError."""


@pytest.mark.parametrize(
    ("fault", "kind", "sentence"),
    [
        (ValueError("bad\nchecksum"), InputError, r"^part is damaged or no array \(bad checksum\); make it again$"),
        (RuntimeError("blosc: -1"), InputError, r"^part is damaged or no array \(blosc: -1\); make it again$"),
        (zlib.error("invalid header"), InputError, r"^part is damaged or no array \(invalid header\); make it again$"),
        (EOFError(), InputError, r"^part is damaged or no array \(EOFError\); make it again$"),
        (ConnectionError("reset"), ResourceError, "^cannot read part: reset$"),
        (PermissionError(13, "denied"), ResourceError, "^cannot read part: .*denied$"),
        (OSError(errno.EMFILE, "too many open files"), ResourceError, "^cannot read part: .*too many"),
        (PayloadError("half of it"), ResourceError, "^cannot read part: half of it$"),
        (MemoryError(), ResourceError, "^cannot read part: MemoryError$"),
        (RuntimeError("malloc failed"), ResourceError, "^cannot read part: malloc failed$"),
        (ImportError("no codec"), MissingDependencyError, "^reading part needs another package: no codec$"),
        (InputError("as it is"), InputError, "^as it is$"),
    ],
)
def test_what_a_decoder_says_is_damage_and_all_else_may_pass(
    fault: Exception, kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence), reading("part", "array"):
        raise fault


def test_a_chunk_that_cannot_be_read_is_named() -> None:
    sentence = r"^the chunk of sequences 7 to 13 in watched is damaged \(bad checksum\); make it again$"
    with pytest.raises(InputError, match=sentence):
        chunked(Watched(fault=ValueError("bad\nchecksum"))).read([9])
    with pytest.raises(ResourceError, match=r"^cannot read the chunk of sequences 7 to 13 in watched: half of it$"):
        chunked(Watched(fault=PayloadError("half of it"))).read([9])


def test_numbers_that_are_none_are_named() -> None:
    x = X.copy()
    x[11, 3, 1] = np.nan
    data = chunked(Watched(x=x))
    data.read([10, 12])
    with pytest.raises(InputError, match=r"^watched: sequence 11 holds NaN or infinity"):
        data.read([11])
