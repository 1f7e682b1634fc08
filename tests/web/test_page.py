"""The explorer's page in a real browser."""

import base64
import csv
import json
import math
import re
import shutil
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from diskoop.run import load
from diskoop.training import loop
from diskoop.web.media import seconds
from tests.helpers.browser import Tab, explored, open_browser
from tests.helpers.media import moving_square, write_film
from tests.helpers.training import SMALL, Quiet

if TYPE_CHECKING:
    from playwright.sync_api import Browser

RESULT = "#result-figure canvas"
# The middle of an element that nothing covers there; null where all have something above them.
UNCOVERED = """(nodes) => {
  for (const node of nodes) {
    node.scrollIntoView({ block: "nearest" });
    const box = node.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    const label = node.getAttribute("aria-label");
    if (node.contains(document.elementFromPoint(x, y))) return { x, y, label, ...node.dataset };
  }
  return null;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def video_url(video_run: Path) -> Iterator[str]:
    with explored(video_run) as url:
        yield url


@pytest.fixture(scope="module")
def series_url(series_run: Path) -> Iterator[str]:
    with explored(series_run) as url:
        yield url


@pytest.fixture(scope="module")
def series(browser: "Browser", series_url: str) -> Iterator[Tab]:
    """A page of a run with factors, as whoever had it last left it."""
    tab = Tab(browser, series_url)
    yield tab
    assert tab.complaints == []
    tab.page.close()


@pytest.fixture(scope="module")
def sound(browser: "Browser", sound_run: Path) -> Iterator[Tab]:
    """A page of a run on sound, as whoever had it last left it."""
    with explored(sound_run) as url:
        tab = Tab(browser, url)
        yield tab
        assert tab.complaints == []
        tab.page.close()


def modes_of(tab: Tab) -> list[dict[str, Any]]:
    """What the page knows of the run's modes."""
    modes: list[dict[str, Any]] = tab.page.evaluate("async () => (await (await fetch('/api/run')).json()).modes")
    return modes


def edit_of(tab: Tab) -> dict[str, Any]:
    """The edit whose result is shown."""
    edit: dict[str, Any] = json.loads(tab.page.get_attribute("#players", "data-result") or "")
    return edit


def pressed_modes(tab: Tab) -> set[int]:
    pressed = tab.page.locator('#spectrum [aria-pressed="true"]').all()
    return {int(mark.get_attribute("data-mode") or -1) for mark in pressed}


def point_at(tab: Tab, selector: str) -> dict[str, Any]:
    """Move the mouse onto the first element that nothing covers; its place, label and data."""
    place: dict[str, Any] = tab.page.locator(selector).evaluate_all(UNCOVERED)
    tab.page.mouse.move(place["x"], place["y"])
    return place


def click(tab: Tab, selector: str, shift: bool = False) -> dict[str, Any]:
    """Click with the mouse as a hand does, and tell what was clicked."""
    place = point_at(tab, selector)
    if shift:
        tab.page.keyboard.down("Shift")
    tab.page.mouse.click(place["x"], place["y"])
    if shift:
        tab.page.keyboard.up("Shift")
    return place


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
    clip = click(tab, "#map .dot:nth-of-type(n + 8)")["label"]
    tab.page.wait_for_function(
        "text => document.querySelector('#donor-figure figcaption').textContent === text", arg=clip.replace(", ", " · ")
    )
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
        for each in (tab, other):
            each.page.reload()
            each.page.wait_for_selector('[data-factor="tempo"]')
        tab.wait('"factors":["tempo"]')  # what was chosen is chosen by its new name
        assert load(run).require_factors().names[0] == "tempo"
        tab.page.click("#undo")
        tab.page.wait_for_selector(f'[data-factor="{old}"]')
        assert load(run).require_factors().names[0] == old
        assert tab.page.locator("#series .chart").count() == 8  # a chart for each feature
        assert tab.complaints + other.complaints == []
        tab.page.close()
        other.page.close()


