"""The command line as a person meets it: real processes, real signals."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diskoop import __version__
from diskoop.interfaces import cli
from diskoop.settings import Settings
from tests.data.media import moving_square, tone, write_csv, write_film, write_frames, write_sound

SMALL = [
    "data.name=oscillators", "data.limit=200", "model.k=10", "model.h=12", "spectrum.static=3", "spectrum.radius=0.9",
    "loss.cycle=0.5", "train.batch=20", "train.save_every=7",
]  # fmt: skip


def diskoop(*words: str, cwd: Path, patience: int = 300) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "diskoop", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=patience, check=False)


def test_version_and_help_need_no_torch(tmp_path: Path) -> None:
    assert diskoop("--version", cwd=tmp_path).stdout.strip() == __version__
    shown = diskoop("--help", cwd=tmp_path).stdout
    assert all(command in shown for command in ("demo", "data", "train"))
    code = "import sys, diskoop.interfaces.cli; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


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
        (["train", "model.k=abc"], "model.k should be a valid integer, got 'abc'"),
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
        (["train", "--resume", "nowhere", "model.k=3"], "--resume goes on with a run as it was set up"),
        (["train", "data.name=oscillators", "--out", "taken.txt"], "'taken.txt' exists already"),
        (
            ["data", "oscilators"],
            "unknown data set 'oscilators' (nor is there such a file or folder); did you mean 'oscillators'?",
        ),
        (["data", "oscillators", "--count", "0"], "--count"),
        (["data", "oscillators", "--out", "picture.xyz"], "ending in .png, .jpg, .webp, .svg, .pdf, got 'picture.xyz'"),
        (["data", "oscillators", "--out", "taken.txt/picture.png"], "cannot write 'taken.txt/picture.png'"),
        (["train", *SMALL, "--out", "taken.txt/run"], "cannot write 'taken.txt/run'"),
        (["train", *SMALL, "train.blur=true"], "train.blur = true is for video"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(words: list[str], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "taken.txt").write_text("mine")
    answer = diskoop(*words, cwd=tmp_path)
    assert answer.returncode == 2, answer.stderr
    assert sentence in answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stdout == ""
    assert [file.name for file in tmp_path.iterdir()] == ["taken.txt"]
    assert (tmp_path / "taken.txt").read_text() == "mine"


def test_data_describes_and_draws(tmp_path: Path) -> None:
    answer = diskoop("data", "oscillators", "--json", cwd=tmp_path)
    facts = json.loads(answer.stdout.splitlines()[-1])
    assert facts["sequences"] == {"train": 1620, "val": 180, "test": 400, "all": 2200}
    assert facts["shape"] == [24, 8]
    assert list(facts["labels"]["mark"]) == ["red", "green", "blue"]
    assert (tmp_path / facts["preview"][0]).read_bytes().startswith(b"\x89PNG")
    spoken = diskoop("data", "oscillators", "--out", "other.png", cwd=tmp_path).stdout
    assert re.search(r"  mark: red \(\d+ \+ \d+ \+ \d+\), green \(.*\), blue \(.*\)\n", spoken)
    total = sum(sum(counts) for counts in facts["labels"]["mark"].values())
    assert total == 2200
    assert (tmp_path / "other.png").exists()
    again = json.loads(diskoop("data", "oscillators", "--json", cwd=tmp_path).stdout)["preview"]
    assert again != facts["preview"]  # nobody's file is written over


@pytest.fixture(scope="module")
def wares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of what people bring, some of it broken."""
    root = tmp_path_factory.mktemp("wares")
    (root / "empty").mkdir()
    for number in range(4):
        write_film(root / "films" / f"{number}.mp4", moving_square(12))
        write_frames(root / "images" / str(number), moving_square(4))
        write_sound(root / "sounds" / f"{number}.wav", tone(0.3))
        write_csv(root / "tables" / f"{number}.csv", {"a": range(9), "b": range(9)})
    noise = np.random.Generator(np.random.PCG64(0)).integers(0, 255, (50, 48, 64, 3), dtype=np.uint8)
    whole = write_film(root / "films" / "cut.mp4", noise).read_bytes()
    (root / "films" / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    (root / "images" / "2" / "1.png").write_bytes(b"\x89PNG and then nothing")
    (root / "sounds" / "song.mp3").write_text("la la la")
    write_csv(root / "tables" / "4.csv", {"a": [1, "", 3], "b": range(3)})
    write_frames(root / "still" / "0", moving_square(1))
    write_frames(root / "float" / "0", moving_square(4))
    Image.fromarray(np.full((8, 8), 300.0, np.float32)).save(root / "float" / "0" / "5.tiff")
    (root / "mixed").mkdir()
    np.save(root / "mixed" / "0.npy", np.zeros((5, 3)))
    np.save(root / "mixed" / "1.npy", np.zeros((5, 4)))
    np.save(root / "nan.npy", np.full((5, 4, 3), np.nan))
    np.save(root / "flat.npy", np.zeros((5, 32, 32), np.uint8))
    np.save(root / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(root / "good.npy", np.random.Generator(np.random.PCG64(0)).normal(size=(20, 6, 3)))
    write_csv(root / "few.csv", {"kind": "ab"})
    write_csv(root / "many.csv", {"kind": "ab" * 20})
    return root


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["empty"], "empty holds nothing, wanted videos"),
        (["."], "point data.path at a folder that holds one kind"),
        (["films"], "cut.mp4 is damaged or no video"),
        (["images"], "images/2/1.png is damaged or no picture"),
        (["sounds"], "song.mp3 is no recording: it begins with b'la la la'"),
        (["tables"], "4.csv holds NaN or infinity"),
        (["still"], "0 has 1 frame: dynamics need at least 2"),
        (["float"], "5.tiff has fractions from 300 to 300, wanted 0 to 1"),
        (["mixed"], "1.npy has frames of shape (4,) where mixed/0.npy has (3,): all must be alike"),
        (["nan.npy"], "nan.npy: sequence 0 holds NaN or infinity"),
        (["flat.npy"], "which looks like images: video is (n, time, channel, height, width)"),
        (["pickled.npy"], "pickled.npy holds Python objects, not numbers"),
        (["nowhere.npy"], "there is no file or folder"),
        (["nowhere/"], "there is no file or folder"),
        (["good.npy", "--labels", "few.csv"], "few.csv has 2 rows of labels for 20 sequences"),
        (["good.npy", "--labels", "many.csv"], "many.csv has 40 rows of labels for 20 sequences"),
        (["good.npy", "--labels", "none.csv"], "there is no file 'none.csv' with labels"),
        (["good.npy", "data.windw=3"], "unknown setting 'data.windw'; did you mean 'data.window'?"),
        (["good.npy", "model.k=3"], "model.k is no setting of data"),
        (["good.npy", "data.labels="], "data.labels is empty; give it a value, or null"),
        (["puppets", "--sheets", "films"], "--sheets names the layer sheets of sprites, got it for 'puppets'"),
        (["sprites"], "under CC-BY-SA 3.0 or GPL 3.0"),
    ],
)
def test_bad_data_is_one_sentence_for_data_and_for_train(words: list[str], sentence: str, wares: Path) -> None:
    before = sorted(path.name for path in wares.iterdir())
    answer = diskoop("data", *words, cwd=wares)
    assert answer.returncode == 2, answer.stderr
    said = " ".join(answer.stderr.split())
    assert sentence in said
    assert said.startswith("diskoop: ")
    assert "Traceback" not in answer.stderr
    assert sorted(path.name for path in wares.iterdir()) == before
    if words in (["films"], ["nan.npy"], ["mixed"], ["nowhere/"]):
        trained = diskoop("train", f"data.path={words[0]}", cwd=wares)
        assert trained.returncode == 2
        absolute = sentence.replace("mixed/", f"{wares}/mixed/")
        assert absolute in " ".join(trained.stderr.split())


