"""A real browser, and explorers for it to open."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from diskoop.web.server import Explorer
from diskoop.web.session import Session

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--autoplay-policy=no-user-gesture-required",
]  # fmt: skip


@contextmanager
def open_browser() -> Iterator["Browser"]:
    """The system's Chromium without a window; the test is skipped where there is none."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=OPTIONS)
        yield browser
        browser.close()


@contextmanager
def explored(run: str | Path) -> Iterator[str]:
    """The address of an explorer of a run, which ends with the block."""
    session = Session(run)
    explorer = Explorer(session)
    thread = threading.Thread(target=explorer.serve)
    thread.start()
    try:
        yield explorer.url
    finally:
        explorer.stop()
        thread.join(30)
        session.close()


class Tab:
    """A page of an explorer; whatever it complains about fails the test at its end."""

    def __init__(self, browser: "Browser", url: str, **options: Any) -> None:
        self.page: Page = browser.new_page(**options)
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda message: self._listen(message.type, message.text))
        self.page.on("request", lambda request: self._check_address(request.url, url))
        self.page.goto(url)
        self.wait()

    def _listen(self, kind: str, text: str) -> None:
        if kind == "error" and "status of 422" not in text:  # refusals are told on the page
            self.complaints.append(text)

    def _check_address(self, address: str, url: str) -> None:
        if not address.startswith((url, "data:", "blob:")):
            self.complaints.append(f"asked for {address}")

    def wait(self, edit: str = "") -> None:
        """Wait until the result of an edit whose JSON has `edit` in it is shown."""
        self.page.wait_for_function(
            "text => (document.querySelector('#players').dataset.result ?? '').includes(text || '{')"
            " && !document.querySelector('#stage').classList.contains('loading')",
            arg=edit,
        )

    def pixels(self, selector: str) -> str:
        """What a canvas shows, as text."""
        shown: str = self.page.eval_on_selector(selector, "canvas => canvas.toDataURL()")
        return shown
