"""the origin of a result: commit of the code, nearest preset, seed, command"""

import hashlib
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from diskoop.settings import Settings, keys, presets

PACKAGE = Path(__file__).parent
COMMIT_FILE = PACKAGE / "commit.txt"  # written into wheels by hatch_build.py
ENVIRONMENT_SETTINGS = {"data.path", "data.labels", "train.device"}  # not compared with presets


@dataclass(frozen=True)
class Origin:
    """What is needed to reproduce a result."""

    seed: int | str  # "0 to 2" for means over several trainings
    preset: str
    commit: str
    command: str

    def __str__(self) -> str:
        seeds = f"seed {self.seed}" if isinstance(self.seed, int) else f"seeds {self.seed}"
        return f"trained with {seeds}, preset {self.preset}, commit {self.commit}, `{self.command}`"


@cache
def commit() -> str:
    """The commit of the running code, with a + if files have changed; "unknown" outside a repository."""
    if COMMIT_FILE.exists():
        return COMMIT_FILE.read_text(encoding="utf-8").strip()
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)  # not merely a repository around the package
        changed = "+" if _git("status", "--porcelain", "--", ".") else ""
        return _git("rev-parse", "--short=12", "HEAD") + changed
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


@cache
def code_checksum() -> str:
    """A checksum of the source files of the package, which tells uncommitted changes apart too."""
    checksum = hashlib.sha256()
    for module in sorted(PACKAGE.rglob("*.py")):
        content = module.read_bytes()
        checksum.update(f"{module.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode())
        checksum.update(content)
    return checksum.hexdigest()


def _git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", PACKAGE, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def nearest_preset(settings: Settings) -> str:
    """The preset with the fewest differing settings, and these: `demo, train.epochs=60`."""
    differences = {name: _differences(settings, Settings.load(name)) for name in presets()}
    differences["defaults"] = _differences(settings, Settings())
    name = min(differences, key=lambda name: len(differences[name]))
    return ", ".join([name, *differences[name]])


def _differences(settings: Settings, other: Settings) -> list[str]:
    values, others = settings.model_dump(), other.model_dump()
    paths = [tuple(path.split(".")) for path in keys() if path not in ENVIRONMENT_SETTINGS]
    return [f"{a}.{b}={values[a][b]}" for a, b in paths if values[a][b] != others[a][b]]
