"""random shifts of video, the same for all frames of a clip: more clips of the same kind"""

import torch
from torch import Tensor

MAX_SHIFT = 1 / 16  # of a frame's width


def shift_clips(x: Tensor, draws: Tensor) -> Tensor:
    """Each clip moved by whole pixels up to MAX_SHIFT; its border is repeated where it leaves a gap.

    Args:
        x: video (batch, time, channel, height, width).
        draws: uniform on [0, 1), (batch, 2): down and to the right.

    Example:
        >>> x = torch.arange(32.0).expand(1, 1, 1, 32, 32)
        >>> shift_clips(x, torch.tensor([[0.5, 0.0]]))[0, 0, 0, 0, :4]  # two pixels to the left
        tensor([2., 3., 4., 5.])
    """
    for axis, amount in ((3, draws[:, 0]), (4, draws[:, 1])):
        size = x.shape[axis]
        most = int(size * MAX_SHIFT)
        shift = (amount * (2 * most + 1)).floor().long() - most  # (batch,)
        places = (torch.arange(size, device=x.device) - shift[:, None]).clamp(0, size - 1)  # (batch, size)
        shape = [len(x), 1, 1, 1, 1]
        shape[axis] = size
        x = x.gather(axis, places.reshape(shape).expand_as(x))
    return x
