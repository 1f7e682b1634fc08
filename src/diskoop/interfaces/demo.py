"""the first five minutes: train on the puppets, then show what was learnt"""

from pathlib import Path

import numpy as np

from diskoop.data import load_data
from diskoop.errors import InputError
from diskoop.pictures import save_figure, swap_figure
from diskoop.run import Run, load
from diskoop.settings import Settings
from diskoop.training import loop
from diskoop.training.checkpoint import RunFolder, load_settings


def run_demo(path: Path) -> Path:
    """Train in the folder `path` (or go on there), and draw the spectrum and two swaps to demo.png in it."""
    settings, folder = Settings.load("demo"), RunFolder(path)
    if not folder.settings.exists():
        loop.train(settings, path)
    elif load_settings(folder) != settings:
        raise InputError(f"{str(path)!r} holds another run; choose another folder with --out")
    else:
        loop.resume(path)
    return draw_demo(load(path), path / "demo.png")


def draw_demo(run: Run, picture: Path) -> Path:
    """Two pairs of test characters, each given the other's identity and the other's action."""
    clips = load_data("puppets", "test", run.settings.data.size)
    action = clips.labels["action"]
    random = np.random.Generator(np.random.PCG64(4))
    sources, targets = (random.permutation(np.flatnonzero(action == code))[:2] for code in (0, 5))
    chosen = clips.select(np.concatenate([sources, targets[::-1]]))
    parts = run.decompose(chosen)
    donors = [3, 2, 1, 0]
    static, dynamic = (parts.swap(what, donor=donors).decode() for what in ("static", "dynamic"))
    pairs = [
        [
            (f"source: {chosen.label_text(i)}", chosen.x[i]),
            (f"target: {chosen.label_text(donors[i])}", chosen.x[donors[i]]),
            ("static swap: the target's looks in the source's action", static[i]),
            ("dynamic swap: the source's looks in the target's action", dynamic[i]),
        ]
        for i in (0, 1)
    ]
    mask = parts.spectrum.static(run.settings.spectrum.static).cpu().numpy()
    title = "Who they are and what they do, told apart without a label"
    return save_figure(swap_figure(parts.spectrum, mask, run.settings.spectrum.radius, pairs, title), picture)
