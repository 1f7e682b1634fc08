"""The command line called in this process, or started as one of its own where only that proves something."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from diskoop.cli.app import main
from diskoop.stop_signals import stop_signals

TINY_OVERRIDES = [
    "data.name=oscillators", "data.limit=200", "model.k=10", "model.h=12", "spectrum.static=3", "spectrum.radius=0.9",
    "loss.cycle=0.5", "train.batch_size=20", "train.save_every=7",
]  # fmt: skip


class Result(NamedTuple):
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def diskoop(*words: str, cwd: Path) -> Result:
    """Run `diskoop WORDS` in the folder `cwd`, in this process."""
    out, err = io.StringIO(), io.StringIO()
    argv, code = sys.argv, 0
    handlers = {number: signal.getsignal(number) for number in stop_signals()}
    sys.argv = ["diskoop", *words]
    try:
        with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv = argv
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return Result(code, out.getvalue(), err.getvalue())


def answer(*words: str, cwd: Path) -> dict[str, Any]:
    """The JSON object that a command ends with."""
    result = diskoop(*words, "--json", cwd=cwd)
    assert result.returncode == 0, result.stderr
    facts: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return facts


def start(*words: str, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    """Start a process that heeds Ctrl-C and a closed terminal, even where jobs in the background and `nohup` do not."""
    return subprocess.Popen(
        [sys.executable, "-m", "diskoop", *words],
        cwd=cwd,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        preexec_fn=_heed_signals,
    )


def _heed_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until `condition` holds; the process must not end before."""
    deadline = time.monotonic() + 600
    while not condition():
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.02)


class TooSlow(BaseException):
    """Not an Exception, which decoders of the user's files turn into an InputError."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail what hangs, such as the opening of a pipe that no one writes to."""

    def fail(*_: object) -> None:
        raise TooSlow(f"still not done after {seconds} s")

    handler = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
