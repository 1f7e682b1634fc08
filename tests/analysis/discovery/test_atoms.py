"""Atoms add up to the whole, are projectors, and are the parts that made the data."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery.atoms import find_atoms
from diskoop.data.sets.oscillators import truth
from diskoop.errors import InputError


def test_atoms_are_projectors_that_add_up(parts: Decomposition) -> None:
    atoms = find_atoms(parts)
    whole = sum(atoms.projectors, start=atoms.remainder)
    assert torch.allclose(whole, torch.eye(8, dtype=torch.float64), atol=1e-8)
    for i, p in enumerate(atoms.projectors):
        assert torch.allclose(p @ p, p, atol=1e-8)
        for q in atoms.projectors[:i]:
            assert torch.allclose(p @ q, torch.zeros_like(p), atol=1e-8)


def test_separate_motions_are_separate_atoms(parts: Decomposition) -> None:
    atoms, known = find_atoms(parts), truth("oscillators").projectors
    assert atoms.num_static == 3
    for name in ("slow", "fast", "fade"):
        errors = [float((p - torch.from_numpy(known[name])).abs().max()) for p in atoms.projectors[atoms.num_static :]]
        assert min(errors) < 1e-8


@pytest.mark.parametrize("kind", ["small", "unsteady"])
def test_directions_that_nothing_uses_are_left(parts: Decomposition, kind: str) -> None:
    """A fourth static direction: one along which clips hardly differ, or one that differs from frame to frame."""
    generator = torch.Generator().manual_seed(0)
    count, time, _ = parts.z.shape
    shape = (count, 1, 1) if kind == "small" else (count, time, 1)
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64).expand(count, time, 1)
    z = torch.cat([parts.z, 0.05 * drawn if kind == "small" else 10 * drawn], -1)
    wider = torch.block_diag(parts.factors["static"].projector, torch.eye(1, dtype=torch.float64))  # type: ignore[no-untyped-call]
    static = replace(parts.factors["static"], projector=wider)
    directions = find_atoms(_static_only(replace(parts, z=z, factors={"static": static}))).directions
    assert directions.shape == (3, 9)
    assert np.abs(directions[:, 8]).max() < 0.1


def _static_only(parts: Decomposition) -> Decomposition:
    return replace(parts, static_modes=torch.ones(8, dtype=torch.bool))


def test_too_few_sequences_are_refused(parts: Decomposition) -> None:
    with pytest.raises(InputError, match=r"needs at least 24 sequences \(8 for each of the 3 .* used\), got 20"):
        find_atoms(parts.select(range(20)))


def test_what_is_not_there_is_not_looked_at(parts: Decomposition) -> None:
    some = parts.select(range(300))
    mask = torch.arange(24) < (12 + torch.arange(300) % 13)[:, None]
    masked = replace(some, mask=mask)
    padded = replace(masked, z=torch.where(mask.unsqueeze(-1), some.z, 1e6))
    one, other = find_atoms(masked), find_atoms(padded)
    assert np.array_equal(one.codes, other.codes)
    assert all(torch.equal(p, q) for p, q in zip(one.projectors, other.projectors, strict=True))
