"""What the tools name is there."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import lowest

ROOT = Path(__file__).parents[2]
MADE = {"docs/_build"}  # when the site is built


def named_paths(tool: Path) -> Iterator[str]:
    """Paths in a tool's texts: those that begin with a file or folder of the repository's root."""
    for node in ast.walk(ast.parse(tool.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = re.findall(r"[\w.-]+(?:/[\w.-]+)*", node.value)
            yield from (word for word in words if (ROOT / word.split("/")[0]).exists() and word not in MADE)


@pytest.mark.parametrize("tool", sorted(ROOT.glob("tools/*.py")), ids=lambda tool: tool.name)
def test_every_path_that_a_tool_names_exists(tool: Path) -> None:
    named = set(named_paths(tool))
    assert f"tools/{tool.name}" in named  # its own command
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_the_bounds_of_searches_and_stores_are_among_the_lowest_that_are_tested() -> None:
    bounds = {each.name: [bound.operator for bound in each.specifier] for each in lowest.requirements()}
    folders = [ROOT / name for name in lowest.TESTS]
    files = [file for each in folders for file in (each.rglob("*.py") if each.is_dir() else [each])]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for name, use in {"optuna": "optuna", "psycopg": "postgresql", "zarr": "zarr", "fsspec": "fsspec"}.items():
        assert ">=" in bounds[name]
        assert use in text
