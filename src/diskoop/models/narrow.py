"""convolutions between frames of one to four channels and maps of many, for CUDA

Libraries spread few channels over tiles made for many. These three kernels are one linear map in all its uses, with
weights (wide, narrow, 4, 4), stride 2 and padding 1: `gather` takes frames to a map, `scatter` is its transpose and
takes a map to frames, `correlate` is the gradient of both in the weights.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

WIDEST = 128  # channels that a program holds
FEW, MANY = 64, 128  # pixels of a map in a program: few where each looks at a patch, many where it answers to one
PROGRAMS = 264  # that share the pixels of a map between them when all are added up


def fits(layer: nn.Conv2d | nn.ConvTranspose2d, x: Tensor) -> bool:
    """Whether `layer` is one of these, and makes no more of `x` than 32 bits count; a bias is for the way up only."""
    wide, narrow, *_ = layer.weight.shape
    geometry = (layer.kernel_size, layer.stride, layer.padding) == ((4, 4), (2, 2), (1, 1))
    pixels = x[:, 0].numel() // 4 if isinstance(layer, nn.Conv2d) else x[:, 0].numel()  # of the map
    if isinstance(layer, nn.Conv2d) and layer.bias is not None:
        return False
    return geometry and narrow <= 4 and wide <= WIDEST and pixels * max(4 * narrow, wide) < 2**31


def down(x: Tensor, layer: nn.Conv2d) -> Tensor:
    """The convolution `layer`, which has no bias, of frames `x` in bf16."""
    y: Tensor = _Down.apply(x.to(torch.bfloat16), layer.weight)
    return y


def up(y: Tensor, layer: nn.ConvTranspose2d) -> Tensor:
    """The transposed convolution `layer` of a map `y` in bf16."""
    x: Tensor = _Up.apply(y.to(torch.bfloat16), layer.weight, layer.bias)
    return x


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
    def forward(ctx: Any, y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(y, weight)
        return scatter(y, weight, bias)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        y, weight = ctx.saved_tensors
        bias = outer[0].sum((0, 2, 3), dtype=weight.dtype) if ctx.needs_input_grad[2] else None
        return gather(outer[0], weight), correlate(outer[0], y, weight), bias


def gather(x: Tensor, weight: Tensor) -> Tensor:
    """Frames (n, narrow, 2 h, 2 w) -> a map (n, wide, h, w)."""
    count, _, height, width = x.shape
    y = x.new_empty(count, height // 2, width // 2, len(weight)).permute(0, 3, 1, 2)
    pixels = count * (height // 2) * (width // 2)
    grid = (triton.cdiv(pixels, FEW),)
    _gather[grid](x, weight.contiguous(), y, pixels, *_shape(x, weight), *x.stride(), **_tiles(weight, FEW))
    return y


def scatter(y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A map (n, wide, h, w) -> frames (n, narrow, 2 h, 2 w)."""
    y = y.contiguous(memory_format=torch.channels_last)
    count, _, height, width = y.shape
    x = y.new_empty(count, weight.shape[1], 2 * height, 2 * width)
    pixels = count * height * width
    added = weight.new_zeros(weight.shape[1]) if bias is None else bias
    grid = (triton.cdiv(pixels, MANY),)
    _scatter[grid](y, weight.contiguous(), added, x, pixels, *_shape(x, weight), *x.stride(), **_tiles(weight, MANY))
    return x


