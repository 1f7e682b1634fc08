"""Tables say what is in a decomposition, and files say what is in tables."""

import csv
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from diskoop import load_data
from diskoop.analysis import table_export
from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.table_export import table, write_table
from diskoop.data.formats.tables import read_table
from diskoop.data.sequences import Sequences, Units
from diskoop.data.sets.oscillators import truth
from diskoop.errors import InputError, MissingDependencyError
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics import Factor, by_distance, fit_operator

AWKWARD = ("=first", 'says "a, b"', "zwei\nZeilen", "Ünïcode 木", "it's")


def decomposed(clips: Sequences) -> Decomposition:
    """Behind identity networks everything about the oscillators is known."""
    x = torch.from_numpy(clips.x)
    model = KoopmanAutoencoder(nn.Identity(), nn.Identity())
    mask = None if clips.mask is None else torch.from_numpy(clips.mask)
    return Decomposition.of(model, fit_operator(x, mask, ridge=0), clips, x, 3, by_distance, mask)


@pytest.fixture
def parts() -> Decomposition:
    return decomposed(load_data("oscillators", "test").select(range(50)))


@pytest.fixture
def ragged() -> Decomposition:
    """Windows of unequal length out of clips with awkward names, a label without words, a factor that was found."""
    clips = load_data("oscillators", "test").select(range(50))
    lengths = np.arange(50) % 20 + 5
    clips = replace(
        clips,
        lengths=lengths,
        clips=np.arange(50) // 10,
        offsets=np.arange(50) % 10 * 7,
        clip_names=AWKWARD,
        labels={**clips.labels, "length": np.arange(50)},
    )
    found = Factor("level, or mark", torch.from_numpy(truth("oscillators").projectors["level"]))
    parts = decomposed(clips)
    return replace(parts, factors={**parts.factors, found.name: found})


def test_what_is_known_comes_first(parts: Decomposition) -> None:
    columns = table(parts)
    assert list(columns)[:7] == ["clip", "length", *(f"label.{name}" for name in parts.clips.labels)]
    assert columns["clip"][3] == parts.clips.clip_name(3)
    assert set(columns["length"]) == {24}
    codes = parts.clips.labels["mark"]
    assert columns["label.mark"].tolist() == [("red", "green", "blue")[code] for code in codes]
    assert {len(column) for column in columns.values()} == {50}


def test_strength_is_the_distance_from_the_average(parts: Decomposition) -> None:
    """The known static part does not move, so its strength is that of any frame."""
    known = truth("oscillators")
    static = parts.clips.x[:, 0] @ sum(known.projectors[name] for name in known.static)
    expected = np.linalg.norm(static - static.mean(0), axis=1)
    assert np.allclose(table(parts)["distance.static"], expected, atol=1e-8)
    assert np.allclose(table(parts, frames=True)["distance.static"], expected.repeat(24), atol=1e-8)
    x = parts.clips.x
    moving = x @ sum(known.projectors[name] for name in known.projectors if name not in known.static)
    far = np.linalg.norm(moving - moving.mean((0, 1)), axis=-1)
    assert np.allclose(table(parts)["distance.dynamic"], np.sqrt(np.square(far).mean(1)), atol=1e-8)
    assert np.allclose(table(parts, frames=True)["distance.dynamic"], far.ravel(), atol=1e-8)


def test_modes_are_the_coefficients(parts: Decomposition) -> None:
    columns, by_frame = table(parts), table(parts, frames=True)
    means = parts.coefficients.mean(1).numpy()
    for mode, eigenvalue in enumerate(parts.spectrum.eigenvalues.tolist()):
        assert np.allclose(columns[f"mode.{mode}.real"], means[:, mode].real, atol=1e-12)
        assert np.array_equal(by_frame[f"mode.{mode}.real"], parts.coefficients[..., mode].real.flatten())
        assert (f"mode.{mode}.imag" in columns) == (eigenvalue.imag != 0)
        if eigenvalue.imag:
            assert np.allclose(columns[f"mode.{mode}.imag"], means[:, mode].imag, atol=1e-12)
            assert np.array_equal(by_frame[f"mode.{mode}.imag"], parts.coefficients[..., mode].imag.flatten())
    assert sum(name.endswith(".imag") for name in columns) == 4  # two turning pairs


