"""convolutions between frames of one to four channels and maps of many, and squared errors of frames, for CUDA

Libraries waste tiles made for many channels on a few. The first three kernels are one linear map with weights
(map channels, frame channels, 4, 4), stride 2 and padding 1: `gather` maps frames to a feature map, `scatter` is its
transpose, and `correlate` is the gradient of both in the weights. Frames are padded with zeros to four channels, which
are the last dimension in memory, so that a row of a patch is contiguous.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

PADDED = 4  # channels of a frame in memory
MAX_CHANNELS = 128  # of a feature map
GATHER_PIXELS, SCATTER_PIXELS = 64, 128  # map pixels per program: gathering holds a patch for each
CORRELATE_PROGRAMS = 264  # that share the pixels of a map
ERROR_PIXELS = 1024  # frame pixels per program


def supports(layer: nn.Conv2d | nn.ConvTranspose2d, x: Tensor) -> bool:
    """Whether the kernels compute `layer` of `x`: geometry, channels, no bias of a Conv2d, 32-bit indices."""
    channels, frame_channels, *_ = layer.weight.shape
    geometry = (layer.kernel_size, layer.stride, layer.padding) == ((4, 4), (2, 2), (1, 1))
    pixels = x[:, 0].numel() // 4 if isinstance(layer, nn.Conv2d) else x[:, 0].numel()  # of the map
    if isinstance(layer, nn.Conv2d) and layer.bias is not None:
        return False
    fits_in_tile = frame_channels <= PADDED and channels <= MAX_CHANNELS
    return geometry and fits_in_tile and pixels * max(4 * PADDED, channels) < 2**31


def conv2d(x: Tensor, layer: nn.Conv2d) -> Tensor:
    """The convolution `layer`, which has no bias, of frames `x` in bf16."""
    y: Tensor = _Conv2d.apply(pad_channels(x, torch.bfloat16), layer.weight)
    return y


def conv_transpose2d(y: Tensor, layer: nn.ConvTranspose2d) -> Tensor:
    """The transposed convolution `layer` of a map `y` in bf16: frames (n, PADDED, height, width)."""
    x: Tensor = _ConvTranspose2d.apply(y.to(torch.bfloat16), layer.weight, layer.bias)
    return x


def sigmoid_error_sums(logits: Tensor, targets: Sequence[Tensor]) -> list[Tensor]:
    """Sums of squared differences between sigmoids and targets, a scalar for each target.

    Args:
        logits: the frames of all targets one after another, (n, PADDED, height, width).
        targets: (batch, time, channel, height, width) each.
    """
    return list(_SigmoidErrorSums.apply(logits, *targets))


def pad_channels(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Frames (n, channels, height, width) as (n, PADDED, height, width) in channels_last, padded with zeros."""
    count, channels, height, width = x.shape
    padded = x.new_zeros(count, height, width, PADDED, dtype=dtype).permute(0, 3, 1, 2)
    padded[:, :channels] = x
    return padded


