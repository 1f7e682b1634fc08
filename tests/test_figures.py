"""Figures hold the right sequences under the right words; looking at them is for people."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from numpy.typing import NDArray
from torch import Tensor, nn

from diskoop import figures, load_data
from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.editing import combinations, gradual, incremental
from diskoop.analysis.embedding import cluster_score
from diskoop.analysis.forecasting import ForecastErrors
from diskoop.data import Sequences, Units
from diskoop.data.builtin.oscillators import truth
from diskoop.errors import InputError
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics import Factor, Spectrum, by_distance, fit_operator
from diskoop.pictures import film_strip
from diskoop.run import Run
from diskoop.settings import Settings
from diskoop.training.checkpoint import RunFolder
from tests.conftest import matrix_with

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KNOWN = truth("oscillators").projectors


def decomposed(clips: Sequences, decoder: nn.Module) -> Decomposition:
    x = torch.from_numpy(load_data("oscillators", "test").x[: len(clips)])
    found = {name: Factor(name, torch.from_numpy(projector)) for name, projector in KNOWN.items()}
    model = KoopmanAutoencoder(nn.Identity(), decoder)
    return Decomposition.of(model, fit_operator(x, ridge=0), clips, x, 3, by_distance, found=found)


@pytest.fixture
def parts() -> Decomposition:
    """The oscillators behind identity networks, with their true factors."""
    return decomposed(load_data("oscillators", "test").select(range(40)), nn.Identity())


class Screen(nn.Module):
    """Latents (n, time, 8) as little pictures, three channels of 2 x 4."""

    def forward(self, z: Tensor) -> Tensor:
        return torch.sigmoid(z).reshape(*z.shape[:2], 1, 2, 4).expand(-1, -1, 3, -1, -1)


@pytest.fixture
def video() -> Decomposition:
    """The same, shown as moving pictures."""
    return decomposed(Sequences.of(np.zeros((40, 24, 3, 2, 4), np.uint8)), Screen())


@pytest.fixture
def sound(parts: Decomposition) -> Decomposition:
    """The same, taken for spectrograms."""
    return replace(parts, clips=replace(parts.clips, units=Units(dtype="float64", rate=16_000)))


def drawn(axes: "Axes") -> NDArray[Any]:
    """What an axes shows: lines (time, feature), a spectrogram (time, bin), or the pixels of a strip."""
    if axes.lines:
        return np.stack([np.asarray(line.get_ydata()) for line in axes.lines], 1)
    (image,) = axes.images
    shown = np.asarray(image.get_array())
    return shown if shown.ndim == 3 else shown.T


def captions(figure: "Figure") -> list[str]:
    return [axes.get_title(loc="left").replace("\n", " ") for axes in figure.axes]


def words(figure: "Figure") -> list[str]:
    """What stands beside rows and above columns."""
    return [text.get_text() for text in figure.texts[1:]]  # the first is the title


def shows(figure: "Figure", expected: Sequence[NDArray[Any]]) -> bool:
    pairs = zip(figure.axes, expected, strict=True)
    return all(np.allclose(drawn(axes), x, atol=1e-9) for axes, x in pairs)


def test_two_factor_swaps_show_both_parts_of_each_pair(parts: Decomposition) -> None:
    figure = figures.two_factor_swaps(parts, [(0, 1), (5, 2)])
    expected = []
    for source, target in ((0, 1), (5, 2)):
        static, dynamic = (parts.swap(what, {source: target}).z[source].numpy() for what in ("static", "dynamic"))
        expected += [parts.z[source].numpy(), parts.z[target].numpy(), static, dynamic]
    assert shows(figure, expected)
    assert captions(figure)[4:] == [
        f"source: {parts.clips.label_text(5)}",
        f"target: {parts.clips.label_text(2)}",
        "source with the target's static part",
        "source with the target's dynamic part",
    ]


def test_factorial_swaps_have_a_row_for_each_order(parts: Decomposition) -> None:
    orders = [["level", "mark"], ["mark", "level", "slow"]]
    figure = figures.factorial_swap(parts, 0, 1, orders)
    assert shows(figure, [x for order in orders for _, x in gradual(parts, 0, 1, order).rows()])
    assert captions(figure) == [
        *("source", "+ level", "+ mark", "target"),
        *("source", "+ mark", "+ level", "+ slow", "target"),
    ]


def test_stages_of_video_are_middle_frames(video: Decomposition) -> None:
    figure = figures.factorial_swap(video, 0, 1, [["level", "mark"]])
    assert shows(figure, [film_strip(x[12:13]) for _, x in gradual(video, 0, 1, ["level", "mark"]).rows()])


def test_all_combinations_are_strips_beside_their_names(video: Decomposition) -> None:
    figure = figures.all_combinations(video, 0, 1, ["level", "mark", "slow", "fade"])
    stages = combinations(video, 0, 1, ["level", "mark", "slow", "fade"])
    spread = np.linspace(0, 23, 16).astype(int)
    assert shows(figure, [film_strip(x[spread]) for _, x in stages.rows()])
    assert tuple(words(figure)) == stages.captions
    assert len(figure.axes) == 17


def test_incremental_swaps_have_a_column_for_each_pair(parts: Decomposition) -> None:
    figure = figures.incremental_swap(parts, [(0, 1), (2, 3)], "dynamic", (1, None))
    left, right = (incremental(parts, *pair, "dynamic", (1, None)).rows() for pair in ((0, 1), (2, 3)))
    assert shows(figure, [x for (_, a), (_, b) in zip(left, right, strict=True) for x in (a, b)])
    assert words(figure)[2:] == ["source", "1 of 5 dynamic modes", "all 5 dynamic modes", "target"]
    first = words(figure)[0].replace("\n", " ")
    assert first == f"{parts.clips.label_text(0)} → {parts.clips.label_text(1)}"


def test_generation_shows_the_sources_and_their_samples(parts: Decomposition) -> None:
    figure = figures.generation(parts, "static", torch.Generator().manual_seed(1), count=3)
    sampled = parts.sample("static", torch.Generator().manual_seed(1)).z.numpy()
    assert shows(figure, [x for i in range(3) for x in (parts.z[i].numpy(), sampled[i])])
    assert words(figure) == ["source", "static sampled, the rest kept"]
    with pytest.raises(InputError, match="expected a count from 1 to 40, the sequences there are, got 41"):
        figures.generation(parts, "static", torch.Generator(), count=41)


def test_a_factor_sheet_takes_each_factor_of_each_donor(parts: Decomposition) -> None:
    figure = figures.factor_sheet(parts, ["level", "fast"], 4, [7, 9], {"fast": "a quick turn"})
    swapped = {(name, i): parts.swap(name, {4: i}).z[4] for name in ("level", "fast") for i in (7, 9)}
    rows = [[parts.z[4], swapped[name, 7], swapped[name, 9]] for name in ("level", "fast")]
    assert shows(figure, [x.numpy() for x in (parts.z[7], parts.z[9], *rows[0], *rows[1])])
    assert words(figure) == ["level", "fast\na quick turn"]
    assert captions(figure) == ["donor", "donor", "source", "", "", "", "", ""]


def test_signals_share_their_scales(parts: Decomposition, sound: Decomposition) -> None:
    plots = figures.two_factor_swaps(parts, [(0, 1)]).axes
    assert len({axes.get_ylim() for axes in plots}) == 1
    low, high = plots[0].get_ylim()
    assert all((low < drawn(axes)).all() and (drawn(axes) < high).all() for axes in plots)
    maps = figures.two_factor_swaps(sound, [(0, 1)]).axes
    data = np.stack([drawn(axes) for axes in maps])
    assert {axes.images[0].get_clim() for axes in maps} == {(data.min(), data.max())}
    assert np.allclose(data[1], parts.z[1])
    # Numbers are written at the left and at the bottom only.
    assert [axes.get_ylabel() for axes in maps] == ["kHz", "", "kHz", ""]
    assert [axes.get_xlabel() for axes in maps] == ["", "", "s", "s"]


def test_features_are_named_once(parts: Decomposition) -> None:
    names = tuple(f"sensor {i}" for i in range(8))
    named = replace(parts, clips=replace(parts.clips, units=replace(parts.units, features=names)))
    figure = figures.factorial_swap(named, 0, 1, [["level"], ["level", "mark"]])
    legends = [axes.get_legend() is not None for axes in figure.axes]
    assert legends == [False] * 6 + [True]  # beside the one that has nothing to its right


def test_unequal_lengths_are_drawn_without_padding(parts: Decomposition) -> None:
    lengths = torch.full((40,), 24)
    lengths[1] = 10
    figure = figures.two_factor_swaps(replace(parts, mask=torch.arange(24) < lengths[:, None]), [(0, 1)])
    assert [len(drawn(axes)) for axes in figure.axes] == [24, 10, 10, 10]
    assert len({axes.get_xlim() for axes in figure.axes}) == 1


@pytest.mark.parametrize("kind", ["parts", "video", "sound"])
def test_nothing_is_cut_off_or_written_over(kind: str, request: pytest.FixtureRequest) -> None:
    parts: Decomposition = request.getfixturevalue(kind)
    long = "what a sentence has to say that nobody took the trouble to shorten before it was drawn"
    parts = replace(parts, factors={**parts.factors, long: parts.factors["level"]})
    for figure in (
        figures.two_factor_swaps(parts, [(0, 1), (2, 3)]),
        figures.factorial_swap(parts, 0, 1, [[long, "mark"]]),
        figures.incremental_swap(parts, [(0, 1), (2, 3)], "static", (1, None)),
        figures.factor_sheet(parts, ["level", "mark"], 0, [1, 2], {"level": long}),
    ):
        canvas = FigureCanvasAgg(figure)
        canvas.draw()  # type: ignore[no-untyped-call]
        pen = canvas.get_renderer()  # type: ignore[no-untyped-call]
        titles = [axes.title if axes.title.get_text() else axes._left_title for axes in figure.axes]  # type: ignore[attr-defined]
        texts = [*figure.texts, *(title for title in titles if title.get_text())]
        boxes = [text.get_window_extent(pen) for text in texts]
        page = figure.bbox
        beside = [box for text, box in zip(texts, boxes, strict=True) if text.get_horizontalalignment() == "right"]
        assert all(box.width < 2 * figure.dpi for box in beside)
        assert all(page.x0 <= b.x0 and b.x1 <= page.x1 and page.y0 <= b.y0 and b.y1 <= page.y1 for b in boxes)
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
        assert not any(box.overlaps(axes.get_window_extent(pen)) for box in boxes for axes in figure.axes)


def test_the_embedding_is_coloured_by_its_labels(parts: Decomposition) -> None:
    figure, score = figures.embedding_figure(parts, ["level", "mark"], "level", "mark")
    (axes,) = figure.axes
    (dots,) = axes.collections
    labels = parts.clips.labels
    for colors, codes in ((dots.get_facecolor(), labels["level"]), (dots.get_edgecolor(), labels["mark"])):
        seen = {(tuple(color), code) for color, code in zip(np.asarray(colors).tolist(), codes.tolist(), strict=True)}
        assert len(seen) == len({color for color, _ in seen}) == len(np.unique(codes))
    points = np.asarray(dots.get_offsets())
    assert score == cluster_score(points, labels["level"], labels["mark"])
    assert axes.get_title(loc="left") == f"level + mark, by t-SNE\n{score}"
    assert score.neighbour > 0.9
    titles = [legend.get_title().get_text() for legend in figure.legends]
    assert titles == ["face: level", "edge: mark"]
    values = [[text.get_text() for text in legend.get_texts()] for legend in figure.legends]
    assert values == [["lowest", "low", "high", "highest"], ["red", "green", "blue"]]
    with pytest.raises(InputError, match=r"unknown label 'levels' of oscillators; did you mean 'level'\?"):
        figures.embedding_figure(parts, "static", "levels", "mark")


def test_colours_never_run_out() -> None:
    for count in (3, 10, 11, 60):
        colors = figures._palette(np.arange(count).repeat(2), figures.LIGHT, 0.95)
        assert len({tuple(np.ravel(color)) for color in colors.values()}) == count


class Identity(nn.Module):
    """Sequences as they are, with a weight that says their type."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x


