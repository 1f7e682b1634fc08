"""What is read chunk by chunk is what is there; few chunks are in memory, and every epoch is shuffled."""

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from diskoop.data import Sequences, Units
from diskoop.data.chunks import ChunkedFrames, hold_sample, in_memory, sample_indices, shuffled_order
from diskoop.data.scaling import frame_deviations
from diskoop.errors import InputError, ResourceError
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
    frames = ChunkedFrames(source, window * TIME)
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
def test_an_epoch_holds_every_sequence_once_and_hardly_reads_a_chunk_twice(rows: int, span: int) -> None:
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
    assert len(source.reads) <= 1.02 * count  # a chunk that waits long for its last sequence may be dropped before


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


def test_a_sample_takes_whole_chunks_and_is_the_same_for_a_split_as_for_the_set() -> None:
    source = Watched()
    codes = (np.arange(COUNT) % 5 == 0).astype(np.int8)
    data = chunked(source, split_codes=codes, labels={"number": np.arange(COUNT)})
    train = data.split("train")
    chosen = train.select(sample_indices(train, 25)).labels["number"]
    assert len(chosen) == 25
    assert not (codes[chosen] == 1).any()
    assert len(set((chosen // 7).tolist())) <= 6  # of about five or six each
    held = hold_sample(data, 25)
    assert isinstance(held.frames, np.ndarray)
    assert held.split("train").labels["number"].tolist() == chosen.tolist()
    assert np.array_equal(held.x, X[held.labels["number"]])
    assert len(source.reads) == len(set(source.reads))  # in the order of the set, so none is read twice
    assert held.notes == ("a sample in memory: 25 of 240 + 25 of 60 sequences (data.sample = 25 of each split)",)
    assert max(hold_sample(data, 25, limit=30).split("train").labels["number"]) < 40
    assert hold_sample(data, None) is data
    assert hold_sample(held, 3) is held


def test_deviations_need_no_more_than_a_few_chunks() -> None:
    data = chunked(Watched())
    assert np.allclose(frame_deviations(data), X.reshape(-1, 2).std(0))
    assert np.allclose(frame_deviations(in_memory(data)), X.reshape(-1, 2).std(0))


@pytest.mark.parametrize(
    ("fault", "kind", "sentence"),
    [
        (ValueError("bad\nchecksum"), InputError, r"^watched: sequences 7 to 13 are damaged \(bad checksum\)"),
        (ConnectionError("reset"), ResourceError, r"^watched: sequences 7 to 13 cannot be read: reset$"),
        (MemoryError(), ResourceError, r"^watched: sequences 7 to 13 cannot be read: MemoryError$"),
    ],
)
def test_a_chunk_that_cannot_be_read_is_named(fault: Exception, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        chunked(Watched(fault=fault)).read([9])


def test_numbers_that_are_none_are_named() -> None:
    x = X.copy()
    x[11, 3, 1] = np.nan
    data = chunked(Watched(x=x))
    data.read([10, 12])
    with pytest.raises(InputError, match=r"^watched: sequence 11 holds NaN or infinity"):
        data.read([11])
