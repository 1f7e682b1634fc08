"""batch norm and LeakyReLU in one pass over memory, for CUDA"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

TILE = 8192  # elements of a program's tile
MAX_PROGRAMS = 128  # that share the rows of a part: about as many as a device has multiprocessors
WARPS = 8


def norm_leaky(x: Tensor, norm: nn.BatchNorm2d, slope: float, sizes: Sequence[int]) -> Tensor:
    """LeakyReLU after batch norm in training mode, with statistics of each part of the batch.

    Args:
        x: (n, channel, height, width).
        norm: weights and running statistics, which are updated part by part.
        slope: of LeakyReLU below zero.
        sizes: of the parts, one or two, which add up to n.
    """
    y: Tensor = _NormLeaky.apply(
        x, norm.weight, norm.bias, list(norm.buffers()), norm.momentum, norm.eps, slope, tuple(sizes)
    )
    return y


class _NormLeaky(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        running: list[Tensor],  # mean, variance, number of batches
        momentum: float,
        eps: float,
        slope: float,
        sizes: tuple[int, ...],
    ) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        y = torch.empty_like(x)
        grid, launch = _launch_config(x, sizes)
        dtype = _accumulator_dtype(x)
        partial = x.new_empty((len(sizes), 2, grid[1], x.shape[1]), dtype=dtype)
        moments = x.new_empty((len(sizes), 2, x.shape[1]), dtype=dtype)
        _sum_moments[grid](x, partial, **launch)
        constants = {"MOMENTUM": momentum, "EPS": eps, "SLOPE": slope}
        _normalise[grid](x, y, partial, moments, weight, bias, *running, **constants, **launch)
        ctx.save_for_backward(x, weight, bias, moments)
        ctx.slope, ctx.sizes = slope, sizes
        return y

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, moments = ctx.saved_tensors
        dy = outer[0].contiguous(memory_format=torch.channels_last)
        dx, dweight, dbias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
        grid, launch = _launch_config(x, ctx.sizes)
        partial = x.new_empty((len(ctx.sizes), 2, grid[1], x.shape[1]), dtype=moments.dtype)
        _sum_gradients[grid](x, dy, partial, moments, weight, bias, SLOPE=ctx.slope, **launch)
        _input_gradient[grid](x, dy, dx, partial, moments, weight, bias, dweight, dbias, SLOPE=ctx.slope, **launch)
        return dx, dweight, dbias, *[None] * 5


def _accumulator_dtype(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _launch_config(x: Tensor, sizes: tuple[int, ...]) -> tuple[tuple[int, int, int], dict[str, Any]]:
    """The grid (parts, programs per part, channel tiles), and the arguments of all kernels; x is (pixels, channels)."""
    count, channels, height, width = x.shape
    assert sum(sizes) == count
    assert len(sizes) in (1, 2)
    tile_channels = min(64, triton.next_power_of_2(channels))
    tile_rows = TILE // tile_channels
    rows = [size * height * width for size in sizes]
    programs = min(MAX_PROGRAMS, triton.cdiv(max(rows), tile_rows))
    launch = {
        "first": rows[0],
        "total": sum(rows),
        "channels": channels,
        "programs": programs,
        "PARTS": len(sizes),
        "PROGRAMS": triton.next_power_of_2(programs),
        "ROWS": tile_rows,
        "CHANNELS": tile_channels,
        "DTYPE": tl.float64 if _accumulator_dtype(x) == torch.float64 else tl.float32,
        "num_warps": WARPS,
    }
    return (len(sizes), programs, triton.cdiv(channels, tile_channels)), launch


@triton.jit
def _bounds(part, first, total):
    """The first row of a part, and the one after its last."""
    # In 64 bits, because large batches have more elements than 32 bits count; tiles use 32 bits, which is faster.
    return tl.where(part == 0, 0, first).to(tl.int64), tl.where(part == 0, first, total).to(tl.int64)


@triton.jit
def _tile(at, end, c, channels, ROWS: tl.constexpr):
    """Offsets of a tile's elements from row `at`, and which of them exist."""
    row = tl.arange(0, ROWS)[:, None]
    return row * channels + c[None, :], (row < (end - at).to(tl.int32)) & (c[None, :] < channels)


