"""Modes come in whole conjugate pairs, in the right order, and project and lift are inverse."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from diskoop.errors import InputError
from diskoop.numerics import Spectrum, by_distance, by_modulus
from diskoop.numerics.spectrum import MAX_CONDITION, ModeOrder, SpectralSplit
from tests.conftest import matrix_with


def test_known_eigenvalues_in_order(operator: Tensor) -> None:
    spectrum = Spectrum.of(operator)
    known = torch.tensor([1, 0.9, 0.6 + 0.5j, 0.6 - 0.5j, 0.2 + 0.3j, 0.2 - 0.3j, -0.1], dtype=torch.complex128)
    assert torch.allclose(spectrum.eigenvalues, known, atol=1e-10)


def test_order_by_modulus(generator: torch.Generator) -> None:
    C = matrix_with([0.5, 0.9j, -0.7, 1.1], generator)
    values = Spectrum.of(C, by_modulus).eigenvalues
    assert torch.allclose(values, torch.tensor([1.1, 0.9j, -0.9j, -0.7, 0.5], dtype=torch.complex128), atol=1e-10)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**30), k=st.integers(1, 12), order=st.sampled_from([by_distance, by_modulus]))
def test_it_is_an_eigendecomposition_with_pairs_side_by_side(seed: int, k: int, order: ModeOrder) -> None:
    C = torch.randn(k, k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    spectrum = Spectrum.of(C, order)
    values, V, U = spectrum.eigenvalues, spectrum.to_modes, spectrum.from_modes
    assert torch.allclose((V * values) @ U, C.to(V), atol=1e-7)
    key = order(values)
    assert (key[1:] >= key[:-1] - 1e-12).all()
    first = 0
    while first < k:
        if values[first].imag == 0:
            first += 1
        else:
            assert values[first].imag > 0
            assert values[first + 1] == values[first].conj()
            first += 2


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**30), k=st.integers(2, 10), data=st.data())
def test_the_split_is_whole_and_its_projectors_are_complementary(seed: int, k: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, k))
    C = torch.randn(k, k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    spectrum = Spectrum.of(C)
    static, dynamic = spectrum.static(count), spectrum.dynamic(count)
    assert torch.equal(static, ~dynamic)
    assert count <= int(static.sum()) <= count + 1
    chosen = torch.nonzero(static).flatten().tolist()
    assert spectrum.complete(chosen) == chosen
    P, Q = spectrum.projector(static), spectrum.projector(dynamic)
    eye, scale = torch.eye(k, dtype=torch.float64), float(P.abs().max()) ** 2 + 1
    assert torch.allclose(P + Q, eye, atol=1e-8 * scale)
    assert torch.allclose(P @ P, P, atol=1e-8 * scale)
    assert torch.allclose(P @ C, C @ P, atol=1e-7 * scale)


def test_a_count_that_would_cut_a_pair_completes_it(operator: Tensor) -> None:
    spectrum = Spectrum.of(operator)
    assert [int(spectrum.static(count).sum()) for count in range(8)] == [0, 1, 2, 4, 4, 6, 6, 7]


def test_every_operator_of_a_batch_is_split_on_its_own(generator: torch.Generator) -> None:
    pair, plain = matrix_with([0.9 + 0.1j, 0.1], generator), matrix_with([0.9, 0.5, 0.1], generator)
    batch = Spectrum.of(torch.stack([pair, plain]))
    assert batch.static(1).tolist() == [[True, True, False], [True, False, False]]
    assert torch.allclose(
        batch.projector(batch.static(1))[1], Spectrum.of(plain).projector(Spectrum.of(plain).static(1))
    )


def test_extent_says_how_well_the_two_parts_keep_apart(operator: Tensor) -> None:
    spectrum = Spectrum.of(operator)  # 1, 0.9, 0.6 +- 0.5i, ...
    known = {0: (0.0, 1.0), 1: (0.0, 0.9), 2: (0.1, 0.61**0.5), 7: (1.1, 0.0)}
    for count, expected in known.items():
        ours = spectrum.gap_and_radius(spectrum.static(count))
        assert [float(part) for part in ours] == pytest.approx(expected, abs=1e-9)


def test_project_and_lift_are_inverse(operator: Tensor, generator: torch.Generator) -> None:
    spectrum = Spectrum.of(operator)
    z = torch.randn(3, 5, 7, generator=generator, dtype=torch.float64)
    assert torch.allclose(spectrum.lift(spectrum.project(z)), z, atol=1e-12)
    stepped = spectrum.lift(spectrum.project(z) * spectrum.eigenvalues)
    assert torch.allclose(stepped, z @ operator, atol=1e-12)


def test_lift_refuses_coefficients_that_cut_a_pair(operator: Tensor, generator: torch.Generator) -> None:
    spectrum = Spectrum.of(operator)
    coefficients = spectrum.project(torch.randn(3, 5, 7, generator=generator, dtype=torch.float64))
    coefficients[..., 2] = 0
    with pytest.raises(InputError, match="both halves of a conjugate pair"):
        spectrum.lift(coefficients)


def test_a_small_pair_beside_large_modes_is_not_overlooked(operator: Tensor, generator: torch.Generator) -> None:
    spectrum = Spectrum.of(operator)
    coefficients = spectrum.project(torch.randn(3, 5, 7, generator=generator, dtype=torch.float64))
    coefficients[..., [0, 1, 2, 3, 6]] *= 1e9
    spectrum.lift(coefficients)
    coefficients[..., 4] = 0
    with pytest.raises(InputError, match="both halves of a conjugate pair"):
        spectrum.lift(coefficients)


def test_projectors_refuse_what_select_refuses(operator: Tensor) -> None:
    spectrum = Spectrum.of(operator)
    half = torch.zeros(7, dtype=torch.bool)
    half[2] = True
    with pytest.raises(InputError, match="cuts a conjugate pair"):
        spectrum.projector(half)
    with pytest.raises(InputError, match=r"boolean selection \(7,\), got torch.int64 \(2,\)"):
        spectrum.projector(torch.tensor([0, 1]))


def test_every_operator_of_a_batch_projects_and_lifts_its_own_sequence(generator: torch.Generator) -> None:
    pair, plain = matrix_with([0.9 + 0.1j, 0.1], generator), matrix_with([0.9, 0.5, 0.1], generator)
    batch = Spectrum.of(torch.stack([pair, plain]))
    z = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
    assert torch.allclose(batch.lift(batch.project(z)), z, atol=1e-10)


def test_a_selection_that_cuts_a_pair_is_refused_and_completed(operator: Tensor) -> None:
    spectrum = Spectrum.of(operator)
    with pytest.raises(InputError, match=r"modes \[0, 3\] cut a conjugate pair: \[2\] must come along.*\[0, 2, 3\]"):
        spectrum.select([0, 3])
    assert spectrum.complete([0, 3]) == [0, 2, 3]
    assert torch.nonzero(spectrum.select([3, 0, 2])).flatten().tolist() == [0, 2, 3]
    with pytest.raises(InputError, match=r"from 0 to 6, got \[9\]"):
        spectrum.select([1, 9])
    with pytest.raises(InputError, match="from 0 to k = 7, got 8"):
        spectrum.static(8)


def test_parallel_modes_are_refused() -> None:
    jordan = torch.tensor([[1.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    spectrum = Spectrum.of(jordan)
    assert spectrum.condition > 1e11
    with pytest.raises(InputError, match="1 of the operator's 2 eigenvalues cannot be separated from the others"):
        spectrum.projector(torch.tensor([True, False]))
    with pytest.raises(InputError, match="modes are not a basis"):
        spectrum.project(torch.ones(1, 2, dtype=torch.float64))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**30), size=st.integers(2, 4), others=st.integers(1, 5))
def test_a_part_is_exact_where_its_eigenvectors_are_parallel(seed: int, size: int, others: int) -> None:
    """A Jordan block at 1, coupled to eigenvalues inside the ball, in a random orthogonal basis: known by algebra."""
    generator = torch.Generator().manual_seed(seed)
    draw = partial(torch.randn, generator=generator, dtype=torch.float64)
    k = size + others
    block = torch.eye(size, dtype=torch.float64).diagonal_scatter(torch.ones(size - 1, dtype=torch.float64), 1)
    inside = torch.diag(0.5 * torch.rand(others, generator=generator, dtype=torch.float64))
    coupling = draw(size, others)
    # With X block - inside-wise: [[J, B], [0, D]] commutes with [[I, Y], [0, 0]] where J Y - Y D = B, column by column.
    Y = torch.stack(
        [torch.linalg.solve(block - inside[i, i] * torch.eye(size).double(), coupling[:, i]) for i in range(others)], 1
    )
    whole = torch.cat([torch.cat([block, coupling], 1), torch.cat([torch.zeros(others, size), inside], 1)])
    known = torch.cat([torch.cat([torch.eye(size), Y], 1), torch.zeros(others, k)])
    Q = torch.linalg.qr(draw(k, k))[0]
    spectrum = Spectrum.of(Q @ whole @ Q.T)
    P = spectrum.projector(spectrum.static(size))
    assert torch.allclose(P, Q @ known @ Q.T, atol=1e-9 * float(known.norm()))
    assert torch.allclose(SpectralSplit.of(Q @ whole @ Q.T, size).projector, P, atol=1e-9 * float(known.norm()))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**30))
def test_a_mode_is_itself_where_eigenvectors_are_nearly_parallel_and_distances_tie(seed: int) -> None:
    """0.5 and 1.5 are equally far from 1: which comes first is rounding, and differs between algorithms."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.tensor([0.8, 0.3, 0.5, 1.5, 0.1, -0.4], dtype=torch.float64)
    V = torch.linalg.qr(torch.randn(6, 6, generator=generator, dtype=torch.float64))[0]
    V[:, 5] = V[:, 4] + 1e-5 * V[:, 5]
    spectrum = Spectrum.of(V @ torch.diag(values) @ torch.linalg.inv(V))
    assert spectrum.condition > MAX_CONDITION
    for mode, value in enumerate(spectrum.eigenvalues.real[:4]):
        P = spectrum.projector(torch.arange(6) == mode)
        assert torch.allclose(P @ spectrum.matrix, value * P, atol=1e-5)
        assert abs(torch.trace(P) - 1) < 1e-8


