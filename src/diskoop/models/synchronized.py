"""batch norm over the batch of all processes"""

import torch
from torch import Tensor, nn

from diskoop.distributed import Processes
from diskoop.errors import InputError


class SynchronizedBatchNorm2d(nn.BatchNorm2d):
    """Batch norm whose mean and variance in training are those of the batches of all processes together.

    `torch.nn.SyncBatchNorm` does the same on CUDA only. Parameters and buffers have the names of `nn.BatchNorm2d`.
    """

    processes: Processes

    @classmethod
    def like(cls, layer: nn.BatchNorm2d, processes: Processes) -> "SynchronizedBatchNorm2d":
        """A layer with the parameters and buffers of `layer` itself."""
        new = cls(layer.num_features, layer.eps, layer.momentum)
        new.processes = processes
        new.weight, new.bias = layer.weight, layer.bias
        new.running_mean, new.running_var = layer.running_mean, layer.running_var
        new.num_batches_tracked = layer.num_batches_tracked
        return new.train(layer.training)

    def forward(self, x: Tensor) -> Tensor:
        """(n, channel, height, width), n frames of this process, of which there may be none."""
        if not self.training:
            return super().forward(x)
        y = x.to(self.weight.dtype)
        own = y.new_full((1,), y.numel() // y.shape[1])
        sums = self.processes.sum(torch.cat([own, y.sum((0, 2, 3))]))
        count, mean = sums[0].detach(), sums[1:] / sums[0]
        # Not from sums of squares, which would lose a small variance beside a large mean.
        centered = y - mean[:, None, None]
        variance = self.processes.sum(centered.square().sum((0, 2, 3))) / count
        self._track(mean.detach(), variance.detach() * count / (count - 1))
        scale = self.weight / (variance + self.eps).sqrt()
        return (centered * scale[:, None, None] + self.bias[:, None, None]).to(x.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics as `nn.BatchNorm2d` does."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.num_batches_tracked.add_(1)
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(variance, self.momentum)


def synchronize_batch_norm(module: nn.Module, processes: Processes) -> None:
    """Replace every `nn.BatchNorm2d` inside `module` by a `SynchronizedBatchNorm2d` of the same parameters, in place.

    Raises:
        InputError: for batch norm of another kind, whose statistics would silently be those of one process.
    """
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, SynchronizedBatchNorm2d.like(child, processes))
        elif isinstance(child, nn.modules.batchnorm._BatchNorm):
            raise InputError(f"{type(child).__name__} cannot be synchronized over processes; use nn.BatchNorm2d")
        else:
            synchronize_batch_norm(child, processes)
