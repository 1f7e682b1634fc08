"""Do the default tests pass on every Python? `python tools/pythons.py [--quick] [--only VERSION] [TEST...]`

Looks for every Python from the lowest that pyproject.toml allows: on the path, pyenv's, and those that uv has or can
fetch. Each gets an environment of its own with what the tests need; where a package has no release for it, that is
said, and the next one is tried. Exit code 0 if the tests passed on every Python that they
could be run on, 1 if not, 2 if there was none.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LATEST = 14  # the newest minor version to look for
QUICK = (
    "tests/test_settings.py",
    "tests/test_storage.py",
    "tests/test_run.py",
    "tests/numerics",
    "tests/cli/test_app.py",
)
ASK = "import json, sys; print(json.dumps([sys.version_info[:3], sys.implementation.name, sys.executable]))"

Version = tuple[int, int]


def lowest_version() -> Version:
    """The lowest Python that pyproject.toml allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    match = re.fullmatch(r">=(\d+)\.(\d+)", project["requires-python"])
    if match is None:
        raise SystemExit(f"expected requires-python such as >=3.11, got {project['requires-python']!r}")
    return int(match[1]), int(match[2])


def find_pythons(lowest: Version, fetch: bool = True) -> dict[Version, Path]:
    """Version -> the interpreter of each Python from `lowest` on; of several of one version the first that is found.

    Args:
        lowest: version.
        fetch: whether uv, where it is installed, may fetch those that are missing.
    """
    wanted = [(lowest[0], minor) for minor in range(lowest[1], LATEST + 1)]
    candidates = [Path(sys.executable)]
    candidates += [Path(place) for major, minor in wanted if (place := shutil.which(f"python{major}.{minor}"))]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates += sorted(pyenv.glob("*/bin/python"))
    found: dict[Version, Path] = {}
    for candidate in candidates:
        version = ask_version(candidate)
        if version in wanted:
            found.setdefault(version, candidate)
    for version in wanted if fetch and shutil.which("uv") else ():
        if version not in found and (path := fetch_python(version)):
            found[version] = path
    return dict(sorted(found.items()))


def ask_version(python: Path) -> Version | None:
    """The version of an interpreter; None if it does not run, or is no CPython."""
    try:
        answer = subprocess.run([python, "-c", ASK], capture_output=True, text=True, timeout=60)
        (major, minor, _), name, _ = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return (major, minor) if name == "cpython" else None


def fetch_python(version: Version) -> Path | None:
    """The interpreter that uv has or can fetch; None, with its last word, if neither."""
    name = ".".join(map(str, version))
    subprocess.run(["uv", "python", "install", "-q", name], capture_output=True)
    answer = subprocess.run(["uv", "python", "find", name], capture_output=True, text=True)
    if answer.returncode:
        print(f"Python {name}: {last_line(answer.stderr)}", flush=True)
        return None
    return Path(answer.stdout.strip())


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


def run_tests(python: Path, tests: list[str]) -> str:
    """How the tests end on a Python, in a fresh environment: `passed`, `failed`, or why they could not be run."""
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([python, "-m", "venv", f"{folder}/venv"], capture_output=True, text=True)
        if made.returncode:
            return f"not run: no environment ({last_line(made.stdout + made.stderr)})"
        own = Path(folder) / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        words: list[str | Path] = [
            own,
            "-m",
            "pip",
            "install",
            "-q",
            "-c",
            ROOT / "constraints.txt",
            "-e",
            f"{ROOT}[dev]",
        ]
        install = subprocess.run(words, capture_output=True, text=True)
        if install.returncode:
            return f"not run: not installable ({last_line(install.stderr)})"
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run([own, "-m", "pytest", *tests], cwd=ROOT, env=environment)
    return "failed" if done.returncode else "passed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", help="files and folders of tests; by default all that are not slow")
    parser.add_argument("--quick", action="store_true", help="a part of the tests: settings, storage, runs, numerics")
    parser.add_argument("--only", metavar="VERSION", help="one version, such as 3.12")
    parser.add_argument("--list", action="store_true", help="name the Pythons that are found, and test nothing")
    given = parser.parse_args()
    pythons = find_pythons(lowest_version())
    if given.only:
        pythons = {version: path for version, path in pythons.items() if ".".join(map(str, version)) == given.only}
    for version, path in pythons.items():
        print(f"Python {version[0]}.{version[1]}: {path}", flush=True)
    if given.list:
        return
    ends = {
        version: run_tests(path, [*(QUICK if given.quick else ()), *given.tests]) for version, path in pythons.items()
    }
    for version, end in ends.items():
        print(f"Python {version[0]}.{version[1]}: {end}", flush=True)
    run = [end for end in ends.values() if end in ("passed", "failed")]
    sys.exit(2 if not run else int("failed" in run))


if __name__ == "__main__":
    main()