def test_a_split_puts_latents_together_again(operator: Tensor, generator: torch.Generator) -> None:
    split = SpectralSplit.of(operator, 2)
    z = torch.randn(9, 7, generator=generator, dtype=torch.float64)
    assert split.to_coordinates.shape == (7, 5)
    assert torch.allclose(z @ split.projector + z @ split.to_coordinates @ split.from_coordinates, z, atol=1e-12)
    assert torch.allclose(
        split.from_coordinates @ split.from_coordinates.T, torch.eye(5, dtype=torch.float64), atol=1e-12
    )
    spectrum = Spectrum.of(operator)
    assert torch.allclose(spectrum.projector(spectrum.static(2)), split.projector, atol=1e-12)


def test_noise_has_the_covariance_of_what_is_left(operator: Tensor, generator: torch.Generator) -> None:
    split = SpectralSplit.of(operator, 2)
    z = torch.randn(400, 7, generator=generator, dtype=torch.float64) @ torch.diag(torch.arange(1.0, 8.0)).double()
    left = z - z @ split.projector
    root = split.noise_root(z.T @ z / len(z))
    assert torch.allclose(root.T @ root, left.T @ left / len(z), atol=1e-10)
    assert torch.allclose(root, root.T, atol=1e-10)
    assert torch.allclose(root @ split.projector, torch.zeros(7, 7, dtype=torch.float64), atol=1e-9)  # no static part
    z[:, :] = 0
    assert torch.equal(split.noise_root(z.T @ z), torch.zeros(7, 7, dtype=torch.float64))


@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_operators_of_any_scale_are_divided(operator: Tensor, scale: float) -> None:
    spectrum = Spectrum.of(operator * scale, by_modulus)
    plain = Spectrum.of(operator, by_modulus)
    assert torch.allclose(spectrum.eigenvalues / scale, plain.eigenvalues, atol=1e-10)
    assert torch.allclose(spectrum.projector(spectrum.static(2)), plain.projector(plain.static(2)), atol=1e-9)


def test_what_is_no_operator_is_named() -> None:
    with pytest.raises(InputError, match=r"square matrix.*got \(3, 4\)"):
        Spectrum.of(torch.zeros(3, 4))
    with pytest.raises(InputError, match="NaN or infinity"):
        Spectrum.of(torch.full((2, 2), torch.inf))


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
        assert spectrum.count_before_largest_gap() == count
        assert int(spectrum.static(count).sum()) == count