def correlate(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """d(gather(x) . y) / d weight, for frames `x` and a map `y`."""
    y = y.contiguous(memory_format=torch.channels_last)
    pixels = y[:, 0].numel()
    programs = min(PROGRAMS, triton.cdiv(pixels, FEW))
    partial = weight.new_empty(programs, len(weight), weight[0].numel())
    _correlate[(programs,)](x, y, partial, pixels, programs, *_shape(x, weight), *x.stride(), **_tiles(weight, FEW))
    return partial.sum(0).view(weight.shape)


def _shape(x: Tensor, weight: Tensor) -> tuple[int, ...]:
    return x.shape[2] // 2, x.shape[3] // 2, len(weight), weight.shape[1]


def _tiles(weight: Tensor, pixels: int) -> dict[str, int]:
    wide, narrow, *_ = weight.shape
    powers = {"TAPS": 16 * triton.next_power_of_2(narrow), "WIDE": max(16, triton.next_power_of_2(wide))}
    return powers | {"PIXELS": pixels}


@triton.jit
def _split(pixel, height, width):
    """Which frame, row and column of the map a pixel is in."""
    return pixel // (height * width), pixel // width % height, pixel % width


@triton.jit
def _patches(x, pixel, inside, height, width, narrow, sn, sc, sh, sw, TAPS: tl.constexpr):
    """(pixels, taps): what of the frames each pixel of the map sees; a tap is (narrow, row, column)."""
    tap = tl.arange(0, TAPS)
    colour, i, j = tap // 16, tap // 4 % 4, tap % 4
    frame, row, column = _split(pixel, height, width)
    # Only the first and the last row and column see beyond the frame.
    down = ((row > 0)[:, None] | (i > 0)[None, :]) & ((row < height - 1)[:, None] | (i < 3)[None, :])
    across = ((column > 0)[:, None] | (j > 0)[None, :]) & ((column < width - 1)[:, None] | (j < 3)[None, :])
    there = down & across & inside[:, None] & (colour < narrow)[None, :]
    first = frame * sn + (2 * row - 1) * sh + (2 * column - 1) * sw
    return tl.load(x + (first[:, None] + (colour * sc + i * sh + j * sw)[None, :]), there, 0.0)


@triton.jit
def _gather(
    x, weight, y, pixels, height, width, wide, narrow, sn, sc, sh, sw,
    TAPS: tl.constexpr, WIDE: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    tap, channel = tl.arange(0, TAPS)[:, None], tl.arange(0, WIDE)[None, :]
    seen = _patches(x, pixel, pixel < pixels, height, width, narrow, sn, sc, sh, sw, TAPS)
    known = (tap < 16 * narrow) & (channel < wide)
    weights = tl.load(weight + channel * 16 * narrow + tap, known, 0.0).to(seen.dtype)
    out = tl.dot(seen, weights)
    tl.store(y + (pixel[:, None] * wide + channel), out, (pixel < pixels)[:, None] & (channel < wide))


@triton.jit
def _scatter(
    y, weight, bias, x, pixels, height, width, wide, narrow, sn, sc, sh, sw,
    TAPS: tl.constexpr, WIDE: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    """Four pixels of a frame belong to one of the map; they hear from it and from the eight around it."""
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    frame, row, column = _split(pixel, height, width)
    channel = tl.arange(0, WIDE)
    COLUMNS: tl.constexpr = TAPS // 4 if TAPS >= 64 else 16  # dot wants no fewer
    out = tl.arange(0, COLUMNS)  # (narrow, lower, right)
    lower, right, colour = out // 2 % 2, out % 2, out // 4
    total = tl.zeros((PIXELS, COLUMNS), tl.float32)
    for neighbour in tl.static_range(9):
        dy, dx = neighbour // 3 - 1, neighbour % 3 - 1
        near = (pixel < pixels) & (row + dy >= 0) & (row + dy < height) & (column + dx >= 0) & (column + dx < width)
        place = (pixel + dy * width + dx)[:, None] * wide + channel[None, :]
        told = tl.load(y + place, near[:, None] & (channel < wide)[None, :], 0.0)
        i, j = 1 + lower - 2 * dy, 1 + right - 2 * dx
        heard = (i >= 0) & (i < 4) & (j >= 0) & (j < 4) & (colour < narrow)
        tap = colour * 16 + i * 4 + j
        known = heard[None, :] & (channel < wide)[:, None]
        weights = tl.load(weight + channel[:, None] * 16 * narrow + tap[None, :], known, 0.0).to(told.dtype)
        total += tl.dot(told, weights)
    total += tl.load(bias + colour, colour < narrow, 0.0)[None, :]
    place = (frame * sn + 2 * row * sh + 2 * column * sw)[:, None] + (colour * sc + lower * sh + right * sw)[None, :]
    tl.store(x + place, total, (pixel < pixels)[:, None] & (colour < narrow)[None, :])


@triton.jit
def _correlate(
    x, y, partial, pixels, programs, height, width, wide, narrow, sn, sc, sh, sw,
    TAPS: tl.constexpr, WIDE: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    channel = tl.arange(0, WIDE)
    total = tl.zeros((TAPS, WIDE), tl.float32)
    for at in range(program * PIXELS, pixels, programs * PIXELS):
        pixel = at + tl.arange(0, PIXELS)
        seen = _patches(x, pixel, pixel < pixels, height, width, narrow, sn, sc, sh, sw, TAPS)
        told = tl.load(
            y + (pixel[:, None] * wide + channel[None, :]), (pixel < pixels)[:, None] & (channel < wide)[None, :], 0.0
        )
        total += tl.dot(tl.trans(seen), told)
    tap = tl.arange(0, TAPS)
    place = (program * wide + channel[None, :]) * 16 * narrow + tap[:, None]
    tl.store(partial + place, total, (tap < 16 * narrow)[:, None] & (channel < wide)[None, :])
