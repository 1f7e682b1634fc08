"""Sheets hold the right sequences under the right captions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.editing import swap_combinations, swap_cumulatively, swap_incrementally
from diskoop.analysis.sheets import (
    STAGE_CAPTIONS,
    Sheet,
    ablation,
    all_combinations,
    factor_sheet,
    factorial_swap,
    generation,
    incremental_swap,
    two_factor_swaps,
)
from diskoop.data.sequences import Sequences
from diskoop.data.sets.oscillators import truth
from diskoop.errors import InputError
from diskoop.numerics import by_distance
from diskoop.numerics.mixing import batch_weights, pair_weights
from tests.helpers.decompositions import oscillators_as

KNOWN = truth("oscillators").projectors


@pytest.fixture
def parts() -> Decomposition:
    return oscillators_as("series")


@pytest.fixture
def video() -> Decomposition:
    return oscillators_as("video")


def holds(sheet: Sheet, expected: Sequence[NDArray[Any]]) -> bool:
    return all(np.allclose(cell.x, x, atol=1e-9) for cell, x in zip(sheet.cells, expected, strict=True))


def captions(sheet: Sheet) -> list[str]:
    return [cell.caption for cell in sheet.cells]


def test_two_factor_swaps_hold_both_parts_of_each_pair(parts: Decomposition) -> None:
    sheet = two_factor_swaps(parts, [(0, 1), (5, 2)])
    expected = []
    for receiver, donor in ((0, 1), (5, 2)):
        static, dynamic = (parts.swap(what, {receiver: donor}).z[receiver].numpy() for what in ("static", "dynamic"))
        given = [parts.clips.x[receiver], parts.clips.x[donor]]
        expected += [*given, parts.z[receiver].numpy(), parts.z[donor].numpy(), static, dynamic]
    assert holds(sheet, expected)
    assert [len(row) for row in sheet.rows] == [2, 2, 2, 0, 2, 2, 2]
    assert [cell.part for cell in sheet.cells[6:]] == [None, None, None, None, "static", "dynamic"]
    assert captions(sheet)[6:] == [
        f"receiver, original: {parts.clips.title(5)}",
        f"donor, original: {parts.clips.title(2)}",
        "receiver, as the model draws it",
        "donor, as the model draws it",
        "receiver with the donor's static part",
        "receiver with the donor's dynamic part",
    ]


def test_factorial_swaps_have_a_row_for_each_order(parts: Decomposition) -> None:
    orders = [["level", "mark"], ["mark", "level", "slow"]]
    sheet = factorial_swap(parts, 0, 1, orders)
    stages = [[x for _, x in swap_cumulatively(parts, 0, 1, order).rows()] for order in orders]
    assert holds(sheet, [x for some in stages for x in (parts.clips.x[0], *some, parts.clips.x[1])])
    receiver, donor = STAGE_CAPTIONS[:2], STAGE_CAPTIONS[2:]
    assert captions(sheet) == [
        *(*receiver, "+ level", "+ mark", *donor),
        *(*receiver, "+ mark", "+ level", "+ slow", *donor),
    ]
    assert sheet.remark == f"receiver: {parts.clips.title(0)}\ntarget: {parts.clips.title(1)}"


def test_stages_of_video_are_middle_frames(video: Decomposition) -> None:
    sheet = factorial_swap(video, 0, 1, [["level", "mark"]])
    black = video.clips.x[0, :1]
    stages = [x[12:13] for _, x in swap_cumulatively(video, 0, 1, ["level", "mark"]).rows()]
    assert holds(sheet, [black, *stages, black])


def test_all_combinations_have_a_row_each(video: Decomposition) -> None:
    names = ["level", "mark", "slow", "fade"]
    sheet, stages = all_combinations(video, 0, 1, names), swap_combinations(video, 0, 1, names)
    assert holds(sheet, [video.clips.x[0], *(x for _, x in stages.rows()), video.clips.x[1]])
    assert list(sheet.row_headings) == [*STAGE_CAPTIONS[:2], *stages.captions[1:-1], *STAGE_CAPTIONS[2:]]
    assert len(sheet.rows) == 19
    assert sheet.remark == f"receiver: {video.clips.title(0)}\ntarget: {video.clips.title(1)}"


def test_incremental_swaps_have_a_column_for_each_pair(parts: Decomposition) -> None:
    sheet = incremental_swap(parts, [(0, 1), (2, 3)], "dynamic", (1, None))
    left, right = (swap_incrementally(parts, *pair, "dynamic", (1, None)).rows() for pair in ((0, 1), (2, 3)))
    stages = [x for (_, a), (_, b) in zip(left, right, strict=True) for x in (a, b)]
    assert holds(sheet, [*parts.clips.x[[0, 2]], *stages, *parts.clips.x[[1, 3]]])
    modes = ["1 of 5 dynamic modes", "all 5 dynamic modes"]
    assert list(sheet.row_headings) == [*STAGE_CAPTIONS[:2], *modes, *STAGE_CAPTIONS[2:]]
    assert sheet.column_headings[0] == f"{parts.clips.title(0)}\n→ {parts.clips.title(1)}"


def test_generation_holds_the_sources_and_their_samples(parts: Decomposition) -> None:
    sheet = generation(parts, "static", torch.Generator().manual_seed(1), count=3)
    sampled = parts.sample("static", torch.Generator().manual_seed(1)).z.numpy()
    assert holds(sheet, [x for i in range(3) for x in (parts.clips.x[i], parts.z[i].numpy(), sampled[i])])
    assert sheet.column_headings[0] == "receiver, original"
    assert sheet.column_headings[2] == "the static part sampled, the rest kept"
    weights = pair_weights(40, torch.Generator().manual_seed(1))[2]
    donors = " and ".join(f"oscillators {1800 + int(i)} ({float(weights[i]):.0%})" for i in weights.nonzero())
    assert captions(sheet)[8] == f"oscillators 1802 with the static part of {donors}"
    mixed = generation(parts, "level", torch.Generator().manual_seed(1), 1, batch_weights)
    assert captions(mixed)[2] == "oscillators 1800 with level of 40 clips"
    with pytest.raises(InputError, match="expected a count from 1 to 40, the sequences there are, got 41"):
        generation(parts, "static", torch.Generator(), count=41)


def test_a_factor_sheet_swaps_each_factor_of_each_donor(parts: Decomposition) -> None:
    sheet = factor_sheet(parts, ["level", "fast"], 4, [7, 9], {"fast": "a quick turn"})
    swapped = {(name, i): parts.swap(name, {4: i}).z[4] for name in ("level", "fast") for i in (7, 9)}
    rows = [[parts.z[4], swapped[name, 7], swapped[name, 9]] for name in ("level", "fast")]
    shown = [4, 7, 9]
    assert holds(sheet, [*parts.clips.x[shown], *(x.numpy() for x in (*parts.z[shown], *rows[0], *rows[1]))])
    assert sheet.row_headings == ["original", "as the model draws it", "level", "fast\na quick turn"]
    roles = ("receiver", "donor", "donor")
    assert sheet.column_headings == [f"{role}: {parts.clips.title(i)}" for role, i in zip(roles, shown, strict=True)]


def test_originals_are_the_clips_themselves(video: Decomposition) -> None:
    """Black here, whatever their latents."""
    original, decoded, swapped = factor_sheet(video, ["level"], 0, [1]).rows
    assert not any(cell.x.any() for cell in original if cell)
    assert all(cell.x.any() for cell in (*decoded, *swapped) if cell)


def test_the_ablation_has_a_row_for_each_model(parts: Decomposition) -> None:
    models = {
        name: Decomposition.of(parts.model, parts.operator, parts.clips, parts.z, static, by_distance)
        for name, static in (("three", 3), ("four", 4))
    }
    sheet = ablation(models, 6, 11)
    x = parts.z.numpy()
    level_mark, fade = KNOWN["level"] + KNOWN["mark"], KNOWN["fade"]  # the fourth mode is what fades
    expected = [x[6], x[11]]
    for static in (level_mark, level_mark + fade):
        expected += [x[6] + (x[11] - x[6]) @ static, x[11] + (x[6] - x[11]) @ static]
    assert all(np.allclose(cell.x, y, atol=1e-8) for cell, y in zip(sheet.cells, expected, strict=True))
    assert sheet.row_headings == ["", "", "three", "four"]
    assert captions(sheet)[0] == f"receiver, original: {parts.clips.title(6)}"
    with pytest.raises(InputError, match="expected decompositions by name, got none"):
        ablation({}, 0, 1)


def test_an_ablation_begins_with_the_clips_themselves_without_padding(video: Decomposition) -> None:
    """Not decoded: here they are black, whatever their latents."""
    lengths = np.where(np.arange(40) == 1, 10, 24)
    clips = Sequences.of(video.clips.x, lengths=lengths)
    mask = torch.arange(24) < torch.from_numpy(lengths)[:, None]
    padded = Decomposition.of(video.model, video.operator, clips, video.z, 3, by_distance, mask)
    receiver, donor, *swapped = ablation({"one": padded}, 0, 1).cells
    assert not receiver.x.any()
    assert not donor.x.any()
    assert (len(receiver.x), len(donor.x)) == (24, 10)
    assert all(cell.x.any() and len(cell.x) == 10 for cell in swapped)


def test_empty_requests_are_named(parts: Decomposition) -> None:
    with pytest.raises(InputError, match=r"expected pairs \(receiver, donor\), got none"):
        two_factor_swaps(parts, [])
    with pytest.raises(InputError, match=r"expected pairs \(receiver, donor\), got none"):
        incremental_swap(parts, [], "static", (1,))
    with pytest.raises(InputError, match="expected orders of factors"):
        factorial_swap(parts, 0, 1, [])
    with pytest.raises(InputError, match=r"expected factors and donors, got \['level'\] and \[\]"):
        factor_sheet(parts, ["level"], 0, [])
