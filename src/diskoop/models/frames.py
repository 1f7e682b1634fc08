"""image encoder and decoder"""

from collections.abc import Callable

from torch import Tensor, nn

from diskoop.errors import InputError
from diskoop.settings import FRAME_SIZES

LATENT_ENDS: dict[str, Callable[[], nn.Module]] = {"tanh": nn.Tanh, "leaky_relu": lambda: nn.LeakyReLU(0.2)}


def block_channels(size: int, width: int) -> list[int]:
    """Channels after each halving on the way from `size` pixels to a 4 x 4 map."""
    if size not in FRAME_SIZES:
        raise InputError(f"expected frames of {', '.join(map(str, FRAME_SIZES))} pixels, got {size}")
    halvings = size.bit_length() - 3
    return [width * min(2**i, 8) for i in range(halvings)]


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
        self.frames = nn.Sequential(*layers)
        self.time = nn.LSTM(k, k, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if x.ndim != 5 or tuple(x.shape[2:]) != self.expected:
            wanted = ", ".join(map(str, self.expected))
            raise InputError(f"expected video (batch, time, {wanted}), got {tuple(x.shape)}")
        codes = of_real_frames(self.frames, x, mask).flatten(2)  # (batch, time, k)
        z: Tensor = self.time(codes)[0]
        return z


class FrameDecoder(nn.Module):
    """(batch, time, k) -> (batch, time, channel, size, size) in [0, 1]."""

    def __init__(self, channels: int, size: int, k: int, h: int, width: int = 32) -> None:
        super().__init__()
        self.time = nn.LSTM(k, h, batch_first=True)
        layers: list[nn.Module] = []
        before, stride, padding = h, 1, 0
        for after in reversed(block_channels(size, width)):
            up = nn.ConvTranspose2d(before, after, 4, stride, padding, bias=False)
            layers += [up, nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
            before, stride, padding = after, 2, 1  # the first makes 1 x 1 into 4 x 4, the others double
        layers += [nn.ConvTranspose2d(before, channels, 4, 2, 1), nn.Sigmoid()]
        self.frames = nn.Sequential(*layers)

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        codes = self.time(z)[0]  # (batch, time, h)
        return of_real_frames(self.frames, codes[..., None, None], mask)


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