def test_only_frames_that_exist_have_rows(ragged: Decomposition) -> None:
    columns, by_frame = table(ragged), table(ragged, frames=True)
    lengths = ragged.lengths
    assert len(by_frame["clip"]) == lengths.sum()
    assert by_frame["frame"].tolist() == [frame for length in lengths for frame in range(length)]
    for name in ("clip", "offset", "length", "label.mark", "label.length"):
        assert by_frame[name].tolist() == columns[name].repeat(lengths).tolist()
    assert columns["clip"][[0, 10, 20, 30, 40]].tolist() == list(AWKWARD)
    assert columns["offset"][:3].tolist() == [0, 7, 14]
    assert columns["label.length"].tolist() == list(range(50))  # its own, beside the number of frames
    owner = np.repeat(np.arange(50), lengths)
    for name in ("distance.static", "distance.dynamic", "distance.level, or mark"):
        of_clip = np.sqrt(np.bincount(owner, np.square(by_frame[name])) / lengths)
        assert np.allclose(columns[name], of_clip, atol=1e-12)
    assert np.allclose(columns["mode.4.imag"], np.bincount(owner, by_frame["mode.4.imag"]) / lengths, atol=1e-12)


def test_what_lies_in_the_padding_does_not_matter(ragged: Decomposition) -> None:
    assert ragged.mask is not None
    other = replace(ragged, z=torch.where(ragged.mask.unsqueeze(-1), ragged.z, 1e6))
    for frames in (False, True):
        for mine, same in zip(table(ragged, frames).values(), table(other, frames).values(), strict=True):
            assert np.array_equal(mine, same)


@pytest.mark.parametrize("frames", [False, True])
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".CSV"])
def test_files_read_back_equal(
    frames: bool, suffix: str, ragged: Decomposition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_export, "ROWS", 17)
    path = write_table(ragged, str(tmp_path / "new" / f"table{suffix}"), frames)
    assert [file.name for file in path.parent.iterdir()] == [f"table{suffix}"]
    columns = table(ragged, frames)
    chunks = list(read_table(path))
    assert list(chunks[0]) == list(columns)
    for name, column in columns.items():
        cells = np.concatenate([chunk[name] for chunk in chunks])
        assert cells.astype(column.dtype).tolist() == column.tolist()


def test_csv_is_plain_utf8(ragged: Decomposition, tmp_path: Path) -> None:
    path = write_table(ragged, tmp_path / "table.csv")
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    columns = table(ragged)
    assert [row["clip"] for row in rows] == columns["clip"].tolist()
    for name in ("distance.dynamic", "mode.0.real", "mode.4.imag"):
        assert [float(row[name]) for row in rows] == columns[name].tolist()
    assert rows[1]["offset"] == "7"


def test_parquet_keeps_types(ragged: Decomposition, tmp_path: Path) -> None:
    from pyarrow import parquet

    schema = parquet.read_schema(write_table(ragged, tmp_path / "table.parquet"))
    kinds = {name: str(schema.field(name).type) for name in ("clip", "offset", "label.mark", "mode.0.real")}
    assert kinds == {"clip": "string", "offset": "int64", "label.mark": "string", "mode.0.real": "double"}


def test_single_precision_is_no_excuse(parts: Decomposition) -> None:
    """A mean over many frames is taken in float64 whatever the latents are."""
    brief = replace(parts, z=parts.z.float() + 1000)
    exact = replace(parts, z=brief.z.double())
    for name, column in table(exact).items():
        assert column.tolist() == table(brief)[name].tolist()


def test_impossible_files_are_named(parts: Decomposition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"ending in \.csv or \.parquet, got '.*table\.xlsx'"):
        write_table(parts, tmp_path / "table.xlsx")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"needs pyarrow: pip install 'diskoop\[parquet\]'"):
        write_table(parts, tmp_path / "table.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_what_was_there(
    parts: Decomposition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_table(parts, tmp_path / "table.csv")
    before = path.read_bytes()
    lopsided = {**table(parts), "short": np.arange(3)}
    monkeypatch.setattr(table_export, "table", lambda parts, frames: lopsided)
    with pytest.raises(ValueError, match="shorter"):
        write_table(parts, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_array_has_numbers_for_names() -> None:
    clips = Sequences.of(load_data("oscillators", "test").x[:9], units=Units(dtype="float64"))
    assert table(decomposed(clips))["clip"].tolist() == [f"an array {i}" for i in range(9)]
