"""The command line as a whole: fast to import, bad input in one sentence."""

import errno
import io
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from diskoop import __version__
from diskoop.cli import app
from tests.helpers.cli import TINY_OVERRIDES, diskoop, start


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


def test_words_that_are_no_text_are_named(tmp_path: Path) -> None:
    """A run in such a folder would train to its end, and then not be readable."""
    result = diskoop("train", *TINY_OVERRIDES, "--out", "r\udcff", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == "diskoop: 'r\\udcff' holds bytes that are no UTF-8, wanted text; rename it\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes")])
def test_a_lack_of_memory_is_one_sentence(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_error(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("diskoop.data.open_data", raise_error)
    result = diskoop("data", "oscillators", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("diskoop: there is not enough memory of the ")
    assert len(result.stderr.splitlines()) == 1
    monkeypatch.setattr(app, "lacks_memory", lambda error: False)
    with pytest.raises(type(error)):
        diskoop("data", "oscillators", cwd=tmp_path)


def test_an_error_of_no_number_without_memory_is_a_lack_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries raise an OSError of their own words where they get no memory, and one with a number is what it says."""
    errors = [OSError("encoder failed"), OSError(errno.EIO, "input/output error")]

    def raise_error(*_: object, **__: object) -> None:
        raise errors[0]

    monkeypatch.setattr("diskoop.data.open_data", raise_error)
    assert diskoop("data", "oscillators", cwd=tmp_path) == (1, "", "diskoop: encoder failed\n")
    monkeypatch.setattr(app, "is_exhausted", lambda: True)
    assert diskoop("data", "oscillators", cwd=tmp_path).stderr.startswith("diskoop: there is not enough memory of the ")
    del errors[0]
    assert "input/output error" in diskoop("data", "oscillators", cwd=tmp_path).stderr


class Broken(io.StringIO):
    """A stream that fails with an error."""

    def __init__(self, number: int, in_write: bool) -> None:
        super().__init__()
        self.number, self.in_write = number, in_write

    def write(self, text: str) -> int:
        if self.in_write:
            raise OSError(self.number, os.strerror(self.number))
        return super().write(text)

    def flush(self) -> None:
        if self.getvalue():
            raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize("in_write", [False, True])
@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "diskoop: cannot write to the standard output: No space left on device\n"),
        (errno.EPIPE, ""),
    ],
)
def test_a_stdout_that_fails_ends_with_a_sentence_or_quietly(
    number: int, sentence: str, in_write: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = io.StringIO()
    if in_write and number == errno.ENOSPC:
        monkeypatch.setattr(sys, "argv", ["diskoop", "--help"])
    else:
        monkeypatch.setattr(sys, "argv", ["diskoop", "train", "--settings"])
    monkeypatch.setattr(sys, "stdout", Broken(number, in_write))
    monkeypatch.setattr(sys, "stderr", errors)
    with pytest.raises(SystemExit) as end:
        app.main()
    assert (end.value.code, errors.getvalue()) == (2 if sentence else 1, sentence)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_or_closed_terminal_leaves_no_traceback(tmp_path: Path) -> None:
    """As processes: what a buffer still holds at exit fails once more."""
    command = f"{shlex.quote(sys.executable)} -m diskoop"
    lines = {
        f"{command} train --settings > /dev/full": (2, "cannot write to the standard output: No space left on device"),
        f"{command} train --settings >&-": (0, ""),
        f"{command} train model.k=x 2> /dev/full": (2, ""),
        f"{command} train model.k=x >&- 2>&-": (2, ""),
    }
    for line, (code, sentence) in lines.items():
        result = subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=tmp_path, timeout=600)
        assert (result.returncode, result.stdout) == (code, ""), line
        assert result.stderr == (f"diskoop: {sentence}\n" if sentence else ""), line


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_that_cannot_show_everything_shows_the_rest(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2))
    monkeypatch.setattr(sys, "argv", ["diskoop", "train", "model.k=→ größe"])
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with pytest.raises(SystemExit):
        app.main()
    print("≈ 3 → ▇ \ud800", file=sys.stdout, flush=True)
    assert out.buffer.getvalue() == rb"\u2248 3 \u2192 \u2587 \ud800" + os.linesep.encode()
    err.flush()
    shown = err.buffer.getvalue().decode(encoding)
    assert shown.startswith(r"diskoop: model.k should be a whole number, got '\u2192 gr")


STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
INTERRUPTED = """
import os, signal, sys
from diskoop.__main__ import main

class Interrupt:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.{signal})

sys.meta_path.insert(0, Interrupt())
sys.argv = ["diskoop", "data", "oscillators"]
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("module", ["diskoop.cli.app", "typer", "diskoop.data.registry"])
def test_a_signal_while_modules_are_loaded_is_one_word(module: str, name: str, tmp_path: Path) -> None:
    code = INTERRUPTED.format(module=module, signal=name)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in STOP_SIGNALS],
    )
    assert (done.returncode, done.stdout, done.stderr.strip()) == (1, "", "diskoop: stopped")


INTERRUPTED_AT_EXIT = """
import atexit, os, signal, sys
from diskoop.__main__ import main

atexit.register(os.kill, os.getpid(), signal.{signal})
sys.argv = ["diskoop", *{words}]
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(
    ("name", "words", "said"),
    [("SIGINT", ["cache"], ""), ("SIGHUP", ["swap", "nowhere"], "diskoop: no run at 'nowhere'")],
)
def test_a_signal_at_the_very_end_is_no_traceback(name: str, words: list[str], said: str, tmp_path: Path) -> None:
    """A second Ctrl-C, after the sentence: modules that clean up would show where they are interrupted."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_EXIT.format(signal=name, words=words)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "DISKOOP_CACHE": str(tmp_path)},
        preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in STOP_SIGNALS],
    )
    assert (done.returncode, done.stderr.strip().partition(":")[0]) == (1, said.partition(":")[0]), done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == bool(said)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("when", [0.05, 0.2, 0.5])
def test_ctrl_c_while_it_is_loading_is_no_traceback(when: float, tmp_path: Path) -> None:
    process = start("data", "oscillators", cwd=tmp_path)
    time.sleep(when)
    process.send_signal(signal.SIGINT)
    message = process.communicate(timeout=600)[1]
    assert process.returncode in (1, -signal.SIGINT)
    # Before it runs a line of ours the interpreter itself may say a word.
    assert "Traceback" not in message or "diskoop/" not in message
