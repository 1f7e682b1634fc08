"""Video: train on drawn characters, find what varies, give one character a factor of another.

python examples/video.py            # minutes on two cores
python examples/video.py --quick    # seconds, and little to see
"""

import argparse
from pathlib import Path
from typing import Any

import diskoop
from diskoop.analysis.sheets import Cell, Sheet
from diskoop.plots.sheets import sheet_figure
from diskoop.plots.style import save_figure


def main(out: Path, quick: bool = False) -> Path:
    budget: dict[str, Any] = {"data": {"limit": 128}, "train": {"epochs": 1}} if quick else {}
    run = diskoop.train("puppets", out / "puppets", preset="demo", **budget)

    run = run.save_factors(run.find_factors())  # without labels; `rename_factors` gives them names of your own
    for each in run.require_factors().factors:
        print(f"{each.name}: {each.dimensions} dimensions, {each.strength:.0%} of what changes")

    clips = run.data("test").select([0, 1200])  # two characters that were not trained on
    parts = run.decompose(clips)
    seen = parts.decode()  # what the model lost shows here, before any swap
    cells = [Cell(clips.x[0], "A"), Cell(seen[0], "A, as the model draws it"), Cell(clips.x[1], "B")]
    for name in run.require_factors().names:
        cells.append(Cell(parts.swap(name, donor={0: 1}).decode()[0], f"A with {name} of B"))
    return save_figure(sheet_figure(Sheet([[cell] for cell in cells], clips.units)), out / "video.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"))
    parser.add_argument("--quick", action="store_true")
    print(f"look at {main(**vars(parser.parse_args()))}")
