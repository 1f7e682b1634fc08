"""where workers share a search: SQLite, a journal file or PostgreSQL, and sentences about one that fails"""

import errno
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diskoop.errors import InputError, MissingDependencyError, ResourceError, quoted

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

FORMS = "sqlite:///FILE, journal:FILE or postgresql://USER@HOST/DATABASE"
OPENINGS = 5  # attempts: workers that start together make the same tables
LOCK_SECONDS = 60  # that a worker waits for another one's write
PASSWORDS = (re.compile(r"([?&](?:ssl)?password=)[^&\s]*", re.IGNORECASE), re.compile(r"(://[^:/@]*:)[^@]*(?=@)"))
RECORD = b'{"op_code":'  # how a line of a journal begins


def require_packages() -> None:
    """A MissingDependencyError where the extra `search` is not installed."""
    try:
        import optuna
    except ImportError:
        raise MissingDependencyError("diskoop search needs optuna: pip install 'diskoop[search]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # every trial is told by diskoop itself


def hide_password(storage: str) -> str:
    """A storage's name as it may be shown and written down.

    Example:
        >>> hide_password("postgresql://ann:secret@host/db")
        'postgresql://ann:***@host/db'
        >>> hide_password("postgresql://host/db?user=ann&password=secret")
        'postgresql://host/db?user=ann&password=***'
    """
    for password in PASSWORDS:
        storage = password.sub(r"\1***", storage)
    return storage


def open_storage(name: str) -> "BaseStorage":
    """Open a storage, or make it.

    Args:
        name: one of FORMS.

    Raises:
        InputError: it has another form, or cannot be opened.
        ResourceError: the disk is full.
    """
    scheme, _, place = name.partition(":")
    if scheme == "journal" and place:
        return _opened(name, lambda: _open_journal(Path(place)))
    if scheme == "sqlite" and place.startswith("///") and place != "///":
        return _opened(name, lambda: _open_sqlite(Path(place[3:])))
    if scheme in ("postgresql", "postgres") and place.startswith("//"):
        return _opened(name, lambda: _open_postgresql(f"postgresql+psycopg:{place}"))
    raise InputError(f"unknown storage {quoted(hide_password(name))}; wanted {FORMS}")


def _opened(name: str, opening: Any) -> "BaseStorage":
    for attempt in range(OPENINGS):
        try:
            with _translated():
                storage: BaseStorage = opening()
            _translate_errors(storage)
            storage.get_all_studies()
            return storage
        except ImportError as error:
            raise MissingDependencyError(
                f"{hide_password(name)} needs {error.name}: pip install 'diskoop[search]'"
            ) from None
        except failures() as error:
            if (full := _is_full(error)) or attempt == OPENINGS - 1:
                sentence = f"the storage {quoted(hide_password(name))} cannot be opened: {_reason(error)}"
                raise (ResourceError if full else InputError)(sentence) from None
            time.sleep(0.1 * 2**attempt)
    raise AssertionError


def failures() -> tuple[type[Exception], ...]:
    """What an opened storage raises where it fails; its other errors are answers."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    return StorageInternalError, SQLAlchemyError


@contextmanager
def _translated() -> Iterator[None]:
    """Turn what Python raises into one of `failures`.

    A journal passes on whatever happens to it: a RuntimeError where its lock was taken away, a ValueError, KeyError,
    TypeError or AttributeError for a damaged line. They are turned where they arise: later they could be a training's.
    """
    from optuna.exceptions import OptunaError, StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (OptunaError, SQLAlchemyError, ImportError):
        raise
    except Exception as error:
        raise StorageInternalError(str(error)) from error


def _translate_errors(storage: "BaseStorage") -> None:
    from optuna.storages import BaseStorage

    for name in vars(BaseStorage):
        if not name.startswith("_"):
            setattr(storage, name, _translated()(getattr(storage, name)))


def _open_journal(path: Path) -> "BaseStorage":
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    path = path.expanduser().absolute()
    path.parent.mkdir(parents=True, exist_ok=True)

    class Lock(JournalFileOpenLock):
        """Whoever has it finds whole lines: one that a killed worker has begun would spoil the next."""

        def acquire(self) -> bool:
            super().acquire()
            try:
                _cut_torn_line(path)
            except BaseException:
                self.release()
                raise
            return True

    return JournalStorage(JournalFileBackend(str(path), Lock(str(path))))


def _cut_torn_line(journal: Path) -> None:
    """Remove a last line that has no end. Nobody has read it: lines count when they are whole."""
    with journal.open("rb+") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return
        file.seek(-1, os.SEEK_END)
        if file.read() == b"\n":
            return
        file.seek(0)
        content = file.read()
        start = content.rfind(b"\n") + 1
        if content[start:].startswith(RECORD[: len(content) - start]):  # else it is no journal
            file.truncate(start)


def _open_sqlite(path: Path) -> "BaseStorage":
    from optuna.storages import RDBStorage
    from sqlalchemy import event

    path = path.expanduser().absolute()
    path.parent.mkdir(parents=True, exist_ok=True)

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(path, timeout=LOCK_SECONDS, check_same_thread=False)  # a pool hands connections round

    # Not as part of the URL, in which ?, % and braces would mean something, differently from version to version.
    storage = RDBStorage("sqlite:///search.db", engine_kwargs={"creator": connect})

    # SQLite has no locks of rows. What is read and then written in one transaction must not change in between, or two
    # workers would take the same trial: so every transaction has the file for itself.
    def unmanaged(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None

    def immediate(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(storage.engine, "connect", unmanaged)
    event.listen(storage.engine, "begin", immediate)
    storage.engine.dispose()  # connections from before
    return storage


def _open_postgresql(url: str) -> "BaseStorage":
    import psycopg  # noqa: F401 - a missing driver is told here
    from optuna.storages import RDBStorage

    return RDBStorage(url, engine_kwargs={"pool_pre_ping": True, "connect_args": {"connect_timeout": 10}})


@contextmanager
def storage_errors(name: str) -> Iterator[None]:
    """Turn the failure of a storage in use into a ResourceError: a trial that was begun is taken up again."""
    try:
        yield
    except failures() as error:
        raise ResourceError(
            f"the storage {quoted(hide_password(name))} fails: {_reason(error)}; the same command goes on"
        ) from None


def _innermost(error: BaseException) -> BaseException:
    while (cause := error.__cause__ or getattr(error, "orig", None)) is not None:
        error = cause
    return error


def _is_full(error: BaseException) -> bool:
    """Whether the disk of a file of SQLite or of a journal is full."""
    inner = _innermost(error)
    is_sqlite = isinstance(inner, sqlite3.Error) and getattr(inner, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return is_sqlite or (isinstance(inner, OSError) and inner.errno in (errno.ENOSPC, errno.EDQUOT))


def _reason(error: BaseException) -> str:
    """The innermost error in one line."""
    text = " ".join(str(_innermost(error)).split())
    return hide_password(text) or type(error).__name__
