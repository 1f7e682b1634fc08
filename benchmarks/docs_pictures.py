"""The moving swap and the picture of the explorer in the docs: `python -m benchmarks.docs_pictures`

Both show the run `pretrained:puppets` and its examples, so nothing is trained. The second needs a browser.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from tests.helpers.browser import Tab, explored, open_browser

from diskoop.run import Run, load

DOCS = Path(__file__).parents[1] / "docs"
ORDER = ("hair", "top", "pants", "skin", "action")  # what the receiver takes, one after another
LOOPS = 1  # of the clip, at every stage
SIDE = 168  # pixels of a tile
MILLISECONDS = 160  # of a frame
BACKGROUND, TEXT, LINE = "#fbfaf7", "#22223b", 30  # colours, and pixels of a caption


def choose_pair(run: Run) -> tuple[int, int]:
    """The first two examples that differ in every label."""
    clips = run.examples()
    codes = np.stack(list(clips.labels.values()), 1)
    for first in range(len(clips)):
        for second in range(first + 1, len(clips)):
            if (codes[first] != codes[second]).all():
                return first, second
    raise SystemExit("no two examples differ in every label")


def moving_swap(run: Run, pair: tuple[int, int]) -> list[Image.Image]:
    """Receiver, result and donor side by side, the result taking one factor after another."""
    parts = run.decompose(run.examples().select(pair))
    known = [name for name in ORDER if name in parts.factors]
    frames, drawn = [], parts.decode()
    for count in range(len(known) + 1):
        result = parts.swap(known[:count], {0: 1}).decode()[0] if count else drawn[0]
        caption = f"{'takes' if count == 1 else 'and'} {known[count - 1]}" if count else "as the model draws it"
        for t in [*range(drawn.shape[1])] * LOOPS:
            frames.append(_frame([parts.original(0)[t], result[t], parts.original(1)[t]], caption))
    return frames


def _frame(tiles: list[Any], caption: str) -> Image.Image:
    side = SIDE
    frame = Image.new("RGB", (3 * side + 4 * 12, side + LINE + 12), BACKGROUND)
    font = ImageFont.load_default(size=15)
    words = ("one puppet", caption, "another one")
    for number, (tile, text) in enumerate(zip(tiles, words, strict=True)):
        left = 12 + number * (side + 12)
        picture = Image.fromarray(np.moveaxis(tile, 0, -1)).resize((side, side), Image.Resampling.NEAREST)
        frame.paste(picture, (left, LINE))
        ImageDraw.Draw(frame).text((left, 7), text, fill=TEXT, font=font)
    return frame


def explorer_picture(run: Run, pair: tuple[int, int], path: Path) -> None:
    """The explorer with a swap of hair."""
    with open_browser() as browser, explored(run.folder.name) as url:
        first, second = pair
        choice = f"#kind=swap&receiver=examples/{first}&donor=examples/{second}&factors=hair&modes=&amount=1&seed=0"
        tab = Tab(browser, url + choice, viewport={"width": 1280, "height": 980})
        tab.page.wait_for_selector(".film-cell canvas")
        tab.page.click("#play")
        tab.page.wait_for_timeout(500)
        tab.page.screenshot(path=path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DOCS, help="the folder; by default docs/")
    out = parser.parse_args().out
    run = load("pretrained:puppets")
    pair = choose_pair(run)
    with tempfile.TemporaryDirectory() as folder:
        new = Path(folder) / "swap.webp"
        first, *others = moving_swap(run, pair)
        first.save(new, save_all=True, append_images=others, duration=MILLISECONDS, loop=0, lossless=False, quality=75)
        (out / "swap.webp").write_bytes(new.read_bytes())
    explorer_picture(run, pair, out / "explorer.png")
    for name in ("swap.webp", "explorer.png"):
        print(f"wrote {out / name}, {(out / name).stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
