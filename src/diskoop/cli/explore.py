"""the command explore"""

from typing import Annotated

import typer

from diskoop.cli.options import Device, RunPath


def explore(
    path: RunPath,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free port.")] = 8137,
    host: Annotated[str, typer.Option(help="The address to listen on; any but this machine's own needs --expose.")] = (
        "127.0.0.1"
    ),
    expose: Annotated[
        bool, typer.Option("--expose", help="Let other machines in, if they know the token that is printed.")
    ] = False,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    device: Device = "auto",
) -> None:
    """See a run in the browser: click eigenvalues and factors, swap, sample, forecast; Ctrl-C ends it."""
    from diskoop.web.server import Explorer
    from diskoop.web.session import Session
    from diskoop.workflows.clips import choose_device

    session = Session(path, choose_device(device))
    try:
        explorer = Explorer(session, host, port, expose)
        print(f"explore {path} at {explorer.url}", flush=True)
        print("Ctrl-C ends it", flush=True)
        explorer.serve(browser)
    finally:
        session.close()
