"""Pipes, devices, odd names and deep JSON are refused before anyone waits for them."""

import os
import socket
from pathlib import Path

import pytest

from diskoop.errors import InputError
from diskoop.input_files import exists, parse_json, read_text, require_regular, require_text
from tests.helpers.cli import at_most


def test_what_is_no_regular_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening, at_most(seconds=5):
        listening.bind(str(tmp_path / "socket"))
        (tmp_path / "link").symlink_to("/dev/zero")
        kinds = {"pipe": "a named pipe", "socket": "a socket", "link": "a device", ".": "a folder"}
        for name, kind in kinds.items():
            with pytest.raises(InputError, match=f"is {kind}, wanted a file"):
                read_text(tmp_path / name)
    with pytest.raises(InputError, match=r"there is no file 'a\\x00b'"):
        require_regular("a\0b")
    with pytest.raises(FileNotFoundError):
        read_text(tmp_path / "missing")
    (tmp_path / "file").write_text("here", encoding="utf-8")
    assert read_text(tmp_path / "file") == "here"


def test_whatever_a_name_holds_it_may_be_asked_for(tmp_path: Path) -> None:
    assert exists(tmp_path)
    assert not any(exists(name) for name in (tmp_path / "missing", "a\0b", "x" * 5000, "\ud800"))


def test_names_that_are_no_text_are_named() -> None:
    require_text("größe → [bold]")
    with pytest.raises(InputError, match=r"'a\\udcffb' holds bytes that are no UTF-8"):
        require_text("a\udcffb")


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000, "9" * 5000, "", "{", "\0"])
def test_json_of_every_damage_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - which one, the readers of files tell
        parse_json(text)
