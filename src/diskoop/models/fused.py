"""batch norm and LeakyReLU in one pass over memory, for CUDA"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

TILE = 8192  # elements that a program holds at once
PROGRAMS = 128  # at most, that share the rows of a part: about as many as a device has processors
WARPS = 8


def norm_leaky(x: Tensor, norm: nn.BatchNorm2d, slope: float, sizes: Sequence[int]) -> Tensor:
    """LeakyReLU of batch norm in training, each part of the batch `x` (sum of sizes, channel, height, width) by itself.

    One part after another, as if each had been a call: `sizes` are one or two.
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
        running: list[Tensor],  # mean, variance, how many batches
        momentum: float,
        eps: float,
        slope: float,
        sizes: tuple[int, ...],
    ) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        y = torch.empty_like(x)
        grid, shape = _layout(x, sizes)
        wide = _wide(x)
        partial = x.new_empty((len(sizes), 2, grid[1], x.shape[1]), dtype=wide)
        moments = x.new_empty((len(sizes), 2, x.shape[1]), dtype=wide)
        _sums[grid](x, partial, **shape)
        constants = {"MOMENTUM": momentum, "EPS": eps, "SLOPE": slope}
        _normalise[grid](x, y, partial, moments, weight, bias, *running, **constants, **shape)
        ctx.save_for_backward(x, weight, bias, moments)
        ctx.slope, ctx.sizes = slope, sizes
        return y

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, moments = ctx.saved_tensors
        dy = outer[0].contiguous(memory_format=torch.channels_last)
        dx, dweight, dbias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
        grid, shape = _layout(x, ctx.sizes)
        partial = x.new_empty((len(ctx.sizes), 2, grid[1], x.shape[1]), dtype=moments.dtype)
        _pulls[grid](x, dy, partial, moments, weight, bias, SLOPE=ctx.slope, **shape)
        _spread[grid](x, dy, dx, partial, moments, weight, bias, dweight, dbias, SLOPE=ctx.slope, **shape)
        return dx, dweight, dbias, *[None] * 5


def _wide(x: Tensor) -> torch.dtype:
    """What sums over `x` are kept in."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _layout(x: Tensor, sizes: tuple[int, ...]) -> tuple[tuple[int, int, int], dict[str, Any]]:
    """The grid (part, share of its rows, channels), and what every kernel is told of `x` as a matrix of pixels."""
    count, channels, height, width = x.shape
    assert sum(sizes) == count
    assert len(sizes) in (1, 2)
    across = min(64, triton.next_power_of_2(channels))
    down = TILE // across
    rows = [size * height * width for size in sizes]
    shares = min(PROGRAMS, triton.cdiv(max(rows), down))
    shape = {
        "first": rows[0],
        "total": sum(rows),
        "channels": channels,
        "shares": shares,
        "PARTS": len(sizes),
        "SHARES": triton.next_power_of_2(shares),
        "DOWN": down,
        "ACROSS": across,
        "WIDE": tl.float64 if _wide(x) == torch.float64 else tl.float32,
        "num_warps": WARPS,
    }
    return (len(sizes), shares, triton.cdiv(channels, across)), shape


@triton.jit
def _bounds(part, first, total):
    """The rows of a part: the first, and the one after the last."""
    # Wide: large batches have more elements than 32 bits count. Inside a tile 32 bits are enough, and faster.
    return tl.where(part == 0, 0, first).to(tl.int64), tl.where(part == 0, first, total).to(tl.int64)


@triton.jit
def _tile(at, end, c, channels, DOWN: tl.constexpr):
    """Where the elements of a tile lie, counted from row `at`, and which of them there are."""
    row = tl.arange(0, DOWN)[:, None]
    return row * channels + c[None, :], (row < (end - at).to(tl.int32)) & (c[None, :] < channels)


@triton.jit
def _added(partial, part, which, c, shares, channels, SHARES: tl.constexpr):
    """What all programs of a part found, for the channels `c`."""
    s = tl.arange(0, SHARES)[:, None]
    place = ((part * 2 + which) * shares + s) * channels + c[None, :]
    return tl.sum(tl.load(partial + place, (s < shares) & (c[None, :] < channels), 0.0), 0)


@triton.jit
def _sums(
    x, partial, first, total, channels, shares,
    PARTS: tl.constexpr, SHARES: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Sums of x and of its squares, counted from the part's first row: squares of a large mean would drown the rest."""
    part, share = tl.program_id(0), tl.program_id(1)
    c = tl.program_id(2) * ACROSS + tl.arange(0, ACROSS)
    begin, end = _bounds(part, first, total)
    origin = tl.load(x + begin * channels + c, c < channels, 0.0).to(WIDE)[None, :]
    plain = tl.zeros((DOWN, ACROSS), WIDE)
    squares = tl.zeros((DOWN, ACROSS), WIDE)
    for at in range(begin + share * DOWN, end, shares * DOWN):
        place, inside = _tile(at, end, c, channels, DOWN)
        away = tl.where(inside, tl.load(x + at * channels + place, inside, 0.0).to(WIDE) - origin, 0.0)
        plain += away
        squares += away * away
    place = (part * 2 * shares + share) * channels + c
    tl.store(partial + place, tl.sum(plain, 0), c < channels)
    tl.store(partial + place + shares * channels, tl.sum(squares, 0), c < channels)


