"""The kernels agree with convolutions, their transposes and gradients, and with squared errors of sigmoids."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.helpers.kernels import DEVICE, relative_error

from diskoop.kernels import small_channel_conv  # isort: skip - after the helper chose the interpreter

# The interpreter cannot multiply bf16, and CUDA multiplies float32 with fewer digits.
DTYPE, TOLERANCE = (torch.bfloat16, 1e-2) if DEVICE.type == "cuda" else (torch.float32, 1e-5)


def draw(*shape: int, seed: int, dtype: torch.dtype = DTYPE) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, torch.bfloat16).to(dtype)


@pytest.mark.parametrize(
    ("count", "channels", "channels_out", "size"),
    [(3, 3, 32, 4), (2, 1, 24, 8), (2, 4, 16, 4), (1, 3, 64, 16), (5, 2, 7, 2)],
)
def test_gather_scatter_correlate(count: int, channels: int, channels_out: int, size: int) -> None:
    x, y = draw(count, channels, 2 * size, 2 * size, seed=0), draw(count, channels_out, size, size, seed=1)
    weight, bias = (
        draw(channels_out, channels, 4, 4, seed=2, dtype=torch.float32),
        draw(channels, seed=3, dtype=torch.float32),
    )
    exact = weight.double().requires_grad_()
    convolved = functional.conv2d(x.double(), exact, None, 2, 1)
    (gradient,) = torch.autograd.grad((convolved * y.double()).sum(), exact)
    transposed = functional.conv_transpose2d(y.double(), exact, bias.double(), 2, 1)
    frames = small_channel_conv.pad_channels(x, DTYPE)
    assert relative_error(small_channel_conv.gather(frames, weight), convolved) < TOLERANCE
    assert relative_error(small_channel_conv.correlate(frames, y, weight), gradient) < TOLERANCE
    scattered = small_channel_conv.scatter(y, weight, bias)
    assert relative_error(scattered[:, :channels], transposed) < TOLERANCE
    assert not scattered[:, channels:].any()


@pytest.mark.parametrize("biased", [True, False])
def test_gradients_of_both_convolutions(biased: bool) -> None:
    """Small networks have narrow layers inside, which have no bias."""
    x, y = draw(2, 3, 8, 8, seed=0).requires_grad_(), draw(2, 8, 4, 4, seed=1).requires_grad_()
    weight = draw(8, 3, 4, 4, seed=2, dtype=torch.float32).requires_grad_()
    bias = draw(3, seed=3, dtype=torch.float32).requires_grad_() if biased else None
    leaves = [leaf for leaf in (x, y, weight, bias) if leaf is not None]
    down: Tensor = small_channel_conv._Conv2d.apply(small_channel_conv.pad_channels(x, DTYPE), weight)  # type: ignore[no-untyped-call]
    up: Tensor = small_channel_conv._ConvTranspose2d.apply(y, weight, bias)  # type: ignore[no-untyped-call]
    added = None if bias is None else bias.to(y)
    theirs = [functional.conv2d(x, weight.to(x), None, 2, 1), functional.conv_transpose2d(y, weight.to(y), added, 2, 1)]
    outer = [draw(*out.shape, seed=4) for out in theirs]
    got, wanted = (torch.autograd.grad(outputs, leaves, outer) for outputs in ([down, up[:, :3]], theirs))
    assert all(relative_error(a, b) < 3 * TOLERANCE for a, b in zip(got, wanted, strict=True))


@pytest.mark.parametrize("channels", [1, 3])
def test_sums_of_squared_errors(channels: int) -> None:
    """Of both parts of a batch, the second against later frames of the same target."""
    x = torch.rand(3, 5, channels, 8, 8, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    targets = [x, x[:, 1:]]
    plain = draw(15 + 12, channels, 8, 8, seed=1).requires_grad_()
    logits = small_channel_conv.pad_channels(plain, DTYPE)
    ours = small_channel_conv.sigmoid_error_sums(logits, targets)
    sizes = torch.split(plain.double().sigmoid(), [15, 12])
    theirs = [(s - t.double().flatten(0, 1)).square().sum() for s, t in zip(sizes, targets, strict=True)]
    for a, b in zip(ours, theirs, strict=True):
        assert relative_error(a, b) < 1e-5
    (got,) = torch.autograd.grad(2 * ours[0] + 0.5 * ours[1], plain)
    (wanted,) = torch.autograd.grad(2 * theirs[0] + 0.5 * theirs[1], plain)
    assert relative_error(got, wanted) < TOLERANCE


@pytest.mark.skipif(DEVICE.type != "cuda", reason="the interpreter cannot multiply bf16")
def test_layers_and_their_gradients() -> None:
    down = nn.Conv2d(3, 32, 4, 2, 1, bias=False).to(DEVICE)
    up = nn.ConvTranspose2d(32, 3, 4, 2, 1).to(DEVICE)
    x = draw(8, 3, 32, 32, seed=0, dtype=torch.float32).requires_grad_()
    ours = small_channel_conv.conv_transpose2d(small_channel_conv.conv2d(x, down), up)[:, :3]
    (ours.float() ** 2).mean().backward()  # type: ignore[no-untyped-call]
    got = [t.grad for t in (x, *down.parameters(), *up.parameters())]
    for tensor in (x, *down.parameters(), *up.parameters()):
        tensor.grad = None
    theirs = up(down(x))
    (theirs**2).mean().backward()
    assert relative_error(ours, theirs) < 2e-2
    for found, tensor in zip(got, (x, *down.parameters(), *up.parameters()), strict=True):
        assert found is not None
        assert tensor.grad is not None
        assert relative_error(found, tensor.grad) < 3e-2


def test_which_layers_are_supported() -> None:
    frames, maps = torch.zeros(1, 3, 8, 8), torch.zeros(1, 32, 4, 4)
    assert small_channel_conv.supports(nn.Conv2d(3, 32, 4, 2, 1, bias=False), frames)
    assert not small_channel_conv.supports(nn.Conv2d(3, 32, 4, 2, 1), frames)  # would lose its bias
    assert small_channel_conv.supports(nn.ConvTranspose2d(32, 3, 4, 2, 1), maps)
    assert not small_channel_conv.supports(nn.Conv2d(3, 32, 4, 1, 0, bias=False), frames)
    assert not small_channel_conv.supports(nn.Conv2d(3, 256, 4, 2, 1, bias=False), frames)
    assert not small_channel_conv.supports(nn.Conv2d(32, 64, 4, 2, 1, bias=False), maps)
    huge = torch.zeros(1, device="meta").expand(2**14, 3, 128, 128)  # 2 to the 31 numbers come out
    assert not small_channel_conv.supports(nn.Conv2d(3, 32, 4, 2, 1, bias=False), huge)
    assert small_channel_conv.supports(nn.Conv2d(3, 32, 4, 2, 1, bias=False), huge[: 2**13])
