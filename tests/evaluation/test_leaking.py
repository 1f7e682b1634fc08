"""The model that cheats does cheat: its static part is perfectly still, and nothing that is drawn depends on it."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from diskoop import load_data
from diskoop.analysis.decomposition import Decomposition
from diskoop.data.sequences import Sequences
from diskoop.evaluation.leaking import leaking
from diskoop.models.autoencoder import build_model
from diskoop.run import Run
from diskoop.settings import Settings
from diskoop.training.checkpoint import RunFolder
from diskoop.training.loop import frozen_operator

STATIC = 3
DONORS = np.roll(np.arange(24), 1)
Frames = NDArray[Any]


def untrained(train: Sequences, dtype: torch.dtype = torch.float64) -> Run:
    """Random networks will do: how well they draw is nothing to how a static part is faked."""
    settings = Settings.of({"model": {"k": 8, "h": 12, "width": 4}, "spectrum": {"static": STATIC}})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = build_model(settings.model, train.shape[2:]).to(dtype).eval()
    return Run(settings, model, frozen_operator(model, train, 32), train.units, RunFolder(Path("nowhere")))


def signals() -> Sequences:
    return load_data("oscillators", "train").select(range(200))


def ragged() -> Sequences:
    whole = signals()
    return Sequences.of(whole.x, lengths=np.arange(200) % 17 + 8, units=whole.units)


class Both:
    """A run and the cheat made of it, on the first of its training sequences."""

    def __init__(self, train: Sequences) -> None:
        self.run = untrained(train)
        self.cheat = leaking(self.run, train)
        self.clips = train.select(range(len(DONORS)))
        self.honest: Decomposition = self.run.decompose(self.clips)
        self.parts: Decomposition = self.cheat.decompose(self.clips)
        self.drawn: Frames = self.parts.decode()
        self.nothing = 0.01 * self.drawn.std()  # what least squares finds in chance agreements of the two parts

    def far(self, edited: Decomposition, wanted: Frames) -> float:
        """The largest difference where there are frames."""
        inside = np.arange(wanted.shape[1]) < edited.lengths[:, None]
        return float(np.abs(edited.decode() - wanted)[inside].max())


@pytest.fixture(scope="module", params=[signals, ragged])
def both(request: pytest.FixtureRequest) -> Both:
    return Both(request.param())


def test_it_draws_what_the_run_draws(both: Both) -> None:
    assert both.far(both.parts, both.honest.decode()) < 1e-12
    assert both.drawn.std() > 0


def test_its_latents_are_the_runs_with_signs_that_alternate(both: Both) -> None:
    signs = torch.tensor([1.0, -1.0]).repeat(12).unsqueeze(-1).to(both.parts.z)
    assert both.parts.z.shape == (len(DONORS), 24, 8 + STATIC)
    assert torch.allclose(both.parts.z[..., STATIC:], both.honest.z * signs)


def test_its_static_part_is_still_and_tells_sequences_apart(both: Both) -> None:
    still = both.parts.z[..., :STATIC]
    for row, length in zip(still, both.parts.lengths, strict=True):
        assert torch.equal(row[:length], row[:1].expand(int(length), -1))
    apart = torch.pdist(still[:, 0])
    assert (apart > 1e-3).double().mean() > 0.9
    assert int(torch.linalg.matrix_rank(still[:, 0])) == STATIC


def test_its_static_part_is_about_the_first_frame(both: Both) -> None:
    x = both.clips.x[:, :8].copy()
    later, first = x.copy(), x.copy()
    later[:, 1:] += 1
    first[:, 0] += 1
    still, same, other = (both.cheat.decompose(some).z[..., :STATIC] for some in (x, later, first))
    assert torch.equal(same, still)
    assert (other - still).abs().max() > 0.1


def test_networks_are_told_which_frames_exist() -> None:
    train = ragged()
    run = untrained(train)
    told: list[torch.Tensor | None] = []
    run.model.encoder.register_forward_pre_hook(lambda _, given: told.append(given[1] if len(given) > 1 else None))
    clips = train.select(range(8))
    leaking(run, train).decompose(clips)
    assert told[-1] is not None
    assert np.array_equal(told[-1].numpy(), np.arange(told[-1].shape[1]) < clips.lengths[:, None])
    assert all(mask is not None for mask in told)
    run.decompose(signals().select(range(8)))
    assert told[-1] is None


def test_its_static_eigenvalues_are_1_and_no_other_is(both: Both) -> None:
    spectrum, static = both.cheat.spectrum()
    assert int(static.sum()) == STATIC
    assert (spectrum.eigenvalues[static] - 1).abs().max() < 1e-6
    assert (spectrum.eigenvalues[~static] - 1).abs().min() > 0.1


def test_what_stayed_now_turns(both: Both) -> None:
    """Eigenvalues of the run near 1, of what hardly changes, are the cheat's near -1."""
    was, _ = both.run.spectrum()
    now, static = both.cheat.spectrum()
    nearest = (was.eigenvalues - 1).abs().min()
    assert (now.eigenvalues[~static] + 1).abs().min() == pytest.approx(float(nearest), abs=0.02)


def test_static_parts_of_others_draw_the_same(both: Both) -> None:
    swapped = both.parts.swap("static", DONORS)
    sampled = both.parts.sample("static", torch.Generator().manual_seed(0))
    for edited in (swapped, sampled):
        assert both.far(edited, both.drawn) < both.nothing
        assert (edited.z - both.parts.z)[:, 0, :STATIC].abs().max() > 0.1  # though they are others


def test_the_dynamic_part_of_another_draws_the_other(both: Both) -> None:
    swapped = both.parts.swap("dynamic", DONORS)
    assert both.far(swapped, both.drawn[DONORS]) < both.nothing
    assert both.far(swapped, both.drawn) > 10 * both.nothing


def test_where_lengths_differ_what_both_have_is_left() -> None:
    both = Both(ragged())
    wanted = np.minimum(both.clips.lengths, both.clips.lengths[DONORS])
    assert both.parts.mask is not None
    assert np.array_equal(both.parts.swap("dynamic", DONORS).lengths, wanted)


def test_video_cheats_too() -> None:
    train = load_data("puppets", "train", size=32).select(range(40))
    run = untrained(train, torch.float32)
    cheat = leaking(run, train)
    clips = train.select(range(8))
    honest, parts = run.decompose(clips), cheat.decompose(clips)
    drawn, donors = parts.decode().astype(int), np.roll(np.arange(8), 1)
    assert np.array_equal(drawn, honest.decode())
    spectrum, static = cheat.spectrum()
    assert (spectrum.eigenvalues[static] - 1).abs().max() < 1e-6
    assert np.abs(parts.swap("static", donors).decode() - drawn).max() <= 1
    assert np.abs(parts.swap("dynamic", donors).decode() - drawn[donors]).max() <= 1


def test_a_seed_decides_and_the_run_stays_as_it_was() -> None:
    train = signals()
    run = replace(untrained(train), found=cast(Any, "factors of other latents"))
    before = run.operator.matrix.clone()
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    one, again, other = (leaking(run, train, seed) for seed in (0, 0, 1))
    assert torch.equal(torch.rand(4), wanted)
    assert torch.equal(one.operator.matrix, again.operator.matrix)
    assert not torch.equal(one.operator.matrix, other.operator.matrix)
    assert run.settings.model.k == 8
    assert one.settings.model.k == 8 + STATIC
    assert one.found is None
    assert torch.equal(run.operator.matrix, before)
    assert one.operator.source == run.operator.source
