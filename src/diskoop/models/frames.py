"""image encoder and decoder"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from diskoop.errors import InputError
from diskoop.numerics.kernels import kernels_run
from diskoop.settings import FRAME_SIZES

BLOCK = 3  # layers: a convolution, batch norm, an activation
LATENT_ENDS: dict[str, Callable[[], nn.Module]] = {"tanh": nn.Tanh, "leaky_relu": lambda: nn.LeakyReLU(0.2)}


def block_channels(size: int, width: int) -> list[int]:
    """Channels after each halving on the way from `size` pixels to a 4 x 4 map."""
    if size not in FRAME_SIZES:
        raise InputError(f"expected frames of {', '.join(map(str, FRAME_SIZES))} pixels, got {size}")
    halvings = size.bit_length() - 3
    return [width * min(2**i, 8) for i in range(halvings)]


class Layers(nn.Sequential):
    """Layers in their order, computed in whichever way is fastest where they lie."""

    def forward(self, x: Tensor, sizes: Sequence[int] | None = None) -> Tensor:
        """Of a batch whose parts (of `sizes`, which add up to it) batch norm is to see as if each came alone."""
        layers = iter(self)
        for layer in layers:
            if isinstance(layer, nn.BatchNorm2d):
                x = _normed(x, layer, next(layers), sizes or [len(x)])
            elif isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
                x = _convolved(x, layer)
            else:
                x = layer(x)
        return x


def _normed(x: Tensor, norm: nn.BatchNorm2d, activation: nn.Module, sizes: Sequence[int]) -> Tensor:
    usual = norm.training and norm.momentum is not None and len(sizes) <= 2
    if x.is_cuda and usual and isinstance(activation, nn.LeakyReLU) and kernels_run(x.device):
        from diskoop.models.fused import norm_leaky

        return norm_leaky(x, norm, activation.negative_slope, sizes)
    parts = [activation(norm(part)) for part in torch.split(x, list(sizes))]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _convolved(x: Tensor, layer: nn.Conv2d | nn.ConvTranspose2d) -> Tensor:
    if _is_product(x, layer):
        return _as_product(x, layer)
    if _is_narrow(x, layer):
        from diskoop.models import small_channel_conv

        if isinstance(layer, nn.Conv2d):
            return small_channel_conv.down(x, layer)
        return small_channel_conv.up(x, layer)[:, : layer.out_channels]
    y: Tensor = layer(x)
    return y


def _is_product(x: Tensor, layer: nn.Conv2d | nn.ConvTranspose2d) -> bool:
    """Whether a convolution goes between one pixel and a map as large as the kernel: each weight is used once."""
    usual = (layer.padding, layer.output_padding, layer.dilation, layer.groups) == ((0, 0), (0, 0), (1, 1), 1)
    return usual and x.shape[2:] == ((1, 1) if layer.transposed else layer.kernel_size)


def _as_product(x: Tensor, layer: nn.Conv2d | nn.ConvTranspose2d) -> Tensor:
    weight = layer.weight.permute(0, 2, 3, 1).flatten(1)  # in the order in which channels_last has it
    if layer.transposed:
        y = x.flatten(1) @ weight
        y = y.reshape(len(x), *layer.kernel_size, layer.out_channels).permute(0, 3, 1, 2)
    else:
        y = (x.permute(0, 2, 3, 1).flatten(1) @ weight.mT)[..., None, None]
    return y if layer.bias is None else y + layer.bias[:, None, None]


def _is_narrow(x: Tensor, layer: nn.Conv2d | nn.ConvTranspose2d) -> bool:
    """Whether a convolution of `x` has kernels of its own."""
    if not (x.is_cuda and torch.is_autocast_enabled("cuda") and kernels_run(x.device)):
        return False
    from diskoop.models import small_channel_conv

    return small_channel_conv.fits(layer, x)


def unrounded(layers: nn.Module, x: Tensor, *sizes: Sequence[int]) -> Any:
    """What `layers` make of `x` in the precision of their weights, whatever autocast would make of it."""
    with torch.autocast(x.device.type, enabled=False):
        return layers(x.to(next(layers.parameters()).dtype), *sizes)


class StartedLSTM(nn.LSTM):
    """An LSTM whose first state is made of the first frame: it need not find out what a sequence is about."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, batch_first=True)
        self.start = nn.Linear(inputs, 2 * outputs)

    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        hidden, cell = self.start(x[:, 0]).unsqueeze(0).chunk(2, -1)
        return super().forward(x, (hidden.tanh().contiguous(), cell.contiguous()))


class FrameWise(nn.Linear):
    """Each frame on its own, in the range of an LSTM's outputs: what is to move must move in the latents."""

    def forward(self, x: Tensor) -> Any:
        return super().forward(x).tanh(), None


MEMORIES: dict[str, Callable[[int, int], nn.Module]] = {
    "lstm": lambda inputs, outputs: nn.LSTM(inputs, outputs, batch_first=True),
    "started": StartedLSTM,
    "none": FrameWise,
}