@triton.jit
def _moments(x, partial, part, c, first, total, channels, shares, SHARES: tl.constexpr, WIDE: tl.constexpr):
    """Mean and variance of a part."""
    begin, end = _bounds(part, first, total)
    count = (end - begin).to(WIDE)
    origin = tl.load(x + begin * channels + c, c < channels, 0.0).to(WIDE)
    away = _added(partial, part, 0, c, shares, channels, SHARES) / count
    squares = _added(partial, part, 1, c, shares, channels, SHARES) / count
    return origin + away, tl.maximum(squares - away * away, 0.0), count


@triton.jit
def _normalise(
    x, y, partial, moments, weight, bias, running_mean, running_var, batches,
    first, total, channels, shares,
    MOMENTUM: tl.constexpr, EPS: tl.constexpr, SLOPE: tl.constexpr,
    PARTS: tl.constexpr, SHARES: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    part, share = tl.program_id(0), tl.program_id(1)
    c = tl.program_id(2) * ACROSS + tl.arange(0, ACROSS)
    there = c < channels
    mean, variance, _ = _moments(x, partial, part, c, first, total, channels, shares, SHARES, WIDE)
    inverse = 1.0 / tl.sqrt(variance + EPS)
    if share == 0:
        tl.store(moments + part * 2 * channels + c, mean, there)
        tl.store(moments + (part * 2 + 1) * channels + c, inverse, there)
    if share == 0 and part == 0:  # running statistics: one part after the other
        still, spread = tl.load(running_mean + c, there, 0.0), tl.load(running_var + c, there, 0.0)
        for each in tl.static_range(PARTS):
            one, var, n = _moments(x, partial, each, c, first, total, channels, shares, SHARES, WIDE)
            still += MOMENTUM * (one - still)
            spread += MOMENTUM * (var * (n / (n - 1)) - spread)
        tl.store(running_mean + c, still, there)
        tl.store(running_var + c, spread, there)
        if tl.program_id(2) == 0:
            tl.store(batches, tl.load(batches) + PARTS)
    scale = tl.load(weight + c, there, 0.0) * inverse
    shift = tl.load(bias + c, there, 0.0) - mean * scale
    begin, end = _bounds(part, first, total)
    for at in range(begin + share * DOWN, end, shares * DOWN):
        place, inside = _tile(at, end, c, channels, DOWN)
        value = tl.load(x + at * channels + place, inside, 0.0).to(WIDE) * scale[None, :] + shift[None, :]
        tl.store(y + at * channels + place, tl.where(value > 0, value, SLOPE * value), inside)


@triton.jit
def _known(moments, weight, bias, part, c, channels):
    """What the way forward left of a part's channels `c`: mean, inverse deviation, and what they are scaled to."""
    there = c < channels
    mean = tl.load(moments + part * 2 * channels + c, there, 0.0)
    inverse = tl.load(moments + (part * 2 + 1) * channels + c, there, 0.0)
    return mean, inverse, tl.load(weight + c, there, 0.0), tl.load(bias + c, there, 0.0)


@triton.jit
def _pulled(x, dy, place, inside, mean, inverse, weight, bias, SLOPE: tl.constexpr, WIDE: tl.constexpr):
    """What x is in units of its deviation, and the gradient before the activation."""
    unit = (tl.load(x + place, inside, 0.0).to(WIDE) - mean[None, :]) * inverse[None, :]
    pull = tl.load(dy + place, inside, 0.0).to(WIDE)
    pull = tl.where(unit * weight[None, :] + bias[None, :] > 0, pull, SLOPE * pull)
    return tl.where(inside, unit, 0.0), pull


@triton.jit
def _pulls(
    x, dy, partial, moments, weight, bias, first, total, channels, shares, SLOPE: tl.constexpr,
    PARTS: tl.constexpr, SHARES: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Sums of the gradient before the activation, and of its product with what batch norm made."""
    part, share = tl.program_id(0), tl.program_id(1)
    c = tl.program_id(2) * ACROSS + tl.arange(0, ACROSS)
    there = c < channels
    mean, inverse, scale, shift = _known(moments, weight, bias, part, c, channels)
    plain = tl.zeros((DOWN, ACROSS), WIDE)
    turned = tl.zeros((DOWN, ACROSS), WIDE)
    begin, end = _bounds(part, first, total)
    for at in range(begin + share * DOWN, end, shares * DOWN):
        place, inside = _tile(at, end, c, channels, DOWN)
        unit, pull = _pulled(
            x + at * channels, dy + at * channels, place, inside, mean, inverse, scale, shift, SLOPE, WIDE
        )
        plain += pull
        turned += pull * unit
    place = (part * 2 * shares + share) * channels + c
    tl.store(partial + place, tl.sum(plain, 0), there)
    tl.store(partial + place + shares * channels, tl.sum(turned, 0), there)


@triton.jit
def _spread(
    x, dy, dx, partial, moments, weight, bias, dweight, dbias, first, total, channels, shares, SLOPE: tl.constexpr,
    PARTS: tl.constexpr, SHARES: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    part, share = tl.program_id(0), tl.program_id(1)
    c = tl.program_id(2) * ACROSS + tl.arange(0, ACROSS)
    there = c < channels
    mean, inverse, scale, shift = _known(moments, weight, bias, part, c, channels)
    begin, end = _bounds(part, first, total)
    count = (end - begin).to(WIDE)
    plain = _added(partial, part, 0, c, shares, channels, SHARES)
    turned = _added(partial, part, 1, c, shares, channels, SHARES)
    if share == 0 and part == 0:
        plains, turneds = plain, turned
        if PARTS == 2:
            plains += _added(partial, 1, 0, c, shares, channels, SHARES)
            turneds += _added(partial, 1, 1, c, shares, channels, SHARES)
        tl.store(dbias + c, plains, there)
        tl.store(dweight + c, turneds, there)
    for at in range(begin + share * DOWN, end, shares * DOWN):
        place, inside = _tile(at, end, c, channels, DOWN)
        unit, pull = _pulled(
            x + at * channels, dy + at * channels, place, inside, mean, inverse, scale, shift, SLOPE, WIDE
        )
        kept = pull - (plain[None, :] + unit * turned[None, :]) / count
        tl.store(dx + at * channels + place, kept * (scale * inverse)[None, :], inside)
