"""report.html: a run on one self-contained page, with its verdict, curves, factors, swaps, forecasts and scores"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

import diskoop
from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery.results import COLUMNS, DiscoveredFactor
from diskoop.analysis.sheets import RECONSTRUCTED, factor_text
from diskoop.analysis.verdict import Verdict
from diskoop.data import load_split, open_data
from diskoop.data.sequences import SPLIT_NAMES, Sequences, SplitName
from diskoop.errors import InputError
from diskoop.evaluation.results import Key, ModelResults, Table, TableRow, merge_notes, read_results
from diskoop.numerics.factors import SPECTRAL_PARTS
from diskoop.plots.curves import curves_figure
from diskoop.plots.sequences import MAX_LEGEND_FEATURES
from diskoop.plots.spectra import gap_figure, spectrum_figure
from diskoop.plots.style import figure_svg
from diskoop.provenance import Origin, commit, nearest_preset
from diskoop.run import Run
from diskoop.run_folder import read_metrics
from diskoop.scores_file import load_scores
from diskoop.storage import write_text
from diskoop.training.estimate import format_duration
from diskoop.web.figures import MAX_FRAMES, Picture, Role, axes_text, forecast_figure, row_figure, svg_figure
from diskoop.web.markup import Html, element, join
from diskoop.web.media import Kind, kind_of
from diskoop.workflows.clips import random_indices
from diskoop.workflows.evaluation import OWN_NAME
from diskoop.workflows.factors import score_text, shown_factors, weak_text
from diskoop.workflows.reproduce import EXPERIMENTS, Experiment

# What a browser lets the page do: show its own pictures and play its own sounds. It runs and requests nothing.
POLICY = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"
NUM_CLIPS = 6  # drawn for all pictures: a receiver and possible donors
# A spectrogram and its sound take more room than a small video, and charts take longer to draw: a page has fewer.
NUM_PAIRS: dict[Kind, int] = {"video": 2, "sound": 1, "series": 1}
MAX_PICTURED: dict[Kind, int] = {"video": 8, "sound": 4, "series": 8}  # factors with a picture, the strongest
MAX_VALUES = 8  # of a label that are listed
KIND_NAMES: dict[Kind, str] = {
    "video": "video (time, channel, height, width)",
    "sound": "sound as log spectrograms (time, frequency)",
    "series": "series (time, feature)",
}


def write_report(run: Run, out: Path | None = None) -> Path:
    """Write the page on a run.

    Args:
        run: with or without factors.
        out: the file; None is `report.html` in the run's folder.
    """
    path = out or run.folder.writable_copy().report
    write_text(path, build_report(run))
    return path


def build_report(run: Run) -> str:
    """The page on a run as HTML; it refers to nothing outside itself."""
    page = _Page(run)
    title = f"{run.folder.path.resolve().name}: {page.data.name}"
    body = [
        element("header", element("h1", title), *page.verdict_box()),
        *(
            element("section", element("h2", heading), *content)
            for heading, content in (
                ("What was trained on what", page.facts()),
                ("How the training went", page.curves()),
                ("The spectrum", page.spectrum()),
                ("Factors", page.factors()),
                ("What stays and what moves, exchanged", page.swaps()),
                ("Forecasts", page.forecasts()),
                ("Scores", page.scores()),
                ("To make it again", page.commands()),
            )
        ),
    ]
    head = [
        element("meta", charset="utf-8"),
        element("meta", **{"http-equiv": "Content-Security-Policy"}, content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Html((files("diskoop") / "web" / "page" / "report.css").read_text(encoding="utf-8"))),
    ]
    document = element("html", element("head", *head), element("body", element("main", *body)), lang="en")
    return f"<!doctype html>\n{document}\n"


def verdict_sentences(verdict: Verdict) -> tuple[str, str]:
    """What the model explains beside PCA, and what to think of it or do about it.

    Example:
        >>> verdict_sentences(Verdict("9 test clips", 0.8, 0.7, 0.1, 0.2, 0.6, 0.4))[1]
        'Good: the model explains about what PCA does or more, and its static part is steady.'
    """
    first, *_ = verdict.sentences()
    if not verdict.problems:
        return _sentence(first), _sentence(verdict.conclusion.removeprefix("verdict: "))
    figures, colon, rest = verdict.problems[0].partition(": ")  # the figures of a poor fit are in the first sentence
    return _sentence(first), _sentence(f"poor: {rest if colon else figures}")


@dataclass(frozen=True, eq=False)
class _Page:
    """What the sections of a page are made of; each is a list of elements."""

    run: Run

    @cached_property
    def data(self) -> Sequences:
        """All clips of the run's set."""
        return open_data(self.run.settings.data)

    @cached_property
    def verdict(self) -> Verdict | str:
        """The verdict, or why there is none."""
        try:
            return self.run.verdict()
        except InputError as error:
            return str(error)

    @property
    def kind(self) -> Kind:
        return kind_of(self.data.units, self.data.shape[2:])

    @property
    def data_name(self) -> str | None:
        """The name of the set, where it is a registered one."""
        settings = self.run.settings.data
        return settings.name or ("puppets" if settings.path is None else None)

    @property
    def folder(self) -> str:
        return shlex.quote(str(self.run.folder.path))

    @property
    def has_test_clips(self) -> bool:
        return self.data.split_size("test") > 1

    @cached_property
    def drawn(self) -> NDArray[np.int64]:
        """Which clips are in the pictures, as commands number them."""
        return random_indices(self.data.split_size("test") if self.has_test_clips else len(self.data), NUM_CLIPS, 0)

    @cached_property
    def parts(self) -> Decomposition:
        """The clips of the pictures."""
        clips = self.data.split("test") if self.has_test_clips else self.data
        return self.run.decompose(clips.select(self.drawn))

    # --- sections

    def verdict_box(self) -> list[Html]:
        """Two sentences, and below them what else the verdict has to say."""
        if isinstance(self.verdict, str):
            sentences = ("There is no verdict.", _sentence(self.verdict))
            return [element("p", " ".join(sentences), class_="verdict open")]
        mood, *_ = self.verdict.conclusion.removeprefix("verdict: ").split(":")
        more = [*self.verdict.sentences()[1:-1], *self.verdict.problems[1:]]
        return [
            element("p", " ".join(verdict_sentences(self.verdict)), class_=f"verdict {mood}"),
            *(element("p", _sentence(text), class_="more") for text in more),
        ]

    def facts(self) -> list[Html]:
        """What was trained on what."""
        run, data, settings = self.run, self.data, self.run.settings
        splits = {split: load_split(settings.data, split, data) for split in SPLIT_NAMES if data.split_size(split)}
        clips = {name: each.clip_count for name, each in splits.items()}
        windows = {name: len(each) for name, each in splits.items()}
        history = read_metrics(run.folder)
        last, duration = history[-1], format_duration(sum(row["seconds"] for row in history))
        epochs = "epoch" if last["epoch"] == 1 else "epochs"
        weights = sum(weight.numel() for weight in run.model.parameters())
        length = "up to " if data.mask is not None else ""
        facts = {
            "Data": data.name if settings.data.path is None else f"{data.name}, from {settings.data.path}",
            "Kind": KIND_NAMES[self.kind],
            "Clips": _split_text(clips),
            "Windows": _split_text(windows) if windows != clips else "",
            "Shape": f"{length}{data.shape[1]} frames of {' × '.join(map(str, data.shape[2:]))}",
            "Features": _listed(data.units.features) if self.kind == "series" else "",
            "Labels": "; ".join(self._label_text(name) for name in data.labels) or "none",
            "Model": f"{weights:,} parameters, {settings.model.k} latents, "
            f"{int(run.spectrum()[1].sum())} of their eigenvalues static",
            "Training": f"{last['step']:,} steps, {last['epoch']:g} {epochs}, {duration}, seed {settings.train.seed}",
            "Settings": f"preset {nearest_preset(settings)}",
            "Operator": f"fitted on {run.operator.fitted_on}",
            "This page": f"written by diskoop {diskoop.__version__}, commit {commit()}",
        }
        pairs = [element("dt", name) + element("dd", text) for name, text in facts.items() if text]
        notes = [element("p", _sentence(note), class_="more") for note in data.notes]
        return [element("dl", *map(Html, pairs)), *notes]

    def _label_text(self, label: str) -> str:
        values = self.data.values.get(label, ())
        return f"{label}: {_listed([str(value) for value in values])}" if len(values) else label

    def curves(self) -> list[Html]:
        return [svg_figure(figure_svg(curves_figure(read_metrics(self.run.folder))))]

    def spectrum(self) -> list[Html]:
        spectrum, static = self.run.spectrum()
        figures = [spectrum_figure(spectrum, static, self.run.settings.spectrum.radius), gap_figure(spectrum, static)]
        return [element("div", *(svg_figure(figure_svg(figure, is_cropped=True)) for figure in figures), class_="pair")]

    def factors(self) -> list[Html]:
        """A table, and for each strong factor the clips that show what it does."""
        result, poor = self.run.factors, self._not_learnt()
        if poor:
            found = f" Those in factors.json ({', '.join(result.names)}) mean nothing." if result is not None else ""
            return [element("p", f"No factors are shown: {_sentence(poor, capital=False)}{found}", class_="note")]
        if result is None:
            find, again = (element("code", f"diskoop {word} {self.folder}") for word in ("factors", "report"))
            return [
                element("p", "No factors have been looked for yet: ", find, " finds them, and ", again, " shows them.")
            ]
        strong = [factor for factor in shown_factors(result) if factor.kind != "remainder"]
        pictured = strong[: MAX_PICTURED[self.kind]]
        notes = [*dict.fromkeys(result.notes), *filter(None, [weak_text(result)])]
        if len(pictured) < len(strong):
            notes.append(f"the {len(pictured)} strongest have pictures below")
        content = [
            *(
                [element("p", "The verdict is poor, so these factors may mean little.", class_="note")]
                if self._is_poor
                else []
            ),
            element("p", f"Method: {result.method}. Looked for in {result.found_in}."),
            _factor_table(result.factors),
            *_notes([_sentence(note, capital=False) for note in notes]),  # which often begin with a factor's name
        ]
        if len(self.parts) < 2:
            return content
        how = (
            "For each factor one clip, the receiver, gets that factor of another, the donor, and keeps the rest. Of "
            f"{len(self.parts) - 1} other clips that were drawn, the donor is the one that differs most in this factor."
        )
        return [*content, element("p", join(how, *self._remarks(), separator=" ")), *map(self._factor_figure, pictured)]

    @property
    def _is_poor(self) -> bool:
        return not isinstance(self.verdict, str) and bool(self.verdict.problems)

    def _not_learnt(self) -> str:
        """Why factors would mean nothing; empty where they may mean something."""
        return "" if isinstance(self.verdict, str) or self.verdict.has_learnt else self.verdict.problems[0]

    def _factor_figure(self, factor: DiscoveredFactor) -> Html:
        codes = self.parts.code(factor.name)
        donor = int((codes - codes[0]).norm(dim=1).argmax()) or 1  # a factor that is 0 everywhere has any donor
        given = [*self._silent_receiver, *self._drawn_twice(donor, "donor", has_player=False)]
        strength = f"strength {factor.strength:.1%}"
        stability = "" if factor.stability is None else f", stability {factor.stability:.2f}"
        heading = element("h3", factor.name, element("small", f" {strength}{stability}"))
        return element("article", heading, row_figure([*given, self._swapped(0, donor, factor.name)]))

    @cached_property
    def _receiver(self) -> list[Picture]:
        return self._drawn_twice(0, "receiver")

    @cached_property
    def _silent_receiver(self) -> list[Picture]:
        """The receiver of every factor; it is heard as the model draws it."""
        return self._drawn_twice(0, "receiver", has_player=False)

    def swaps(self) -> list[Html]:
        """Pairs of clips: the receiver with either part of the donor."""
        if len(self.parts) < 2:
            return [element("p", f"A swap needs two clips, {self.data.name} has one.")]
        count = min(NUM_PAIRS[self.kind], len(self.parts) // 2)
        rows = []
        for a, b in ((2 * number, 2 * number + 1) for number in range(count)):
            given = [*(self._receiver if a == 0 else self._drawn_twice(a, "receiver")), *self._drawn_twice(b, "donor")]
            name = f"{self.parts.clips.sequence_name(a)} and {self.parts.clips.sequence_name(b)}"
            if self.kind == "series":  # a chart for each part: one with both would have too many lines
                again = [replace(each, title="") for each in given]
                figures = [
                    row_figure([*each, self._swapped(a, b, part)])
                    for each, part in zip((given, again), SPECTRAL_PARTS, strict=True)
                ]
            else:
                figures = [row_figure([*given, *(self._swapped(a, b, part) for part in SPECTRAL_PARTS)])]
            rows.append(element("article", element("h3", name), *figures))
        how = "All that lasts through the donor, or all that changes in it, in place of the receiver's own."
        return [element("p", join(how, *self._remarks(), separator=" ")), *rows]

    def forecasts(self) -> list[Html]:
        """Clips, and how they go on by the operator alone."""
        clips = self.parts.clips
        usual = min(int(np.median(clips.lengths)), MAX_FRAMES[self.kind])
        observed = max(2, usual // 2)
        long_enough = np.flatnonzero(clips.lengths > observed)[: NUM_PAIRS[self.kind]]
        if not len(long_enough):
            return [element("p", f"Clips of {int(clips.lengths.max())} frames are too short to forecast from.")]
        chosen = clips.select(long_enough)
        # Decomposed by themselves: an encoder must not see what it forecasts.
        past = self.run.decompose(replace(chosen, lengths=np.full(len(chosen), observed)))
        steps = max(usual - observed, 1)
        figures = [
            forecast_figure(self._original(int(index), "original"), x, observed)
            for index, (_, x) in zip(long_enough, past.forecast(steps).rows(), strict=True)
        ]
        how = f"The model sees the first {observed} frames; what follows behind the mark is the operator's alone. "
        command = element("code", f"diskoop forecast {self.folder}")
        return [element("p", how, command, " measures how far ahead that holds."), *figures]

    def scores(self) -> list[Html]:
        """Tables of what was measured, published figures beside them."""
        places = [self.run.folder.evaluation, self.run.folder.path.resolve().parent / "table.json"]
        content = [*self._factor_scores(), *(part for path in places if path.exists() for part in self._results(path))]
        if content:
            return content
        return [
            element("p", "Nothing was measured yet: ", element("code", f"diskoop evaluate {self.folder}"), " does.")
        ]

    def _factor_scores(self) -> list[Html]:
        """What a classifier sees after each factor is swapped alone; empty where that was not measured."""
        result = self.run.factors
        found = None if result is None else load_scores(self.run.folder, self.run.model, result)
        if found is None or "matrix" not in found:  # sound has scores of speakers instead
            return []
        labels, matrix, chance = found["labels"], found["matrix"], found["chance"]
        heads = element("tr", element("th", "swapped"), *(element("th", label) for label in labels))
        rows = [*zip(labels, matrix, strict=True), ("chance", chance)]
        body = [element("tr", element("th", name), *(element("td", f"{v:.3f}") for v in row)) for name, row in rows]
        figures = score_text(found["score"], found["kept"], found["floor"])
        how = (
            "Factors are matched to labels in training clips, and those of a label swapped between "
            f"{found['clips']} test clips. "
            "How often each label then shows the donor's value: 1 on the diagonal and chance elsewhere is perfect. "
        )
        published = [model.values.get(Key("multifactor", "score")) for model in EXPERIMENTS["sprites"].published]
        best = max(value.mean for value in published if value is not None)
        beside = f"The best published matrix, on Sprites and with labels, scores {best:.3f}."
        return [
            element("h3", f"Factors and labels: {figures}"),
            element("p", how, beside if self.data_name in ("puppets", "sprites") else ""),
            element("div", element("table", element("thead", heads), element("tbody", *body)), class_="wide"),
            element("p", _sentence(str(found["classifier"])), class_="note"),
        ]

    def _results(self, path: Path) -> list[Html]:
        try:
            results = read_results(path)
        except InputError as error:
            return [element("p", _sentence(str(error)), class_="note")]
        known = {model.name for model in results.models}
        experiment = self._experiment(known)
        published = [] if experiment is None else [each for each in experiment.published if each.name not in known]
        results = replace(results, models=[*published, *results.models])
        tables = results.filled_tables()
        shown = [m for m in results.models if any(m is line.model for _, lines in tables for line in lines)]
        source = "There are no published figures on these data."
        if experiment is not None:
            source = f"Published figures are as their authors print them, on {experiment.title}."
            source += "" if self.data_name == experiment.real else f" Ours are on {self.data.name}."
        origins = element("ul", *(element("li", f"{model.name}: {model.origin}") for model in shown))
        notes = [*results.notes, *merge_notes({model.name: model.notes for model in shown})]
        return [
            element("p", source),
            *(_score_table(table, lines) for table, lines in tables),
            element("h3", "Where the values come from"),
            origins,
            *_notes(notes),
        ]

    def _experiment(self, models: set[str]) -> Experiment | None:
        """The paper's table that these data belong to, or whose published `models` are in the results already."""
        for each in EXPERIMENTS.values():
            names = {model.name for model in each.published}  # of which some are in several tables
            if self.data_name in (each.real, each.stand_in) or (names and names <= models):
                return each
        return None

    def commands(self) -> list[Html]:
        """The commands that make everything again, and the settings."""
        pair = f"{self.drawn[0]}:{self.drawn[1]}" if len(self.drawn) > 1 else ""
        everything = "" if self.has_test_clips else " --split all"
        everything = " --split test" if self.has_test_clips and self.run.has_examples else everything
        lines = [
            f"diskoop train -c {shlex.quote(str(self.run.folder.settings))}",
            *([f"diskoop factors {self.folder} --refit"] if self.run.factors is not None else []),
            *([f"diskoop swap {self.folder} --pair {pair}{everything}"] if pair else []),
            f"diskoop forecast {self.folder}{everything}",
            *self._measured_by(),
            f"diskoop report {self.folder}",
        ]
        settings = element("details", element("summary", "All settings"), element("pre", self.run.settings.to_yaml()))
        return [element("pre", "\n".join(lines)), settings]

    def _measured_by(self) -> list[str]:
        """The command that measured the run's scores, or would."""
        try:
            models = read_results(self.run.folder.evaluation).models
        except InputError:
            models = []
        commands = [each.origin.command for each in models if isinstance(each.origin, Origin)]
        return [commands[0] if commands else f"diskoop evaluate {self.folder}"]

    # --- pictures

    def _original(self, index: int, caption: str) -> Picture:
        x, units = self.parts.original(index), self.parts.units
        return Picture(x, units, "original", caption, self.parts.clips.title(index))

    def _drawn_twice(self, index: int, who: Literal["receiver", "donor"], has_player: bool = True) -> list[Picture]:
        """A clip as it was given, and as the model draws it; `has_player` is about the first."""
        roles: tuple[Role, Role] = ("donor", "donor drawn") if who == "donor" else ("original", "reconstruction")
        decoded, units = self.parts.select([index]).rows()[0][1], self.parts.units
        given = replace(self._original(index, who), role=roles[0], has_player=has_player)
        return [given, Picture(decoded, units, roles[1], f"{who}, {RECONSTRUCTED}")]

    def _swapped(self, receiver: int, donor: int, factor: str) -> Picture:
        new = self.parts.select([receiver, donor]).swap(factor, {0: 1}).rows()[0][1]
        return Picture(new, self.parts.units, "edit", f"receiver with {factor_text(factor)} of the donor")

    def _remarks(self) -> list[str]:
        """What a reader should know of the pictures of a section."""
        longest, limit = int(self.parts.lengths.max()), MAX_FRAMES[self.kind]
        cut = [f"Of {longest} frames the first {limit} are shown."] if longest > limit else []
        features, drawn = self.data.shape[-1], MAX_LEGEND_FEATURES
        if self.kind == "series" and features > drawn:
            cut.append(f"Of {features} features the first {drawn} are drawn.")
        split = [] if self.has_test_clips else ["The clips may be among those that were trained on."]
        extent = [text] if (text := axes_text(self._receiver[0])) else []
        return [*cut, *extent, *split]


def _factor_table(factors: tuple[DiscoveredFactor, ...]) -> Html:
    """Every factor with its statistics, strengths as bars; columns in which no factor has anything are left out."""
    filled = [at for at, _ in enumerate(COLUMNS) if any(factor.row()[at] for factor in factors)]
    rows = [element("tr", *(element("th", COLUMNS[at]) for at in filled))]
    for factor in factors:
        bar = element("i", class_="bar", style=f"width: calc(5.5rem * {min(factor.strength, 1):.3f})")
        cells = [element("td", cell) for cell in factor.row()]
        cells[COLUMNS.index("strength")] = element("td", bar, f"{factor.strength:.1%}", class_="strength")
        rows.append(element("tr", *(cells[at] for at in filled)))
    return element("div", element("table", *rows, class_="factors"), class_="wide")


def _score_table(table: Table, lines: list[TableRow]) -> Html:
    head = element("tr", element("th"), *(element("th", heading) for heading in table.headings()))
    rows = [
        element(
            "tr", element("th", line.name), *(element("td", cell) for cell in line.cells), class_=_row_class(line.model)
        )
        for line in lines
    ]
    remark = [element("p", table.remark, class_="more")] if table.remark else []
    grid = element("div", element("table", element("thead", head), element("tbody", *rows)), class_="wide")
    return element("div", element("h3", table.title), *remark, grid)


def _row_class(model: ModelResults) -> str | None:
    if model.name == OWN_NAME:
        return "ours"
    return None if isinstance(model.origin, Origin) else "published"


def _notes(notes: Sequence[str]) -> list[Html]:
    return [element("ul", *(element("li", note) for note in notes), class_="notes")] if notes else []


def _split_text(counts: Mapping[SplitName, int]) -> str:
    """`80 train, 10 validate, 10 test`."""
    verbs = zip(SPLIT_NAMES, ("train", "validate", "test"), strict=True)
    return ", ".join(f"{counts.get(split, 0):,} {verb}" for split, verb in verbs)


def _listed(values: Sequence[str]) -> str:
    """The first MAX_VALUES values, and how many more there are."""
    more = f" and {len(values) - MAX_VALUES} more" if len(values) > MAX_VALUES else ""
    return ", ".join(values[:MAX_VALUES]) + more


def _sentence(text: str, capital: bool = True) -> str:
    """`text` with a full stop, and a capital where it begins one."""
    return f"{text[:1].upper() if capital else text[:1]}{text[1:]}" + ("" if text.endswith((".", "!", "?")) else ".")
