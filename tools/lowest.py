"""Do the lowest versions that pyproject.toml allows still work? `python tools/lowest.py [TEST...]`

Makes a fresh environment with the lowest release of every dependency and extra but torch, which constraints.txt pins,
and runs a quick part of the tests in it once. A bound that turns out false is raised in pyproject.toml.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
EXTRAS = ("video", "audio", "hdf5", "parquet", "zarr", "faces", "export", "search")
TESTS = (
    "tests/test_settings.py", "tests/test_storage.py", "tests/test_run.py", "tests/test_run_folder.py",
    "tests/numerics", "tests/data/formats", "tests/data/test_cache.py", "tests/plots",
    "tests/analysis/test_table_export.py", "tests/cli", "tests/web/test_server.py",
    "tests/web/test_report.py", "tests/models", "tests/export",
    "tests/search", "tests/workflows/test_search.py",
)  # fmt: skip


def requirements() -> list[Requirement]:
    """What pyproject.toml requires, with the extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = project["dependencies"] + [line for name in EXTRAS for line in project["optional-dependencies"][name]]
    return [Requirement(line) for line in lines]


def lowest_versions() -> dict[str, Version]:
    """The lowest release that pip finds of each requirement but torch."""
    versions = {}
    for requirement in requirements():
        if requirement.name != "torch":
            words = [sys.executable, "-m", "pip", "index", "versions", requirement.name]
            found = subprocess.run(words, capture_output=True, text=True)
            listed = re.search(r"Available versions: (.*)", found.stdout)
            if listed is None:
                raise SystemExit(f"pip finds no releases of {requirement.name}: {found.stderr.strip()}")
            versions[requirement.name] = min(
                requirement.specifier.filter(map(Version, listed[1].split(", ")), prereleases=False)
            )
    return versions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=TESTS, help="files and folders of tests; by default a quick part")
    given = parser.parse_args()
    versions = lowest_versions()
    print("lowest: " + ", ".join(f"{name} {version}" for name, version in versions.items()), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(f"{folder}/venv", with_pip=True)
        python = Path(folder) / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        pins = Path(folder) / "lowest.txt"
        pins.write_text("".join(f"{name}=={version}\n" for name, version in versions.items()), encoding="utf-8")
        wanted = [f"{ROOT}[{','.join(EXTRAS)}]", "pytest", "pytest-xdist", "hypothesis", "httpx", "pydmd"]
        constraints = ["-c", str(pins), "-c", str(ROOT / "constraints.txt")]
        install = [str(python), "-m", "pip", "install", "-q", *constraints, *wanted]
        subprocess.run(install, check=True)
        # Not from the checkout's src: the environment's own copy is tested.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        tests = subprocess.run([python, "-m", "pytest", *given.tests], cwd=ROOT, env=environment)
    sys.exit(tests.returncode)


if __name__ == "__main__":
    main()