def test_sound_is_played(sound: Tab) -> None:
    length = sound.page.eval_on_selector(
        "#result-figure audio",
        """async (audio) => {
            await audio.play();
            await new Promise((resolve) => audio.addEventListener("timeupdate", resolve, { once: true }));
            return audio.duration;
        }""",
    )
    assert 0.3 < length < 0.8
    assert sound.page.locator("#receiver-figure img").count() == 1


@pytest.mark.parametrize("width", [1280, 800, 420])
def test_nothing_runs_over_the_edge(browser: "Browser", video_url: str, width: int) -> None:
    tab = Tab(browser, video_url, viewport={"width": width, "height": 900})
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    tab.page.close()


# --- eigenvalues and factors


def turning(modes: list[dict[str, Any]]) -> str:
    """A selector of the dynamic modes that come in pairs."""
    halves = [mode["index"] for mode in modes if len(mode["pair"]) == 2 and not mode["static"]]
    return ", ".join(f'#spectrum svg:first-child [data-mode="{index}"]' for index in halves)


def test_pointing_at_an_eigenvalue_tells_what_it_does(series: Tab) -> None:
    modes = modes_of(series)
    index = int(point_at(series, turning(modes))["mode"])
    mode = modes[index]
    value = complex(mode["re"], mode["im"])
    period, half_life = 2 * math.pi / abs(np.angle(value)), math.log(0.5) / math.log(abs(value))
    told = series.page.inner_text("#mode-facts")
    assert told.startswith(f"eigenvalue {index}: ")
    numbers = [float(word) for word in re.findall(r"-?[\d.]+", told.partition(": ")[2])]
    assert numbers[:5] == pytest.approx([value.real, abs(value.imag), abs(value), period, half_life], rel=5e-3)
    largest = max(mode["factors"], key=mode["factors"].get)
    assert re.search(rf"(factor|mostly|most of it) {largest}", told)


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ({"hair": 0.97}, "factor hair"),
        ({"hair": 0.62, "skin": 0.38}, "mostly hair (62%)"),
        ({"hair": 1.5, "skin": 0.5}, "mostly hair (75%)"),  # another has a negative share
        ({"hair": 0.4, "skin": 0.35, "top": 0.25}, "shared, most of it hair (40%)"),
    ],
)
def test_a_mode_names_its_factor_even_where_several_share_it(
    series: Tab, factors: dict[str, float], words: str
) -> None:
    mode = {"index": 0, "re": 1, "im": 0, "modulus": 1, "period": None, "half_life": None, "factors": factors}
    told = series.page.evaluate("async mode => (await import('/page/spectrum.js')).describe(mode)", mode)
    assert told.endswith(f", {words}")


def test_a_click_on_half_a_pair_chooses_both_and_shift_adds_another(series: Tab) -> None:
    modes = modes_of(series)
    pair = modes[int(click(series, turning(modes))["mode"])]["pair"]
    series.wait(f'"modes":[{",".join(map(str, pair))}]')
    assert pressed_modes(series) == set(edit_of(series)["modes"]) == set(pair)
    others = [mode for mode in modes if mode["index"] not in pair]
    selector = ", ".join(f'#spectrum svg:first-child [data-mode="{mode["index"]}"]' for mode in others)
    both = sorted({*pair, *modes[int(click(series, selector, shift=True)["mode"])]["pair"]})
    series.wait(f'"modes":[{",".join(map(str, both))}]')
    assert pressed_modes(series) == set(both)


def test_shift_click_adds_a_factor_and_takes_it_away(series: Tab) -> None:
    first = click(series, "#factors [data-factor]")["factor"]
    series.wait(f'"factors":["{first}"]')
    second = click(series, f'#factors [data-factor]:not([data-factor="{first}"])', shift=True)["factor"]
    series.wait(f'"factors":["{first}","{second}"]')
    assert [
        chip.get_attribute("data-factor") for chip in series.page.locator('#factors [aria-pressed="true"]').all()
    ] == [first, second]
    click(series, f'#factors [data-factor="{first}"]', shift=True)
    series.wait(f'"factors":["{second}"]')


