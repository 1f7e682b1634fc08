"""Build, check and tag a release: `python tools/release.py [--dry-run]`

In this order: the working tree is clean, the version is new and has a dated section in CHANGELOG.md, nothing in the
package contradicts it; source archive and wheel are built into dist/ and tools/check_release.py tries them; then the
commit is tagged vVERSION. --dry-run does all but the tag. It publishes nothing.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
HEADING = re.compile(r"^## (?P<version>\S+) \((?P<date>[^)]*)\)$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d\d-\d\d")


def read_version(root: Path) -> str:
    """The version that the package gives itself."""
    text = (root / "src" / "diskoop" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if match is None:
        raise SystemExit('src/diskoop/__init__.py has no line __version__ = "..."')
    return match[1]


def problems(root: Path) -> list[str]:
    """Why a checkout is not ready to be released, a sentence each; none if it is."""
    version = read_version(root)
    return [*changelog_problems(root, version), *citation_problems(root, version), *git_problems(root, version)]


def changelog_problems(root: Path, version: str) -> list[str]:
    """The first section must be of this version, with a date, and say something."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = list(HEADING.finditer(text))
    if not sections:
        return ["CHANGELOG.md has no section such as ## 0.1.0 (2024-01-31)"]
    first = sections[0]
    end = sections[1].start() if len(sections) > 1 else len(text)
    found = []
    if first["version"] != version:
        found.append(f"CHANGELOG.md begins with {first['version']}, the version is {version}")
    if not DATE.fullmatch(first["date"]):
        found.append(f"CHANGELOG.md dates {first['version']} {first['date']!r}, wanted a day such as 2024-01-31")
    if not re.search(r"^- ", text[first.end() : end], re.MULTILINE):
        found.append(f"CHANGELOG.md says nothing of {first['version']}")
    return found


def citation_problems(root: Path, version: str) -> list[str]:
    """A version in CITATION.cff must be this one."""
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8")).get("version", version)
    return [] if str(cited) == version else [f"CITATION.cff gives the version {cited}, the package {version}"]


def git_problems(root: Path, version: str) -> list[str]:
    """Everything must be committed, and the tag must not exist."""
    found = []
    if changed := git(root, "status", "--porcelain").splitlines():
        found.append(f"{len(changed)} files are changed or unknown to git, the first {changed[0][3:]}")
    if git(root, "tag", "--list", f"v{version}").strip():
        found.append(f"the tag v{version} exists already")
    return found


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def build(root: Path, out: Path) -> list[Path]:
    """Source archive and wheel, in place of what was in the folder `out`."""
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / ("Scripts" if os.name == "nt" else "bin") / "python"
        for words in (
            ["pip", "install", "-q", "build", "hatchling"],
            ["build", "--no-isolation", "--outdir", str(out), str(root)],
        ):
            if subprocess.run([python, "-m", *words], cwd=folder).returncode:
                raise SystemExit(f"python -m {' '.join(words)} failed")
    return sorted(out.iterdir())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--dry-run", action="store_true", help="all but the tag; what is not ready is listed, and built all the same"
    )
    given = parser.parse_args()
    version, found = read_version(ROOT), problems(ROOT)
    for problem in found:
        print(f"not ready: {problem}", flush=True)
    if found and not given.dry_run:
        sys.exit(1)
    for file in build(ROOT, ROOT / "dist"):
        print(f"built {file.relative_to(ROOT)}, {file.stat().st_size / 2**20:.1f} MiB", flush=True)
    if subprocess.run([sys.executable, ROOT / "tools" / "check_release.py"]).returncode:
        sys.exit("tools/check_release.py failed; nothing is tagged")
    if given.dry_run:
        print(f"dry run: v{version} is not tagged, {'ready' if not found else 'and not ready'}")
        sys.exit(bool(found))
    git(ROOT, "tag", "-a", f"v{version}", "-m", f"diskoop {version}")
    print(f"tagged v{version}; git push origin v{version} publishes the tag")


if __name__ == "__main__":
    main()
