"""The report: one page that needs no other file, and says what there is to say of a run."""

import base64
import io
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pypdf import PdfReader

from diskoop.analysis.discovery.results import DiscoveredFactor, DiscoveryResult, Kind
from diskoop.analysis.verdict import Verdict
from diskoop.cli import options
from diskoop.errors import InputError, ResourceError
from diskoop.evaluation.results import Column, Key, ModelResults, Results, Table, single_value
from diskoop.numerics.factors import Factor
from diskoop.provenance import Origin, commit
from diskoop.run import Run, load
from diskoop.scores_file import save_scores
from diskoop.settings import Settings
from diskoop.training import loop
from diskoop.web import report
from diskoop.web.figures import Picture
from diskoop.web.markup import Html
from diskoop.web.report import build_report, verdict_sentences, write_report
from tests.helpers.browser import open_browser
from tests.helpers.cli import TINY_OVERRIDES, answer, diskoop
from tests.helpers.media import write_csv
from tests.helpers.training import Quiet

GOOD = Verdict("9 test clips of a set", 0.9, 0.8, 0.1, 0.2, 0.6, 0.4)
POOR = Verdict("9 test clips of a set", 0.1, 0.8, 0.1, 0.2, 0.6, 0.4)
EXTERNAL = {"script", "link", "iframe", "object", "embed", "base", "form"}  # what fetches or runs something
A4_WIDTH = 688  # CSS pixels: 210 mm less margins of 14 mm
REFERENCES = {"src", "href", "xlink:href", "srcset", "data", "poster", "action", "background"}


class Page(HTMLParser):
    """A parsed page: its elements, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.headings: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("img", "meta"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)
        if self.open[-1:] == ["h2"]:
            self.headings.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str, css: str | None = None) -> list[dict[str, str | None]]:
        """The attributes of all elements with this tag and perhaps this class."""
        found = [attributes for name, attributes in self.elements if name == tag]
        return [each for each in found if css is None or css in (each.get("class") or "").split()]


def content(attributes: dict[str, str | None], media_type: str) -> bytes:
    """What the data address of an element holds."""
    address = attributes["src"] or ""
    assert address.startswith(f"data:{media_type};base64,")
    return base64.b64decode(address.partition(",")[2])


def with_factors(run: Run, *names: str) -> Run:
    """The run with one mode a factor, which lose strength; the last is the remainder."""
    spectrum, _ = run.spectrum()
    factors = []
    for number, name in enumerate(names):
        mode = spectrum.select([int(np.flatnonzero(spectrum.eigenvalues.imag == 0)[number % 2])])
        kind: Kind = "remainder" if number == len(names) - 1 else "factor"
        strength = (0.7, 0.2, 0.001, 0.05)[number]
        factors.append(DiscoveredFactor(Factor.from_modes(name, spectrum, mode), 1, strength, 0.875, kind))
    return replace(run, factors=DiscoveryResult(tuple(factors), "by hand", "a set", ("a note on <them>",)))


@pytest.fixture(autouse=True)
def verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a few steps have learnt nothing, yet here their factors count."""
    monkeypatch.setattr(Run, "verdict", lambda self, split=None: GOOD)


