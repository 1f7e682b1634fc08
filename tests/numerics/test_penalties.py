"""The closed-form gradient equals autograd through eig and finite differences; values are those on paper."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from diskoop.numerics import (
    ball_around_one,
    by_distance,
    by_modulus,
    circle_away_from_one,
    distance_to_one,
    hinge_beyond,
    modulus_beyond,
    real_beyond,
    spectral_loss,
    spectral_terms,
    unit_modulus,
)
from diskoop.numerics.penalties import Penalty
from diskoop.numerics.spectrum import ModeOrder
from tests.conftest import matrix_with

EIGENVALUES = torch.tensor([1.0, 0.8 + 0.6j, 0.3, -0.7, 0.5j, 1.2, 0.0], dtype=torch.complex128)
PENALTIES: dict[str, tuple[Penalty, list[float]]] = {
    "distance": (distance_to_one, [0, 0.4, 0.49, 2.89, 1.25, 0.04, 1]),
    "unit modulus": (unit_modulus, [0, 0, 0.8281, 0.2601, 0.5625, 0.1936, 1]),
    "modulus": (partial(modulus_beyond, radius=0.6), [1, 1, 0, 0.7, 0, 1.2, 0]),
    "hinge": (partial(hinge_beyond, radius=0.6), [0.4, 0.4, 0, 0.1, 0, 0.6, 0]),
    "real": (partial(real_beyond, radius=0.6), [1, 0.8, 0, 0, 0, 1.2, 0]),
    "ball": (partial(ball_around_one, radius=1.1, delta=0.3), [0.3, 0, 0, 0, 0, 0.1 + 0.1, 0]),
    "circle": (partial(circle_away_from_one, radius=1.0, delta=0.3), [0.3, 0, 0.7, 0.3, 0.5, 0.2 + 0.1, 1]),
    "radius 0": (partial(modulus_beyond, radius=0.0), [1, 1, 0.3, 0.7, 0.5, 1.2, 0]),
}


@pytest.mark.parametrize("name", PENALTIES)
def test_values_on_paper(name: str) -> None:
    penalty, known = PENALTIES[name]
    assert torch.allclose(penalty(EIGENVALUES)[0], torch.tensor(known, dtype=torch.float64), atol=1e-12)


@pytest.mark.parametrize("name", PENALTIES)
def test_gradients_are_derivatives(name: str, generator: torch.Generator) -> None:
    penalty, _ = PENALTIES[name]
    at = torch.view_as_complex(torch.randn(200, 2, generator=generator, dtype=torch.float64))
    step = 1e-6
    for direction in (1.0, 1j):
        change = (penalty(at + step * direction)[0] - penalty(at - step * direction)[0]) / (2 * step)
        slope = (penalty(at)[1].conj() * direction).real
        assert torch.allclose(change, slope, atol=1e-6)


def test_the_loss_is_the_mean_over_each_part(generator: torch.Generator) -> None:
    C = matrix_with([1.1, 0.8, 0.6j, 0.2], generator)
    terms = spectral_terms(C, static=2)
    assert torch.isclose(terms.static, torch.tensor((0.01 + 0.04) / 2, dtype=torch.float64), atol=1e-10)
    assert torch.isclose(terms.dynamic, torch.tensor((0.6 + 0.6 + 0) / 3, dtype=torch.float64), atol=1e-10)
    assert torch.isclose(spectral_loss(C, static=2, radius=0.5), terms.static + terms.dynamic)


@pytest.mark.parametrize(("static", "expected"), [(0, 0.0), (5, (0.01 + 0.04 + 1.36 * 2 + 0.64) / 5)])
def test_all_or_nothing_static(static: int, expected: float, generator: torch.Generator) -> None:
    C = matrix_with([1.1, 0.8, 0.6j, 0.2], generator).requires_grad_()
    terms = spectral_terms(C, static=static)
    assert float(terms.static.detach()) == pytest.approx(expected)
    torch.autograd.backward(terms.static + terms.dynamic)
    assert C.grad is not None
    assert torch.isfinite(C.grad).all()


@pytest.mark.parametrize("order", [by_distance, by_modulus])
@pytest.mark.parametrize("dynamic", ["modulus", "hinge", "real", "ball", "circle", "radius 0"])
@pytest.mark.parametrize("static", ["distance", "unit modulus"])
def test_gradient_equals_autograd_and_finite_differences(
    static: str, dynamic: str, order: ModeOrder, generator: torch.Generator
) -> None:
    C = matrix_with([1.05, 0.9, 0.7 + 0.3j, 0.3 + 0.2j, 0.1], generator).requires_grad_()
    penalties = PENALTIES[static][0], PENALTIES[dynamic][0]

    def ours(C: Tensor) -> Tensor:
        terms = spectral_terms(C, 3, *penalties, order=order)
        return terms.static + terms.dynamic

    def through_eig(C: Tensor) -> Tensor:
        values = torch.linalg.eig(C)[0]
        nearest = torch.argsort(order(values.detach()))
        # 3 static would cut the pair 0.7 +- 0.3j, so it is 4 of 7. Autograd passes through a penalty's first output.
        static_part, dynamic_part = penalties[0](values[nearest[:4]])[0], penalties[1](values[nearest[4:]])[0]
        return static_part.mean() + dynamic_part.mean()

    assert torch.autograd.gradcheck(ours, (C,))
    (closed,) = torch.autograd.grad(ours(C), C)
    (auto,) = torch.autograd.grad(through_eig(C), C)
    assert torch.allclose(ours(C), through_eig(C))
    assert torch.allclose(closed, auto, atol=1e-9)


def test_gradient_of_a_batch_is_that_of_the_mean(generator: torch.Generator) -> None:
    pair, plain = matrix_with([0.9 + 0.1j, 0.6], generator), matrix_with([0.9, 0.7, 0.1], generator)
    batch = torch.stack([pair, plain]).requires_grad_()
    assert torch.autograd.gradcheck(lambda C: spectral_loss(C, static=1), (batch,))
    alone = (spectral_loss(pair, static=1) + spectral_loss(plain, static=1)) / 2
    assert torch.isclose(spectral_loss(batch, static=1), alone)


def test_collisions_have_a_finite_gradient() -> None:
    jordan = torch.tensor([[1.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    nilpotent = torch.tensor([[0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    for C in (
        torch.eye(4).double(),
        torch.zeros(4, 4).double(),
        jordan,
        jordan * 0.9,
        nilpotent,
        0.5 * torch.ones(3, 3),
    ):
        for static in range(len(C) + 1):
            C = C.clone().requires_grad_()
            loss = spectral_loss(C, static=static)
            (gradient,) = torch.autograd.grad(loss, C)
            assert torch.isfinite(loss)
            assert torch.isfinite(gradient).all()
            assert torch.linalg.matrix_norm(gradient) <= 200 * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**30), gap=st.floats(1e-16, 1e-2))
def test_near_collisions_have_a_finite_gradient(seed: int, gap: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    C = matrix_with([1.0, 1.0 + gap, 1.0 - gap, 0.3, 0.3 + gap], generator).requires_grad_()
    (gradient,) = torch.autograd.grad(spectral_loss(C, static=3), C)
    assert torch.isfinite(gradient).all()


def test_descending_it_moves_the_spectrum_where_it_should_be(generator: torch.Generator) -> None:
    C = matrix_with([0.7, 0.6, 0.9j, -0.8], generator)
    for _ in range(400):
        C.requires_grad_()
        (gradient,) = torch.autograd.grad(spectral_loss(C, static=2, radius=0.5, dynamic_penalty=hinge_beyond), C)
        C = (C - 0.3 * gradient).detach()
    values = torch.sort((torch.linalg.eigvals(C) - 1).abs())[0]
    assert values[1] < 0.02
    assert torch.sort(torch.linalg.eigvals(C).abs())[0][2] < 0.52
