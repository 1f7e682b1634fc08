"""The series obey the operators they are said to come from."""

import numpy as np
import pytest
import torch

from diskoop import load_data
from diskoop.data.sets.oscillators import truth
from diskoop.errors import InputError
from diskoop.numerics import Factor, Spectrum, fit_operator, swap


@pytest.mark.parametrize("name", ["oscillators", "growth"])
def test_the_known_operator_is_found_in_the_data(name: str) -> None:
    x = torch.from_numpy(load_data(name, "train").x)
    assert np.allclose(fit_operator(x, ridge=0).matrix.numpy(), truth(name).operator, atol=1e-10)


@pytest.mark.parametrize("name", ["oscillators", "growth"])
def test_the_known_factors_are_a_decomposition(name: str) -> None:
    known = truth(name)
    assert np.allclose(sum(known.projectors.values()), np.eye(len(known.operator)))
    for first, P in known.projectors.items():
        assert np.allclose(P @ known.operator, known.operator @ P)
        for second, Q in known.projectors.items():
            assert np.allclose(P @ Q, P if first == second else 0)
        assert np.allclose(P @ known.operator, P) == (first in known.static)


def test_known_factors_swap_exactly() -> None:
    """Level and mark are the static part of the fitted spectrum; swapping it changes their labels' values only."""
    clips, known = load_data("oscillators", "test"), truth("oscillators")
    x = torch.from_numpy(clips.x)
    spectrum = Spectrum.of(fit_operator(x, ridge=0).matrix)
    static = Factor.from_modes("static", spectrum, spectrum.static(3))
    expected = torch.from_numpy(known.projectors["level"] + known.projectors["mark"])
    assert torch.allclose(static.projector, expected, atol=1e-8)
    swapped = swap(x, x.roll(1, 0), static)
    kept = torch.from_numpy(known.projectors["slow"] + known.projectors["fast"] + known.projectors["fade"])
    assert torch.allclose(swapped @ kept, x @ kept, atol=1e-8)
    assert torch.allclose(swapped @ expected, x.roll(1, 0) @ expected, atol=1e-8)


def test_growth_grows_and_the_pendulum_keeps_its_energy() -> None:
    assert max(abs(np.linalg.eigvals(truth("growth").operator))) == pytest.approx(1.08)
    x = load_data("pendulum", "all").x
    rod = np.hypot(x[..., 0], x[..., 1])
    energy = x[..., 2] ** 2 / 2 + x[..., 1] / rod
    assert np.ptp(energy, axis=1).max() < 1e-4
    assert np.ptp(rod, axis=1).max() < 1e-12
    assert np.ptp(x[..., 0], axis=1).min() > 0.3  # it does swing


@pytest.mark.parametrize("name", ["oscillators", "growth", "pendulum"])
def test_splits_are_disjoint_and_the_same_every_time(name: str) -> None:
    parts = [load_data(name, split).x for split in ("train", "val", "test")]
    assert np.array_equal(np.concatenate(parts), load_data(name, "all").x)
    assert np.array_equal(parts[0], load_data(name, "train").x)
    starts = np.concatenate(parts)[:, 0]
    assert len(np.unique(starts, axis=0)) == len(starts)


def test_what_they_are_not_is_named() -> None:
    with pytest.raises(InputError, match=r"data\.size = 32 means nothing for oscillators"):
        load_data("oscillators", size=32)
    with pytest.raises(InputError, match="got 'pendulum'"):
        truth("pendulum")
