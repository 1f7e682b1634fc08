"""Solvers that are compared agree, batches arrive whole, and everything has a speed."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from diskoop.bench.pieces import (
    SOLVERS,
    _drain,
    _gradient,
    _on_disk,
    by_gram_on_the_cpu,
    by_pseudo_inverse,
    inference,
    latents,
    loader,
    solvers,
)
from diskoop.bench.steps import noise, paper_spectral_loss
from diskoop.numerics import Spectrum, spectral_loss
from diskoop.training.batches import Batch
from tests.bench.small import CPU, QUICK, VIDEO


@pytest.mark.parametrize("k", [5, 40])
def test_solvers_agree_and_so_do_their_gradients(k: int) -> None:
    z = latents(k, CPU).double().requires_grad_()
    pull = torch.randn(k, k, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    truth = by_pseudo_inverse(z)
    (wanted,) = torch.autograd.grad(truth, z, pull)
    for name, solve in (SOLVERS | {"on the CPU": by_gram_on_the_cpu}).items():
        C = solve(z)
        (gradient,) = torch.autograd.grad(C, z, pull)
        assert torch.allclose(C, truth, atol=1e-7), name
        assert torch.allclose(gradient, wanted, atol=1e-7 * float(wanted.abs().max())), name


def test_both_spectral_losses_pull_alike(operator: torch.Tensor) -> None:
    static = int(Spectrum.of(operator).static(3).sum())
    for radius in (0.05, 0.2):  # all of the others count, or some
        ways = (partial(loss, static=static, radius=radius) for loss in (paper_spectral_loss, spectral_loss))
        (theirs, pull), (ours, other) = ((way(operator), _gradient(way, operator)) for way in ways)
        assert float(ours) == pytest.approx(float(theirs), rel=1e-9)
        assert torch.allclose(other, pull, atol=1e-9)


def test_a_batch_has_enough_pairs_for_its_k() -> None:
    assert latents(40, CPU).shape == (32, 8, 40)
    batch, time, k = latents(320, CPU).shape
    assert batch * (time - 1) >= 2 * k


def test_solvers_say_how_far_off_they_are() -> None:
    before = torch.get_num_threads()
    operators, spectra = solvers(QUICK, (9, 12))
    assert [row["k"] for row in operators.rows] == [9] * 3 + [12] * 3
    assert [row["k"] for row in spectra.rows] == [9, 9, 12, 12]
    for row in [*operators.rows, *spectra.rows]:
        assert row["ms"] > 0
        assert 0 <= row["off by"] < 1e-3
    assert torch.get_num_threads() == before


def test_a_wrong_answer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOLVERS, "ours", lambda z: by_pseudo_inverse(z) * 1.5)
    operators, _ = solvers(QUICK, (9,))
    assert operators.rows[2]["way"] == "ours"
    assert operators.rows[2]["off by"] == pytest.approx(0.5, abs=1e-3)


def test_every_batch_is_drawn() -> None:
    seen: list[int] = []

    def feed(batches: object) -> list[Batch]:
        assert isinstance(batches, list)
        seen.extend(int(i) for some in batches for i in some)
        return [Batch(some, torch.zeros(len(some)), None, 0.0) for some in batches]

    _drain(lambda batches: iter(feed(batches)), [np.arange(3), np.arange(3, 5)], CPU)
    assert seen == [0, 1, 2, 3, 4]


def test_the_streamed_set_is_the_resident_one(tmp_path: Path) -> None:
    data = noise(VIDEO, 6)
    streamed = _on_disk(data, tmp_path / "x.npy")
    assert isinstance(streamed.frames, np.memmap)
    assert np.array_equal(streamed.take([4, 1]), data.take([4, 1]))


def test_loading_stands_beside_a_step() -> None:
    (table,) = loader(QUICK, VIDEO, 16)
    assert [row["from"] for row in table.rows] == ["resident", "streamed", "what our step takes"]
    assert table.rows[-1]["times a step's"] == pytest.approx(1.0)
    clip = 5 * 3 * 32 * 32 / 1e6
    for row in table.rows:
        assert row["MB/s"] == pytest.approx(row["sequences/s"] * clip)
        assert row["sequences/s"] > 0


def test_inference_takes_apart_puts_together_and_judges() -> None:
    (table,) = inference(QUICK, VIDEO, 6)
    verbs = ["encode, decompose", "swap, decode", "judge", "swap, decode, judge, all on the device"]
    assert [row["what"] for row in table.rows] == verbs
    for row in table.rows:
        assert row["sequences/s"] == pytest.approx(6000 / row["ms"])
