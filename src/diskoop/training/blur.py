"""Gaussian blur of video, an augmentation of the encoder's input"""

from functools import cache

import torch
from torch import Tensor

from diskoop.models.layers import full_precision


def gaussian_blur(x: Tensor, sigma: Tensor, taps: tuple[int, int]) -> Tensor:
    """Separable blur, as two products with band matrices: libraries are slow at convolving single channels.

    Args:
        x: (batch, time, channel, height, width).
        sigma: scalar, in pixels.
        taps: number of taps along width and height, odd.

    Example:
        >>> gaussian_blur(torch.ones(1, 1, 1, 6, 8), torch.tensor(1.0), taps=(3, 5)).mean().item()
        1.0...
    """
    horizontal, vertical = (
        _blur_matrix(size, count, sigma) for size, count in zip((x.shape[-1], x.shape[-2]), taps, strict=True)
    )
    return vertical @ (x @ horizontal.mT)


def _blur_matrix(size: int, count: int, sigma: Tensor) -> Tensor:
    """(size, size): each row a Gaussian of `count` taps around the diagonal, reflected at the border."""
    exponents, bands = _bands(size, count, sigma.dtype, sigma.device)
    with full_precision(sigma):
        return (torch.softmax(exponents / sigma.square(), 0) @ bands).reshape(size, size)


@cache  # never freed, because a captured step reads them from the same addresses
def _bands(size: int, count: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Exponents of the taps for sigma 1, (count,), and one-hot columns of each in all rows, (count, size * size)."""
    with torch.inference_mode(False):  # cached tensors must also work with autograd
        offsets = torch.arange(count) - count // 2
        index = torch.arange(size)
        column = (index + offsets[:, None]).abs()  # (count, size)
        column = torch.where(column < size, column, 2 * (size - 1) - column)
        bands = (column.unsqueeze(-1) == index).flatten(1)
        return (-0.5 * offsets.square()).to(device, dtype), bands.to(device, dtype)