def a_run(static: int, parts: Decomposition) -> Run:
    settings = Settings.of({"model": {"k": 8}, "spectrum": {"static": static, "radius": 0.9}})
    model = KoopmanAutoencoder(Identity(), nn.Identity())
    return Run(settings, model, parts.operator, parts.units, RunFolder(Path("nowhere")))


def test_the_ablation_has_a_row_for_each_run(parts: Decomposition) -> None:
    runs = {"three": a_run(3, parts), "four": a_run(4, parts)}
    figure = figures.ablation(runs, parts.clips, 6, 11)
    x = parts.z.numpy()
    level_mark, fade = KNOWN["level"] + KNOWN["mark"], KNOWN["fade"]  # the fourth mode is what fades
    expected = [x[6], x[11]]
    for static in (level_mark, level_mark + fade):
        expected += [x[6] + (x[11] - x[6]) @ static, x[11] + (x[6] - x[11]) @ static]
    assert all(np.allclose(drawn(axes), y, atol=1e-8) for axes, y in zip(figure.axes, expected, strict=True))
    assert words(figure) == ["three", "four"]
    assert captions(figure)[:2] == ["source", "target"]
    with pytest.raises(InputError, match="expected runs by name, got none"):
        figures.ablation({}, parts.clips, 0, 1)


