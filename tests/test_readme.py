"""The Python of README and docs runs; the README's shell blocks name commands that exist."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diskoop.cli.app import app

ROOT = Path(__file__).parents[1]
README, FACTORS, EXTENDING, PRETRAINED = (
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "docs/factors.md", "docs/extending.md", "docs/pretrained.md")
)
SHELL = "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))


def python_in(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="module")
def demo(video_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `runs/demo` as the demo leaves it, but trained for a moment only."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(video_run, folder / "runs" / "demo")
    return folder


@pytest.mark.parametrize("code", [*python_in(README), *python_in(FACTORS), *python_in(PRETRAINED)])
def test_python_runs(code: str, demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo)
    exec(compile(code, "README", "exec"), {})


@pytest.mark.parametrize(
    ("number", "then"),
    [
        (0, "assert clips.x.shape == (50, 16, 3) and 'place' in clips.labels"),
        (1, "from diskoop.settings import Settings; assert Settings.of({'loss': {'smooth': 0.1}}).loss.smooth == 0.1"),
        (2, "from diskoop.evaluation.registry import METRICS; assert 'latents' in METRICS"),
        (3, "from diskoop.settings import ModelSettings\nfrom diskoop.models.autoencoder import build_model\n"
            "assert build_model(ModelSettings(network='linear'), (4,)).encoder.out_features == 40"),
        (4, "import diskoop\nrun = diskoop.load('runs/demo')\n"
            "print(run.find_factors(run.data('test').select(range(20)), Halves()).names)"),
    ],
)  # fmt: skip
def test_extensions_run(number: int, then: str, demo: Path) -> None:
    """In a process of its own each: what it registers is nobody else's."""
    code = f"{python_in(EXTENDING)[number]}\n{then}"
    subprocess.run([sys.executable, "-c", code], cwd=demo, check=True, timeout=120)


def test_there_is_python() -> None:
    assert [len(python_in(text)) for text in (README, FACTORS, EXTENDING, PRETRAINED)] == [3, 1, 5, 1]


def test_shell_names_commands_that_exist() -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    named = set(re.findall(r"\bdiskoop ([a-z]+)", SHELL))
    assert named == known


@pytest.mark.parametrize(
    "name", ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md"))]
)
def test_linked_files_exist(name: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / name).read_text(encoding="utf-8"))
    assert all(((ROOT / name).parent / link).exists() for link in links)
    assert name != "README.md" or {"docs/factors.png", "docs/demo.png"} <= set(links)