@pytest.mark.parametrize(
    ("name", "left", "out"), [("films", 4, 1), ("images", 3, 1), ("sounds", 4, 1), ("tables", 4, 1)]
)
def test_what_is_bad_can_be_left_out(name: str, left: int, out: int, wares: Path, tmp_path: Path) -> None:
    answer = diskoop("data", str(wares / name), "--skip-bad", "--json", cwd=tmp_path)
    facts = json.loads(answer.stdout.splitlines()[-1])
    assert facts["sequences"]["all"] == left
    assert len([note for note in facts["notes"] if note.startswith("left out: ")]) == out
    assert all((tmp_path / file).exists() for file in facts["preview"])
    assert [Path(file).suffix for file in facts["preview"]] == ([".png", ".wav"] if name == "sounds" else [".png"])
    spoken = diskoop("data", str(wares / name), "--skip-bad", cwd=tmp_path).stdout
    assert "note: left out: " in spoken


def test_a_preview_is_nobodys_file_and_no_part_of_the_data(tmp_path: Path) -> None:
    folder = tmp_path / "takes"
    for name in ("take", "take-1", "take-2", "other"):
        write_sound(folder / f"{name}.wav", tone(0.3 if name == "other" else 3, 200))
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    for what in (".", ".", "take.wav"):  # the last one alone is shown where one is
        answer = diskoop("data", what, "--json", cwd=folder)
        assert answer.returncode == 0, answer.stderr
        files = [(folder / file).resolve() for file in json.loads(answer.stdout.splitlines()[-1])["preview"]]
        assert all(file.exists() for file in files)
        assert all(file.parent == (tmp_path if what == "." else folder) for file in files)
    over = diskoop("data", "take.wav", "--out", "other.png", cwd=folder)
    assert over.returncode == 2
    assert "other.wav exists already and might be yours" in over.stderr
    for name, content in before.items():
        assert (folder / name).read_bytes() == content