def test_spectra_are_drawn_at_one_scale(parts: Decomposition) -> None:
    wide = replace(a_run(3, parts), operator=replace(parts.operator, matrix=2 * parts.operator.matrix))
    figure = figures.spectra({"narrow": a_run(3, parts), "wide": wide})
    assert captions(figure) == ["narrow", "wide"]
    for axes, scale in zip(figure.axes, (1, 2), strict=True):
        static, dynamic = (np.asarray(dots.get_offsets()) for dots in axes.collections)
        assert (len(static), len(dynamic)) == (3, 5)
        both = np.concatenate([static, dynamic])
        values = scale * torch.linalg.eigvals(parts.operator.matrix)
        assert np.allclose(np.sort(both @ [1, 1j]), np.sort(values.numpy()), atol=1e-8)
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    legends = [axes.get_legend() for axes in figure.axes]
    assert all(legend is not None and legend.get_window_extent().y0 > 0 for legend in legends)
    assert captions(figures.spectrum_figure(a_run(3, parts))) == ["eigenvalues of the operator"]


def test_the_largest_gap_is_found_and_cuts_no_pair(generator: torch.Generator) -> None:
    cases: list[tuple[list[complex], int]] = [
        ([1.0, 0.99, 0.5 + 0.3j, 0.1], 2),
        ([1.0 + 0.01j, 0.99, 0.98, -0.3], 4),  # a pair and two more before it
        ([1.0, 1 + 1e-9, 1 - 1e-12, 0.9, 0.2], 3),  # how near to 1 is no gap below what matters
        ([0.9 + 0.1j, 0.9 - 0.2j], 2),
        ([0.5 + 0.5j], 2),  # nothing to cut
    ]
    for values, count in cases:
        spectrum = Spectrum.of(matrix_with(values, generator))
        assert spectrum.largest_gap() == count
        assert int(spectrum.static(count).sum()) == count


