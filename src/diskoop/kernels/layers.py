"""faster layers for the paper's networks, and the one call that puts them into a model

`accelerate(model)` replaces the convolution stacks by equivalent ones with the same parameters under the same names: on
CUDA by Triton kernels where these run, everywhere with a matrix product in place of a convolution between a map and a
single pixel. A captured step decodes twice; `squared_error_sums` and `decode_jointly` do both in one pass.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from diskoop.kernels.availability import kernels_run
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.models.frames import FrameDecoder, FrameEncoder
from diskoop.models.layers import over_time
from diskoop.models.recurrent import SignalDecoder

Convolution = nn.Conv2d | nn.ConvTranspose2d


def accelerate(model: KoopmanAutoencoder) -> KoopmanAutoencoder:
    """Put the fast layers into `model`, in place; networks it does not know stay as they are.

    Example:
        >>> model = accelerate(KoopmanAutoencoder.for_shape((3, 32, 32), k=8, h=8, width=4))
        >>> type(model.encoder.frames).__name__, model.encode(torch.rand(2, 3, 3, 32, 32)).shape
        ('FastSequential', torch.Size([2, 3, 8]))
    """
    for network in list(model.modules()):  # they may stand inside residual ones
        if isinstance(network, FrameEncoder | FrameDecoder):
            network.frames = FastSequential(*network.frames)
    return model


class FastSequential(nn.Sequential):
    """The same layers in the same order, each by the fastest kernel for its device."""

    def forward(self, x: Tensor, sizes: Sequence[int] | None = None) -> Tensor:
        """Apply all layers.

        Args:
            x: a batch, (n, ...).
            sizes: of its parts, which add up to n. Batch norm treats each part as a batch of its own.
        """
        layers = iter(self)
        for layer in layers:
            if isinstance(layer, nn.BatchNorm2d):
                x = _batch_norm_activation(x, layer, next(layers), sizes or [len(x)])
            elif isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
                x = _convolution(x, layer)
            else:
                x = layer(x)
        return x


def _batch_norm_activation(x: Tensor, norm: nn.BatchNorm2d, activation: nn.Module, sizes: Sequence[int]) -> Tensor:
    """Batch norm and the activation after it, part by part."""
    if isinstance(activation, nn.LeakyReLU) and _has_batch_norm_kernel(x, norm, sizes):
        from diskoop.kernels.batch_norm import norm_leaky

        return norm_leaky(x, norm, activation.negative_slope, sizes)
    parts = [activation(norm(part)) for part in torch.split(x, list(sizes))]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _has_batch_norm_kernel(x: Tensor, norm: nn.BatchNorm2d, sizes: Sequence[int]) -> bool:
    """Whether `batch_norm` has a kernel for the norm of these parts of `x`."""
    fusible = norm.training and norm.momentum is not None and len(sizes) <= 2
    return x.is_cuda and fusible and kernels_run(x.device)


def _convolution(x: Tensor, layer: Convolution) -> Tensor:
    if _is_matrix_product(x, layer):
        return _matrix_product(x, layer)
    if _has_kernel(x, layer):
        from diskoop.kernels import small_channel_conv

        if isinstance(layer, nn.Conv2d):
            return small_channel_conv.conv2d(x, layer)
        return small_channel_conv.conv_transpose2d(x, layer)[:, : layer.out_channels]
    y: Tensor = layer(x)
    return y


def _is_matrix_product(x: Tensor, layer: Convolution) -> bool:
    """Whether a convolution is between one pixel and a map of the kernel's size, so that each weight is used once."""
    plain = (layer.padding, layer.output_padding, layer.dilation, layer.groups) == ((0, 0), (0, 0), (1, 1), 1)
    return plain and x.shape[2:] == ((1, 1) if layer.transposed else layer.kernel_size)


def _matrix_product(x: Tensor, layer: Convolution) -> Tensor:
    weight = layer.weight.permute(0, 2, 3, 1).flatten(1)  # in the order of channels_last
    if layer.transposed:
        y = x.flatten(1) @ weight
        y = y.reshape(len(x), *layer.kernel_size, layer.out_channels).permute(0, 3, 1, 2)
    else:
        y = (x.permute(0, 2, 3, 1).flatten(1) @ weight.mT)[..., None, None]
    return y if layer.bias is None else y + layer.bias[:, None, None]


def _has_kernel(x: Tensor, layer: Convolution) -> bool:
    """Whether `small_channel_conv` has a kernel for a convolution of `x`."""
    if not (x.is_cuda and torch.is_autocast_enabled("cuda") and kernels_run(x.device)):
        return False
    from diskoop.kernels import small_channel_conv

    return small_channel_conv.supports(layer, x)


def can_sum_errors(model: KoopmanAutoencoder) -> bool:
    """Whether `squared_error_sums` supports this model: a frame decoder with fast layers."""
    return isinstance(model.decoder, FrameDecoder) and isinstance(model.decoder.frames, FastSequential)


def squared_error_sums(model: KoopmanAutoencoder, latents: Sequence[Tensor], targets: Sequence[Tensor]) -> list[Tensor]:
    """Sums of squared differences between decoded latents and their targets, all decoded in one pass.

    Args:
        model: one that `can_sum_errors` supports. Batch norm treats each of `latents` as a batch of its own.
        latents: (batch, time, k) each; lengths may differ, but none is padded.
        targets: the video of each, (batch, time, channel, height, width).

    Returns:
        A scalar for each.
    """
    decoder = model.decoder
    assert isinstance(decoder, FrameDecoder)
    codes = _jointly_over_time(decoder.time, latents)
    sizes = [part[..., 0].numel() for part in codes]
    last = decoder.frames[-2]
    assert isinstance(last, nn.ConvTranspose2d)
    maps = decoder.feature_maps(torch.cat([part.flatten(0, 1) for part in codes])[..., None, None], sizes)
    if _has_kernel(maps, last):
        from diskoop.kernels import small_channel_conv

        return small_channel_conv.sigmoid_error_sums(small_channel_conv.conv_transpose2d(maps, last), targets)
    frames = torch.split(decoder.to_pixels(maps), sizes)
    return [(x - target.flatten(0, 1)).square().sum() for x, target in zip(frames, targets, strict=True)]


def decode_jointly(model: KoopmanAutoencoder, latents: Sequence[Tensor]) -> list[Tensor]:
    """`model.decode` of several latents (batch, time, k), none of them padded; signals in one pass."""
    if not isinstance(model.decoder, SignalDecoder):
        return [model.decode(z) for z in latents]
    return [model.decoder.out(part) for part in _jointly_over_time(model.decoder.time, latents)]


def _jointly_over_time(layer: nn.Module, parts: Sequence[Tensor]) -> list[Tensor]:
    """`over_time` of several batches (batch, time, ...) of unequal length, in one call."""
    longest = max(part.shape[1] for part in parts)
    # The layer is causal, so padding at the end changes nothing before it.
    padded = [functional.pad(part, (0, 0, 0, longest - part.shape[1])) for part in parts]
    outputs = torch.split(over_time(layer, torch.cat(padded)), [len(part) for part in parts])
    return [out[:, : part.shape[1]] for out, part in zip(outputs, parts, strict=True)]
