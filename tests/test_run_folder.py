"""A pretrained run is read in the package and written to as a copy; half precision is loaded as float32."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from diskoop import run_folder
from diskoop.errors import InputError
from diskoop.run import load
from diskoop.run_folder import RunFolder, load_model, load_operator, pretrained_names, read_metrics
from diskoop.tensor_files import read_tensors, write_tensors
from tests.helpers.cli import at_most, diskoop


@pytest.fixture
def package(series_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of pretrained runs with one called `series`; the working directory is empty."""
    folder = tmp_path / "package"
    shutil.copytree(series_run, folder / "series", ignore=shutil.ignore_patterns("results"))  # of other tests
    (folder / "not-a-run").mkdir()
    monkeypatch.setattr(run_folder, "PRETRAINED", folder)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return folder


def test_a_name_is_a_folder_in_the_package(package: Path) -> None:
    assert pretrained_names() == ["series"]
    folder = RunFolder.of("pretrained:series")
    assert folder == RunFolder(Path("runs/pretrained-series"), package / "series")
    assert (folder.name, folder.model) == ("pretrained:series", package / "series" / "model.safetensors")
    assert RunFolder.of(Path("pretrained:series")) == folder
    assert RunFolder.of("runs/series") == RunFolder(Path("runs/series"))
    assert RunFolder(Path("runs/series")).name == str(Path("runs/series"))


def test_an_unknown_name_gets_the_nearest_and_all(package: Path) -> None:
    shutil.copytree(package / "series", package / "waves")
    with pytest.raises(InputError) as caught:
        RunFolder.of("pretrained:serie")
    assert str(caught.value) == (
        "unknown pretrained run 'serie' (there are pretrained:series, pretrained:waves); did you mean 'series'?"
    )


def test_what_is_written_goes_to_a_copy_that_is_used_from_then_on(package: Path) -> None:
    before = {file: file.read_bytes() for file in (package / "series").iterdir()}
    run = load("pretrained:series")
    names = run.require_factors().names
    renamed = run.rename_factors({names[0]: "mine"})
    assert renamed.folder == RunFolder(Path("runs/pretrained-series")) == RunFolder.of("pretrained:series")
    assert {file.name for file in before} <= {file.name for file in renamed.folder.path.iterdir()}
    for name in ("pretrained:series", "runs/pretrained-series"):
        assert load(name).require_factors().names == ["mine", *names[1:]]
    assert {file: file.read_bytes() for file in (package / "series").iterdir()} == before
    assert run.folder.writable_copy() == renamed.folder  # the copy is not made again
    assert load("pretrained:series").require_factors().names[0] == "mine"


def test_reading_and_judging_make_no_copy(package: Path) -> None:
    before = {file: file.read_bytes() for file in (package / "series").iterdir()}
    run = load("pretrained:series")
    run.verdict("test")
    assert run.summary()["folder"] == "pretrained:series"
    assert "pretrained:series" in repr(run)
    assert not Path("runs").exists()
    assert {file: file.read_bytes() for file in (package / "series").iterdir()} == before


def test_a_folder_of_another_kind_in_its_place_is_left_alone(package: Path) -> None:
    other = Path("runs/pretrained-series/notes.txt")
    other.parent.mkdir(parents=True)
    other.write_text("mine")
    with pytest.raises(InputError, match="cannot write"):
        load("pretrained:series").folder.writable_copy()
    assert other.read_text() == "mine"


def test_a_run_without_a_checkpoint_is_not_resumed(package: Path) -> None:
    (package / "series" / "checkpoint.safetensors").unlink()
    folder = RunFolder.of("pretrained:series")
    with pytest.raises(InputError, match=r"'pretrained:series' cannot be resumed.*--from starts a new run"):
        folder.require_checkpoint()


def test_half_precision_is_computed_with_in_single(series_run: Path, tmp_path: Path) -> None:
    shutil.copytree(series_run, tmp_path / "run")
    folder, run = RunFolder(tmp_path / "run"), load(series_run)
    weights, record = read_tensors(folder.model, "model")
    halves = {name: weight.half() if weight.ndim > 1 else weight for name, weight in weights.items()}
    write_tensors(folder.model, "model", halves, record)
    model, _ = load_model(folder, run.settings)
    assert {weight.dtype for weight in model.state_dict().values() if weight.is_floating_point()} == {torch.float32}
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, halves[name].to(weight.dtype))
    with pytest.raises(InputError, match="belongs to another model"):  # it was fitted before rounding
        load_operator(folder, model, run.settings.model.k)
    x = torch.from_numpy(np.linspace(-1, 1, 24 * 8, dtype=np.float32).reshape(1, 24, 8))
    assert torch.allclose(model.eval().encode(x), run.model.encode(x), atol=1e-2)


@pytest.mark.parametrize("content", ["", "\n", "# nothing but a remark\n", "{}"])
def test_empty_settings_of_a_run_are_damage_not_defaults(content: str, series_run: Path, tmp_path: Path) -> None:
    shutil.copytree(series_run, tmp_path / "run")
    (tmp_path / "run" / "settings.yaml").write_text(content)
    with pytest.raises(InputError, match=r"settings\.yaml is damaged: expected all settings of the run, got none"):
        load(tmp_path / "run")


def test_an_operator_of_another_size_is_refused(series_run: Path, tmp_path: Path) -> None:
    shutil.copytree(series_run, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    tensors, record = read_tensors(folder.operator, "operator")
    write_tensors(folder.operator, "operator", tensors | {"matrix": torch.eye(5, dtype=torch.float64)}, record)
    with pytest.raises(InputError, match=r"expected an operator of shape \(8, 8\), got \(5, 5\)"):
        load(tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[" * 100_000, "it is nested too deeply"),
        ("9" * 5000, "cannot read"),
        ("[1]", r"holds \[1\], wanted a row of metrics"),
        ('{"step": "x", "seconds": 1}', "wanted a row of metrics"),
        ("", "is empty"),
    ],
)
def test_metrics_that_are_none_are_named(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_metrics(RunFolder(tmp_path))


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("settings.yaml", "factors"),
        ("model.safetensors", "factors"),
        ("factors.json", "factors"),
        ("metrics.jsonl", "report"),
    ],
)
def test_a_run_with_a_pipe_in_it_is_named(file: str, command: str, series_run: Path, tmp_path: Path) -> None:
    shutil.copytree(series_run, tmp_path / "run")
    (tmp_path / "run" / file).unlink()
    os.mkfifo(tmp_path / "run" / file)
    with at_most(seconds=20):
        result = diskoop(command, "run", cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert f"'run/{file}' is a named pipe, wanted a file" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("header", [b"[" * 100_000, b'{"a":' + b"9" * 5000 + b"}", b'{"a":' * 100_000])
def test_headers_of_weights_that_nobody_wrote_are_named(header: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(InputError, match="is damaged"):
        read_tensors(tmp_path / "x.safetensors", "model")
    save_file({}, tmp_path / "y.safetensors", metadata={"diskoop": header.decode()})
    with pytest.raises(InputError, match="is damaged"):
        read_tensors(tmp_path / "y.safetensors", "model")