def test_the_gap_figure_marks_the_cut_and_the_gap(parts: Decomposition, generator: torch.Generator) -> None:
    (axes,) = figures.gap_figure(a_run(4, parts)).axes
    static, dynamic = (np.asarray(dots.get_offsets()) for dots in axes.collections)
    assert static[:, 0].tolist() == [1, 2, 3, 4]
    assert np.allclose(static[:, 1], [1e-3, 1e-3, 1e-3, 0.4], atol=1e-9)
    assert dynamic[:, 0].tolist() == [5, 6, 7, 8]
    assert np.allclose(dynamic[:2, 1], abs(0.95 * np.exp(0.5j) - 1), atol=1e-8)
    assert [np.asarray(line.get_xdata())[0] for line in axes.lines] == [4.5, 3.5]
    legend = axes.get_legend()
    assert legend is not None
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts[:2] == ["the cut now: 4 static", "the largest gap, 4e+02 times: 3 static"]
    assert axes.get_yscale() == "log"


def test_a_matrix_says_what_is_ideal() -> None:
    matrix = np.array([[0.97, 0.17, 0.5], [0.21, 0.88, 0.0]])
    figure = figures.matrix_figure(
        matrix, ["skin", "hair"], ["skin", "hair", "action"], "swapped", [1 / 6, 1 / 6, 1 / 9]
    )
    (axes,) = figure.axes
    assert np.array_equal(np.asarray(axes.images[0].get_array()), matrix)
    assert [text.get_text() for text in axes.texts] == ["97%", "17%", "50%", "21%", "88%", "0%"]
    framed = [(patch.get_center()) for patch in axes.patches]  # type: ignore[attr-defined]
    assert np.allclose(framed, [(0, 0), (1, 1)])
    ticks = [label.get_text() for label in axes.get_xticklabels()]
    assert ticks == ["skin\nchance 17%", "hair\nchance 17%", "action\nchance 11%"]
    assert figure.get_suptitle() == "swapped"
    with pytest.raises(
        InputError, match=r"expected a matrix \(2, 1\) for rows skin, hair and columns top, got \(2, 3\)"
    ):
        figures.matrix_figure(matrix, ["skin", "hair"], ["top"], "")
    with pytest.raises(InputError, match="expected a chance for each of skin, hair, action, got 1"):
        figures.matrix_figure(matrix, ["skin", "hair"], ["skin", "hair", "action"], "", [0.5])