def test_tab_reaches_eigenvalues_factors_and_clips(series: Tab) -> None:
    page = series.page
    page.focus("#theme")  # stands before them
    page.evaluate("""() => {
        window.reached = [];
        addEventListener("focusin", ({ target }) => {
            const ring = getComputedStyle(target.id === "file" ? target.nextElementSibling : target).outlineStyle;
            window.reached.push({ id: target.id, ring, ...target.dataset });
        });
    }""")
    for _ in range(100):
        page.keyboard.press("Tab")
        if page.evaluate("reached.at(-1)?.clip"):
            break
    reached = page.evaluate("reached")
    modes = len(modes_of(series))
    assert {int(each["mode"]) for each in reached if "mode" in each} == set(range(modes))
    chips = page.locator("#factors [data-factor]").evaluate_all("chips => chips.map(chip => chip.dataset.factor)")
    assert [each["factor"] for each in reached if "factor" in each] == chips
    (upload,) = [each for each in reached if each["id"] == "file"]
    assert upload["ring"] == "solid"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    series.wait(f'"donor":"{page.evaluate("reached.at(-1).clip")}"')


def test_tabs_tell_what_they_control(series: Tab) -> None:
    for tab in series.page.locator("[role=tab]").all():
        tab.click()
        panel = series.page.locator(f"#{tab.get_attribute('aria-controls')}")
        assert panel.get_attribute("role") == "tabpanel"
        assert panel.get_attribute("aria-labelledby") == tab.get_attribute("id")
        assert panel.is_visible()
    series.page.click("#tab-gallery")
    series.page.click("#tab-swap")


# --- series and sound


def test_the_way_of_a_series_is_drawn_to_one_scale(series: Tab) -> None:
    click(series, '[data-factor="static"]')
    series.wait('"factors":["static"]')
    series.page.wait_for_function("() => document.querySelectorAll('.film-cell svg').length === 6")
    lines = series.page.locator(".film-cell .feature-0").all()
    points = [(line.get_attribute("points") or "").split() for line in lines]
    heights = np.array([[float(pair.split(",")[1]) for pair in each] for each in points])
    assert heights.min() == pytest.approx(2)  # the extremes of all six touch the edges, those of each do not
    assert heights.max() == pytest.approx(58)
    assert (np.ptp(heights, axis=1) < 56).any()


def save(tab: Tab, suffix: str, path: Path) -> Path:
    """Download the result as a file."""
    with tab.page.expect_download() as waiting:
        tab.page.click(f"#downloads >> text={suffix.upper()}")
    waiting.value.save_as(path / f"result.{suffix}")
    return path / f"result.{suffix}"


def test_series_are_downloaded_as_a_table(series: Tab, tmp_path: Path) -> None:
    x = np.load(save(series, "npz", tmp_path))["x"]
    with save(series, "csv", tmp_path).open(encoding="utf-8", newline="") as file:
        heading, *rows = csv.reader(file)
    assert x.shape == (24, 8)
    assert heading == ["frame", *(f"feature {number}" for number in range(1, 9))]
    np.testing.assert_allclose(np.array(rows, float)[:, 1:], x, rtol=1e-6)


def test_the_forecast_of_a_series_begins_at_a_mark(series: Tab) -> None:
    series.page.click("#tab-forecast")
    series.wait('"kind":"forecast"')
    for observed in (12, 6):  # half of its 24 frames by default
        marks = series.page.locator("#series .chart .mark")
        assert marks.count() == 8
        share = marks.first.evaluate("""mark => {
            const line = mark.parentNode.querySelector("path.result").getBBox();
            return (mark.getBBox().x - line.x) / line.width;
        }""")
        assert share == pytest.approx((observed - 0.5) / 23, abs=5e-3)
        series.page.fill("#observed", "6")
        series.page.press("#observed", "Enter")
        series.wait('"observed":6')
    series.page.click("#tab-swap")
    series.wait('"kind":"swap"')
    assert series.page.locator("#series .chart .mark").count() == 0


