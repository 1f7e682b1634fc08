"""Swapping is algebra: nothing, everything, twice."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from diskoop.numerics import Factor, Spectrum, swap
from tests.conftest import matrix_with


@pytest.fixture
def spectrum(operator: Tensor) -> Spectrum:
    return Spectrum.of(operator)


@pytest.fixture
def pair(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    z, donor = torch.randn(2, 4, 5, 7, generator=generator, dtype=torch.float64)
    return z, donor


def test_it_exchanges_coefficients_of_its_modes_only(spectrum: Spectrum, pair: tuple[Tensor, Tensor]) -> None:
    z, donor = pair
    chosen = spectrum.select([0, 2, 3])
    new = spectrum.project(swap(z, donor, Factor.from_modes("some", spectrum, chosen)))
    expected = torch.where(chosen, spectrum.project(donor), spectrum.project(z))
    assert torch.allclose(new, expected, atol=1e-11)


def test_everything_is_the_donor_and_nothing_is_oneself(spectrum: Spectrum, pair: tuple[Tensor, Tensor]) -> None:
    z, donor = pair
    everything = Factor.from_modes("all", spectrum, spectrum.static(7))
    nothing = Factor.from_modes("none", spectrum, spectrum.static(0))
    assert torch.allclose(swap(z, donor, everything), donor, atol=1e-12)
    assert torch.equal(swap(z, donor, nothing), z)
    assert torch.equal(swap(z, z, everything), z)
    assert torch.equal(swap(z, donor, everything, amount=0.0), z)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**30), count=st.integers(0, 6), amount=st.floats(0, 1))
def test_a_mutual_exchange_done_twice_returns_both(seed: int, count: int, amount: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    spectrum = Spectrum.of(matrix_with([1.0, 0.95, 0.5 + 0.4j, 0.1 + 0.2j], generator))
    u, v = torch.randn(2, 3, 4, 6, generator=generator, dtype=torch.float64)
    static = Factor.from_modes("static", spectrum, spectrum.static(count))
    dynamic = Factor.from_modes("dynamic", spectrum, spectrum.dynamic(count))
    once = swap(u, v, static), swap(v, u, static)
    assert torch.allclose(swap(*once, static), u, atol=1e-8)
    assert torch.allclose(static.part(u) + dynamic.part(u), u, atol=1e-8)
    assert torch.allclose(swap(u, v, static), swap(v, u, dynamic), atol=1e-8)
    halfway = swap(u, v, static, amount)
    assert torch.allclose(swap(halfway, v, static), swap(u, v, static), atol=1e-8)


def test_static_parts_stay_and_dynamic_parts_fade(
    operator: Tensor, spectrum: Spectrum, pair: tuple[Tensor, Tensor]
) -> None:
    z = pair[0]
    static = Factor.from_modes("static", spectrum, spectrum.static(1))  # the eigenvalue 1
    assert torch.allclose(static.part(z) @ operator, static.part(z), atol=1e-10)
    far = torch.linalg.matrix_power(operator, 400)
    assert torch.allclose(z @ far, static.part(z), atol=1e-10)


def test_float32_latents_stay_float32(spectrum: Spectrum, pair: tuple[Tensor, Tensor]) -> None:
    z, donor = (part.float() for part in pair)
    static = Factor.from_modes("static", spectrum, spectrum.static(2))
    assert static.projector.dtype == torch.float64
    assert swap(z, donor, static).dtype == torch.float32
