"""The README's tree is the architecture: docstrings repeat it, imports point upwards only."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "diskoop"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def tree() -> dict[str, str]:
    """Module path -> its line, in the README's order."""
    block = README.split("```\nsrc/diskoop/\n")[1].split("```")[0]
    return dict(re.split(r"\s+", line.strip(), maxsplit=1) for line in block.splitlines())


def modules() -> list[str]:
    found = (path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
    return [name for name in found if not name.endswith("__init__.py")]


def test_the_tree_lists_every_module() -> None:
    assert sorted(tree()) == sorted(modules())


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_module_opens_with_its_line(name: str) -> None:
    docstring = ast.get_docstring(ast.parse((SOURCE / name).read_text(encoding="utf-8")))
    assert docstring is not None
    assert docstring.splitlines()[0] == tree()[name]


def imported(name: str) -> set[str]:
    """The modules of this package that a module imports, anywhere in its text, as paths in the tree."""
    found = set()
    for node in ast.walk(ast.parse((SOURCE / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("diskoop"):
            assert node.level == 0
            base = node.module.replace(".", "/").removeprefix("diskoop").removeprefix("/")
            for alias in node.names:
                inner = f"{base}/{alias.name}".removeprefix("/")
                found.add(inner if _exists(inner) else base)
        elif isinstance(node, ast.Import):
            found |= {
                alias.name.replace(".", "/").removeprefix("diskoop/") for alias in node.names if "diskoop" in alias.name
            }
    return {path for path in found if path not in ("", "diskoop")}


def _exists(path: str) -> bool:
    return (SOURCE / f"{path}.py").exists() or (SOURCE / path / "__init__.py").exists()


def position(path: str, order: list[str]) -> int:
    """A module's place in the tree; a package stands where its last module does."""
    if f"{path}.py" in order:
        return order.index(f"{path}.py")
    return max(index for index, name in enumerate(order) if name.startswith(f"{path}/"))


@pytest.mark.parametrize("name", sorted(modules()))
def test_imports_point_upwards(name: str) -> None:
    order = list(tree())
    for path in imported(name):
        assert position(path, order) < order.index(name), f"{name} imports {path}, which is not written above it"


def test_packages_export_only_their_own_modules_and_those_above() -> None:
    order = list(tree())
    for package in SOURCE.rglob("__init__.py"):
        name = package.relative_to(SOURCE).parent.as_posix()
        if name == ".":
            continue
        for path in imported(f"{name}/__init__.py"):
            assert position(path, order) <= position(name, order)
