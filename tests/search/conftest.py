"""Storages that workers share: a file of SQLite, a journal, a database of a real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from diskoop.search.storage import require_packages
from tests.helpers.postgres import binaries, server

require_packages()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a database on a server that these tests start and stop."""
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed: no initdb and pg_ctl")
    with server() as url:
        yield url


STORAGES = ("sqlite", "journal", "postgresql")


@pytest.fixture(params=STORAGES)
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The name of a storage; tests that share the server's give their searches names of their own."""
    return storage(request, tmp_path)


@pytest.fixture(params=[pytest.param(each, marks=[pytest.mark.slow] * (each != "journal")) for each in STORAGES])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same, where the journal stands for all of them in quick tests."""
    return storage(request, tmp_path)


def storage(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "postgresql":
        url: str = request.getfixturevalue("postgres")
        return url
    return f"sqlite:///{folder}/search.db" if request.param == "sqlite" else f"journal:{folder}/search.log"
