"""What is exported computes what the run computes."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from diskoop.errors import InputError
from diskoop.run import Run, load
from tests.helpers.cli import answer, diskoop


@pytest.fixture(
    scope="module",
    params=["series_run", *(pytest.param(name, marks=pytest.mark.slow) for name in ("video_run", "sound_run"))],
)
def run(request: pytest.FixtureRequest) -> Run:
    return load(request.getfixturevalue(request.param))


@pytest.mark.slow
def test_graphs_swap_as_the_run_does(run: Run, tmp_path: Path) -> None:
    clips = run.data("all")
    frames = 8
    facts = answer(
        "export", str(run.folder.path), "--format", "onnx", "--format", "torch", "--swap", "static",
        "--split", "all", "--frames", str(frames), "--out", "out", cwd=tmp_path,
    )  # fmt: skip
    out = tmp_path / "out"
    stems = ("encoder", "decoder", "swap-static")
    assert {file.name for file in out.iterdir()} == {
        "graphs.json",
        *(f"{stem}{suffix}" for stem in stems for suffix in (".onnx", ".pt2")),
    }
    assert json.loads((out / "graphs.json").read_text()) == facts["graphs"]
    x = np.ascontiguousarray(np.stack([clips.read([i])[0][:frames] for i in (4, 5)]))
    parts = run.decompose(x)
    session = onnxruntime.InferenceSession(out / "encoder.onnx")
    z = session.run(None, {"frames": x})[0]
    assert z.shape == (2, frames, run.settings.model.k)
    assert np.allclose(z, parts.z.numpy(), atol=1e-5)
    session = onnxruntime.InferenceSession(out / "swap-static.onnx")
    for amount in (0.0, 0.5, 1.0):
        inputs = {"frames": x, "donors": x[::-1].copy(), "amount": np.array(amount, np.float32)}
        swapped = session.run(None, inputs)[0]
        expected = parts.swap("static", [1, 0], amount).decode()
        assert swapped.dtype == expected.dtype
        assert np.abs(swapped.astype(float) - expected).max() <= (1 if expected.dtype == np.uint8 else 1e-3)
    program = torch.export.load(out / "decoder.pt2").module()
    decoded = program(parts.z[:1]).numpy()  # one sequence alone
    assert np.abs(decoded.astype(float) - parts.decode()[:1]).max() <= (1 if decoded.dtype == np.uint8 else 1e-3)


def test_a_graph_that_computes_something_else_is_refused(
    series_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = torch.export.save

    def wrong(program: torch.export.ExportedProgram, path: Path) -> None:
        for weight in program.state_dict.values():
            weight.mul_(1.01)
        save(program, path)

    monkeypatch.setattr(torch.export, "save", wrong)
    result = diskoop("export", str(series_run), "--format", "torch", "--out", "out", cwd=tmp_path)
    assert result.returncode == 2
    assert "coder.pt2 differs from the model by" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--format", "onx"], "unknown format 'onx'; did you mean 'onnx'?"),
        (["--swap", "hare"], "unknown factor 'hare'"),
        (["--format", "hub", "--swap", "static"], "--swap makes a graph, wanted onnx or torch"),
        (["--frames", "400"], "expected two clips of 400 frames"),
        (["--swap", "static,dynamic", "--swap", "static dynamic"], "two swaps would be written to swap-static-dynamic"),
    ],
)
def test_what_cannot_be_exported_is_told(words: list[str], told: str, series_run: Path, tmp_path: Path) -> None:
    result = diskoop("export", str(series_run), *words, "--out", "out", cwd=tmp_path)
    assert (result.returncode, list(tmp_path.iterdir())) == (2, [])
    assert told in result.stderr


def test_what_is_no_run_is_told(series_run: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(series_run, tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"damaged" * 100)
    (tmp_path / "empty").mkdir()
    for run, told in (
        ("nothing", "no run at 'nothing': there is no such folder"),
        ("empty", "no run at 'empty': settings.yaml is missing"),
        ("damaged", "damaged/model.safetensors"),
    ):
        result = diskoop("export", run, "--format", "hub", "--out", "out", cwd=tmp_path)
        assert (result.returncode, result.stderr.count("\n"), (tmp_path / "out").exists()) == (2, 1, False)
        assert told in result.stderr


def test_examples_of_one_frame_are_refused(series_run: Path) -> None:
    from diskoop.export.files import _example_frames

    with pytest.raises(InputError, match="expected 2 frames at least, got 1"):
        _example_frames(load(series_run).data("test"), 1)
