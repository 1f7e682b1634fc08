"""Zarr stores and shards: read where they are, split whoever reads them, every fault in one sentence."""

import json
import pickle
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
import zarr
from numpy.typing import NDArray
from zarr.storage import FsspecStore, LocalStore

import diskoop
from diskoop import load_data
from diskoop.data import Sequences
from diskoop.data.cache import cache_entries
from diskoop.data.chunks import ChunkedFrames, is_chunked
from diskoop.data.formats import stores
from diskoop.errors import InputError, ResourceError, Stopped
from diskoop.input_files import is_address
from diskoop.settings import Settings
from diskoop.tensor_files import read_tensors
from diskoop.training import loop
from tests.helpers.cli import diskoop as command
from tests.helpers.training import Quiet

RANDOM = np.random.Generator(np.random.PCG64(5))
COUNT = 240
VIDEO = RANDOM.integers(0, 255, (COUNT, 4, 1, 32, 32), dtype=np.uint8)
SERIES = RANDOM.normal(size=(COUNT, 6, 3)).cumsum(1) * [1, 100, 1] + [0, -50, 7]
WHO, MOOD = np.arange(COUNT) // 12, np.array(["calm", "wild"])[np.arange(COUNT) % 2]
TINY = {
    "model": {"k": 6, "h": 8, "width": 4},
    "spectrum": {"static": 2},
    "train": {"steps": 12, "batch_size": 8, "precision": "64", "save_every": 1},
}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Chunks of a test are small, and are read one by one."""
    monkeypatch.setattr(stores, "SMALL_CHUNK", 1)
    yield
    fsspec.filesystem("memory").store.clear()


def write_store(where: Path | str, x: NDArray[Any], chunks: int = 16, zarr_format: Any = 3, **labels: Any) -> str:
    """A store with `x` and labels; at an address where `where` is one."""
    store: Any = FsspecStore.from_url(str(where)) if is_address(where) else LocalStore(where)
    group = zarr.open_group(store, mode="w", zarr_format=zarr_format)
    group.create_array("x", shape=x.shape, chunks=(chunks, *x.shape[1:]), dtype=x.dtype)[:] = x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of texts, which are labels here
        for name, values in labels.items():
            group.create_array(name, data=values)
    return str(where)


def write_shards(where: Path | str, x: NDArray[Any], kind: str = "npy", rows: int = 50) -> str:
    """Shards of up to so many sequences; in a .npz with the labels of its own."""
    system, folder = fsspec.core.url_to_fs(str(where))
    system.makedirs(folder, exist_ok=True)
    for number, first in enumerate(range(0, len(x), rows)):
        part = slice(first, first + rows)
        with system.open(f"{folder}/part-{number}.{kind}", "wb") as stream:
            if kind == "npy":
                np.save(stream, x[part])
            else:
                np.savez(stream, x=x[part], who=WHO[part], mood=MOOD[part])
    return str(where)


def parts(path: str, **options: Any) -> dict[str, Sequences]:
    return {split: load_data(path, split, **options) for split in ("train", "val", "test")}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("where", ["local", "memory://folder/set.zarr"])
def test_a_store_is_read_where_it_is(where: str, zarr_format: int, tmp_path: Path) -> None:
    before = len(cache_entries())
    place = tmp_path / "set.zarr" if where == "local" else where
    path = write_store(place, VIDEO, zarr_format=zarr_format, who=WHO, mood=MOOD)
    clips = load_data(path, "all")
    assert is_chunked(clips)
    assert clips.name == "set.zarr"
    assert np.array_equal(clips.read(np.arange(COUNT)[::-1]), VIDEO[::-1])
    assert clips.values == {"mood": ("calm", "wild"), "who": tuple(map(str, range(20)))}
    assert [clips.label_text(index) for index in (0, 239)] == ["mood calm, who 0", "mood wild, who 19"]
    assert "of up to 65.5 kB" in clips.notes[0]  # 16 x 4 x 32 x 32
    assert len(cache_entries()) == before


@pytest.mark.parametrize("kind", ["npy", "npz"])
@pytest.mark.parametrize("where", ["local", "memory://shards", "file://"])
def test_shards_are_one_set(where: str, kind: str, tmp_path: Path) -> None:
    local = tmp_path / "shards"
    place = {"local": str(local), "file://": local.as_uri()}.get(where, where)
    clips = load_data(write_shards(place, SERIES, kind), "all")
    assert is_chunked(clips)
    assert np.array_equal(clips.read(np.arange(COUNT)[::-1]), SERIES[::-1])
    assert list(clips.labels) == (["mood", "who"] if kind == "npz" else [])


STRANGE = ["with space", "a#b", "été", "50%41", "s3::x", "[a]*", "what?"]


@pytest.mark.parametrize("name", STRANGE)
def test_a_local_path_may_hold_any_character(name: str, tmp_path: Path) -> None:
    """In a URL some of them would mean something else."""
    path = tmp_path / name / f"{name}.zarr"
    assert np.array_equal(load_data(write_store(path, SERIES), "all").x, SERIES)
    shutil.rmtree(path)
    for number, part in enumerate((SERIES[:100], SERIES[100:])):
        np.save(tmp_path / name / f"{number} {name}.npy", part)
    assert np.array_equal(load_data(tmp_path / name, "all").x, SERIES)


def test_lengths_and_the_split_are_in_all_shards_or_in_none(tmp_path: Path) -> None:
    rows = {"x": SERIES[:80], "lengths": np.full(80, 5), "split": np.array(["train", "val", "test", "train"] * 20)}
    parts: list[dict[str, Any]] = [dict(rows) for _ in range(3)]

    def load(change: str, value: Any = None) -> Sequences:
        for number, part in enumerate(parts):
            part = {**part, change: value} if number == 1 else part
            np.savez(
                tmp_path / f"part-{number}.npz", **{key: given for key, given in part.items() if given is not None}
            )
        return load_data(tmp_path, "all")

    clips = load("who", None)
    assert set(clips.lengths.tolist()) == {5}
    assert clips.split_size("test") == 60
    objects = np.array([5, None] * 40, object)
    for name, value, got in [
        ("lengths", None, "is missing in part-1.npz"),
        ("lengths", np.full(79, 5), r"has shape \(79,\) in part-1.npz"),
        ("lengths", np.full(80, "5"), "holds <U1 in part-1.npz"),
        ("lengths", objects, "holds Python objects in part-1.npz"),
        ("split", None, "is missing in part-1.npz"),
        ("split", rows["split"][:, None], r"has shape \(80, 1\) in part-1.npz"),
        ("split", objects, "holds Python objects in part-1.npz"),
    ]:
        with pytest.raises(InputError, match=f"^\\S+: {name!r} {got}, wanted .+ for each of 240 sequences$"):
            load(name, value)
    np.save(tmp_path / "part-3.npy", SERIES[:80])
    with pytest.raises(InputError, match=r"'lengths' is missing in part-3\.npy, wanted a whole number for each of 320"):
        load("who", None)
    (tmp_path / "part-3.npy").unlink()
    parts = [{**part, "mood": MOOD[:80], "who": WHO[:80]} for part in parts]
    clips = load("mood", None)
    assert list(clips.labels) == ["who"]
    note = "'mood' is no label: it is missing in part-1.npz, one value for each of 240 sequences is wanted"
    assert note in clips.notes


@pytest.mark.parametrize("name", ["lengths", "split"])
def test_lengths_and_the_split_of_a_store_are_one_for_each_sequence(name: str, tmp_path: Path) -> None:
    labels: dict[str, Any] = {name: np.ones((COUNT, 2))}
    path = write_store(tmp_path / "set.zarr", SERIES, **labels)
    with pytest.raises(InputError, match=rf"{name!r} has shape \(240, 2\), wanted .+ for each of 240 sequences$"):
        load_data(path)


def test_labels_of_shards_stand_in_a_csv_too(tmp_path: Path) -> None:
    path = write_shards(tmp_path / "shards", SERIES)
    (tmp_path / "shards" / "labels.csv").write_text("who\n" + "\n".join(map(str, WHO)) + "\n")
    clips = load_data(path, "all")
    assert clips.labels["who"].tolist() == WHO.tolist()


def test_one_file_at_an_address_and_a_store_that_is_one_array(tmp_path: Path) -> None:
    with fsspec.open("memory://alone.npy", "wb") as stream:
        np.save(stream, SERIES)
    assert np.array_equal(load_data("memory://alone.npy", "all").x, SERIES)
    zarr.create_array(str(tmp_path / "one.zarr"), data=SERIES, chunks=(16, 6, 3))
    assert np.array_equal(load_data(tmp_path / "one.zarr", "all").x, SERIES)


def test_long_series_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "WHOLE_TIME", 1000)
    x = RANDOM.normal(size=(2, 5000, 2))
    zarr.create_array(str(tmp_path / "long.zarr"), data=x, chunks=(1, 500, 2))
    clips = load_data(tmp_path / "long.zarr", "all", window=64, stride=32)
    assert clips.shape[1:] == (64, 2)
    assert {clips.split_size(split) > 0 for split in ("train", "val", "test")} == {True}  # two are split in time
    frames: Any = clips.frames
    assert frames.source.span == 500
    assert frames.reach == 1  # a window may cross into one more chunk, for which there is room
    assert clips.offsets is not None
    assert clips.clips is not None
    for index in (0, 20, len(clips) - 1):
        begin = clips.offsets[index]
        assert np.array_equal(clips.read([index])[0], x[clips.clips[index], begin : begin + 64])


def test_a_sequence_stays_in_its_split_when_the_set_grows(tmp_path: Path) -> None:
    small = load_data(write_store(tmp_path / "small.zarr", SERIES[:100], chunks=5), "all")
    large = load_data(write_store(tmp_path / "large.zarr", SERIES, chunks=32), "all")
    assert small.split_codes is not None
    assert large.split_codes is not None
    assert np.array_equal(small.split_codes, large.split_codes[:100])
    assert set(large.split_codes.tolist()) == {0, 1, 2}
    before = load_data(write_shards(tmp_path / "shards", SERIES), "all")
    (tmp_path / "shards" / "part-0.npy").unlink()
    after = load_data(tmp_path / "shards", "all")
    assert before.split_codes is not None
    assert after.split_codes is not None
    assert not np.array_equal(before.split_codes[:50], before.split_codes[50:100])
    assert np.array_equal(before.split_codes[50:], after.split_codes)  # by the names of shards, not their places


def test_the_split_can_be_by_a_label_or_be_given(tmp_path: Path) -> None:
    path = write_store(tmp_path / "set.zarr", SERIES, who=WHO, split=np.array(["train", "test"])[np.arange(COUNT) % 2])
    given = parts(path)
    assert len(given["test"]) == COUNT / 2
    assert 0 < len(given["val"]) < 30
    path = write_store(tmp_path / "by.zarr", SERIES, who=WHO)
    owners = [set(part.labels["who"].tolist()) for part in parts(path, group="who").values()]
    assert sum(map(len, owners)) == 20
    with pytest.raises(InputError, match=r"data\.group = mood, but the labels are who"):
        load_data(path, group="mood")


def test_a_signal_is_scaled_by_a_sample_of_what_trains(tmp_path: Path) -> None:
    path = write_store(tmp_path / "set.zarr", SERIES, chunks=4)
    full, some = (load_data(path, "train", sample=sample) for sample in (None, 100))
    x, _ = full.batch(np.arange(len(full)), torch.zeros(1, dtype=torch.float64))
    assert torch.allclose(x.mean((0, 1)), torch.zeros(3, dtype=torch.float64), atol=1e-9)
    assert full.units != some.units
    assert np.allclose(full.units.scale, some.units.scale, rtol=0.2)


def test_lengths_make_a_mask_of_what_may_hold_anything(tmp_path: Path) -> None:
    lengths, padded = np.arange(COUNT) % 5 + 2, SERIES.copy()
    padded[np.arange(6) >= lengths[:, None]] = np.nan
    clips = load_data(write_store(tmp_path / "set.zarr", padded, lengths=lengths), "all")
    assert np.array_equal(clips.lengths, lengths)
    assert np.isfinite(clips.units.scale).all()
    assert np.isfinite(clips.read(np.arange(COUNT))).all()


class Reads:
    """Counts chunks that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        read = ChunkedFrames._read

        def counting(frames: ChunkedFrames, *args: Any) -> Any:
            self.count += 1
            return read(frames, *args)

        monkeypatch.setattr(ChunkedFrames, "_read", counting)


