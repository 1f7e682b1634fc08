"""The kernel is batch norm followed by LeakyReLU, values and gradients, one part of a batch after the other."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.helpers.kernels import DEVICE, relative_error

from diskoop.kernels import batch_norm  # isort: skip - after it was decided who runs kernels


def some_norm(channels: int, dtype: torch.dtype) -> nn.BatchNorm2d:
    generator = torch.Generator().manual_seed(1)
    norm = nn.BatchNorm2d(channels, eps=1e-3, momentum=0.3).to(DEVICE, dtype)
    with torch.no_grad():
        for tensor in (norm.weight, norm.bias, norm.running_mean):
            assert tensor is not None
            tensor.copy_(torch.randn(channels, generator=generator))
    return norm


def in_turn(x: Tensor, norm: nn.BatchNorm2d, slope: float, sizes: list[int]) -> Tensor:
    return torch.cat([functional.leaky_relu(norm(part), slope) for part in x.split(sizes)])  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((5, 3, 4, 4), [5]),
        ((15, 32, 8, 8), [8, 7]),  # more rows than a tile has
        ((7, 40, 1, 1), [2, 5]),  # the smaller first
        ((6, 96, 4, 4), [4, 2]),  # channels in two tiles, the second half empty
    ],
)
def test_fused_is_batch_norm_and_leaky_relu(
    shape: tuple[int, ...], sizes: list[int], dtype: torch.dtype, tolerance: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    # A mean that is large beside the deviation, another in each part, as squares would not survive it in float32.
    x = 100 + torch.randn(shape, generator=generator, dtype=torch.float64)
    x[: sizes[0]] += 7
    x, dy = (t.to(DEVICE, dtype) for t in (x, torch.randn(shape, generator=generator, dtype=torch.float64)))
    ours, theirs = some_norm(shape[1], dtype), some_norm(shape[1], dtype)
    a, b = (x.clone().requires_grad_() for _ in range(2))
    y, z = batch_norm.norm_leaky(a, ours, 0.2, sizes), in_turn(b, theirs, 0.2, sizes)
    y.backward(dy)  # type: ignore[no-untyped-call]
    z.backward(dy)  # type: ignore[no-untyped-call]
    loose = 100 * tolerance  # what two ways of taking the mean off 100 differ by
    assert a.grad is not None
    assert b.grad is not None
    assert relative_error(y, z) < loose
    assert relative_error(a.grad, b.grad) < loose
    for name, weight in ours.named_parameters():
        other = theirs.get_parameter(name).grad
        assert weight.grad is not None
        assert other is not None
        assert relative_error(weight.grad, other) < loose, name
    for name, buffer in ours.named_buffers():
        assert relative_error(buffer, theirs.get_buffer(name)) < tolerance, name
    assert ours.num_batches_tracked == len(sizes)


@pytest.mark.skipif(DEVICE.type != "cuda", reason="the interpreter rounds nothing to bf16")
def test_fused_rounds_only_what_it_is_given_and_gives() -> None:
    x = torch.randn(480, 32, 16, 16, device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(0)).bfloat16()
    y = batch_norm.norm_leaky(x, some_norm(32, torch.float32), 0.2, [256, 224])
    assert y.dtype == torch.bfloat16
    assert relative_error(y, in_turn(x.float(), some_norm(32, torch.float32), 0.2, [256, 224])) < 2**-8