@pytest.fixture(scope="module")
def pages(video_run: Path, sound_run: Path, series_run: Path) -> dict[str, str]:
    """Reports on a run of every kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "verdict", lambda self, split=None: GOOD)
        runs = {"video": load(video_run), "sound": load(sound_run), "series": load(series_run)}
        return {kind: build_report(with_factors(run, "hair", "skin", "weak", "rest")) for kind, run in runs.items()}


@pytest.mark.parametrize("kind", ["video", "sound", "series"])
def test_a_page_needs_nothing_else(pages: dict[str, str], kind: str) -> None:
    page = Page(pages[kind])
    assert not page.open  # every element is closed
    assert not EXTERNAL & {tag for tag, _ in page.elements}
    for tag, attributes in page.elements:
        for name in REFERENCES & attributes.keys():
            assert (attributes[name] or "").startswith(("data:", "#")), (tag, name)
        assert not [name for name in attributes if name.startswith("on")]
    assert "://" not in pages[kind]
    assert [each["content"] for each in page.all("meta") if "http-equiv" in each] == [report.POLICY]
    assert "@import" not in pages[kind]
    assert set(re.findall(r"url\((.)", pages[kind])) <= {"#"}
    assert len(pages[kind]) < 10e6


@pytest.mark.parametrize("kind", ["video", "sound", "series"])
def test_it_says_what_there_is_to_say(pages: dict[str, str], kind: str) -> None:
    text = Page(pages[kind]).text
    assert (
        "On 9 test clips of a set the model explains 90% of the variance (PCA of the same size 80%, the mean frame "
        "0%). Good: the model explains about what PCA does or more, and its static part is steady." in text
    )
    headings = ["What was trained on what", "How the training went", "The spectrum", "Factors", "What stays and what"]
    places = [text.index(heading) for heading in [*headings, "Forecasts", "Scores", "To make it again"]]
    assert places == sorted(places)
    assert "seed 0" in text
    assert f"commit {commit()}" in text
    assert "diskoop train -c " in text
    assert "batch_size:" in text  # settings


def test_every_factor_is_named_and_strong_ones_have_pictures(pages: dict[str, str]) -> None:
    page = Page(pages["video"])
    for name in ("hair", "skin", "weak", "rest"):
        assert name in page.texts
    assert "70.0%" in page.text
    assert "strength 70.0%, stability 0.88" in page.text
    assert "a note on <them>." in page.texts
    assert "and a weaker factor below 1%: weak." in page.texts
    edits = [text for text in page.texts if text.startswith("receiver with ")]
    pair = [f"receiver with the {part} part of the donor" for part in ("static", "dynamic")]
    assert edits == ["receiver with hair of the donor", "receiver with skin of the donor", *pair, *pair]


def test_videos_move_and_have_strips_to_print(video_run: Path, pages: dict[str, str]) -> None:
    page = Page(pages["video"])
    moving, strips = page.all("img", "moving"), page.all("img", "strip")
    assert len(moving) == len(strips) == 2 * 5 + 2 * 6
    first = Image.open(io.BytesIO(content(moving[0], "image/webp")))
    assert (getattr(first, "n_frames", 1), first.size) == (8, (32, 32))
    assert Image.open(io.BytesIO(content(strips[0], "image/webp"))).size == (8 * 32, 32)
    run = load(video_run)
    clips = run.data("test")
    named = [text for text in page.texts if re.match(r"puppets \d+: skin ", text)]
    titles = {clips.title(index) for index in range(len(clips))}
    assert len(set(named)) >= 4
    assert set(named) <= titles
    index_of = {clips.title(index): index for index in range(len(clips))}
    shown = np.asarray(first.convert("RGB"))
    original = clips.read([index_of[named[0]]])[0, 0]
    assert np.array_equal(shown, np.moveaxis(original, 0, -1))  # the clip itself, not a drawing


def test_edits_are_the_swaps_that_they_are_called(series_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[list[Picture]] = []

    def collect(pictures: list[Picture]) -> Html:
        rows.append(pictures)
        return Html("")

    monkeypatch.setattr(report, "row_figure", collect)
    run = with_factors(load(series_run), "hair", "rest")
    build_report(run)
    clips = run.data("test")
    index_of = {clips.sequence_name(index): index for index in range(len(clips))}
    for factor, (receiver, drawn, donor, donor_drawn, edit) in zip(("hair", "static", "dynamic"), rows, strict=True):
        indices = [
            index_of[each.title.partition(":")[0]] for each in (rows[1][0], donor if donor.title else rows[1][2])
        ]
        pair = run.decompose(clips.select(indices))
        assert np.array_equal(np.stack([receiver.x, donor.x]), clips.read(indices))
        assert np.allclose(np.stack([drawn.x, donor_drawn.x]), pair.decode(), atol=1e-5)
        assert np.allclose(edit.x, pair.swap(factor, {0: 1}).decode()[0], atol=1e-5)
        assert np.abs(edit.x - drawn.x).max() > 0.01


def test_forecasts_are_marked_where_they_begin(pages: dict[str, str]) -> None:
    marks = [each["style"] for each in Page(pages["video"]).all("i", "mark")]
    assert marks == ["left: 50.00%"] * 4  # two clips of 8 frames, original and forecast after 4
    assert "The model sees the first 4 frames" in Page(pages["video"]).text
    assert "forecast" in Page(pages["series"]).texts  # in the legend


def test_sound_can_be_heard_and_seen(pages: dict[str, str]) -> None:
    page = Page(pages["sound"])
    players = page.all("audio")
    assert len(players) == 2 * 3 + 6 + 2
    assert all(content(each, "audio/wav").startswith(b"RIFF") for each in players)
    assert all("controls" in each and "autoplay" not in each for each in players)
    assert len(page.all("img", "spectrogram")) == 2 * 5 + 6
    assert re.search(r"\d\.wav", page.text)
    assert "0 to 8 kHz upwards" in page.text


def hostile_run(folder: Path) -> Path:
    """A run on tables whose names, labels and columns are HTML."""
    random = np.random.Generator(np.random.PCG64(0))
    for number in range(8):
        columns = {"<b>heat": random.normal(20, 5, 12).cumsum(), "wind & rain": random.normal(0, 900, 12).cumsum()}
        write_csv(folder / "in" / ("<script>alert(1)" if number % 2 else "calm") / f"<img>{number}.csv", columns)
    brief = {"model": {"k": 4, "h": 8}, "spectrum": {"static": 2}, "train": {"epochs": 1, "batch_size": 2}}
    data = {"path": str(folder / "in"), "test_fraction": 0.5}
    loop.train(Settings.of({"data": data, **brief}), folder / "<i>run", reporter=Quiet())
    return folder / "<i>run"


def test_names_are_text_whatever_they_are(tmp_path: Path) -> None:
    page = Page(build_report(load(hostile_run(tmp_path))))
    assert not {"script", "b", "i"} & {tag for tag, _ in page.elements}
    assert len(page.all("img")) == 0
    assert "<script>alert(1)" in page.text
    assert re.search(r"<img>\d\.csv: folder ", page.text)
    assert {"<b>heat", "wind & rain"} <= set(page.texts)  # a panel each
    assert "<i>run: in" in page.text


def test_series_are_drawn_in_the_users_units(pages: dict[str, str]) -> None:
    page = Page(pages["series"])
    assert {f"feature {number}" for number in range(1, 9)} <= set(page.texts)
    assert {"receiver", "receiver, as the model draws it", "donor", "receiver with hair of the donor"} <= set(
        page.texts
    )
    assert len(page.all("svg")) == 3 + 2 + 2 + 1  # curves and spectra, factors, either part, a forecast


def test_without_factors_it_names_the_command_that_finds_them(series_run: Path) -> None:
    text = Page(build_report(replace(load(series_run), factors=None))).text
    assert f"No factors have been looked for yet: diskoop factors {series_run} finds them" in text
    assert "receiver with the static part of the donor" in text


def test_a_poor_model_has_no_factors(series_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "verdict", lambda self, split=None: POOR)
    page = Page(build_report(with_factors(load(series_run), "hair", "rest")))
    assert page.all("p", "verdict")[0]["class"] == "verdict poor"
    assert "Poor: it has not learnt these clips; train longer (train.steps or train.epochs)." in page.text
    assert "No factors are shown: the model explains 10% of the variance where PCA" in page.text
    assert "receiver with hair of the donor" not in page.texts
    assert "receiver with the static part of the donor" in page.texts


def test_a_verdict_has_two_sentences() -> None:
    unsteady = replace(GOOD, within=0.5, static_effect=0.01)
    assert len(unsteady.problems) == 2
    for each in (GOOD, POOR, unsteady, replace(GOOD, within=None)):
        assert [text[0].isupper() and text.endswith(".") for text in verdict_sentences(each)] == [True, True]
    assert verdict_sentences(unsteady)[1].startswith("Poor: 50% of the static part's variance lies within clips, so")


def test_where_nothing_was_held_out_it_says_so(series_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(self: Run, split: str | None = None) -> Verdict:
        raise InputError("no clips of these were held out")

    monkeypatch.setattr(Run, "verdict", nothing)
    text = Page(build_report(load(series_run))).text
    assert "There is no verdict. No clips of these were held out." in text


def write_scores(folder: Path) -> None:
    origin = Origin(0, "demo", "abc", "diskoop evaluate here")
    ours = ModelResults("ours", {Key("sampling", "acc", "paper"): single_value(0.4125)}, origin, ("few clips <3",))
    table = Table("Two factors", [Column("Acc", "sampling", "acc", True, "↑")], rows={"paper": "the paper's way"})
    Results("a run", [ours], [table], ["as asked"]).write(folder / "evaluation")


def test_published_figures_stand_beside_ours(video_run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(video_run, tmp_path / "run"))
    write_scores(copy)
    text = Page(build_report(load(copy))).text
    assert "as their authors print them, on Sprites. Ours are on puppets." in text
    assert "SKD, the paper: the paper's way 100.0%" in text
    assert "ours: the paper's way 41.2%" in text
    assert "C-DSVAE: Berman, Naiman and Azencot (2023), tables 2 and 9" in text
    assert "ours: trained with seed 0, preset demo, commit abc, `diskoop evaluate here`" in text
    assert "ours: few clips <3" in text
    assert "diskoop evaluate here" in text.partition("To make it again")[2]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("faces", "Factors and labels: score 0.928, kept 0.857, floor 0.546"),
        ("puppets", "Factors and labels: score 0.996, kept 1.000, floor 0.578"),
        ("voices", "ours: trained with seed 0, preset sound, data.name=voices"),
    ],
)
def test_the_scores_that_come_with_a_run_are_shown(name: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load(f"pretrained:{name}")
    monkeypatch.setattr(report, "open_data", lambda settings: run.examples())  # the set is not drawn for it
    content = " ".join(report._Page(run).scores())
    assert "Nothing was measured" not in content
    assert wanted in Page(content).text
    assert ("diskoop evaluate pretrained:voices --no-baselines" in content) == (name == "voices")


def test_columns_of_the_table_of_factors_that_are_empty_are_left_out(series_run: Path) -> None:
    factors = with_factors(load(series_run), "hair", "rest").require_factors().factors
    bare = tuple(replace(each, stability=None) for each in factors)
    tables = [Page(report._factor_table(each)).text for each in (factors, bare)]
    assert ["stability" in each for each in tables] == [True, False]
    assert all("strength" in each for each in tables)


def test_own_data_have_no_published_figures(series_run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(series_run, tmp_path / "run"))
    write_scores(copy)
    text = Page(build_report(load(copy))).text
    assert "There are no published figures on these data." in text
    assert "41.2%" in text
    assert "C-DSVAE" not in text
    (copy / "evaluation.json").write_text("{")
    assert "evaluation.json holds no results" in Page(build_report(load(copy))).text


def test_it_appears_whole_or_not_at_all(series_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "build_report", lambda run: "<html></html>")
    path = tmp_path / "out" / "report.html"
    assert write_report(load(series_run), path) == path
    before = path.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(ResourceError, match=r"cannot write .*report\.html"):
        write_report(load(series_run), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.slow
def test_it_prints_on_a4(pages: dict[str, str], tmp_path: Path) -> None:
    """Nothing is wider than the paper, what moves is a strip of its frames, and no page is empty."""
    with open_browser() as browser:
        for kind, html in pages.items():
            file = tmp_path / f"{kind}.html"
            file.write_text(html, encoding="utf-8")
            tab = browser.new_page(viewport={"width": A4_WIDTH, "height": 1000})
            tab.goto(file.as_uri())
            tab.emulate_media(media="print")
            assert tab.evaluate("document.documentElement.scrollWidth") <= A4_WIDTH, kind
            assert tab.locator("img.strip").count() == tab.locator("img.moving").count()
            assert (tab.locator("img.strip").count() > 0) == (kind == "video")
            for selector, is_shown in (("img.strip", True), ("img.moving", False), ("audio", False)):
                assert {each.is_visible() for each in tab.locator(selector).all()} <= {is_shown}, (kind, selector)
            printed = PdfReader(io.BytesIO(tab.pdf(prefer_css_page_size=True)))
            texts = [" ".join(page.extract_text().split()) for page in printed.pages]
            assert [round(float(side) / 72 * 25.4) for side in printed.pages[0].mediabox[2:]] == [210, 297]
            assert min(map(len, texts)) > 0, kind
            headings = Page(html).headings
            assert len(headings) == 8
            for heading in headings:
                assert heading in " ".join(texts), (kind, heading)
            tab.close()


@pytest.mark.slow
def test_the_command(series_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Path(shutil.copytree(series_run, tmp_path / "run"))
    facts = answer("report", "run", cwd=tmp_path)
    assert facts["files"] == [str(Path("run") / "report.html")]
    assert facts["bytes"] == (copy / "report.html").stat().st_size
    assert facts["factors"] == load(copy).require_factors().names
    assert facts["verdict"]["explained"] == 0.9
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    said = diskoop("report", "run", "--out", ".", "--open", cwd=tmp_path)
    assert said.stdout.splitlines()[-1] == "wrote report.html"
    assert opened == [(tmp_path / "report.html").as_uri()]
    assert diskoop("report", "run", "--out", "a/b.html", cwd=tmp_path).returncode == 0
    assert (tmp_path / "a" / "b.html").read_bytes() == (copy / "report.html").read_bytes()  # the same every time


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (lambda run: shutil.rmtree(run), "no run at 'run': there is no such folder"),
        (lambda run: (run / "model.safetensors").unlink(), "the run at 'run' is not finished"),
    ],
)
def test_what_is_no_run_is_one_sentence(prepare: Any, sentence: str, series_run: Path, tmp_path: Path) -> None:
    prepare(Path(shutil.copytree(series_run, tmp_path / "run")))
    said = diskoop("report", "run", cwd=tmp_path)
    assert said.returncode == 2
    assert said.stderr.count("\n") == 1
    assert sentence in said.stderr
    assert not (tmp_path / "run" / "report.html").exists()


def test_training_ends_with_a_report(tmp_path: Path) -> None:
    said = diskoop("train", *TINY_OVERRIDES, "train.epochs=1", "--out", "run", "--json", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout.splitlines()[-1])["files"] == [str(Path("run") / "report.html")]
    text = Page((tmp_path / "run" / "report.html").read_text(encoding="utf-8")).text
    assert "200 train, 180 validate, 400 test" in text
    assert "diskoop factors run finds them" in text


def test_no_report_is_no_reason_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(run: Run) -> Path:
        raise RuntimeError("no room")

    monkeypatch.setattr(report, "write_report", fail)
    said = diskoop("train", *TINY_OVERRIDES, "train.epochs=1", "--out", "run", cwd=tmp_path)
    assert said.returncode == 0
    assert "note: no report on run was written: no room\n" in said.stderr
    assert "Traceback" not in said.stderr
    assert said.stdout.splitlines()[-1].startswith("verdict: ")
    assert options.write_reports(tmp_path / "nowhere") == []


def test_scores_of_factors_are_shown_with_the_model_they_belong_to(series_run: Path, tmp_path: Path) -> None:
    run = load(shutil.copytree(series_run, tmp_path / "run"))
    scores: dict[str, Any] = {
        "labels": ["level", "<i>"],
        "matrix": [[0.987, 0.25], [0.251, 0.1]],
        "chance": [0.25, 0.25],
    }
    scores |= {"clips": 40, "score": 0.871, "kept": None, "floor": 0.578, "classifier": "classifier: level 99.0%"}
    save_scores(run.folder, scores, run.model, run.require_factors())
    stored = json.loads(run.folder.scores.read_text())
    page = Page(build_report(run))
    assert "Factors and labels: score 0.871, floor 0.578" in page.text
    assert all(word in page.text for word in ("0.987", "0.251", "40 test clips", "<i>"))
    for other in (json.dumps(stored | {"factors": "others"}), json.dumps(scores), "{", "[]"):
        run.folder.scores.write_text(other)
        assert report._Page(run)._factor_scores() == []
