"""Figures as elements of HTML pages."""

from html.parser import HTMLParser

from matplotlib.figure import Figure

from diskoop.plots.style import DYNAMIC_COLOR, PAGE_COLORS, TEXT_COLOR, figure_svg


def drawn(title: str = "") -> str:
    figure = Figure(figsize=(3, 2))
    axes = figure.subplots()
    axes.plot([0, 1], color=DYNAMIC_COLOR)
    axes.set_title(title, color=TEXT_COLOR, parse_math=False)
    return figure_svg(figure)


def test_a_figure_has_the_colours_of_its_page() -> None:
    svg = drawn()
    assert not [color for color in PAGE_COLORS if color in svg.lower()]
    assert "stroke: var(--dynamic)" in svg
    assert "stroke: currentColor" in svg


def test_a_figure_refers_to_nothing_and_is_the_same_every_time() -> None:
    svg = drawn("one")
    assert svg.startswith("<svg ")
    assert svg.endswith("</svg>")
    assert "://" not in svg
    assert "<g id" not in svg
    assert drawn("one") == svg


def test_text_stays_text() -> None:
    texts: list[str] = []
    parser = HTMLParser()
    parser.handle_data = texts.append  # type: ignore[method-assign, assignment]
    parser.feed(drawn("<script> & $5"))
    assert "<script> & $5" in texts