def test_train_on_a_folder_and_skip(wares: Path, tmp_path: Path) -> None:
    brief = ["model.k=6", "model.h=6", "model.width=4", "spectrum.static=2", "train.epochs=1", "train.batch=2"]
    answer = diskoop("train", f"data.path={wares / 'films'}", "--skip-bad", "data.size=32", *brief, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "left out: " in answer.stderr
    assert (tmp_path / "runs" / "films-1" / "model.safetensors").exists()
    assert "skip_bad: true" in (tmp_path / "runs" / "films-1" / "settings.yaml").read_text()


def test_data_alone_lists_the_sets(tmp_path: Path) -> None:
    names = ["faces", "growth", "mug", "oscillators", "pendulum", "puppets", "sprites", "timit", "voices"]
    assert diskoop("data", cwd=tmp_path).stdout.split() == names
    assert json.loads(diskoop("data", "--json", cwd=tmp_path).stdout) == names
    assert list(tmp_path.iterdir()) == []


def test_settings_are_shown_and_can_be_given_back(tmp_path: Path) -> None:
    shown = diskoop("train", "-c", "demo", "model.k=30", "--settings", cwd=tmp_path).stdout
    (tmp_path / "mine.yaml").write_text(shown)
    assert Settings.load(tmp_path / "mine.yaml") == Settings.load("demo").replaced({"model": {"k": 30}})
    assert not (tmp_path / "runs").exists()


def test_train_then_fine_tune(tmp_path: Path) -> None:
    answer = diskoop("train", *SMALL, "train.epochs=1", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "steps to go: 0.00" in answer.stderr  # the estimate
    assert "epoch 1/1: loss" in answer.stderr
    assert re.search(r"[34] static eigenvalues within \d\.\d+ of 1, the others up to \d\.\d+\n", answer.stdout)
    answer = diskoop("train", "--from", "runs/oscillators-1", "train.lr=1e-4", "--json", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout.splitlines()[-1])["folder"] == str(Path("runs/oscillators-2"))
    tuned = (tmp_path / "runs" / "oscillators-2" / "settings.yaml").read_text()
    assert "lr: 0.0001" in tuned
    assert "k: 10" in tuned  # the rest is the first run's
    answer = diskoop("train", "--from", "runs/oscillators-1", "model.k=12", cwd=tmp_path)
    assert answer.returncode == 2
    assert "does not fit this model" in answer.stderr


def start(*words: str, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    """A process that hears Ctrl-C, even where this one does not: shells say so to what they put in the background."""
    return subprocess.Popen(
        [sys.executable, "-m", "diskoop", *words],
        cwd=cwd,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for(condition: object, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 120
    while not condition():  # type: ignore[operator]
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopped_by_a_signal_and_resumed_it_ends_bit_equal(number: signal.Signals, tmp_path: Path) -> None:
    epochs = 12
    whole = diskoop("train", *SMALL, f"train.epochs={epochs}", "--out", "whole", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    process = start("train", *SMALL, f"train.epochs={epochs}", "--out", "stopped", cwd=tmp_path)
    metrics = tmp_path / "stopped" / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") >= 2, process)
    os.kill(process.pid, number)
    said = process.communicate(timeout=60)[1]
    assert not (tmp_path / "stopped" / "model.safetensors").exists(), "it ended before the signal came"
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 1
        assert "diskoop train --resume stopped goes on from there" in said
        assert "Traceback" not in said
    resumed = diskoop("train", "--resume", "stopped", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    for name in ("model.safetensors", "operator.safetensors"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_before_training_began_nothing_is_lost_or_left(number: signal.Signals, tmp_path: Path) -> None:
    process = start("train", "data.size=32", "--out", "run", cwd=tmp_path, DISKOOP_CACHE=str(tmp_path / "cache"))
    wait_for(lambda: any((tmp_path / "cache").glob(".puppets*")), process)  # it is drawing
    os.kill(process.pid, number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert "diskoop: stopped" in said
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_damaged_checkpoint_is_an_error_not_a_restart(tmp_path: Path) -> None:
    assert diskoop("train", *SMALL, "train.epochs=1", "--out", "run", cwd=tmp_path).returncode == 0
    checkpoint = tmp_path / "run" / "checkpoint.safetensors"
    content = bytearray(checkpoint.read_bytes())
    content[len(content) // 2] ^= 4
    checkpoint.write_bytes(content)
    answer = diskoop("train", "--resume", "run", cwd=tmp_path)
    assert answer.returncode == 2
    assert "is damaged" in answer.stderr
    assert checkpoint.read_bytes() == content


def test_new_runs_get_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "puppets-1").mkdir(parents=True)
    assert cli._unused(Path("runs"), "puppets") == Path("runs/puppets-2")
    assert cli._unused(Path(), "puppets", ".png") == Path("puppets-1.png")
