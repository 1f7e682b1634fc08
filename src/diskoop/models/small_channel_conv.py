"""convolutions between frames of one to four channels and maps of many, and how far frames are off, for CUDA

Libraries spread few channels over tiles made for many. The first three kernels are one linear map in all its uses, with
weights (wide, narrow, 4, 4), stride 2 and padding 1: `gather` takes frames to a map, `scatter` is its transpose and
takes a map to frames, `correlate` is the gradient of both in the weights. Their frames lie in memory four channels
abreast, those that a frame does not have being zero: a row of a patch is then one stretch of memory.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

ABREAST = 4  # channels of a frame in memory
WIDEST = 128  # channels that a program holds
FEW, MANY = 64, 128  # pixels of a map in a program: few where each looks at a patch, many where it answers to one
PROGRAMS = 264  # that share the pixels of a map between them when all are added up
STRETCH = 1024  # pixels of frames in a program


def fits(layer: nn.Conv2d | nn.ConvTranspose2d, x: Tensor) -> bool:
    """Whether `layer` is one of these, and makes no more of `x` than 32 bits count; a bias is for the way up only."""
    wide, narrow, *_ = layer.weight.shape
    geometry = (layer.kernel_size, layer.stride, layer.padding) == ((4, 4), (2, 2), (1, 1))
    pixels = x[:, 0].numel() // 4 if isinstance(layer, nn.Conv2d) else x[:, 0].numel()  # of the map
    if isinstance(layer, nn.Conv2d) and layer.bias is not None:
        return False
    return geometry and narrow <= ABREAST and wide <= WIDEST and pixels * max(4 * ABREAST, wide) < 2**31


def down(x: Tensor, layer: nn.Conv2d) -> Tensor:
    """The convolution `layer`, which has no bias, of frames `x` in bf16."""
    y: Tensor = _Down.apply(abreast(x, torch.bfloat16), layer.weight)
    return y


def up(y: Tensor, layer: nn.ConvTranspose2d) -> Tensor:
    """The transposed convolution `layer` of a map `y` in bf16, four channels abreast."""
    x: Tensor = _Up.apply(y.to(torch.bfloat16), layer.weight, layer.bias)
    return x


def square_sums(logits: Tensor, targets: Sequence[Tensor]) -> list[Tensor]:
    """Sums of squared differences between sigmoids and each of `targets` (batch, time, channel, height, width).

    `logits`, four channels abreast, hold the frames of all targets one after another.
    """
    return list(_SquareSums.apply(logits, *targets))


def abreast(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Frames (n, narrow, height, width) as (n, ABREAST, height, width), with channels that lie side by side."""
    count, narrow, height, width = x.shape
    wide = x.new_zeros(count, height, width, ABREAST, dtype=dtype).permute(0, 3, 1, 2)
    wide[:, :narrow] = x
    return wide


