"""the first five minutes: train on the puppets, then show what was learnt"""

import shlex
from pathlib import Path

import numpy as np

from diskoop.data import load_data
from diskoop.errors import InputError
from diskoop.interfaces.commands import draw_factors
from diskoop.pictures import save_figure, swap_figure
from diskoop.run import Run, load
from diskoop.settings import Settings
from diskoop.training import loop
from diskoop.training.checkpoint import RunFolder, load_settings


def run_demo(path: Path) -> tuple[Run, list[Path]]:
    """Train in the folder `path` (or go on there), find factors, and draw swaps and what each factor does."""
    settings, folder = Settings.load("demo"), RunFolder(path)
    again = f"diskoop demo --out {shlex.quote(str(path))}"
    if not folder.settings.exists():
        loop.train(settings, path, again=again)
    elif load_settings(folder) != settings:
        raise InputError(f"{str(path)!r} holds another run; choose another folder with --out")
    else:
        loop.resume(path, again=again)
    run = load(path)
    run = run if run.found is not None else run.keep(run.find_factors())
    return run, [draw_demo(run, path / "demo.png"), *draw_factors(run)]


def draw_demo(run: Run, picture: Path) -> Path:
    """Two pairs of test characters: A with the looks of B, then with the motion of B, by factors that were found."""
    clips = load_data("puppets", "test", size=run.settings.data.size)
    names = clips.values["action"]
    random = np.random.Generator(np.random.PCG64(4))
    actions = ("walk front", "cheer front", "slash right", "walk left")  # A and B, twice
    chosen = clips.select([random.choice(np.flatnonzero(clips.labels["action"] == names.index(a))) for a in actions])
    donors = [1, 0, 3, 2]
    parts = run.decompose(chosen)
    edits = []
    for kind, what in (("factor", "looks"), ("motion", "motion")):
        found = [each.name for each in run.require_found().factors if each.kind == kind]
        if found:
            edits.append((f"A with the {what} of B: {', '.join(found)}", parts.swap(found, donor=donors).decode()))
    pairs = [
        [
            (f"A: {chosen.label_text(i)}", chosen.x[i]),
            (f"B: {chosen.label_text(donors[i])}", chosen.x[donors[i]]),
            *((caption, video[i]) for caption, video in edits),
        ]
        for i in (0, 2)
    ]
    choice = run.settings.spectrum
    mask = parts.spectrum.static(choice.static)
    title = "Who they are and what they do, told apart without a label"
    return save_figure(swap_figure(parts.spectrum, mask, choice.radius, pairs, title), picture)
