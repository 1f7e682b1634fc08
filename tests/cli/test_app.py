"""The command line as a whole: fast to import, bad input in one sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

from diskoop import __version__
from tests.helpers.cli import TINY_OVERRIDES, diskoop


def test_version_and_help_need_no_torch(tmp_path: Path) -> None:
    assert diskoop("--version", cwd=tmp_path).stdout.strip() == __version__
    shown = diskoop("--help", cwd=tmp_path).stdout
    assert all(command in shown for command in ("demo", "data", "train", "factors", "swap", "evaluate", "bench"))
    code = "import sys, diskoop.cli.app; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    words = [sys.executable, "-m", "diskoop", "--help"]
    assert "Commands:" in subprocess.run(words, check=True, capture_output=True, text=True).stdout


def test_importing_the_library_stays_light() -> None:
    code = (
        "import sys, diskoop; diskoop.load, diskoop.load_data, diskoop.numerics; "
        "assert not {'matplotlib', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trian"], "No such command 'trian'"),
        (["train", "model.kk=3"], "unknown setting 'model.kk'; did you mean 'model.k'?"),
        (["train", "model.k=abc"], "model.k should be a whole number, got 'abc'"),
        (["train", "spectrum.static=50"], "spectrum.static = 50 exceeds model.k = 40"),
        (["train", "-c", "paper-sprits"], "did you mean 'paper-sprites'?"),
        (
            ["train", "data.name=pupets"],
            "unknown data set 'pupets' (nor is there such a file or folder); did you mean 'puppets'?",
        ),
        (["train", "-c", "paper-sprites"], "sprites are made from their layer sheets"),
        (["train", "data.name=oscillators", "data.size=32"], "data.size = 32 means nothing for oscillators"),
        (["train", "--resume", "nowhere"], "no run at 'nowhere'"),
        (["train", "--from", "nowhere"], "no run at 'nowhere'"),
        (
            ["train", "--resume", "nowhere", "model.k=3"],
            "a run goes on with other settings of train, loss, spectrum, got",
        ),
        (["train", "--end", "nowhere"], "no run at 'nowhere'"),
        (["train", "--end", "nowhere", "train.lr=1"], "--end none; --from starts a new run"),
        (["train", "train.steps=5", "train.epochs=5"], "expected either train.epochs or train.steps, got 5 and 5"),
        (["train", "data.name=oscillators", "--out", "taken.txt"], "'taken.txt' exists already"),
        (
            ["data", "oscilators"],
            "unknown data set 'oscilators' (nor is there such a file or folder); did you mean 'oscillators'?",
        ),
        (["data", "oscillators", "--count", "0"], "--count"),
        (["data", "oscillators", "--out", "picture.xyz"], "ending in .png, .jpg, .webp, .svg, .pdf, got 'picture.xyz'"),
        (["data", "oscillators", "--out", "taken.txt/picture.png"], "cannot write 'taken.txt/picture.png'"),
        (["train", *TINY_OVERRIDES, "--out", "taken.txt/run"], "cannot write 'taken.txt/run'"),
        (["train", *TINY_OVERRIDES, "train.blur=true"], "train.blur = true is for video"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(words: list[str], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "taken.txt").write_text("mine")
    result = diskoop(*words, cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert [file.name for file in tmp_path.iterdir()] == ["taken.txt"]
    assert (tmp_path / "taken.txt").read_text() == "mine"