class _Conv2d(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return gather(x, weight)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        return scatter(outer[0], weight, None) if ctx.needs_input_grad[0] else None, correlate(x, outer[0], weight)


class _ConvTranspose2d(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(y, weight)
        return scatter(y, weight, bias)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        y, weight = ctx.saved_tensors
        dx = outer[0].contiguous(memory_format=torch.channels_last)
        dbias = dx[:, : weight.shape[1]].sum((0, 2, 3), dtype=weight.dtype) if ctx.needs_input_grad[2] else None
        return gather(dx, weight), correlate(dx, y, weight), dbias


class _SigmoidErrorSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, *targets: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(logits, *targets)
        sums = []
        for part, target in _split_by_target(logits, targets):
            pixels = part[:, 0].numel()
            partial = part.new_empty(triton.cdiv(pixels, ERROR_PIXELS), dtype=torch.float32)
            _sum_errors[partial.shape](part, target, partial, pixels, *_strides(target), PIXELS=ERROR_PIXELS)
            sums.append(partial.sum())
        return tuple(sums)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        logits, *targets = ctx.saved_tensors
        gradients = torch.empty_like(logits)
        for (part, target), (gradient, _), scale in zip(
            _split_by_target(logits, targets), _split_by_target(gradients, targets), outer, strict=True
        ):
            pixels = part[:, 0].numel()
            grid = (triton.cdiv(pixels, ERROR_PIXELS),)
            _error_gradient[grid](part, target, scale, gradient, pixels, *_strides(target), PIXELS=ERROR_PIXELS)
        return gradients, *[None for _ in targets]


def _split_by_target(logits: Tensor, targets: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """The frames of each target, and the target."""
    sizes = [target[:, :, 0, 0, 0].numel() for target in targets]
    return list(zip(torch.split(logits, sizes), targets, strict=True))


def _strides(target: Tensor) -> tuple[int, ...]:
    """Time, channels, pixels of a channel, which are contiguous, and the strides of batch, time and channel."""
    _, time, channels, height, width = target.shape
    assert target.stride()[3:] == (width, 1)
    return time, channels, height * width, *target.stride()[:3]


def gather(x: Tensor, weight: Tensor) -> Tensor:
    """Frames (n, PADDED, 2 h, 2 w) -> a map (n, channels, h, w)."""
    count, _, height, width = x.shape
    x = x.contiguous(memory_format=torch.channels_last)
    y = x.new_empty(count, height // 2, width // 2, len(weight)).permute(0, 3, 1, 2)
    pixels = count * (height // 2) * (width // 2)
    grid = (triton.cdiv(pixels, GATHER_PIXELS),)
    _gather[grid](x, weight.contiguous(), y, pixels, *_shape(x, weight), **_tiles(weight, GATHER_PIXELS))
    return y


def scatter(y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A map (n, channels, h, w) -> frames (n, PADDED, 2 h, 2 w)."""
    y = y.contiguous(memory_format=torch.channels_last)
    count, _, height, width = y.shape
    x = y.new_empty(count, 2 * height, 2 * width, PADDED).permute(0, 3, 1, 2)
    pixels = count * height * width
    shift = weight.new_zeros(weight.shape[1]) if bias is None else bias
    grid = (triton.cdiv(pixels, SCATTER_PIXELS),)
    _scatter[grid](y, weight.contiguous(), shift, x, pixels, *_shape(x, weight), **_tiles(weight, SCATTER_PIXELS))
    return x


def correlate(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """d(gather(x) . y) / d weight, for frames `x` (n, PADDED, 2 h, 2 w) and a map `y`."""
    x, y = (tensor.contiguous(memory_format=torch.channels_last) for tensor in (x, y))
    pixels = y[:, 0].numel()
    programs = min(CORRELATE_PROGRAMS, triton.cdiv(pixels, GATHER_PIXELS))
    partial = weight.new_empty(programs, len(weight), 4, 4, PADDED)
    _correlate[(programs,)](x, y, partial, pixels, programs, *_shape(x, weight), **_tiles(weight, GATHER_PIXELS))
    return partial.sum(0)[..., : weight.shape[1]].permute(0, 3, 1, 2)


def _shape(x: Tensor, weight: Tensor) -> tuple[int, ...]:
    return x.shape[2] // 2, x.shape[3] // 2, len(weight), weight.shape[1]


def _tiles(weight: Tensor, pixels: int) -> dict[str, int]:
    return {"CHANNELS": max(16, triton.next_power_of_2(len(weight))), "PIXELS": pixels, "PADDED": PADDED}


@triton.jit
def _unravel(pixel, height, width):
    """The frame, row and column of a pixel of the map."""
    return pixel // (height * width), pixel // width % height, pixel % width


@triton.jit
def _patches(x, pixel, inside, height, width, PADDED: tl.constexpr):
    """The patch of the frames under each pixel of the map, (pixels, taps); a tap is (row, column, channel)."""
    tap = tl.arange(0, 16 * PADDED)
    i, j = tap // (4 * PADDED), tap // PADDED % 4
    frame, row, column = _unravel(pixel, height, width)
    # Only patches of the first and the last row and column reach beyond the frame.
    row_inside = ((row > 0)[:, None] | (i > 0)[None, :]) & ((row < height - 1)[:, None] | (i < 3)[None, :])
    column_inside = ((column > 0)[:, None] | (j > 0)[None, :]) & ((column < width - 1)[:, None] | (j < 3)[None, :])
    first = ((frame * 2 * height + 2 * row - 1) * 2 * width + 2 * column - 1) * PADDED
    index = first[:, None] + (i * 2 * width * PADDED + tap % (4 * PADDED))[None, :]
    return tl.load(x + index, row_inside & column_inside & inside[:, None], 0.0)


@triton.jit
def _gather(
    x, weight, y, pixels, height, width, channels, frame_channels,
    CHANNELS: tl.constexpr, PIXELS: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    tap, channel = tl.arange(0, 16 * PADDED)[:, None], tl.arange(0, CHANNELS)[None, :]
    patches = _patches(x, pixel, pixel < pixels, height, width, PADDED)
    colour = tap % PADDED
    valid = (colour < frame_channels) & (channel < channels)
    weights = tl.load(weight + (channel * frame_channels + colour) * 16 + tap // PADDED, valid, 0.0).to(patches.dtype)
    exists = (pixel < pixels)[:, None] & (channel < channels)
    tl.store(y + (pixel[:, None] * channels + channel), tl.dot(patches, weights), exists)


@triton.jit
def _scatter(
    y, weight, bias, x, pixels, height, width, channels, frame_channels,
    CHANNELS: tl.constexpr, PIXELS: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Four pixels of a frame lie under one of the map; that one and its eight neighbours contribute to them."""
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    frame, row, column = _unravel(pixel, height, width)
    channel = tl.arange(0, CHANNELS)
    output = tl.arange(0, 4 * PADDED)  # (lower, right, channel)
    lower, right, colour = output // (2 * PADDED), output // PADDED % 2, output % PADDED
    total = tl.zeros((PIXELS, 4 * PADDED), tl.float32)
    for neighbour in tl.static_range(9):
        dy, dx = neighbour // 3 - 1, neighbour % 3 - 1
        exists = (pixel < pixels) & (row + dy >= 0) & (row + dy < height) & (column + dx >= 0) & (column + dx < width)
        index = (pixel + dy * width + dx)[:, None] * channels + channel[None, :]
        values = tl.load(y + index, exists[:, None] & (channel < channels)[None, :], 0.0)
        i, j = 1 + lower - 2 * dy, 1 + right - 2 * dx
        in_kernel = (i >= 0) & (i < 4) & (j >= 0) & (j < 4) & (colour < frame_channels)
        valid = in_kernel[None, :] & (channel < channels)[:, None]
        tap = channel[:, None] * 16 * frame_channels + (colour * 16 + i * 4 + j)[None, :]
        total += tl.dot(values, tl.load(weight + tap, valid, 0.0).to(values.dtype))
    total += tl.load(bias + colour, colour < frame_channels, 0.0)[None, :]
    first = ((frame * 2 * height + 2 * row) * 2 * width + 2 * column) * PADDED
    index = first[:, None] + (lower * 2 * width * PADDED + output % (2 * PADDED))[None, :]
    tl.store(x + index, total, (pixel < pixels)[:, None])


@triton.jit
def _correlate(
    x, y, partial, pixels, programs, height, width, channels, frame_channels,
    CHANNELS: tl.constexpr, PIXELS: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    channel = tl.arange(0, CHANNELS)
    total = tl.zeros((16 * PADDED, CHANNELS), tl.float32)
    for begin in range(program * PIXELS, pixels, programs * PIXELS):
        pixel = begin + tl.arange(0, PIXELS)
        patches = _patches(x, pixel, pixel < pixels, height, width, PADDED)
        valid = (pixel < pixels)[:, None] & (channel < channels)[None, :]
        values = tl.load(y + (pixel[:, None] * channels + channel[None, :]), valid, 0.0)
        total += tl.dot(tl.trans(patches), values)
    index = (program * channels + channel[None, :]) * 16 * PADDED + tl.arange(0, 16 * PADDED)[:, None]
    tl.store(partial + index, total, (channel < channels)[None, :])


@triton.jit
def _errors(logits, target, pixel, pixels, time, frame_channels, area, batch_stride, time_stride, channel_stride):
    """Sigmoids of a block of pixels (pixels, 4), their errors, their offsets in memory, and which of them exist."""
    colour = tl.arange(0, 4)[None, :]
    frame, pixel_in_frame = pixel // area, pixel % area
    target_index = frame // time * batch_stride + frame % time * time_stride + pixel_in_frame
    inside = (pixel < pixels)[:, None]
    index = pixel[:, None] * 4 + colour
    value = 1.0 / (1.0 + tl.exp(-tl.load(logits + index, inside, 0.0).to(tl.float32)))
    valid = inside & (colour < frame_channels)
    expected = tl.load(target + (target_index[:, None] + colour * channel_stride), valid, 0.0).to(tl.float32)
    return value, tl.where(valid, value - expected, 0.0), index, inside


@triton.jit
def _sum_errors(
    logits, target, partial, pixels, time, frame_channels, area, batch_stride, time_stride, channel_stride,
    PIXELS: tl.constexpr,
):  # fmt: skip
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    _, error, _, _ = _errors(
        logits, target, pixel, pixels, time, frame_channels, area, batch_stride, time_stride, channel_stride
    )
    tl.store(partial + tl.program_id(0), tl.sum(tl.sum(error * error, 1), 0))


@triton.jit
def _error_gradient(
    logits, target, scale, gradient, pixels, time, frame_channels, area, batch_stride, time_stride, channel_stride,
    PIXELS: tl.constexpr,
):  # fmt: skip
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    value, error, index, inside = _errors(
        logits, target, pixel, pixels, time, frame_channels, area, batch_stride, time_stride, channel_stride
    )
    tl.store(gradient + index, tl.load(scale).to(tl.float32) * 2 * error * value * (1 - value), inside)