def settings_for(path: str, **data: Any) -> Settings:
    values = {"path": path, "shuffle_window": 32, "sample": 16, **data}
    return Settings.of({"data": values, **TINY})


def test_a_run_reads_what_it_needs_and_is_looked_at_by_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_store(tmp_path / "set.zarr", SERIES, chunks=4, who=WHO)
    reads = Reads(monkeypatch)
    loop.train(settings_for(path), tmp_path / "run", reporter=Quiet())
    assert 0 < reads.count < 240  # chunks; there are 60
    run = diskoop.load(tmp_path / "run")
    assert run.operator.fitted_on == f"set.zarr, 16 training sequences of {load_data(path).split_size('train')}"
    for split in ("train", "val", "test"):
        clips = run.data(split)
        assert 0 < len(clips) <= 16
        assert isinstance(clips.frames, np.ndarray)
    assert run.verdict().clips.endswith("validation clips of set.zarr")
    loop.train(settings_for(path, sample=None), tmp_path / "all", reporter=Quiet())
    assert diskoop.load(tmp_path / "all").operator.sequences == len(load_data(path))


def test_a_frozen_operator_of_all_chunks_is_that_of_the_array(tmp_path: Path) -> None:
    from diskoop.models.autoencoder import build_model
    from diskoop.settings import ModelSettings
    from diskoop.training.frozen_operator import fit_frozen_operator

    path = write_store(tmp_path / "set.zarr", SERIES, chunks=7)
    clips = load_data(path, "all")
    model = build_model(ModelSettings(k=6, h=8), (3,)).double()
    mine = fit_frozen_operator(model, clips, batch_size=32)
    plain = Sequences.of(SERIES, units=clips.units)
    assert torch.allclose(mine.matrix, fit_frozen_operator(model, plain, 50).matrix, rtol=1e-8, atol=1e-10)