def test_receiver_result_and_donor_are_heard_as_themselves(sound: Tab) -> None:
    edit = edit_of(sound)
    sources = sound.page.locator("#players audio").evaluate_all("players => players.map(player => player.src)")
    heard = [json.loads(parse_qs(urlsplit(source).query)["edit"][0]) for source in sources]
    originals = [{"kind": "original", "receiver": edit[role]} for role in ("receiver", "donor")]
    assert edit["receiver"] != edit["donor"]
    assert heard == [originals[0], edit, originals[1]]
    lengths = sound.page.locator("#players audio").evaluate_all("""players => Promise.all(players.map(
        player => new Promise(resolve => {
            player.addEventListener("loadedmetadata", () => resolve(player.duration));
            player.load();
            player.preload = "metadata";
        })))""")
    assert len(lengths) == 3
    assert min(lengths) > 0.3


def test_sound_is_downloaded(sound: Tab, tmp_path: Path) -> None:
    frames = len(np.load(save(sound, "npz", tmp_path))["x"])
    with wave.open(str(save(sound, "wav", tmp_path))) as file:
        assert (file.getframerate(), file.getnchannels()) == (16_000, 1)
        assert file.getnframes() / 16_000 == pytest.approx(seconds(frames))
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    assert samples.any()


def test_the_forecast_of_sound_begins_at_a_mark(sound: Tab) -> None:
    assert not sound.page.is_visible("#result-figure .mark")
    sound.page.click("#tab-forecast")
    sound.wait('"kind":"forecast"')
    sound.page.fill("#observed", "10")
    sound.page.fill("#steps", "30")
    sound.page.press("#steps", "Enter")
    sound.wait('"observed":10,"steps":30')
    share = sound.page.eval_on_selector(
        "#result-figure .mark",
        """mark => {
            const picture = mark.parentNode.getBoundingClientRect();
            return (mark.getBoundingClientRect().x - picture.x) / picture.width;
        }""",
    )
    assert share == pytest.approx(10 / 40, abs=0.005)
    assert not sound.page.is_visible("#receiver-figure .mark")
    sound.page.click("#tab-swap")
    sound.wait('"kind":"swap"')


# --- files that are dropped, and trainings that go on


def test_a_file_is_dropped_onto_the_page(tab: Tab, tmp_path: Path) -> None:
    film = write_film(tmp_path / "walk.gif", moving_square(8))
    files = tab.page.evaluate_handle(
        """content => {
            const transfer = new DataTransfer();
            const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
            transfer.items.add(new File([bytes], "dropped.gif"));
            return transfer;
        }""",
        base64.b64encode(film.read_bytes()).decode(),
    )
    tab.page.dispatch_event("#stage", "dragenter", {"dataTransfer": files})
    assert tab.page.is_visible("#drop")
    tab.page.dispatch_event("#stage", "drop", {"dataTransfer": files})
    tab.wait('"receiver":"uploads/')
    assert not tab.page.is_visible("#drop")
    assert tab.page.inner_text("#receiver-figure figcaption") == "dropped.gif"


def test_without_its_data_a_run_still_takes_what_is_brought(series: Tab, tmp_path: Path) -> None:
    page = series.page
    gone = {"splits": {}, "labels": {}, "problem": "there is no folder 'in'"}
    page.route("**/api/splits*", lambda route: route.fulfill(json=gone))
    page.goto(urlsplit(page.url)._replace(fragment="").geturl())
    page.reload()
    page.wait_for_selector("#gallery .empty")
    assert page.inner_text("#gallery") == "there is no folder 'in'. A file of yours can still be taken apart."
    assert not page.is_visible("#stage")
    assert page.locator("#filters select").count() == 0
    page.unroute("**/api/splits*")
    np.save(tmp_path / "mine.npy", np.random.default_rng(0).normal(size=(2, 24, 8)))
    page.set_input_files("#file", tmp_path / "mine.npy")
    page.wait_for_selector("#series .chart")
    assert page.locator(".card").count() == 2


