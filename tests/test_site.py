"""The documentation site is built without warnings, holds every page, and asks for nothing from elsewhere."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.helpers.browser import open_browser

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [path.relative_to(DOCS) for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts]
# What a browser fetches by itself; a link in the text waits for a click.
FETCHED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "video": "src", "link": "href"}

pytestmark = pytest.mark.slow  # building takes ten seconds of a core, as API pages import the whole package


class References(HTMLParser):
    """What a page fetches, and where its links go."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.fetched: set[str] = set()
        self.links: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if address := values.get(FETCHED.get(tag, "")):
            self.fetched.add(address)
        if tag == "a" and (address := values.get("href")):
            self.links.add(address.partition("#")[0])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "html"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return out


def test_every_page_is_in_the_contents(site: Path) -> None:
    contents = References(site / "index.html").links
    missing = {page.as_posix() for page in PAGES if page.with_suffix(".html").as_posix() not in contents}
    assert missing == {"index.md"}  # which is the contents itself, under its anchor


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        outside = {address for address in References(page).fetched if re.match(r"(https?:)?//", address)}
        assert not outside, page
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"""(url\(|@import)\s*["']?(https?:)?//""", text), style


def test_a_browser_asks_for_local_files_only(site: Path) -> None:
    asked: list[str] = []
    with open_browser() as browser:
        tab = browser.new_page()
        tab.on("request", lambda request: asked.append(request.url))
        for name in ("index.html", "tutorial/tour.html", "method.html", "api/numerics.html", "search.html"):
            tab.goto((site / name).as_uri())
    assert len(asked) > 5
    assert all(address.startswith(("file:", "data:")) for address in asked)


def test_links_between_pages_lead_somewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        for link in References(page).links:
            if link and not re.match(r"[a-z]+:", link):
                assert (page.parent / link).exists(), f"{page} links to {link}"


def test_what_users_hold_is_documented(site: Path) -> None:
    import diskoop

    text = "".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    documented = set(re.findall(r'id="diskoop\.(?:numerics\.)?(\w+)"', text))
    assert set(diskoop.__all__) - {"numerics"} <= documented
    assert set(diskoop.numerics.__all__) <= documented