def through_time(memory: nn.Module, x: Tensor) -> Tensor:
    """(batch, time, inputs) -> (batch, time, outputs), never rounded.

    On CUDA autocast would take an LSTM to float16, whose range gradients leave.
    """
    y: Tensor = unrounded(memory, x)[0]
    return y


class FrameEncoder(nn.Module):
    """(batch, time, channel, size, size) in [0, 1] -> (batch, time, k)."""

    def __init__(self, channels: int, size: int, k: int, width: int = 32, latent: str = "tanh") -> None:
        super().__init__()
        self.expected = (channels, size, size)
        layers: list[nn.Module] = []
        before = channels
        for after in block_channels(size, width):
            # No bias: batch norm would take it away again.
            layers += [nn.Conv2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
            before = after
        layers += [nn.Conv2d(before, k, 4, 1, 0, bias=False), nn.BatchNorm2d(k), LATENT_ENDS[latent]()]
        self.frames = Layers(*layers)
        self.time = nn.LSTM(k, k, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if x.ndim != 5 or tuple(x.shape[2:]) != self.expected:
            wanted = ", ".join(map(str, self.expected))
            raise InputError(f"expected video (batch, time, {wanted}), got {tuple(x.shape)}")
        codes = of_real_frames(self._coded, x, mask).flatten(2)  # (batch, time, k)
        return through_time(self.time, codes)

    def _coded(self, x: Tensor) -> Tensor:
        # What a small factor changes in a latent would drown in rounding.
        y: Tensor = unrounded(self.frames[-BLOCK:], self.frames[:-BLOCK](x))
        return y


class FrameDecoder(nn.Module):
    """(batch, time, k) -> (batch, time, channel, size, size) in [0, 1]."""

    def __init__(self, channels: int, size: int, k: int, h: int, width: int = 32, memory: str = "lstm") -> None:
        super().__init__()
        self.time = MEMORIES[memory](k, h)
        layers: list[nn.Module] = []
        before, stride, padding = h, 1, 0
        for after in reversed(block_channels(size, width)):
            up = nn.ConvTranspose2d(before, after, 4, stride, padding, bias=False)
            layers += [up, nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
            before, stride, padding = after, 2, 1  # the first makes 1 x 1 into 4 x 4, the others double
        layers += [nn.ConvTranspose2d(before, channels, 4, 2, 1), nn.Sigmoid()]
        self.frames = Layers(*layers)

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        codes = through_time(self.time, z)  # (batch, time, h)
        return of_real_frames(self._drawn, codes[..., None, None], mask)

    def _drawn(self, codes: Tensor) -> Tensor:
        return self._ended(self._maps(codes))

    def _maps(self, codes: Tensor, *sizes: Sequence[int]) -> Tensor:
        """What the last layer makes frames of."""
        y: Tensor = self.frames[BLOCK:-2](unrounded(self.frames[:BLOCK], codes, *sizes), *sizes)
        return y

    def _ended(self, maps: Tensor) -> Tensor:
        # Rounded, a sigmoid near 1 would be 1 and have no slope.
        y: Tensor = self.frames[-1](self.frames[-2:-1](maps).to(next(self.parameters()).dtype))
        return y

    def square_sums(self, parts: Sequence[Tensor], targets: Sequence[Tensor]) -> list[Tensor]:
        """Sums of squared differences between what `forward` makes of each of `parts` and its target, in one pass."""
        codes = of_each(self.time, parts)
        sizes = [part[..., 0].numel() for part in codes]
        last = self.frames[-2]
        assert isinstance(last, nn.ConvTranspose2d)
        y = self._maps(torch.cat([part.flatten(0, 1) for part in codes])[..., None, None], sizes)
        if _is_narrow(y, last):
            from diskoop.models import small_channel_conv

            return small_channel_conv.square_sums(small_channel_conv.up(y, last), targets)
        frames = torch.split(self._ended(y), sizes)
        return [(x - target.flatten(0, 1)).square().sum() for x, target in zip(frames, targets, strict=True)]


def of_each(time: nn.Module, parts: Sequence[Tensor]) -> list[Tensor]:
    """What `through_time` gives for several batches (batch, time, ...) of unequal length, in one call."""
    longest = max(part.shape[1] for part in parts)
    # It looks back only, so what is added at the end changes nothing before it.
    padded = [functional.pad(part, (0, 0, 0, longest - part.shape[1])) for part in parts]
    outputs = torch.split(through_time(time, torch.cat(padded)), [len(part) for part in parts])
    return [out[:, : part.shape[1]] for out, part in zip(outputs, parts, strict=True)]


def of_real_frames(network: Callable[[Tensor], Tensor], x: Tensor, mask: Tensor | None) -> Tensor:
    """`network` of each frame of `x` (batch, time, ...), zero where `mask` (batch, time) says there is none.

    Batch norm must not see padding, so padding does not go through the network at all.
    """
    if mask is None:
        y = network(x.flatten(0, 1))
        return y.reshape(*x.shape[:2], *y.shape[1:])
    y = network(x[mask])
    out = y.new_zeros(*x.shape[:2], *y.shape[1:])
    out[mask] = y
    return out
