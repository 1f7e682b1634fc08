"""Fast layers compute what the plain ones compute."""

import copy

import pytest
import torch

from diskoop.kernels import accelerate
from diskoop.kernels.layers import FastSequential, can_sum_errors, decode_jointly, squared_error_sums
from diskoop.models.autoencoder import KoopmanAutoencoder


def test_an_accelerated_model_has_the_same_parameters_and_says_the_same() -> None:
    torch.manual_seed(0)
    plain = KoopmanAutoencoder.for_shape((3, 32, 32), k=5, h=6, width=4).double()
    fast = accelerate(copy.deepcopy(plain))
    assert list(fast.state_dict()) == list(plain.state_dict())
    x = torch.rand(2, 3, 3, 32, 32, dtype=torch.float64)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    for model in (plain, fast):
        model.train()
    assert torch.allclose(plain(x), fast(x), rtol=1e-12)
    expected, actual = (model.decode(model.encode(x, mask), mask) for model in (plain, fast))
    assert torch.allclose(expected, actual, rtol=1e-12)
    assert all(torch.allclose(a, b, rtol=1e-12) for a, b in zip(plain.buffers(), fast.buffers(), strict=True))


def test_networks_it_does_not_know_stay_as_they_are() -> None:
    model = KoopmanAutoencoder(torch.nn.Linear(4, 3), torch.nn.Linear(3, 4))
    assert accelerate(model) is model
    z = [torch.randn(2, 5, 3), torch.randn(2, 4, 3)]
    assert all(torch.equal(a, model.decode(b)) for a, b in zip(decode_jointly(model, z), z, strict=True))


def test_parts_decoded_together_are_as_if_each_came_alone() -> None:
    """Values, gradients and running statistics; the parts differ in size and length."""
    torch.manual_seed(0)
    alone = KoopmanAutoencoder.for_shape((3, 32, 32), k=5, h=6, width=4).double().train()
    together = accelerate(copy.deepcopy(alone))
    assert can_sum_errors(together)
    assert not can_sum_errors(alone)
    generator = torch.Generator().manual_seed(1)
    parts = [torch.randn(n, time, 5, generator=generator, dtype=torch.float64) for n, time in ((4, 3), (2, 5), (3, 2))]
    targets = [torch.rand(*part.shape[:2], 3, 32, 32, generator=generator, dtype=torch.float64) for part in parts]
    a = [(alone.decode(part) - target).square().sum() for part, target in zip(parts, targets, strict=True)]
    b = squared_error_sums(together, parts, targets)
    assert torch.allclose(torch.stack(a), torch.stack(b), rtol=1e-12)
    for sums in (a, b):
        torch.stack([(i + 1) * x for i, x in enumerate(sums)]).sum().backward()  # type: ignore[no-untyped-call]
    for x, y in zip(alone.decoder.parameters(), together.decoder.parameters(), strict=True):
        assert x.grad is not None
        assert y.grad is not None
        assert torch.allclose(x.grad, y.grad, rtol=1e-9, atol=1e-12)
    assert all(torch.allclose(x, y, rtol=1e-12) for x, y in zip(alone.buffers(), together.buffers(), strict=True))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_products_are_the_convolutions_they_stand_for(layout: torch.memory_format, bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    for layer, shape in (
        (torch.nn.Conv2d(5, 7, 4, bias=bias), (3, 5, 4, 4)),
        (torch.nn.ConvTranspose2d(5, 7, 4, bias=bias), (3, 5, 1, 1)),
        (torch.nn.ConvTranspose2d(5, 7, 4, 2, bias=bias), (3, 5, 1, 1)),
    ):
        layer = layer.double().to(memory_format=layout)  # type: ignore[call-overload]
        x = torch.randn(shape, generator=generator, dtype=torch.float64).to(memory_format=layout).requires_grad_()
        pairs = []
        for y in (FastSequential(layer)(x), layer(x)):
            pull = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
            pairs.append([y, *torch.autograd.grad(y, [x, *layer.parameters()], pull)])
        for ours, known in zip(*pairs, strict=True):
            assert ours.shape == known.shape
            assert torch.allclose(ours, known, rtol=1e-12, atol=1e-12)
