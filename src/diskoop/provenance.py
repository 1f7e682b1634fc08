"""how a figure came about: the code's commit, the nearest preset, the seed, the command"""

import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from diskoop.settings import Settings, keys, presets

HERE = Path(__file__).parent
STAMP = HERE / "commit.txt"  # hatch_build.py writes it into what is installed
ELSEWHERE = {"data.path", "data.labels", "train.device"}  # where a run lay and on what it ran is no choice of method


@dataclass(frozen=True)
class Origin:
    """What it takes to get a figure again."""

    seed: int | str  # "0 to 2" where figures are means over several trainings
    preset: str
    commit: str
    command: str

    def __str__(self) -> str:
        seeds = f"seed {self.seed}" if isinstance(self.seed, int) else f"seeds {self.seed}"
        return f"trained with {seeds}, preset {self.preset}, commit {self.commit}, `{self.command}`"


@cache
def commit() -> str:
    """The commit of the code that runs, with a + where files differ from it; "unknown" where nobody can tell."""
    if STAMP.exists():
        return STAMP.read_text(encoding="utf-8").strip()
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)  # this file's own repository, not one around it
        changed = "+" if _git("status", "--porcelain", "--", ".") else ""
        return _git("rev-parse", "--short=12", "HEAD") + changed
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", HERE, *words], capture_output=True, text=True, check=True).stdout.strip()


def nearest_preset(settings: Settings) -> str:
    """The preset that fewest settings differ from, and those: `demo, train.epochs=60`."""
    choices = {name: _differences(settings, Settings.load(name)) for name in presets()}
    choices["defaults"] = _differences(settings, Settings())
    name = min(choices, key=lambda name: len(choices[name]))
    return ", ".join([name, *choices[name]])


def _differences(settings: Settings, other: Settings) -> list[str]:
    mine, theirs = settings.model_dump(), other.model_dump()
    paths = [tuple(path.split(".")) for path in keys() if path not in ELSEWHERE]
    return [f"{a}.{b}={mine[a][b]}" for a, b in paths if mine[a][b] != theirs[a][b]]
