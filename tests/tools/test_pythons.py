"""The Pythons of a machine are found by what they say of themselves."""

import sys
from pathlib import Path

import pytest

from tools import pythons


def test_this_python_is_found() -> None:
    lowest = pythons.lowest_version()
    assert lowest >= (3, 11)
    found = pythons.find_pythons(lowest, fetch=False)
    assert found[sys.version_info[:2]] == Path(sys.executable)
    assert all(version >= lowest for version in found)


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_what_is_no_python_is_none(tmp_path: Path) -> None:
    assert pythons.ask_version(tmp_path / "missing") is None
    for answer in ("nonsense", '[[3, 12, 0], "pypy", "here"]'):
        odd = tmp_path / "python"
        odd.write_text(f"#!/bin/sh\necho '{answer}'\n")
        odd.chmod(0o755)
        assert pythons.ask_version(odd) is None
    odd.write_text('#!/bin/sh\necho \'[[3, 12, 0], "cpython", "here"]\'\n')
    assert pythons.ask_version(odd) == (3, 12)
