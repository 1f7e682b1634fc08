"""Does what is built work where nothing else is? `python tools/check_release.py`

Builds source archive and wheel; looks for what should be in neither; installs each in a bare environment (with the
torch of constraints.txt), where the command line must work, and runs a few tests from the unpacked archive.
"""

import json
import os
import re
import subprocess
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TESTS = (
    "tests/test_settings.py",
    "tests/test_storage.py",
    "tests/test_run.py",
    "tests/numerics/test_spectrum.py",
    "tests/data/test_cache.py",
)
COMMANDS = (
    ("--version",),
    ("data", "oscillators", "--json"),
    ("swap", "pretrained:puppets", "--pair", "0:1", "--json"),
)
UNWANTED = re.compile(
    r"(^|/)(\.venv|\.git|\.hypothesis|__pycache__|runs|scratch|dist|build|docs/_build|\.\w+_cache)/|/nohup\.out$"
)
LARGEST = 6 * 2**20  # bytes of one file: the pretrained run's weights and examples are the largest


def run(*words: object, cwd: Path) -> str:
    """Run a command outside the checkout and without its modules; print it, and what went wrong if anything did."""
    print("+", *words, flush=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def contents(archive: Path) -> dict[str, bytes]:
    """Name -> content of each file."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(archive) as source:
        return {member.name: source.extractfile(member).read() for member in source if member.isfile()}  # type: ignore[union-attr]


def check_contents(archive: Path) -> None:
    """Neither what a checkout collects, nor large files, nor paths of this machine; a wheel holds the package alone."""
    files = contents(archive)
    machine = {str(path).encode() for path in (ROOT, Path.home()) if len(path.parts) > 2 or path == ROOT}
    problems = [f"{name} is there" for name in files if UNWANTED.search(name)]
    problems += [f"{name} has {len(content)} bytes" for name, content in files.items() if len(content) > LARGEST]
    for name, content in files.items():
        problems += [f"{name} holds the path {path.decode()}" for path in machine if path in content]
    if archive.suffix == ".whl":
        problems += [f"{name} is no part of the package" for name in files if not re.match(r"diskoop[-/]", name)]
    if problems:
        raise SystemExit(f"{archive.name}: " + "; ".join(problems))
    size = archive.stat().st_size / 2**20
    print(f"{archive.name}: {len(files)} files, {size:.1f} MiB, nothing that should not be there", flush=True)


def bare_environment(folder: Path, *wanted: object) -> Path:
    """The `bin` of a fresh environment with these requirements."""
    venv.create(folder, with_pip=True)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    run(scripts / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", *wanted, cwd=folder)
    return scripts


def check_commands(scripts: Path, folder: Path) -> None:
    """The command line works in an empty folder, with a cache of its own."""
    folder.mkdir()
    os.environ["DISKOOP_CACHE"] = str(folder / "cache")
    for words in COMMANDS:
        output = run(scripts / "diskoop", *words, cwd=folder)
        if "--json" in words:
            facts: dict[str, Any] = json.loads(output.splitlines()[-1])
            missing = [
                name
                for name in (facts["files"] if "files" in facts else facts["preview"])
                if not (folder / name).exists()
            ]
            if missing:
                raise SystemExit(f"{missing} were not written")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools = bare_environment(folder / "tools", "build", "hatchling")
        run(
            tools / "python",
            "-m",
            "build",
            "--no-isolation",
            "--sdist",
            "--wheel",
            "--outdir",
            folder,
            ROOT,
            cwd=folder,
        )
        (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
        for archive in (source, wheel):
            check_contents(archive)
        check_commands(bare_environment(folder / "from-wheel", wheel), folder / "wheel")
        with tarfile.open(source) as files:
            files.extractall(folder / "unpacked", filter="data")
        (unpacked,) = (folder / "unpacked").iterdir()
        tested = bare_environment(folder / "from-source", f"{unpacked}[video,audio,hdf5,parquet,zarr]", "pytest",
                                  "pytest-xdist", "hypothesis")  # fmt: skip
        check_commands(tested, folder / "source")
        told = run(tested / "python", "-m", "pytest", "-n", "0", *TESTS, cwd=unpacked)
        print(told.strip().splitlines()[-1])
    print("wheel and source archive install, run and pass", flush=True)


if __name__ == "__main__":
    main()