@triton.jit
def _sum_partials(partial, part, quantity, c, programs, channels, PROGRAMS: tl.constexpr):
    """The partial sums of all programs of a part, added up for the channels `c`."""
    s = tl.arange(0, PROGRAMS)[:, None]
    index = ((part * 2 + quantity) * programs + s) * channels + c[None, :]
    return tl.sum(tl.load(partial + index, (s < programs) & (c[None, :] < channels), 0.0), 0)


@triton.jit
def _sum_moments(
    x, partial, first, total, channels, programs,
    PARTS: tl.constexpr, PROGRAMS: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr, DTYPE: tl.constexpr,
):  # fmt: skip
    """Sums of x and of its squares, relative to the part's first row: a large mean would cancel catastrophically."""
    part, program = tl.program_id(0), tl.program_id(1)
    c = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    begin, end = _bounds(part, first, total)
    origin = tl.load(x + begin * channels + c, c < channels, 0.0).to(DTYPE)[None, :]
    sums = tl.zeros((ROWS, CHANNELS), DTYPE)
    squares = tl.zeros((ROWS, CHANNELS), DTYPE)
    for at in range(begin + program * ROWS, end, programs * ROWS):
        index, inside = _tile(at, end, c, channels, ROWS)
        offset = tl.where(inside, tl.load(x + at * channels + index, inside, 0.0).to(DTYPE) - origin, 0.0)
        sums += offset
        squares += offset * offset
    index = (part * 2 * programs + program) * channels + c
    tl.store(partial + index, tl.sum(sums, 0), c < channels)
    tl.store(partial + index + programs * channels, tl.sum(squares, 0), c < channels)


@triton.jit
def _moments(x, partial, part, c, first, total, channels, programs, PROGRAMS: tl.constexpr, DTYPE: tl.constexpr):
    """Mean and variance of a part."""
    begin, end = _bounds(part, first, total)
    count = (end - begin).to(DTYPE)
    origin = tl.load(x + begin * channels + c, c < channels, 0.0).to(DTYPE)
    offset = _sum_partials(partial, part, 0, c, programs, channels, PROGRAMS) / count
    squares = _sum_partials(partial, part, 1, c, programs, channels, PROGRAMS) / count
    return origin + offset, tl.maximum(squares - offset * offset, 0.0), count


@triton.jit
def _normalise(
    x, y, partial, moments, weight, bias, running_mean, running_var, batches,
    first, total, channels, programs,
    MOMENTUM: tl.constexpr, EPS: tl.constexpr, SLOPE: tl.constexpr,
    PARTS: tl.constexpr, PROGRAMS: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr, DTYPE: tl.constexpr,
):  # fmt: skip
    part, program = tl.program_id(0), tl.program_id(1)
    c = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    valid = c < channels
    mean, variance, _ = _moments(x, partial, part, c, first, total, channels, programs, PROGRAMS, DTYPE)
    inverse = 1.0 / tl.sqrt(variance + EPS)
    if program == 0:
        tl.store(moments + part * 2 * channels + c, mean, valid)
        tl.store(moments + (part * 2 + 1) * channels + c, inverse, valid)
    if program == 0 and part == 0:  # running statistics, one part after the other
        new_mean, new_var = tl.load(running_mean + c, valid, 0.0), tl.load(running_var + c, valid, 0.0)
        for p in tl.static_range(PARTS):
            part_mean, part_var, n = _moments(x, partial, p, c, first, total, channels, programs, PROGRAMS, DTYPE)
            new_mean += MOMENTUM * (part_mean - new_mean)
            new_var += MOMENTUM * (part_var * (n / (n - 1)) - new_var)
        tl.store(running_mean + c, new_mean, valid)
        tl.store(running_var + c, new_var, valid)
        if tl.program_id(2) == 0:
            tl.store(batches, tl.load(batches) + PARTS)
    scale = tl.load(weight + c, valid, 0.0) * inverse
    shift = tl.load(bias + c, valid, 0.0) - mean * scale
    begin, end = _bounds(part, first, total)
    for at in range(begin + program * ROWS, end, programs * ROWS):
        index, inside = _tile(at, end, c, channels, ROWS)
        value = tl.load(x + at * channels + index, inside, 0.0).to(DTYPE) * scale[None, :] + shift[None, :]
        tl.store(y + at * channels + index, tl.where(value > 0, value, SLOPE * value), inside)