def test_resuming_is_exact(tmp_path: Path) -> None:
    settings = settings_for(write_store(tmp_path / "set.zarr", SERIES, chunks=4))
    settings = settings.replaced({"train": {"steps": 40}})  # an epoch has 24
    loop.train(settings, tmp_path / "whole", reporter=Quiet())
    for step in (5, 31):
        folder = tmp_path / f"cut-{step}"
        with pytest.raises((MemoryError, Stopped)):
            loop.train(settings, folder, reporter=Quiet(crash_at=step))
        loop.resume(folder, reporter=Quiet())
        there, here = (read_tensors(path / "model.safetensors", "model")[0] for path in (tmp_path / "whole", folder))
        assert all(torch.equal(there[name], here[name]) for name in there)


def test_the_command_line_takes_an_address(tmp_path: Path) -> None:
    write_store(tmp_path / "set.zarr", SERIES)
    done = command("data", (tmp_path / "set.zarr").as_uri(), "data.sample=20", "--json", cwd=tmp_path)
    facts = json.loads(done.stdout.splitlines()[-1])
    assert sum(facts["sequences"][split] for split in ("train", "val", "test")) == COUNT
    done = command("data", "memory://nothing.zarr", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("there is no file or folder 'memory://nothing.zarr'")


def test_paths_become_absolute_and_addresses_stay() -> None:
    settings = loop.with_absolute_paths(Settings.of({"data": {"path": "memory://a/b.zarr", "labels": "l.csv"}}))
    assert settings.data.path == "memory://a/b.zarr"
    assert settings.data.labels == str(Path("l.csv").resolve())


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("no array", {}, r"^\S*bad\.zarr should hold its sequences as 'x', got y, z$"),
    ("floats", {}, r"^\S*bad\.zarr holds float32 frames, wanted uint8 from 0 to 255$"),
    ("grey", {}, r"^\S*bad\.zarr has shape \(10, 4, 32, 32\): video is"),
    ("text", {}, r"^\S*bad\.zarr holds \S+, wanted numbers$"),
    ("no json", {}, r"^\S*bad\.zarr is damaged or no Zarr store \(.+\); make it again$"),
    ("empty", {}, r"^\S*bad\.zarr has shape \(0, 4, 1, 32, 32\) and holds nothing$"),
    ("large chunks", {}, r"^\S*bad\.zarr has chunks of \(40000, 8, 1, 32, 32\), 327\.7 MB each, wanted at most 268"),
    ("good", {"size": 64}, r"^data\.size = 64, but a set that is read chunk by chunk is read as it is: \(1, 32, 32\)$"),
    ("good", {"every": 2}, r"^data\.every = 2 is for videos and images, not for stores$"),
    ("good", {"skip_bad": True}, r"^data\.skip_bad = True is for .+, not for stores$"),
]