def test_what_is_kept_stands_beside_what_is_taken() -> None:
    taken, kept = np.array([[0.97, 0.17], [0.21, 0.88]]), np.array([[np.nan, 0.99], [0.6, np.nan]])
    labels = ["skin", "hair"]
    figure = figures.matrix_figure(taken, labels, labels, "both", [1 / 6, 1 / 6], kept=kept)
    first, second = figure.axes
    assert np.array_equal(np.asarray(first.images[0].get_array()), taken)
    assert [text.get_text() for text in first.texts] == ["97%", "17%", "21%", "88%"]
    assert [text.get_text() for text in second.texts] == ["99%", "60%"]  # nothing on the diagonal
    assert [text.get_position() for text in second.texts] == [(1, 0), (0, 1)]
    assert len(first.patches) == 2
    assert not second.patches
    assert [axes.get_title() for axes in figure.axes] == ["shows the donor's value", "still shows its own value"]
    assert second.get_xlabel() == "ideal: 100%"
    with pytest.raises(InputError, match=r"expected a matrix \(2, 2\) .*, got \(1, 2\)"):
        figures.matrix_figure(taken, labels, labels, "both", kept=kept[:1])


def test_empty_requests_are_named(parts: Decomposition) -> None:
    with pytest.raises(InputError, match=r"expected pairs \(source, target\), got none"):
        figures.two_factor_swaps(parts, [])
    with pytest.raises(InputError, match=r"expected pairs \(source, target\), got none"):
        figures.incremental_swap(parts, [], "static", (1,))
    with pytest.raises(InputError, match="expected orders of factors"):
        figures.factorial_swap(parts, 0, 1, [])
    with pytest.raises(InputError, match=r"expected factors and donors, got \['level'\] and \[\]"):
        figures.factor_sheet(parts, ["level"], 0, [])


@pytest.mark.parametrize("steps", [1, 4])
def test_the_forecasts_are_drawn_as_curves(steps: int) -> None:
    curves: NDArray[np.float64] = np.arange(4.0 * steps).reshape(4, steps)
    ours, held, dmd, floor = curves
    errors = ForecastErrors(3, ours, held, dmd, floor, sequences=7, left_out=0, rank=2)
    figure = figures.forecast_figure(errors, "volts")
    (axes,) = figure.axes
    drawn = {str(line.get_label()): np.asarray(line.get_xydata()) for line in axes.lines}
    assert list(drawn) == [
        "holding the last frame",
        "plain DMD, rank 2",
        "our forecast",
        "our reconstruction of the same frames",
    ]
    for points, curve in zip(drawn.values(), (held, dmd, ours, floor), strict=True):
        assert np.array_equal(points, np.stack([np.arange(1, steps + 1), curve], 1))
    assert axes.get_ylabel() == "root mean squared error, volts"
    assert axes.get_ylim()[0] == 0