def test_the_panel_of_a_training_has_curves_eigenvalues_and_swaps(series: Tab) -> None:
    page = series.page
    page.click("#tab-training")
    page.wait_for_selector("#swaps .thumb")
    shown = progress(series)
    assert set(shown["points"]) == {2}  # epochs
    assert len(shown["swaps"]) == 9  # three pairs: receiver, result, donor
    assert page.locator("#training-spectrum svg").first.locator(".mode").count() == len(modes_of(series))
    facts = page.evaluate("async () => await (await fetch('/api/training')).json()")
    facts["rows"].append({**facts["rows"][-1], "step": 999})
    page.route("**/api/training*", lambda route: route.fulfill(json=facts))
    page.click("#tab-training")
    page.wait_for_function("() => document.querySelector('#training-facts').textContent.includes('3 validations')")
    assert set(progress(series)["points"]) == {3}
    page.unroute("**/api/training*")


@pytest.fixture
def unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was interrupted after its first validation."""
    monkeypatch.setattr(loop, "MAX_SAVE_FRACTION", 1e9)  # a checkpoint whenever one is due
    with pytest.raises(MemoryError):
        loop.train(SMALL.replaced({"loss": {"cycle": 0}}), tmp_path / "run", reporter=Quiet(crash_at=11))
    return tmp_path / "run"


def progress(tab: Tab) -> dict[str, Any]:
    """What the panel of a training shows: numbers in each curve, places of eigenvalues, swaps."""
    shown: dict[str, Any] = tab.page.evaluate("""() => ({
        points: [...document.querySelectorAll("#curves .line.result")].map(
            (line) => line.getAttribute("d").split(/[ML]/).length - 1),
        spectrum: document.querySelector("#training-spectrum svg").innerHTML,
        swaps: [...document.querySelectorAll("#swaps .thumb")].map((cell) => cell.innerHTML),
    })""")
    return shown


def follow(tab: Tab, train: Callable[[], object], ask: Callable[[], object]) -> dict[str, Any]:
    """What the panel of a training shows after it has grown, while the run was trained on."""
    tab.page.click("#tab-training")
    tab.page.wait_for_selector("#swaps .thumb")
    before = progress(tab)
    assert set(before["points"]) == {1}
    assert len(before["swaps"]) == 9  # three pairs: receiver, result, donor
    train()
    ask()
    tab.page.wait_for_function(
        "before => document.querySelectorAll('#swaps .thumb')[1].innerHTML !== before", arg=before["swaps"][1]
    )
    after = progress(tab)
    assert after["spectrum"] != before["spectrum"]
    # Receivers and donors are given and stay as they are (their lines may be drawn to another scale); results change.
    assert all(old != new for old, new in zip(before["swaps"][1::3], after["swaps"][1::3], strict=True))
    return after


@pytest.mark.slow
def test_a_training_is_seen_to_go_on(browser: "Browser", unfinished: Path) -> None:
    def train() -> None:
        with pytest.raises(MemoryError):
            loop.resume(unfinished, reporter=Quiet(crash_at=21))

    with explored(unfinished) as url:
        tab = Tab(browser, url)

        def ask() -> None:
            tab.page.evaluate(
                "() => { for (let timer = 0; timer < 1000; timer++) clearTimeout(timer); }"
            )  # the watch's
            tab.page.click("#tab-training")

        after = follow(tab, train, ask)
        assert set(after["points"]) == {2}
        assert "Training goes on; pictures follow its checkpoints. 2 val" in tab.page.inner_text("#training-facts")
        assert tab.complaints == []
        tab.page.close()


@pytest.mark.slow
def test_a_training_is_watched_to_its_end(browser: "Browser", unfinished: Path) -> None:
    with explored(unfinished) as url:
        tab = Tab(browser, url)
        after = follow(tab, lambda: loop.resume(unfinished, reporter=Quiet()), ask=lambda: None)  # the page asks itself
        assert set(after["points"]) == {3}
        assert tab.page.inner_text("#training-facts") == "Trained to its end. 3 validations."
        assert tab.complaints == []
        tab.page.close()