@pytest.mark.parametrize(("what", "options", "sentence"), FAULTS)
def test_a_store_that_cannot_be_used_is_told_in_a_sentence(
    what: str, options: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.zarr"
    group = zarr.open_group(path, mode="w")
    if what == "no array":
        group.create_array("y", data=SERIES)
        group.create_array("z", data=SERIES)
    elif what == "large chunks":
        group.create_array("x", shape=(100000, 8, 1, 32, 32), chunks=(40000, 8, 1, 32, 32), dtype="uint8")
    elif what == "text":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            group.create_array("x", data=np.full((3, 4, 2), "a"))
    else:
        kinds: dict[str, NDArray[Any]] = {"floats": VIDEO[:10].astype(np.float32), "grey": VIDEO[:10, :, 0]}
        x = VIDEO[:0] if what == "empty" else kinds.get(what, VIDEO)
        group.create_array("x", shape=x.shape, chunks=(16, *x.shape[1:]), dtype=x.dtype)
    if what == "no json":
        (path / "zarr.json").write_text("{")
    with pytest.raises(InputError, match=sentence):
        load_data(path, **options)


def test_a_chunk_that_is_damaged_ends_in_a_sentence(tmp_path: Path) -> None:
    path = Path(write_store(tmp_path / "set.zarr", VIDEO))
    chunk = path / "x/c/3/0/0/0/0"
    chunk.write_bytes(b"nonsense")
    clips = load_data(path, "all")
    clips.read([0])
    with pytest.raises(
        InputError, match=r"^the chunk of sequences 48 to 63 in \S*set\.zarr is damaged \(.+\); make it again$"
    ):
        clips.read([50])
    done = command("train", f"data.path={path}", "train.steps=100", "model.width=4", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert "is damaged" in done.stderr
    assert "Traceback" not in done.stderr


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("kind", ["filter", "compressor"])
def test_a_store_is_never_unpickled(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In format 2, texts may be followed by a codec that unpickles; numcodecs refused to only of late."""
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    path = Path(write_store(tmp_path / "set.zarr", SERIES, zarr_format=2))
    pickled, texts = {"id": "pickle", "protocol": 4}, {"id": "vlen-utf8"}
    codecs = {"filters": [texts, pickled]} if kind == "filter" else {"filters": [texts], "compressor": pickled}
    shape = {"shape": [COUNT], "chunks": [COUNT], "dtype": "|O", "order": "C", "fill_value": None}
    (path / "who").mkdir()
    (path / "who/.zarray").write_text(json.dumps({"zarr_format": 2, "compressor": None, **shape, **codecs}))
    (path / "who/0").write_bytes(pickle.dumps(Touch(tmp_path / "made")))
    with pytest.raises(InputError, match=r"^'who' in \S*set\.zarr is pickled, which is never read; write it with"):
        load_data(path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_store_names_no_array_outside_it(zarr_format: int, tmp_path: Path) -> None:
    zarr.create_array(str(tmp_path / "other.zarr"), data=WHO, zarr_format=zarr_format)  # type: ignore[arg-type]
    path = Path(write_store(tmp_path / "set.zarr", SERIES, zarr_format=zarr_format, who=WHO))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of format 3, where this is no standard yet
        zarr.consolidate_metadata(str(path))
    file = path / ("zarr.json" if zarr_format == 3 else ".zmetadata")
    content = json.loads(file.read_text())
    names = content["consolidated_metadata"]["metadata"] if zarr_format == 3 else content["metadata"]
    names |= {name.replace("who", "../other.zarr"): entry for name, entry in names.items()}
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"set\.zarr is damaged or no Zarr store"):
        load_data(path)


def test_an_address_whose_protocol_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"^cannot read 'nowhere://bucket/set': Protocol not known: nowhere$"):
        load_data("nowhere://bucket/set")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(InputError, match=r"^reading s3://bucket/set needs another package: .*s3fs"):
        load_data("s3://bucket/set")


def test_zarr_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_store(tmp_path / "set.zarr", SERIES)
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(InputError, match=r"set\.zarr needs zarr: pip install 'diskoop\[zarr\]'$"):
        load_data(path)


def test_shards_that_cannot_be_used_are_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shards"
    write_shards(path, SERIES)

    def refused(sentence: str) -> None:
        with pytest.raises(InputError, match=sentence):
            load_data(path)

    np.save(path / "part-2.npy", SERIES[:, :4])
    refused(r"shards: part-2\.npy holds float64 \(4, 3\) where part-0\.npy holds float64 \(6, 3\): all must be alike$")
    np.save(path / "part-2.npy", np.asfortranarray(SERIES))
    refused(r"part-2\.npy is in Fortran order")
    np.save(path / "part-2.npy", np.array([[[{}]]]), allow_pickle=True)
    refused(r"part-2\.npy holds Python objects, not numbers")
    np.save(path / "part-2.npy", SERIES[0])
    refused(r"part-2\.npy has shape \(6, 3\), wanted sequences")
    (path / "part-2.npy").write_bytes((path / "part-1.npy").read_bytes()[:-8])
    refused(r"part-2\.npy is damaged: it declares 7\.2 kB and holds 7\.2 kB")
    (path / "part-2.npy").write_bytes(b"nothing at all")
    refused(r"part-2\.npy is damaged or no array \(.+\); make it again$")
    shutil.rmtree(path)
    path.mkdir()
    (path / "notes.txt").write_text("")
    with pytest.raises(InputError, match=r"holds 1 \.txt, wanted a Zarr store or \.npy and \.npz files$"):
        load_data(path.as_uri())
    write_shards(path, SERIES, "npz", rows=100)
    from diskoop.data.formats import shards

    monkeypatch.setattr(shards, "LARGE_CHUNK", 10000)
    refused(r"part-0\.npz holds 14\.4 kB, wanted at most 10\.0 kB that have to be read at once")


def test_a_shard_that_is_gone_or_cut_while_training_is_told(tmp_path: Path) -> None:
    path = tmp_path / "shards"
    clips = load_data(write_shards(path, SERIES), "all", shuffle_window=1)  # fitting scales ended with the last ones
    whole = (path / "part-0.npy").read_bytes()
    (path / "part-0.npy").write_bytes(whole[:200])
    with pytest.raises(InputError, match=r"part-0\.npy in \S*shards is shorter than it was; write it again$"):
        clips.read([6])
    (path / "part-0.npy").unlink()
    with pytest.raises(ResourceError, match=r"^cannot read part-0\.npy in \S*shards: "):
        clips.read([6])


def test_sets_that_are_read_at_once_have_no_window(tmp_path: Path) -> None:
    np.save(tmp_path / "plain.npy", SERIES)
    with pytest.raises(InputError, match=r"^data\.shuffle_window = 9 is for stores and shards, not for arrays$"):
        load_data(tmp_path / "plain.npy", shuffle_window=9)
    with pytest.raises(InputError, match=r"^data\.sample = 9 means nothing for puppets$"):
        load_data("puppets", sample=9)