class _Down(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return gather(x, weight)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        return scatter(outer[0], weight, None) if ctx.needs_input_grad[0] else None, correlate(x, outer[0], weight)


class _Up(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(y, weight)
        return scatter(y, weight, bias)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        y, weight = ctx.saved_tensors
        pull = outer[0].contiguous(memory_format=torch.channels_last)
        bias = pull[:, : weight.shape[1]].sum((0, 2, 3), dtype=weight.dtype) if ctx.needs_input_grad[2] else None
        return gather(pull, weight), correlate(pull, y, weight), bias


class _SquareSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, *targets: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(logits, *targets)
        sums = []
        for part, target in _parts(logits, targets):
            pixels = part[:, 0].numel()
            partial = part.new_empty(triton.cdiv(pixels, STRETCH), dtype=torch.float32)
            _squares[partial.shape](part, target, partial, pixels, *_lie(target), STRETCH=STRETCH)
            sums.append(partial.sum())
        return tuple(sums)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        logits, *targets = ctx.saved_tensors
        pulls = torch.empty_like(logits)
        for (part, target), (pull, _), scale in zip(
            _parts(logits, targets), _parts(pulls, targets), outer, strict=True
        ):
            pixels = part[:, 0].numel()
            grid = (triton.cdiv(pixels, STRETCH),)
            _square_pulls[grid](part, target, scale, pull, pixels, *_lie(target), STRETCH=STRETCH)
        return pulls, *[None for _ in targets]


def _parts(logits: Tensor, targets: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """The frames of each target, and the target."""
    sizes = [target[:, :, 0, 0, 0].numel() for target in targets]
    return list(zip(torch.split(logits, sizes), targets, strict=True))


def _lie(target: Tensor) -> tuple[int, ...]:
    """How the frames of `target` lie in memory, each channel in one piece."""
    _, time, narrow, height, width = target.shape
    assert target.stride()[3:] == (width, 1)
    return time, narrow, height * width, *target.stride()[:3]


def gather(x: Tensor, weight: Tensor) -> Tensor:
    """Frames (n, ABREAST, 2 h, 2 w) -> a map (n, wide, h, w)."""
    count, _, height, width = x.shape
    x = x.contiguous(memory_format=torch.channels_last)
    y = x.new_empty(count, height // 2, width // 2, len(weight)).permute(0, 3, 1, 2)
    pixels = count * (height // 2) * (width // 2)
    grid = (triton.cdiv(pixels, FEW),)
    _gather[grid](x, weight.contiguous(), y, pixels, *_shape(x, weight), **_tiles(weight, FEW))
    return y


def scatter(y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A map (n, wide, h, w) -> frames (n, ABREAST, 2 h, 2 w)."""
    y = y.contiguous(memory_format=torch.channels_last)
    count, _, height, width = y.shape
    x = y.new_empty(count, 2 * height, 2 * width, ABREAST).permute(0, 3, 1, 2)
    pixels = count * height * width
    added = weight.new_zeros(weight.shape[1]) if bias is None else bias
    grid = (triton.cdiv(pixels, MANY),)
    _scatter[grid](y, weight.contiguous(), added, x, pixels, *_shape(x, weight), **_tiles(weight, MANY))
    return x


def correlate(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """d(gather(x) . y) / d weight, for frames `x` (n, ABREAST, 2 h, 2 w) and a map `y`."""
    x, y = (part.contiguous(memory_format=torch.channels_last) for part in (x, y))
    pixels = y[:, 0].numel()
    programs = min(PROGRAMS, triton.cdiv(pixels, FEW))
    partial = weight.new_empty(programs, len(weight), 4, 4, ABREAST)
    _correlate[(programs,)](x, y, partial, pixels, programs, *_shape(x, weight), **_tiles(weight, FEW))
    return partial.sum(0)[..., : weight.shape[1]].permute(0, 3, 1, 2)


def _shape(x: Tensor, weight: Tensor) -> tuple[int, ...]:
    return x.shape[2] // 2, x.shape[3] // 2, len(weight), weight.shape[1]


def _tiles(weight: Tensor, pixels: int) -> dict[str, int]:
    return {"WIDE": max(16, triton.next_power_of_2(len(weight))), "PIXELS": pixels, "ABREAST": ABREAST}


@triton.jit
def _split(pixel, height, width):
    """Which frame, row and column of the map a pixel is in."""
    return pixel // (height * width), pixel // width % height, pixel % width


@triton.jit
def _patches(x, pixel, inside, height, width, ABREAST: tl.constexpr):
    """(pixels, taps): what of the frames each pixel of the map sees; a tap is (row, column, channel)."""
    tap = tl.arange(0, 16 * ABREAST)
    i, j = tap // (4 * ABREAST), tap // ABREAST % 4
    frame, row, column = _split(pixel, height, width)
    # Only the first and the last row and column see beyond the frame.
    down = ((row > 0)[:, None] | (i > 0)[None, :]) & ((row < height - 1)[:, None] | (i < 3)[None, :])
    across = ((column > 0)[:, None] | (j > 0)[None, :]) & ((column < width - 1)[:, None] | (j < 3)[None, :])
    first = ((frame * 2 * height + 2 * row - 1) * 2 * width + 2 * column - 1) * ABREAST
    place = first[:, None] + (i * 2 * width * ABREAST + tap % (4 * ABREAST))[None, :]
    return tl.load(x + place, down & across & inside[:, None], 0.0)


@triton.jit
def _gather(
    x, weight, y, pixels, height, width, wide, narrow,
    WIDE: tl.constexpr, PIXELS: tl.constexpr, ABREAST: tl.constexpr,
):  # fmt: skip
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    tap, channel = tl.arange(0, 16 * ABREAST)[:, None], tl.arange(0, WIDE)[None, :]
    seen = _patches(x, pixel, pixel < pixels, height, width, ABREAST)
    colour = tap % ABREAST
    known = (colour < narrow) & (channel < wide)
    weights = tl.load(weight + (channel * narrow + colour) * 16 + tap // ABREAST, known, 0.0).to(seen.dtype)
    tl.store(y + (pixel[:, None] * wide + channel), tl.dot(seen, weights), (pixel < pixels)[:, None] & (channel < wide))


@triton.jit
def _scatter(
    y, weight, bias, x, pixels, height, width, wide, narrow,
    WIDE: tl.constexpr, PIXELS: tl.constexpr, ABREAST: tl.constexpr,
):  # fmt: skip
    """Four pixels of a frame belong to one of the map; they hear from it and from the eight around it."""
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    frame, row, column = _split(pixel, height, width)
    channel = tl.arange(0, WIDE)
    out = tl.arange(0, 4 * ABREAST)  # (lower, right, channel)
    lower, right, colour = out // (2 * ABREAST), out // ABREAST % 2, out % ABREAST
    total = tl.zeros((PIXELS, 4 * ABREAST), tl.float32)
    for neighbour in tl.static_range(9):
        dy, dx = neighbour // 3 - 1, neighbour % 3 - 1
        near = (pixel < pixels) & (row + dy >= 0) & (row + dy < height) & (column + dx >= 0) & (column + dx < width)
        place = (pixel + dy * width + dx)[:, None] * wide + channel[None, :]
        told = tl.load(y + place, near[:, None] & (channel < wide)[None, :], 0.0)
        i, j = 1 + lower - 2 * dy, 1 + right - 2 * dx
        heard = (i >= 0) & (i < 4) & (j >= 0) & (j < 4) & (colour < narrow)
        known = heard[None, :] & (channel < wide)[:, None]
        tap = channel[:, None] * 16 * narrow + (colour * 16 + i * 4 + j)[None, :]
        total += tl.dot(told, tl.load(weight + tap, known, 0.0).to(told.dtype))
    total += tl.load(bias + colour, colour < narrow, 0.0)[None, :]
    first = ((frame * 2 * height + 2 * row) * 2 * width + 2 * column) * ABREAST
    place = first[:, None] + (lower * 2 * width * ABREAST + out % (2 * ABREAST))[None, :]
    tl.store(x + place, total, (pixel < pixels)[:, None])


@triton.jit
def _correlate(
    x, y, partial, pixels, programs, height, width, wide, narrow,
    WIDE: tl.constexpr, PIXELS: tl.constexpr, ABREAST: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    channel = tl.arange(0, WIDE)
    total = tl.zeros((16 * ABREAST, WIDE), tl.float32)
    for at in range(program * PIXELS, pixels, programs * PIXELS):
        pixel = at + tl.arange(0, PIXELS)
        seen = _patches(x, pixel, pixel < pixels, height, width, ABREAST)
        known = (pixel < pixels)[:, None] & (channel < wide)[None, :]
        told = tl.load(y + (pixel[:, None] * wide + channel[None, :]), known, 0.0)
        total += tl.dot(tl.trans(seen), told)
    place = (program * wide + channel[None, :]) * 16 * ABREAST + tl.arange(0, 16 * ABREAST)[:, None]
    tl.store(partial + place, total, (channel < wide)[None, :])


@triton.jit
def _off(logits, target, pixel, pixels, time, narrow, area, of_batch, of_time, of_channel):
    """Sigmoids of a stretch of pixels, (pixels, 4), how far each is off, and where they lie."""
    colour = tl.arange(0, 4)[None, :]
    frame, within = pixel // area, pixel % area
    there = frame // time * of_batch + frame % time * of_time + within
    inside = (pixel < pixels)[:, None]
    place = pixel[:, None] * 4 + colour
    value = 1.0 / (1.0 + tl.exp(-tl.load(logits + place, inside, 0.0).to(tl.float32)))
    real = inside & (colour < narrow)
    wanted = tl.load(target + (there[:, None] + colour * of_channel), real, 0.0).to(tl.float32)
    return value, tl.where(real, value - wanted, 0.0), place, inside


@triton.jit
def _squares(
    logits, target, partial, pixels, time, narrow, area, of_batch, of_time, of_channel, STRETCH: tl.constexpr
):  # fmt: skip
    pixel = tl.program_id(0) * STRETCH + tl.arange(0, STRETCH)
    _, off, _, _ = _off(logits, target, pixel, pixels, time, narrow, area, of_batch, of_time, of_channel)
    tl.store(partial + tl.program_id(0), tl.sum(tl.sum(off * off, 1), 0))


@triton.jit
def _square_pulls(
    logits, target, scale, pull, pixels, time, narrow, area, of_batch, of_time, of_channel, STRETCH: tl.constexpr
):  # fmt: skip
    pixel = tl.program_id(0) * STRETCH + tl.arange(0, STRETCH)
    value, off, place, inside = _off(logits, target, pixel, pixels, time, narrow, area, of_batch, of_time, of_channel)
    tl.store(pull + place, tl.load(scale).to(tl.float32) * 2 * off * value * (1 - value), inside)
