"""A terminal shows steps, time left, loss terms and the spectrum, also when it is narrow."""

import io
import re

import pytest
from rich.console import Console

from diskoop.training.progress import Reporter, describe

TERMS = {"total": 0.4123, "rec": 0.0121, "pred_x": 0.0134, "cycle": 0.0, "static_gap": 0.021, "dynamic_radius": 0.55}
ROW = {"epoch": 2, "step": 40, "seconds": 12.3, **{f"val.{name}": value for name, value in TERMS.items()}}


def shown(terminal: bool) -> str:
    screen = io.StringIO()
    reporter = Reporter(Console(file=screen, force_terminal=terminal, width=80))
    with reporter.open(total=100, done=40, epochs=5) as bar:
        bar.step(1, 42, TERMS)
        bar.progress.refresh()
        bar.epoch(ROW)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())


def test_a_narrow_terminal_shows_everything() -> None:
    text = shown(terminal=True)
    assert "epoch 2/5" in text
    assert "42/100" in text
    assert re.search(r"0:00:00 left \S+:\S+:\S\S", text)
    assert "loss 0.412 rec 0.0121 pred 0.0134 | static 1±0.021 dynamic<0.55" in text


def test_elsewhere_a_line_an_epoch() -> None:
    assert shown(terminal=False) == (
        "epoch 2/5: loss 0.412 rec 0.0121 pred 0.0134 | static 1±0.021 dynamic<0.55 (12 s)\n"
    )


@pytest.mark.parametrize(("terminal", "epochs", "lines"), [(False, 5, 5), (False, 40, 11), (True, 40, 40)])
def test_elsewhere_a_long_training_has_about_ten_lines(terminal: bool, epochs: int, lines: int) -> None:
    screen = io.StringIO()
    reporter = Reporter(Console(file=screen, force_terminal=terminal, width=200))
    with reporter.open(total=7 * epochs, done=0, epochs=epochs) as bar:
        for epoch in range(1, epochs + 1):
            bar.epoch(ROW | {"epoch": epoch, "step": 7 * epoch})
    told = re.findall(rf"epoch (\d+)/{epochs}: loss", screen.getvalue())
    assert len(told) == lines
    assert (told[0], told[-1]) == ("1", str(epochs))  # how it begins, and how it ends


def test_validation_tells_how_much_is_explained() -> None:
    assert describe(TERMS | {"explained": 0.874}).endswith("dynamic<0.55 | explains 87%")


def test_brackets_in_a_path_are_not_markup() -> None:
    screen = io.StringIO()
    Reporter(Console(file=screen, width=80)).log("the run is in a[red]b")
    assert screen.getvalue() == "the run is in a[red]b\n"
