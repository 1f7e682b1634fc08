"""convolutional encoder and decoder of video: blocks of convolution, batch norm and activation, as kernels/ wants"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from diskoop.errors import InputError
from diskoop.models.layers import DECODER_MEMORIES, in_full_precision, over_time, per_frame
from diskoop.settings import FRAME_SIZES

BLOCK = 3  # layers: a convolution, batch norm, an activation
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"tanh": nn.Tanh, "leaky_relu": lambda: nn.LeakyReLU(0.2)}


def block_channels(size: int, width: int) -> list[int]:
    """Channels after each halving on the way from `size` pixels to a 4 x 4 map.

    Example:
        >>> block_channels(64, width=32)
        [32, 64, 128, 256]
    """
    if size not in FRAME_SIZES:
        raise InputError(f"expected frames of {', '.join(map(str, FRAME_SIZES))} pixels, got {size}")
    halvings = size.bit_length() - 3
    return [width * min(2**i, 8) for i in range(halvings)]


class FrameEncoder(nn.Module):
    """Convolutions frame by frame, then an LSTM: (batch, time, channel, size, size) in [0, 1] -> (batch, time, k).

    Args:
        channels: of a frame.
        size: pixels across, 32, 64 or 128.
        k: latent width.
        width: channels after the first convolution.
        activation: after the last one, "tanh" or "leaky_relu".
    """

    def __init__(self, channels: int, size: int, k: int, width: int = 32, activation: str = "tanh") -> None:
        super().__init__()
        self.frame_shape = (channels, size, size)
        layers: list[nn.Module] = []
        before = channels
        for after in block_channels(size, width):
            # No bias: batch norm would take it away again.
            layers += [nn.Conv2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
            before = after
        layers += [nn.Conv2d(before, k, 4, 1, 0, bias=False), nn.BatchNorm2d(k), ACTIVATIONS[activation]()]
        self.frames = nn.Sequential(*layers)
        self.time = nn.LSTM(k, k, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """`x` (batch, time, channel, size, size), `mask` (batch, time) -> latents (batch, time, k)."""
        if x.ndim != 5 or tuple(x.shape[2:]) != self.frame_shape:
            wanted = ", ".join(map(str, self.frame_shape))
            raise InputError(f"expected video (batch, time, {wanted}), got {tuple(x.shape)}")
        codes = per_frame(self.encode_frames, x, mask).flatten(2)  # (batch, time, k)
        return over_time(self.time, codes)

    def encode_frames(self, x: Tensor) -> Tensor:
        """(n, channel, size, size) -> (n, k, 1, 1)."""
        # The last block in full precision: what a small factor changes in a latent would drown in rounding.
        codes: Tensor = in_full_precision(self.frames[-BLOCK:], self.frames[:-BLOCK](x))
        return codes


class FrameDecoder(nn.Module):
    """An LSTM, then transposed convolutions frame by frame: (batch, time, k) -> (batch, time, channel, size, size).

    Args:
        channels: of a frame.
        size: pixels across, 32, 64 or 128.
        k: latent width.
        h: width of the LSTM.
        width: channels before the last convolution.
        memory: what stands for the LSTM, a key of `layers.DECODER_MEMORIES`.
    """

    def __init__(self, channels: int, size: int, k: int, h: int, width: int = 32, memory: str = "lstm") -> None:
        super().__init__()
        self.time = DECODER_MEMORIES[memory](k, h)
        layers: list[nn.Module] = []
        before, stride, padding = h, 1, 0
        for after in reversed(block_channels(size, width)):
            up = nn.ConvTranspose2d(before, after, 4, stride, padding, bias=False)
            layers += [up, nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
            before, stride, padding = after, 2, 1  # the first makes 1 x 1 into 4 x 4, the others double
        layers += [nn.ConvTranspose2d(before, channels, 4, 2, 1), nn.Sigmoid()]
        self.frames = nn.Sequential(*layers)

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        """Latents (batch, time, k), `mask` (batch, time) -> frames in [0, 1]."""
        codes = over_time(self.time, z)  # (batch, time, h)
        return per_frame(self.decode_frames, codes[..., None, None], mask)

    def decode_frames(self, codes: Tensor) -> Tensor:
        """(n, h, 1, 1) -> (n, channel, size, size)."""
        return self.to_pixels(self.feature_maps(codes))

    def feature_maps(self, codes: Tensor, *more: Any) -> Tensor:
        """(n, h, 1, 1) -> (n, width, size / 2, size / 2): all but the last convolution; `more` goes to the layers."""
        maps: Tensor = self.frames[BLOCK:-2](in_full_precision(self.frames[:BLOCK], codes, *more), *more)
        return maps

    def to_pixels(self, maps: Tensor) -> Tensor:
        """(n, width, size / 2, size / 2) -> (n, channel, size, size) in [0, 1]."""
        # The sigmoid in full precision: rounded to bf16, one near 1 would be 1 and have no slope.
        pixels: Tensor = self.frames[-1](self.frames[-2:-1](maps).to(next(self.parameters()).dtype))
        return pixels


def without_sigmoid(decoder: nn.Module) -> nn.Module:
    """A frame decoder whose pixels may have any value, for corrections of other frames; other decoders as they are."""
    if isinstance(decoder, FrameDecoder):
        decoder.frames[-1] = nn.Identity()
    return decoder
