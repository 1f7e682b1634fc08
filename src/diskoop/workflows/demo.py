"""the demo: train on the puppets, find factors, judge and draw them"""

import shlex
from pathlib import Path
from typing import Any

import numpy as np

from diskoop.analysis.sheets import Cell, CellRow, Part, Sheet
from diskoop.data import load_data
from diskoop.plots.sheets import spectrum_sheet_figure
from diskoop.plots.style import save_figure
from diskoop.run import Run
from diskoop.settings import Settings
from diskoop.workflows.factors import draw_factors, score_factors
from diskoop.workflows.training import train_or_resume

ACTIONS = ("walk front", "cheer front", "slash right", "walk left")  # of A and B, twice
JUDGED_CLIPS = 800  # of each split: seconds instead of a minute, for two digits
KINDS: tuple[tuple[str, str, Part], ...] = (("factor", "looks", "static"), ("motion", "motion", "dynamic"))


def run_demo(path: Path) -> tuple[Run, dict[str, Any], list[Path]]:
    """Train in the folder `path`, or resume there, find factors, judge them by labels, and draw pictures.

    Returns:
        The run; the scores of its factors as `workflows.factors.score_factors` gives them; and the pictures: two swaps
        with the spectrum, what each factor does, the spectrum, its gap, and what each swap changes.
    """
    run = train_or_resume(Settings.load("demo"), path, f"diskoop demo --out {shlex.quote(str(path))}")
    run = run if run.factors is not None else run.save_factors(run.find_factors())
    scores, matrix = score_factors(run, JUDGED_CLIPS)
    return run, scores, [draw_demo(run, path / "demo.png"), *draw_factors(run), *matrix]


def draw_demo(run: Run, picture: Path) -> Path:
    """Draw two pairs of test characters: A with the looks of B, then A with the motion of B."""
    clips = load_data("puppets", "test", size=run.settings.data.size)
    values = clips.values["action"]
    random = np.random.Generator(np.random.PCG64(4))
    chosen = clips.select([random.choice(np.flatnonzero(clips.labels["action"] == values.index(a))) for a in ACTIONS])
    donors = [1, 0, 3, 2]
    parts = run.decompose(chosen)
    edits = []
    for kind, description, part in KINDS:
        names = [factor.name for factor in run.require_factors().factors if factor.kind == kind]
        if names:
            caption = f"A with the {description} of B: {', '.join(names)}"
            edits.append((caption, part, parts.swap(names, donor=donors).decode()))
    rows: list[CellRow] = []
    for i in (0, 2):
        rows += [[Cell(chosen.x[j], f"{letter}: {chosen.label_text(j)}")] for letter, j in (("A", i), ("B", donors[i]))]
        rows += [*([Cell(video[i], caption, part)] for caption, part, video in edits), []]
    title = "Who they are and what they do, told apart without a label"  # as in docs/demo.png
    sheet = Sheet(rows[:-1], chosen.units, title)
    radius = run.settings.spectrum.radius
    return save_figure(spectrum_sheet_figure(sheet, parts.spectrum, parts.static_modes, radius), picture)
