"""The README's Python runs; its shell blocks name commands that exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from diskoop.interfaces.cli import app
from diskoop.settings import Settings
from diskoop.training import loop
from tests.training.test_loop import Quiet

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
FACTORS = (Path(__file__).parents[1] / "docs" / "factors.md").read_text(encoding="utf-8")
PYTHON = [code for text in (README, FACTORS) for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]
SHELL = "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `runs/demo` as the demo leaves it, but trained for a moment only."""
    folder = tmp_path_factory.mktemp("readme")
    brief = Settings.load("demo").replaced({"data": {"limit": 64}, "train": {"epochs": 1}})
    loop.train(brief, folder / "runs" / "demo", reporter=Quiet())
    return folder


@pytest.mark.parametrize("code", PYTHON)
def test_python_runs(code: str, demo: Path) -> None:
    subprocess.run([sys.executable, "-c", code], cwd=demo, check=True, timeout=120)


def test_there_is_python() -> None:
    assert len(PYTHON) == 4


def test_shell_names_commands_that_exist() -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    named = set(re.findall(r"\bdiskoop ([a-z]+)", SHELL))
    assert named == known


def test_linked_files_exist() -> None:
    root = Path(__file__).parents[1]
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert "docs/factors.png" in links
    assert "docs/demo.png" in links
    assert all((root / link).exists() for link in links)
