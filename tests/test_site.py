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
OUTSIDE = re.compile(r"(https?:)?//")

pytestmark = pytest.mark.slow  # building takes ten seconds of a core, as API pages import the whole package


class References(HTMLParser):
    """Every address in a page, and where its links go."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.addresses: set[str] = set()
        self.links: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {value for name, value in attrs if name in ("src", "href", "srcset", "data", "action") and value}
        self.addresses |= found
        self.links |= {address.partition("#")[0] for address in found if tag == "a"}


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


def test_no_page_refers_to_anything_outside(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        assert not set(filter(OUTSIDE.match, References(page).addresses)), page
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
