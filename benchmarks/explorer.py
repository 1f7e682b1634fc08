"""How long from a click to the new picture? `python -m benchmarks.explorer [RUN]`

Opens the explorer of a run in the system's Chromium, clicks one eigenvalue after another, and measures inside the page
the time until the new frames are drawn; beside it, the server's share. Without a run, one with networks of the paper's
size on puppets at 64 x 64 x 8 is trained for a few steps, which speed does not depend on.
"""

import argparse
import json
import statistics
import tempfile
import threading
from pathlib import Path
from typing import Any

from tests.helpers.browser import Tab, open_browser

from diskoop.run import train
from diskoop.web.server import Explorer
from diskoop.web.session import Session

WAIT = 0.15  # seconds: what we hold ourselves to
# Clicks an eigenvalue; resolves to the milliseconds until the result of that click is on the canvas, and of those the
# milliseconds that the server took.
CLICK = """
async (index) => {
  const players = document.querySelector("#players");
  const before = players.dataset.result;
  performance.clearResourceTimings();
  const started = performance.now();
  document.querySelector(`[data-mode="${index}"]`).dispatchEvent(new MouseEvent("click"));
  await new Promise((resolve) => {
    new MutationObserver((_, observer) => {
      if (players.dataset.result === before) return;
      observer.disconnect();
      resolve();
    }).observe(players, { attributes: true });
  });
  const finished = performance.now();
  const [request] = performance.getEntriesByType("resource").filter((entry) => entry.name.endsWith("/api/edit"));
  return [finished - started, request.duration];
}
"""


def brief_run(folder: Path) -> Path:
    """A run with networks of the paper's size after a few steps."""
    brief = {"model": {"k": 40, "h": 40, "width": 32}, "spectrum": {"static": 8}, "train": {"epochs": 1}}
    train("puppets", folder / "run", data={"size": 64, "limit": 128}, **brief)  # type: ignore[arg-type]
    return folder / "run"


def measure(run: Path, clicks: int) -> dict[str, Any]:
    """Seconds from click to picture over `clicks` clicks, medians and 95th percentiles."""
    session = Session(run)
    explorer = Explorer(session)
    threading.Thread(target=explorer.serve, daemon=True).start()
    try:
        with open_browser() as browser:
            tab = Tab(browser, explorer.url)
            pairs = list({tuple(mode["pair"]): mode["index"] for mode in session.facts()["modes"]}.values())
            waits, answers = [], []
            for number in range(clicks):
                wait, answer = tab.page.evaluate(CLICK, pairs[(number + 1) % len(pairs)])
                waits.append(wait / 1000)
                answers.append(answer / 1000)
                tab.page.wait_for_timeout(400)  # the film strip below is drawn meanwhile
    finally:
        explorer.stop()
        session.close()
    return {
        "frame": session.facts()["frame"],
        "clicks": clicks,
        "click to picture": statistics.median(waits),
        "95 of 100": statistics.quantiles(waits, n=20)[-1],
        "server": statistics.median(answers),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path, help="a run's folder")
    parser.add_argument("--clicks", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        facts = measure(given.run or brief_run(Path(folder)), max(2, given.clicks))
    if given.json:
        print(json.dumps(facts))
        return
    print(f"{facts['clicks']} clicks, frames {tuple(facts['frame'])}")
    for name in ("click to picture", "95 of 100", "server"):
        print(f"  {name}: {1000 * facts[name]:.0f} ms")
    print(f"  we hold ourselves to {1000 * WAIT:.0f} ms")


if __name__ == "__main__":
    main()
