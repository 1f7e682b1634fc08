"""the command cache"""

import json
from datetime import datetime
from typing import Annotated

import typer

from diskoop.cli.options import AsJson
from diskoop.errors import InputError


def cache(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Only entries whose names begin like this.")
    ] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove what is listed; it is made again when needed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List what was drawn, decoded or trained once and kept, with sizes; --clear removes it."""
    from diskoop.data.cache import cache_entries
    from diskoop.memory import format_bytes
    from diskoop.storage import cache_folder, discard, sweep
    from diskoop.workflows.console import print_table

    chosen = tuple(names or ("",))
    listed = [entry for entry in cache_entries() if entry.path.name.startswith(chosen)]
    if names and not listed:
        known = ", ".join(entry.path.name for entry in cache_entries()) or "nothing"
        raise InputError(f"no entry of {cache_folder()} begins with {' or '.join(map(repr, names))}; it holds {known}")
    swept = [path for path in sweep(cache_folder()) if path in {entry.path for entry in listed}] if clear else []
    cleared = [entry for entry in listed if clear and (entry.path in swept or not entry.is_temporary)]
    for entry in cleared:
        discard(entry.path)
    total = sum(entry.bytes for entry in listed)
    if as_json:
        facts = [
            {"name": entry.path.name, "bytes": entry.bytes, "modified": entry.modified, "temporary": entry.is_temporary}
            for entry in listed
        ]
        removed = [entry.path.name for entry in cleared]
        print(json.dumps({"folder": str(cache_folder()), "bytes": total, "entries": facts, "cleared": removed}))
        return
    rows = [
        [
            entry.path.name,
            format_bytes(entry.bytes),
            f"{datetime.fromtimestamp(entry.modified):%Y-%m-%d %H:%M}",
            _status(entry.is_temporary, entry in cleared),
        ]
        for entry in listed
    ]
    columns = {"entry": "left", "size": "right", "made": "left", "": "left"}
    if rows:
        print_table(f"{cache_folder()}: {format_bytes(total)}", columns, rows)  # type: ignore[arg-type]
    else:
        print(f"{cache_folder()} holds nothing")


def _status(is_temporary: bool, is_cleared: bool) -> str:
    if is_cleared:
        return "removed"
    return "not finished: being written, or left by a process that was killed" if is_temporary else ""