@triton.jit
def _load_channel_state(moments, weight, bias, part, c, channels):
    """Mean, inverse deviation, weight and bias of the channels `c` of a part."""
    valid = c < channels
    mean = tl.load(moments + part * 2 * channels + c, valid, 0.0)
    inverse = tl.load(moments + (part * 2 + 1) * channels + c, valid, 0.0)
    return mean, inverse, tl.load(weight + c, valid, 0.0), tl.load(bias + c, valid, 0.0)


@triton.jit
def _activation_gradient(x, dy, index, inside, mean, inverse, weight, bias, SLOPE: tl.constexpr, DTYPE: tl.constexpr):
    """Standardised x, and the gradient with respect to the activation's input."""
    x_hat = (tl.load(x + index, inside, 0.0).to(DTYPE) - mean[None, :]) * inverse[None, :]
    gradient = tl.load(dy + index, inside, 0.0).to(DTYPE)
    gradient = tl.where(x_hat * weight[None, :] + bias[None, :] > 0, gradient, SLOPE * gradient)
    return tl.where(inside, x_hat, 0.0), gradient


@triton.jit
def _sum_gradients(
    x, dy, partial, moments, weight, bias, first, total, channels, programs, SLOPE: tl.constexpr,
    PARTS: tl.constexpr, PROGRAMS: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr, DTYPE: tl.constexpr,
):  # fmt: skip
    """Sums over rows of the gradient with respect to the activation's input, and of its product with standardised x."""
    part, program = tl.program_id(0), tl.program_id(1)
    c = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    valid = c < channels
    mean, inverse, scale, shift = _load_channel_state(moments, weight, bias, part, c, channels)
    sums = tl.zeros((ROWS, CHANNELS), DTYPE)
    products = tl.zeros((ROWS, CHANNELS), DTYPE)
    begin, end = _bounds(part, first, total)
    for at in range(begin + program * ROWS, end, programs * ROWS):
        index, inside = _tile(at, end, c, channels, ROWS)
        x_hat, gradient = _activation_gradient(
            x + at * channels, dy + at * channels, index, inside, mean, inverse, scale, shift, SLOPE, DTYPE
        )
        sums += gradient
        products += gradient * x_hat
    index = (part * 2 * programs + program) * channels + c
    tl.store(partial + index, tl.sum(sums, 0), valid)
    tl.store(partial + index + programs * channels, tl.sum(products, 0), valid)


@triton.jit
def _input_gradient(
    x, dy, dx, partial, moments, weight, bias, dweight, dbias, first, total, channels, programs, SLOPE: tl.constexpr,
    PARTS: tl.constexpr, PROGRAMS: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr, DTYPE: tl.constexpr,
):  # fmt: skip
    part, program = tl.program_id(0), tl.program_id(1)
    c = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    valid = c < channels
    mean, inverse, scale, shift = _load_channel_state(moments, weight, bias, part, c, channels)
    begin, end = _bounds(part, first, total)
    count = (end - begin).to(DTYPE)
    sums = _sum_partials(partial, part, 0, c, programs, channels, PROGRAMS)
    products = _sum_partials(partial, part, 1, c, programs, channels, PROGRAMS)
    if program == 0 and part == 0:
        all_sums, all_products = sums, products
        if PARTS == 2:
            all_sums += _sum_partials(partial, 1, 0, c, programs, channels, PROGRAMS)
            all_products += _sum_partials(partial, 1, 1, c, programs, channels, PROGRAMS)
        tl.store(dbias + c, all_sums, valid)
        tl.store(dweight + c, all_products, valid)
    for at in range(begin + program * ROWS, end, programs * ROWS):
        index, inside = _tile(at, end, c, channels, ROWS)
        x_hat, gradient = _activation_gradient(
            x + at * channels, dy + at * channels, index, inside, mean, inverse, scale, shift, SLOPE, DTYPE
        )
        dx_hat = gradient - (sums[None, :] + x_hat * products[None, :]) / count
        tl.store(dx + at * channels + index, dx_hat * (scale * inverse)[None, :], inside)
