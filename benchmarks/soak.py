"""Is anything lost under fire? `python benchmarks/soak.py --minutes 60 --seed 0 --folder DIR` (Linux and its kin)

Runs `train`, `factors`, `swap`, `data` and `cache` on small sets again and again, short of memory or on a disk that is
too small, and ends most of them with a signal at a random moment. After each it looks at what is there:

- a command ends by itself with 0, 1 or 2 and one sentence, or by the signal it was sent, never with a traceback;
- every file in the run's folder and in the cache can be read, and what is cached equals what an undisturbed command
  caches;
- the same command without limits (for training: `train --resume`) gives what it gives undisturbed, bit for bit;
- what was half written is gone after the next command that writes there, and from the cache after `cache --clear`.

As root, the disk is a tmpfs of changing size, which really gets full; else the size of files is limited. Choices depend
on the seed and the number of the round alone; when a signal arrives is a matter of the machine. Faults are told in
DIR/faults.txt, and the last lines are a Markdown table, also in DIR/soak.md. Not on Windows.
"""

import argparse
import contextlib
import filecmp
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import wave
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from diskoop import load
from diskoop.errors import InputError
from diskoop.settings import Settings
from diskoop.tensor_files import read_tensors

MIB = 2**20
DISK = 2048 * MIB  # of a disk that is large enough
KINDS = ("train", "factors", "swap", "data", "cache")
SHARES = {"train": 5, "factors": 2, "swap": 2, "data": 3, "cache": 1}  # of the rounds
OUTCOMES = ("killed", "out of memory", "disk full", "library gave up", "finished")
SIGNALS = (signal.SIGKILL,) * 5 + (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
DISK_SENTENCE = re.compile(r"no space left|file too large|\bdisk\b", re.IGNORECASE)
MEMORY_SENTENCE = re.compile(r"memory", re.IGNORECASE)
TRACEBACK = "Traceback (most recent call last)"
# A Ctrl-C that arrives where Python can raise nothing, as in a destructor, is told and forgotten.
IGNORED = re.compile(rf"^Exception ignored .*\n{re.escape(TRACEBACK)}", re.MULTILINE)
# A stack that faulthandler writes when a process crashes, or is told to end: its innermost frame comes first.
CRASH_STACK = re.compile(r"Current thread .*\n\s+File \"([^\"]+)\"")
LIBRARY_SENTENCE = "OpenBLAS error"  # it ends the process by itself


@dataclass(frozen=True)
class Task:
    """A command that is disturbed: its words, and the training task whose run it is given, if any."""

    title: str
    words: tuple[str, ...]
    run: str | None = None

    @property
    def kind(self) -> str:
        return self.words[0]


@dataclass(frozen=True)
class Reference:
    """What an undisturbed command took and made."""

    seconds: float
    memory: int  # bytes of data at their peak
    written: int  # bytes
    entries: tuple[str, ...]  # of the cache
    folder: Path  # a copy of what it wrote
    facts: dict[str, Any]  # what --json printed


@dataclass(frozen=True)
class Attempt:
    """How a command is disturbed; limits and moment relative to the reference, None where there is none."""

    memory: float | None
    disk: float | None
    moment: float | None
    signals: tuple[int, ...]


@dataclass(frozen=True)
class Ending:
    """How a process ended."""

    words: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    sent: tuple[int, ...] = ()  # signals that found it alive
    hung: bool = False
    limits: str = "no limits"

    def __str__(self) -> str:
        sent = ", ".join(signal.Signals(number).name for number in self.sent) or "no signal"
        tail = "\n".join(f"    {line}" for line in self.stderr.splitlines()[-40:])
        return f"  diskoop {shlex.join(self.words)}\n  {self.limits}, {sent}, exit code {self.returncode}\n{tail}"


class Cancelled(Exception):  # noqa: N818 - it is no error
    """The soak itself was told to stop; the round does not count."""


# ---- what is run


def make_own_files(folder: Path) -> None:
    """A few small clips of each kind: folders of frames, recordings, a table, an array."""
    rng = np.random.default_rng(0)
    for clip in range(12):
        frames = folder / "frames" / f"clip-{clip}"
        frames.mkdir(parents=True)
        for t in range(10):
            picture = np.full((32, 32, 3), 20 * (clip % 4), np.uint8)
            picture[8:20, 2 * t : 2 * t + 10, clip % 3] = 230
            Image.fromarray(picture).save(frames / f"{t}.png")
        (folder / "sound").mkdir(exist_ok=True)
        seconds = np.arange(12_000) / 16_000
        tone = np.sin(2 * np.pi * (200 + 30 * clip) * seconds) + 0.1 * rng.standard_normal(len(seconds))
        with wave.open(str(folder / "sound" / f"{clip}.wav"), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes((8000 * tone).astype("<i2").tobytes())
    x = rng.standard_normal((40, 16, 5)).cumsum(1)
    np.save(folder / "walks.npy", x)
    rows = [f"{n},{t}," + ",".join(f"{v:.4f}" for v in x[n, t]) for n in range(40) for t in range(16)]
    (folder / "walks.csv").write_text("\n".join(["id,time,a,b,c,d,e", *rows]) + "\n")


def make_tasks(own: Path) -> list[Task]:
    """All commands that are disturbed. A run's folder is `run` in the current one."""
    series = ("data.name=oscillators", "model.k=8", "model.h=16", "spectrum.static=3", "train.save_every=5")
    settings: dict[str, tuple[str, ...]] = {
        "oscillators": (*series, "data.limit=200", "loss.cycle=0.5", "train.batch_size=20", "train.epochs=25"),
        "oscillators, best weights": (
            *series, "data.limit=96", "train.batch_size=16", "train.steps=300", "train.patience=8",
            "train.schedule=cosine", "train.lr=0.02",
        ),
        "puppets": ("-c", "demo", "data.limit=128", "model.width=4", "train.epochs=2", "train.save_every=1"),
        "frames": (f"data.path={own / 'frames'}", "model.width=4", "train.steps=30", "train.save_every=3"),
        "recordings": (
            f"data.path={own / 'sound'}", "data.window=40", "data.stride=20", "model.k=16", "spectrum.static=6",
            "model.h=32", "train.steps=60", "train.save_every=4",
        ),
        "table": (f"data.path={own / 'walks.csv'}", "data.id=id", "train.steps=120", "train.save_every=6"),
        "array": (f"data.path={own / 'walks.npy'}", "train.steps=120", "train.save_every=6"),
    }  # fmt: skip
    trainings = [Task(title, ("train", *words, "--out", "run")) for title, words in settings.items()]
    factors = [
        Task(f"factors of {title}", ("factors", "run", "--refit", "--anyway"), title)
        for title in ("oscillators", "puppets", "table")
    ]
    swaps = [
        *(Task(f"swap of {t}", ("swap", "run", "--pair", "0:1"), t) for t in ("oscillators", "frames", "recordings")),
        Task("swap of pretrained:puppets", ("swap", "pretrained:puppets", "--pair", "0:1")),
    ]
    sets = ["oscillators", *(str(own / name) for name in ("frames", "sound", "walks.npy", "walks.csv"))]
    data = [Task(f"data of {Path(name).name}", ("data", name)) for name in sets]
    data.append(Task("data of puppets", ("data", "puppets", "--size", "32")))
    caches = [Task("list of the cache", ("cache",)), Task("clearing the cache", ("cache", "--clear"))]
    return trainings + factors + swaps + data + caches


def choose(tasks: list[Task], rng: random.Random) -> tuple[Task, bool, list[Attempt]]:
    """A task, whether its data are cached already, and how it is disturbed: once, a training up to three times."""
    kinds = [kind for kind in SHARES if any(task.kind == kind for task in tasks)]
    kind = rng.choices(kinds, [SHARES[kind] for kind in kinds])[0]
    task = rng.choice([task for task in tasks if task.kind == kind])
    warm = rng.random() < 0.5
    attempts = []
    for _ in range(rng.choice((1, 1, 2, 3)) if kind == "train" else 1):
        limit = rng.choices(("", "memory", "disk", "memory disk"), (5, 2, 2, 1))[0]
        signals = [rng.choice(SIGNALS)] + ([signal.SIGINT] if rng.random() < 0.2 else [])
        attempts.append(
            Attempt(
                rng.uniform(0.8, 1.05) if "memory" in limit else None,
                rng.uniform(0, 1.1) if "disk" in limit else None,
                rng.uniform(0.1, 1.2) if not limit or rng.random() < 0.3 else None,
                tuple(signals),
            )
        )
    return task, warm or kind == "cache", attempts


# ---- where it is run


class Disk:
    """A folder that can get full: a tmpfs where we may mount one, else an ordinary folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.is_tmpfs = path.is_mount() or self._mount(f"-ttmpfs -osize={DISK} tmpfs")

    def _mount(self, options: str) -> bool:
        if os.geteuid() != 0 or shutil.which("mount") is None:
            return False
        return subprocess.run(["mount", *options.split(), str(self.path)], capture_output=True).returncode == 0

    def clear(self) -> None:
        self.resize(DISK)
        for entry in self.path.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def used(self) -> int:
        blocks = os.statvfs(self.path)
        return (blocks.f_blocks - blocks.f_bfree) * blocks.f_frsize

    def resize(self, size: int) -> None:
        if self.is_tmpfs:
            self._mount(f"-oremount,size={size}")

    def close(self) -> None:
        if self.is_tmpfs:
            subprocess.run(["umount", str(self.path)], capture_output=True, check=True)
            self.is_tmpfs = False


@dataclass
class Worker:
    """Runs commands one after another in a disk of its own."""

    disk: Disk
    threads: int
    stop: threading.Event
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.disk.path.parent

    def run(
        self,
        words: tuple[str, ...],
        memory: int | None = None,
        disk: int | None = None,
        moment: float | None = None,
        signals: tuple[int, ...] = (),
        timeout: float = 300,
        watch: Callable[[int], None] = lambda _: None,
    ) -> Ending:
        """Run `diskoop WORDS` in the disk.

        Args:
            words: of the command line.
            memory: bytes of data that the process may have; None is any.
            disk: bytes that it may write before the disk is full; None is any.
            moment: seconds until the first of `signals` is sent; None sends none.
            signals: to send, the second shortly after the first.
            timeout: seconds after which it counts as hung.
            watch: is called with the process's number while it runs.
        """
        limits = [f"ulimit -d {memory // 1024}"] if memory is not None else []
        if disk is not None and self.disk.is_tmpfs:
            self.disk.resize(self.disk.used() + max(disk, 4096))
        elif disk is not None:
            limits.append(f"ulimit -f {max(disk // 512, 8)}")
        shell = "; ".join(
            [*limits, 'exec "$@"']
        )  # the limits of this process alone, without code between fork and exec
        environment = os.environ | {
            "OMP_NUM_THREADS": str(self.threads),
            "OPENBLAS_NUM_THREADS": str(self.threads),
            "DISKOOP_CACHE": str(self.disk.path / "cache"),
            "PYTHONFAULTHANDLER": "1",
        }
        sent: list[int] = []
        hung = False
        outputs = self.log / "stdout", self.log / "stderr"
        with outputs[0].open("wb") as stdout, outputs[1].open("wb") as stderr:
            process = subprocess.Popen(
                ["sh", "-c", shell, "sh", sys.executable, "-m", "diskoop", *words],
                cwd=self.disk.path, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=environment,
                start_new_session=True,
            )  # fmt: skip
            started, pending = time.monotonic(), list(signals)
            try:
                while process.poll() is None:
                    if self.stop.is_set():
                        raise Cancelled
                    past = time.monotonic() - started
                    if moment is not None and pending and past >= moment + 0.2 * len(sent):
                        sent.append(pending.pop(0))
                        process.send_signal(sent[-1])
                    if past > timeout:
                        hung = True
                        process.send_signal(signal.SIGABRT)  # whose handler writes the stack
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            process.wait(30)
                        process.kill()
                    watch(process.pid)
                    time.sleep(0.02)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # whatever it started
        self.disk.resize(DISK)
        out, err = (output.read_text(encoding="utf-8", errors="replace") for output in outputs)
        told = [f"memory {memory / MIB:.0f} MiB"] if memory is not None else []
        told += [f"disk {disk / MIB:.2f} MiB"] if disk is not None else []
        return Ending(words, process.returncode, out, err, tuple(sent), hung, " and ".join(told) or "no limits")


# ---- what is looked at


def outcome_of(ending: Ending, attempt: Attempt | None) -> tuple[str, list[str]]:
    """One of OUTCOMES, and what is wrong with it."""
    code, stderr = ending.returncode, ending.stderr
    faults = ["a traceback"] if TRACEBACK in IGNORED.sub("", stderr) else []
    lines = [line for line in stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    by_memory = attempt is not None and attempt.memory is not None
    if code == 0:
        return "finished", faults
    # Whatever was asked to stop while Python was loading modules, the interpreter ends by SIGINT in the end.
    expected = {*ending.sent, *([signal.SIGINT] if ending.sent and last == "diskoop: stopped" else [])}
    if ending.hung or (code < 0 and -code not in expected) or LIBRARY_SENTENCE in stderr:
        stack = CRASH_STACK.search(stderr)
        in_library = LIBRARY_SENTENCE in stderr or (stack is not None and "/diskoop/" not in stack[1])
        if by_memory and in_library:
            return "library gave up", faults
        return "library gave up", [*faults, "it hung" if ending.hung else "it crashed"]
    if code < 0:
        return "killed", faults
    if code not in (1, 2):
        faults.append(f"exit code {code}")
    if not last.startswith("diskoop: "):
        faults.append("no sentence")
    if "damaged" in last:
        faults.append("a sentence that blames a file")
    if attempt is not None and attempt.disk is not None and DISK_SENTENCE.search(last):
        return "disk full", faults
    if by_memory and MEMORY_SENTENCE.search(last):
        return "out of memory", faults
    if code == 1 and {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} & set(ending.sent):
        return "killed", faults
    return "killed", [*faults, "a sentence that names neither memory nor disk nor a signal"]


def check_file(path: Path) -> None:
    """Read a file that diskoop wrote; raises whatever its reader raises."""
    match path.suffix:
        case ".safetensors":
            read_tensors(path, path.stem)
        case ".json":
            json.loads(path.read_text(encoding="utf-8"))
        case ".jsonl":
            [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        case ".yaml":
            Settings.load(path)
        case ".npy":
            np.load(path, mmap_mode="r", allow_pickle=False)
        case ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                [arrays[name] for name in arrays.files]
        case ".png" | ".webp" | ".gif":
            with Image.open(path) as picture:
                for frame in range(getattr(picture, "n_frames", 1)):
                    picture.seek(frame)
                    picture.load()
        case ".wav":
            with wave.open(str(path)) as file:
                if len(file.readframes(file.getnframes())) != file.getnframes() * file.getsampwidth():
                    raise ValueError("it is cut off")
        case ".html":
            if not path.read_text(encoding="utf-8").rstrip().endswith("</html>"):
                raise ValueError("it is cut off")
        case suffix:
            raise ValueError(f"no reader for {suffix!r}")


def visible_files(folder: Path) -> Iterator[Path]:
    """All files below a folder, without those that are hidden or in a hidden folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def leftovers(folder: Path) -> list[str]:
    """What is still there of files that were never finished."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob(".*"))


def check_files(disk: Path, cache: Path) -> list[str]:
    """What is wrong with the files on a disk; those of its cache should equal those in `cache`."""
    faults = []
    for path in visible_files(disk):
        try:
            check_file(path)
        except (InputError, ValueError, OSError, KeyError, EOFError, wave.Error) as error:
            faults.append(f"{path.relative_to(disk)} cannot be read: {error!r}")
    for entry in visible_files(disk / "cache"):
        known = cache / entry.relative_to(disk / "cache")
        if known.exists() and entry.name != "verified.json" and not filecmp.cmp(entry, known, shallow=False):
            faults.append(f"{entry.relative_to(disk)} differs from what is cached undisturbed")
    for entry in (disk / "cache").glob("[!.]*/"):
        if not {"frames.npy", "facts.json"} <= {path.name for path in entry.iterdir()}:
            faults.append(f"{entry.relative_to(disk)} is incomplete: {sorted(path.name for path in entry.iterdir())}")
    run = disk / "run"
    if run.exists() and not {"settings.yaml", "checkpoint.safetensors"} <= {path.name for path in run.iterdir()}:
        faults.append(f"a run without settings or checkpoint: {sorted(path.name for path in run.iterdir())}")
    if (run / "model.safetensors").exists() and (run / "operator.safetensors").exists():
        try:
            load(run)
        except InputError as error:
            faults.append(f"the run cannot be loaded: {error}")
    return faults


def differences(task: Task, disk: Path, facts: dict[str, Any], reference: Reference) -> list[str]:
    """Where what a command made differs from what it makes undisturbed."""
    if task.kind in ("train", "factors"):
        names = ["model.safetensors", "operator.safetensors"] + ["factors.json"] * (task.kind == "factors")
        pairs = [(disk / "run" / name, reference.folder / "run" / name) for name in names]
        return [f"{ours.name} differs" for ours, theirs in pairs if ours.read_bytes() != theirs.read_bytes()]
    if task.kind == "swap":
        made, expected = (
            [np.load(base / name) for name in told["files"] if name.endswith(".npz")]
            for base, told in ((disk, facts), (reference.folder, reference.facts))
        )
        same = len(made) == len(expected) and all(
            ours.files == theirs.files and all(np.array_equal(ours[n], theirs[n]) for n in ours.files)
            for ours, theirs in zip(made, expected, strict=True)
        )
        return [] if same else ["the swapped arrays differ"]
    if task.kind == "data":
        return [] if {**facts, "preview": 0} == {**reference.facts, "preview": 0} else ["the facts differ"]
    return []


# ---- the soak itself


class Soak:
    """References, rounds and what came of them."""

    def __init__(self, folder: Path, seed: int, threads: int, kinds: tuple[str, ...], jobs: int) -> None:
        self.folder, self.seed, self.kinds = folder, seed, kinds
        folder.mkdir(parents=True, exist_ok=True)
        for old in ("own", "cache", "references", "faults.txt", "soak.md"):
            path = folder / old
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        (folder / "own").mkdir()
        (folder / "cache").mkdir()
        make_own_files(folder / "own")
        self.tasks = make_tasks((folder / "own").resolve())
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.workers = [
            Worker(Disk((folder / f"worker-{n}" / "disk").resolve()), threads, self.stop) for n in range(jobs)
        ]
        self.references: dict[str, Reference] = {}
        self.counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
        self.faults: list[str] = []
        self.number = 0  # of the next round

    def close(self) -> None:
        for worker in self.workers:
            worker.disk.clear()
            worker.disk.close()
            shutil.rmtree(worker.log)

    def prepare(self, say: Callable[[str], None]) -> None:
        """Run every task undisturbed."""
        runs = {task.run for task in self.tasks if task.kind in self.kinds}
        self.tasks = [task for task in self.tasks if task.kind in self.kinds or task.title in runs]
        for task in self.tasks:
            self.references[task.title] = reference = self._reference(task)
            facts = f"{reference.seconds:.1f} s, {reference.memory / MIB:.0f} MiB of memory"
            say(f"undisturbed, {task.title}: {facts}, {reference.written / MIB:.2f} MiB written")
        self.tasks = [task for task in self.tasks if task.kind in self.kinds]

    def _reference(self, task: Task) -> Reference:
        worker = self.workers[0]
        disk, peak = worker.disk, 0

        def watch(pid: int) -> None:
            nonlocal peak
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text()
                peak = max([peak, *(1024 * int(kib) for kib in re.findall(r"VmData:\s+(\d+)", status))])

        self._arrange(worker, task, warm=task.kind == "cache")
        before, started = disk_usage(disk.path), time.monotonic()
        ending = worker.run((*task.words, "--json"), watch=watch)
        seconds = time.monotonic() - started
        if ending.returncode:
            raise SystemExit(f"undisturbed, this fails:\n{ending}")
        folder = self.folder / "references" / str(len(self.references))
        cache = disk.path / "cache"
        entries = tuple(sorted(entry.name for entry in cache.glob("*"))) if task.kind != "cache" else ()
        for name in entries:
            if not (self.folder / "cache" / name).exists():
                _copy(cache / name, self.folder / "cache" / name)
        shutil.copytree(disk.path, folder, ignore=shutil.ignore_patterns("cache"))
        written = max(disk_usage(disk.path) - before, 64 * 1024)
        return Reference(seconds, peak or 512 * MIB, written, entries, folder, json.loads(_last_line(ending.stdout)))

    def _arrange(self, worker: Worker, task: Task, warm: bool) -> None:
        """An empty disk with what the task needs."""
        worker.disk.clear()
        if task.run is not None:
            shutil.copytree(self.references[task.run].folder / "run", worker.disk.path / "run")
        entries: set[str] = set()
        if warm and task.kind == "cache":
            entries = {entry.name for entry in (self.folder / "cache").iterdir()}
        elif warm:
            entries = set(self.references[task.title].entries)
        (worker.disk.path / "cache").mkdir()
        for name in entries:
            _copy(self.folder / "cache" / name, worker.disk.path / "cache" / name)

    def round(self, worker: Worker, number: int) -> None:
        """One round: disturb a command, look, run it undisturbed, look again."""
        task, warm, attempts = choose(self.tasks, random.Random(f"{self.seed}-{number}"))
        reference, disk = self.references[task.title], worker.disk.path
        self._arrange(worker, task, warm)
        before: set[str] = set()
        endings: list[str] = []
        counts: Counter[str] = Counter(rounds=1)
        faults: list[str] = []

        def look(ending: Ending, problems: list[str]) -> None:
            problems = problems + check_files(disk, self.folder / "cache")
            left = set(leftovers(disk)) - before
            before.update(left)
            if left and ending.returncode >= 0 and LIBRARY_SENTENCE not in ending.stderr:
                problems.append(f"it ended by itself and left {', '.join(sorted(left))}")
            endings.append(str(ending))
            faults.extend(problems)

        for attempt in attempts:
            words = self._words(task, disk)
            ending = worker.run(
                words,
                None if attempt.memory is None else int(attempt.memory * reference.memory),
                None if attempt.disk is None else int(attempt.disk * reference.written),
                None if attempt.moment is None else attempt.moment * reference.seconds,
                attempt.signals,
                20
                + (2 if attempt.memory is not None else 10) * reference.seconds,  # OpenBLAS waits for memory for ever
            )
            outcome, problems = outcome_of(ending, attempt)
            counts[outcome] += 1
            look(ending, problems)
        words, started = self._words(task, disk), time.time()
        ending = worker.run(words)
        outcome, problems = outcome_of(ending, None)
        if ending.returncode == 0:
            facts = json.loads(_last_line(ending.stdout))
            problems += differences(task, disk, facts, reference)
            written = {path.parent for path in visible_files(disk) if path.stat().st_mtime >= started}
            problems += [f"{name} is left" for name in leftovers(disk) if (disk / name).parent in written]
            counts["equal"] += not problems
        look(ending, problems)
        ending = worker.run(("cache", "--clear", "--json"))
        look(
            ending, outcome_of(ending, None)[1] + [f"cache/{path.name} is left" for path in (disk / "cache").glob("*")]
        )
        with self.lock:
            self.counts[task.kind] += counts
            if faults:
                told = "\n".join([f"round {number}: {task.title}", *(f"- {fault}" for fault in faults), *endings])
                self.faults.append(told)
                with (self.folder / "faults.txt").open("a") as file:
                    file.write(told + "\n\n")

    def _words(self, task: Task, disk: Path) -> tuple[str, ...]:
        """The command, or for a training that has begun the one that goes on with it."""
        resumed = task.kind == "train" and (disk / "run").exists()
        return ("train", "--resume", "run", "--json") if resumed else (*task.words, "--json")

    def work(self, worker: Worker, deadline: float, rounds: int | None) -> None:
        while not self.stop.is_set() and time.monotonic() < deadline:
            with self.lock:
                number, self.number = self.number, self.number + 1
            if rounds is not None and number >= rounds:
                return
            with contextlib.suppress(Cancelled):
                self.round(worker, number)

    def run(self, minutes: float, rounds: int | None, say: Callable[[str], None]) -> None:
        """Rounds for so many minutes, or so many of them; a line a minute."""
        started = time.monotonic()
        failures: list[BaseException] = []

        def work(worker: Worker) -> None:
            try:
                self.work(worker, started + 60 * minutes, rounds)
            except BaseException as error:  # handed to the main thread, which raises it
                failures.append(error)
                self.stop.set()

        threads = [threading.Thread(target=work, args=(worker,)) for worker in self.workers]
        for thread in threads:
            thread.start()
        try:
            told = 0
            while any(thread.is_alive() for thread in threads):
                time.sleep(0.2)
                if (past := int((time.monotonic() - started) / 60)) > told:
                    told = past
                    say(f"minute {past}: {self.summary()}")
                    (self.folder / "soak.md").write_text(self.table() + "\n")
        finally:
            self.stop.set()
            for thread in threads:
                thread.join()
        if failures:
            raise failures[0]

    def summary(self) -> str:
        with self.lock:
            total = sum(self.counts.values(), Counter[str]())
            outcomes = ", ".join(f"{total[outcome]} {outcome}" for outcome in OUTCOMES)
            return f"{total['rounds']} rounds, {outcomes}, {total['equal']} equal, {len(self.faults)} faults"

    def table(self) -> str:
        """How it went, in Markdown."""
        columns = ("rounds", *OUTCOMES, "equal")
        with self.lock:
            per_kind = {**self.counts, "in all": sum(self.counts.values(), Counter[str]())}
            faults = Counter(re.sub(r"^round \d+: ", "", fault.splitlines()[0]) for fault in self.faults)
            by_kind = Counter[str]()
            for title, count in faults.items():
                by_kind[next(task.kind for task in self.tasks if task.title == title)] += count
        by_kind["in all"] = len(self.faults)
        lines = [f"| command | {' | '.join(columns)} | faults |", "|---|" + "---|" * (len(columns) + 1)]
        lines += [
            f"| {kind} | {' | '.join(str(counts[column]) for column in columns)} | {by_kind[kind]} |"
            for kind, counts in per_kind.items()
        ]
        return "\n".join(lines)


def disk_usage(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)


def soak(
    folder: Path,
    minutes: float,
    seed: int = 0,
    jobs: int = 1,
    threads: int = 1,
    kinds: tuple[str, ...] = KINDS,
    rounds: int | None = None,
    say: Callable[[str], None] = print,
) -> Soak:
    """Prepare references, then disturb commands for so many minutes; nothing stays mounted or running."""
    # Commands must see signals as a terminal's do, also where this one was told to ignore them, as by nohup.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, lambda *_: None)
    state = Soak(folder, seed, threads, kinds, jobs)
    try:
        state.prepare(say)
        state.run(minutes, rounds, say)
    finally:
        state.close()
        (folder / "soak.md").write_text(state.table() + "\n")
    return state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where it works, and writes faults.txt and soak.md")
    parser.add_argument("--minutes", type=float, default=60, help="of rounds, beside a minute or two of preparation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="commands at a time")
    parser.add_argument("--threads", type=int, default=1, help="of each command")
    parser.add_argument("--only", default=",".join(KINDS), help="commands, with commas between them")
    parser.add_argument("--rounds", type=int, help="stop after so many")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    kinds = tuple(given.only.split(","))
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"--only takes {', '.join(KINDS)}, got {', '.join(unknown)}")

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    state = soak(given.folder, given.minutes, given.seed, given.jobs, given.threads, kinds, given.rounds, say)
    if given.json:
        print(json.dumps({"commands": state.counts, "faults": state.faults}))
    else:
        print(state.table())
        if state.faults:
            print(f"\nfaults: {given.folder / 'faults.txt'}")
    sys.exit(bool(state.faults))


if __name__ == "__main__":
    main()
