"""A PostgreSQL server of our own, in a temporary folder, behind a socket that nobody else sees."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OWNER = "nobody"  # the server refuses to run as root


def binaries() -> Path | None:
    """The folder of initdb and pg_ctl; None where PostgreSQL is not installed."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


@contextmanager
def server() -> Iterator[str]:
    """The URL of a database of a server that is stopped at the end."""
    programs = binaries()
    assert programs is not None
    home = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # short: the path of a socket has 107 characters at most
    user = OWNER if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(home, user)

    def call(program: str, *words: str) -> None:
        subprocess.run([programs / program, *words], check=True, user=user, cwd=home, stdout=subprocess.DEVNULL)

    try:
        call("initdb", "-D", f"{home}/data", "-U", "tester", "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
        options = f"-k {home} -c listen_addresses='' -c fsync=off"
        call("pg_ctl", "-D", f"{home}/data", "-l", f"{home}/log", "-o", options, "-w", "start")
        try:
            yield f"postgresql://tester@/postgres?host={home}"
        finally:
            call("pg_ctl", "-D", f"{home}/data", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(home)
