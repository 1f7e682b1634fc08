"""The explorer's page in a real browser."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from diskoop.run import load
from tests.helpers.browser import Tab, explored, open_browser
from tests.helpers.media import moving_square, write_film

if TYPE_CHECKING:
    from playwright.sync_api import Browser

RESULT = "#result-figure canvas"


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def video_url(video_run: Path) -> Iterator[str]:
    with explored(video_run) as url:
        yield url


@pytest.fixture
def tab(browser: "Browser", video_url: str) -> Iterator[Tab]:
    tab = Tab(browser, video_url)
    tab.page.click("#play")  # stands still, so that pictures can be compared
    tab.page.eval_on_selector("#scrub", "input => { input.value = 0; input.dispatchEvent(new Event('input')); }")
    yield tab
    assert tab.complaints == []
    tab.page.close()


def test_an_eigenvalue_changes_the_animation(tab: Tab) -> None:
    before = tab.pixels(RESULT)
    tab.page.locator("#spectrum svg").first.locator(".mode.dynamic").last.click()  # farthest from 1, where they crowd
    tab.wait('"factors":[]')
    assert tab.pixels(RESULT) != before
    chosen = json.loads(tab.page.get_attribute("#players", "data-result") or "")["modes"]
    marked = tab.page.locator("#spectrum svg").first.locator('[aria-pressed="true"]').count()
    assert marked == len(chosen)  # a pair is chosen as one
    assert "mode" in tab.page.inner_text("#result-caption")


def test_static_marks_lie_over_dynamic_ones(tab: Tab) -> None:
    for plane in tab.page.locator("#spectrum svg").all():
        kinds = ["static" in (mark.get_attribute("class") or "") for mark in plane.locator(".mode").all()]
        assert kinds == sorted(kinds)  # what comes later is drawn over what came before


def test_shift_adds_and_the_keyboard_chooses(tab: Tab) -> None:
    modes = tab.page.locator("#spectrum svg").first.locator(".mode")
    modes.nth(0).focus()
    assert "eigenvalue" in tab.page.inner_text("#mode-facts")
    tab.page.keyboard.press("Enter")
    tab.wait('"factors":[]')
    first = json.loads(tab.page.get_attribute("#players", "data-result") or "")["modes"]
    modes.nth(3).focus()
    tab.page.keyboard.press("Shift+Enter")
    tab.page.wait_for_function(
        "count => JSON.parse(document.querySelector('#players').dataset.result).modes.length > count", arg=len(first)
    )
    both = json.loads(tab.page.get_attribute("#players", "data-result") or "")["modes"]
    assert set(first) < set(both)


def test_the_slider_goes_from_source_to_donor_and_past_it(tab: Tab) -> None:
    tab.page.click('[data-factor="static"]')
    tab.wait('"static"')
    shown = []
    for amount in ("0", "0.5", "1", "2"):
        tab.page.eval_on_selector(
            "#amount", "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }", amount
        )
        tab.wait(f'"amount":{amount}')
        shown.append(tab.pixels(RESULT))
    assert len(set(shown)) == 4
    assert tab.page.inner_text("#amount-text") == "2"
    tab.page.wait_for_selector(".film-cell canvas")
    assert tab.page.locator(".film-cell").count() == 6


def test_frames_play_and_are_scrubbed(tab: Tab) -> None:
    first = tab.pixels("#receiver-figure canvas")
    tab.page.eval_on_selector("#scrub", "input => { input.value = 5; input.dispatchEvent(new Event('input')); }")
    assert tab.page.inner_text("#frame-number") == "frame 6 of 8"
    assert tab.pixels("#receiver-figure canvas") != first
    tab.page.click("#play")
    tab.page.wait_for_function("() => document.querySelector('#frame-number').textContent !== 'frame 6 of 8'")
    tab.page.click("#play")


def test_clips_are_filtered_paged_and_chosen(tab: Tab) -> None:
    tab.page.select_option("#filters select >> nth=0", "train")
    tab.page.wait_for_selector('[data-clip^="train/"]')
    names = tab.page.locator(".card .name").all_inner_texts()
    tab.page.click("#pages button:last-child")
    tab.page.wait_for_function("first => document.querySelector('.card .name').textContent !== first", arg=names[0])
    tab.page.locator(".card").nth(2).click()
    tab.wait('"donor":"train/26"')
    tab.page.check('input[value="receiver"]')
    tab.page.locator(".card").nth(3).click()
    tab.wait('"receiver":"train/27"')
    tab.page.click("#exchange")
    tab.wait('"receiver":"train/26"')


def test_sampling_keeps_drawing(tab: Tab) -> None:
    tab.page.click('[data-edit="sample"]')
    tab.wait('"kind":"sample"')
    before = tab.pixels(RESULT)
    tab.page.click("#draw")
    tab.wait('"seed":1')
    assert tab.page.input_value("#seed") == "1"
    assert tab.pixels(RESULT) != before
    assert "mixed from" in tab.page.inner_text("#result-caption")


def test_forecasts_go_past_the_clip(tab: Tab) -> None:
    tab.page.click('[data-edit="forecast"]')
    tab.wait('"kind":"forecast"')
    tab.page.fill("#steps", "20")
    tab.page.press("#steps", "Enter")
    tab.wait('"steps":20')
    assert tab.page.inner_text("#frame-number").endswith("of 24")
    tab.page.eval_on_selector("#scrub", "input => { input.value = 20; input.dispatchEvent(new Event('input')); }")
    assert tab.page.inner_text("#frame-number") == "forecast, frame 21 of 24"


def test_the_map_picks_clips(tab: Tab) -> None:
    tab.page.click('[data-panel="map"]')
    tab.page.wait_for_selector("#map .dot", timeout=60_000)
    tab.page.locator("#map .dot").nth(7).dispatch_event("click")
    tab.page.wait_for_function("() => !document.querySelector('#stage').classList.contains('loading')")
    tab.page.locator("#map svg").scroll_into_view_if_needed()
    box = tab.page.locator("#map svg").bounding_box()
    assert box is not None
    left, top, right, bottom = box["x"] + 3, box["y"] + 3, box["x"] + box["width"] - 3, box["y"] + box["height"] - 3
    tab.page.mouse.move(left, top)
    tab.page.mouse.down()
    for x, y in ((right, top), (right, bottom), (left, bottom), (left, top + 10)):
        tab.page.mouse.move(x, y, steps=4)
    tab.page.mouse.up()
    tab.page.wait_for_function("() => document.querySelector('#pages').textContent.includes('picked on the map')")
    assert tab.page.locator("#pages span").inner_text() == "400 picked on the map"


def test_what_is_chosen_survives_a_reload(tab: Tab) -> None:
    tab.page.click('[data-factor="dynamic"]')
    tab.wait('"dynamic"')
    caption = tab.page.inner_text("#result-caption")
    tab.page.reload()
    tab.wait('"dynamic"')
    assert tab.page.inner_text("#result-caption") == caption


def test_files_are_brought_and_bad_ones_refused(tab: Tab, tmp_path: Path) -> None:
    film = write_film(tmp_path / "my walk.gif", moving_square(8))
    tab.page.set_input_files("#file", film)
    tab.wait('"receiver":"uploads/0"')
    assert "my walk.gif" in tab.page.inner_text("#receiver-figure figcaption")
    (tmp_path / "notes.txt").write_text("no film")
    tab.page.set_input_files("#file", tmp_path / "notes.txt")
    tab.page.wait_for_function("() => document.querySelector('#toast').textContent.includes('notes.txt holds')")
    assert tab.page.is_visible("#toast")


def test_results_are_downloaded_and_made_again(tab: Tab, tmp_path: Path) -> None:
    with tab.page.expect_download() as waiting:
        tab.page.click("#downloads >> text=NPZ")
    waiting.value.save_as(tmp_path / "result.npz")
    stored = np.load(tmp_path / "result.npz")["x"]
    assert stored.shape == (8, 3, 32, 32)
    names: dict[str, Any] = {}
    exec(tab.page.inner_text("#python") or tab.page.text_content("#python") or "", names)
    np.testing.assert_array_equal(names["x"], stored)


def test_light_and_dark(tab: Tab) -> None:
    colors = set()
    for _ in range(2):
        colors.add(tab.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        tab.page.click("#theme")
    assert len(colors) == 2


def test_names_are_kept_and_taken_back_in_two_tabs(browser: "Browser", series_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(series_run, tmp_path / "run")
    old = load(run).require_factors().names[0]
    with explored(run) as url:
        tab, other = Tab(browser, url), Tab(browser, url)
        tab.page.click(f'[data-factor="{old}"]')
        tab.wait(f'"{old}"')
        tab.page.click("#start-rename")
        tab.page.fill("#rename-new", "<b>")
        tab.page.press("#rename-new", "Enter")
        tab.page.wait_for_function(
            "() => document.querySelector('#toast').textContent.includes('begins with a letter')"
        )
        tab.page.fill("#rename-new", "tempo")
        tab.page.press("#rename-new", "Enter")
        tab.wait('"tempo"')
        other.page.reload()
        other.page.wait_for_selector('[data-factor="tempo"]')
        assert load(run).require_factors().names[0] == "tempo"
        tab.page.click("#undo")
        tab.page.wait_for_selector(f'[data-factor="{old}"]')
        assert load(run).require_factors().names[0] == old
        assert tab.page.locator("#series .chart").count() == 8  # a chart for each feature
        assert tab.complaints + other.complaints == []
        tab.page.close()
        other.page.close()


def test_sound_is_played(browser: "Browser", sound_run: Path) -> None:
    with explored(sound_run) as url:
        tab = Tab(browser, url)
        seconds = tab.page.eval_on_selector(
            "#result-figure audio",
            """async (audio) => {
                await audio.play();
                await new Promise((resolve) => audio.addEventListener("timeupdate", resolve, { once: true }));
                return audio.duration;
            }""",
        )
        assert 0.3 < seconds < 0.8
        assert tab.page.locator("#receiver-figure img").count() == 1
        assert tab.complaints == []
        tab.page.close()


@pytest.mark.parametrize("width", [1280, 800, 420])
def test_nothing_runs_over_the_edge(browser: "Browser", video_url: str, width: int) -> None:
    tab = Tab(browser, video_url, viewport={"width": width, "height": 900})
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    tab.page.close()
