"""Taking apart and putting together are inverse; edits are algebra; outputs are in the user's units."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from diskoop import load_data
from diskoop.analysis.decomposition import Decomposition
from diskoop.data.builtin.oscillators import truth
from diskoop.errors import InputError
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics import by_distance, fit_operator


@pytest.fixture
def parts() -> Decomposition:
    """The oscillators behind identity networks: everything about them is known."""
    clips = load_data("oscillators", "test").select(range(50))
    x = torch.from_numpy(clips.x)
    model = KoopmanAutoencoder(nn.Identity(), nn.Identity())
    return Decomposition.of(model, fit_operator(x, ridge=0), clips, x, 3, by_distance)


def test_static_and_dynamic_are_the_known_parts(parts: Decomposition) -> None:
    known = truth("oscillators")
    static = torch.from_numpy(sum(known.projectors[name] for name in known.static))
    assert torch.allclose(parts.static, parts.z @ static, atol=1e-8)
    assert torch.allclose(parts.static + parts.dynamic, parts.z, atol=1e-12)
    assert torch.allclose(parts.static[:, 0], parts.static[:, -1], atol=1e-8)


def test_swaps_reach_the_decoded_frames(parts: Decomposition) -> None:
    donor = np.roll(np.arange(50), 7)
    known = truth("oscillators")
    static = sum(known.projectors[name] for name in known.static)
    x = parts.z.numpy()
    expected = x + (x[donor] - x) @ static
    assert np.allclose(parts.swap("static", donor).decode(), expected, atol=1e-8)
    assert np.allclose(parts.swap(["static", "dynamic"], donor).decode(), x[donor], atol=1e-8)
    assert np.allclose(parts.swap("static", donor, amount=0.25).decode(), x + 0.25 * (expected - x), atol=1e-8)
    assert np.array_equal(parts.swap("static", np.arange(50)).decode(), x)
    assert np.allclose(parts.swap(["static", "static"], donor).decode(), expected, atol=1e-8)
    assert np.array_equal(parts.swap([], donor).decode(), x)


def test_what_is_not_there_stays_away(parts: Decomposition) -> None:
    lengths = torch.arange(50) % 20 + 4
    mask = torch.arange(24) < lengths[:, None]
    masked = replace(parts, mask=mask)
    donor = np.roll(np.arange(50), 7)
    both = (mask & mask[donor]).numpy()
    swapped, plain = masked.swap("static", donor), parts.swap("static", donor).decode()
    assert swapped.mask is not None
    assert np.array_equal(swapped.mask.numpy(), both)
    assert np.array_equal(swapped.decode()[both], plain[both])
    assert (swapped.decode()[~both] == 0).all()
    assert np.array_equal(swapped.lengths, both.sum(1))
    assert parts.lengths.tolist() == [24] * 50


def test_modes_can_be_named_by_index(parts: Decomposition) -> None:
    donor = np.roll(np.arange(50), 1)
    by_index, by_name = parts.swap([0, 1, 2], donor), parts.swap("static", donor)
    assert torch.allclose(by_index.z, by_name.z, atol=1e-10)
    coefficients = parts.spectrum.project(by_index.z)
    assert torch.allclose(coefficients[..., :3], parts.coefficients[donor][..., :3], atol=1e-8)
    assert torch.allclose(coefficients[..., 3:], parts.coefficients[..., 3:], atol=1e-8)


def test_impossible_swaps_are_named(parts: Decomposition) -> None:
    everyone = np.arange(50)
    with pytest.raises(InputError, match=r"unknown factor 'sttaic'; did you mean 'static'\?"):
        parts.swap("sttaic", everyone)
    with pytest.raises(InputError, match="cut a conjugate pair"):
        parts.swap([4], everyone)
    with pytest.raises(InputError, match="expected 50 donors from 0 to 49"):
        parts.swap("static", everyone[:3])
    with pytest.raises(InputError, match="expected 50 donors from 0 to 49"):
        parts.swap("static", everyone + 1)
    with pytest.raises(InputError, match="expected 50 donors from 0 to 49"):
        parts.swap("static", everyone / 2)
    with pytest.raises(InputError, match="names or mode indices, got"):
        parts.swap(["static", 0.5], everyone)  # type: ignore[arg-type]
