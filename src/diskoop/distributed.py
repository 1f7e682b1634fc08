"""several processes that work on one batch: who they are, and sums over them that are differentiable

`torchrun` starts the processes, and each calls `join`. A batch is cut into one slice for each process (`BatchSlice`).
What belongs to the whole batch (Gram matrices, statistics of batch norm, numbers of frames) is a sum over processes,
and losses and gradients are averaged over them, so that several processes take the steps that one would take.
"""

import atexit
import gc
import os
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from diskoop.errors import InputError, ResourceError, counted
from diskoop.launch import is_launched

TIMEOUT = timedelta(minutes=30)  # that processes wait for one another in a step
PATIENCE = timedelta(days=30)  # that they wait for work which one does alone, such as drawing a data set
LOST = re.compile(r"connect|peer|timed? ?out|socket|broken pipe|transport", re.IGNORECASE)  # in gloo's messages


class LostProcessError(ResourceError):
    """Another process has ended, or cannot be reached."""


@dataclass(frozen=True)
class Processes:
    """The processes that train together, and which of them this is.

    Example:
        >>> alone = Processes()
        >>> alone.is_main, alone.own_slice(32), alone.sum(torch.ones(2))
        (True, slice(0, 32, None), tensor([1., 1.]))
    """

    rank: int = 0
    world_size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and shows progress."""
        return self.rank == 0

    def own_slice(self, total: int) -> slice:
        """The slice of `total` items that is this process's own; sizes differ by one at most."""
        edges = [total * rank // self.world_size for rank in (self.rank, self.rank + 1)]
        return slice(*edges)

    def sum(self, x: Tensor) -> Tensor:
        """`x` summed over all processes, differentiable; every process gets the same bits."""
        if self.world_size == 1:
            return x
        total: Tensor = _Sum.apply(x)  # type: ignore[no-untyped-call]
        return total

    def max(self, x: Tensor) -> Tensor:
        """The largest of all processes' `x`, element by element, without gradient."""
        return x if self.world_size == 1 else _reduced(x, dist.ReduceOp.MAX)

    def any(self, condition: bool) -> bool:
        """Whether `condition` is true in some process; asked by all of them at the same time."""
        return bool(self.sum(torch.tensor(float(condition)))) if self.world_size > 1 else condition

    def agree(self, text: str) -> bool:
        """Whether `text` is the same in all processes; asked by all of them at the same time."""
        if self.world_size == 1:
            return True
        digest = torch.frombuffer(bytearray(sha256(text.encode()).digest()), dtype=torch.uint8).long()
        return bool((self.max(digest) == -self.max(-digest)).all())

    def barrier(self) -> None:
        """Return when all processes have come here."""
        self.any(False)

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """A block that the main process runs before the others do: what it puts into a cache they find there."""
        if not self.is_main:
            self._await_main()
        yield
        if self.is_main:
            self._await_main()

    def _await_main(self) -> None:
        """A barrier that the main process may come to hours after the others."""
        if self.world_size > 1:
            with lost_processes():
                dist.barrier(group=_patient[0])

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite `tensors` with those of the main process, whenever it has them."""
        if self.world_size > 1:
            self._await_main()
            with lost_processes():
                for tensor in tensors:
                    content = tensor.detach().contiguous()  # channels_last is not
                    dist.broadcast(content, 0)
                    tensor.data.copy_(content)


@dataclass(frozen=True)
class BatchSlice:
    """The sequences of a batch that one process holds.

    Example:
        >>> BatchSlice.of(Processes(), 32).roll(torch.tensor([1, 2, 3]))
        tensor([3, 1, 2])
    """

    processes: Processes
    first: int  # place of its first sequence in the batch
    size: int
    total: int  # sequences of the batch

    @classmethod
    def of(cls, processes: Processes, size: int) -> "BatchSlice":
        """The slice of `size` sequences in this process; every process calls it with its own size."""
        if processes.world_size == 1:
            return WHOLE
        sizes = torch.zeros(processes.world_size, dtype=torch.int64)
        sizes[processes.rank] = size
        sizes = processes.sum(sizes)
        return cls(processes, int(sizes[: processes.rank].sum()), size, int(sizes.sum()))

    @property
    def weight(self) -> float:
        """Of a mean over this slice, so that the average over processes is the mean over the batch."""
        return self.processes.world_size * self.size / self.total if self.processes.world_size > 1 else 1.0

    def mean_over_processes(self, x: Tensor) -> Tensor:
        """The mean of `x` over processes."""
        return x if self.processes.world_size == 1 else self.processes.sum(x) / self.processes.world_size

    def shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of the whole batch, for that of a slice, (size, ...)."""
        return (self.total, *shape[1:]) if shape and self.processes.world_size > 1 else shape

    def own(self, x: Tensor) -> Tensor:
        """This process's rows of a tensor (total, ...) for the whole batch; a scalar as it is."""
        return x[self.first : self.first + self.size] if x.ndim and self.processes.world_size > 1 else x

    def gather(self, x: Tensor) -> Tensor:
        """Rows (size, ...) of every process -> (total, ...), differentiable."""
        if self.processes.world_size == 1:
            return x
        before, after = self.first, self.total - self.first - self.size
        padded = torch.cat([x.new_zeros(before, *x.shape[1:]), x, x.new_zeros(after, *x.shape[1:])])
        return self.processes.sum(padded)

    def roll(self, x: Tensor) -> Tensor:
        """`x.roll(1, dims=0)` of the whole batch: each row (size, ...) gets its predecessor's; differentiable."""
        if self.processes.world_size == 1:
            return x.roll(1, dims=0)
        rank, world_size = self.processes.rank, self.processes.world_size
        number = x if x.is_floating_point() else x.int()
        last = torch.zeros(world_size, *x.shape[1:], dtype=number.dtype, device=x.device)
        place = torch.arange(world_size, device=x.device) == (rank + 1) % world_size
        last = last + place.reshape(-1, *[1] * (x.ndim - 1)).to(number) * number[-1:]
        before = self.processes.sum(last)[rank : rank + 1]
        return torch.cat([before, number[:-1]]).to(x.dtype)


ALONE = Processes()
WHOLE = BatchSlice(ALONE, 0, 1, 1)  # a batch of any size in one process
_joined: list[Processes] = []  # of this process, once it has joined others
_patient: list[Any] = []  # the process group on which all wait for one


def join(on_cuda: bool = False) -> Processes:
    """The processes that `torchrun` has started; connects to them at the first call, and is alone without them.

    Args:
        on_cuda: whether each process is to have a GPU of its own, and sums of tensors there are wanted as well.
    """
    if not is_launched():
        return ALONE
    if not _joined:
        if on_cuda:
            _take_gpu()
        try:
            # With gloo in both cases: numbers that the CPU holds are summed as well.
            dist.init_process_group("cpu:gloo,cuda:nccl" if on_cuda else "gloo", timeout=TIMEOUT)
            _patient.append(dist.new_group(backend="gloo", timeout=PATIENCE))
        except (RuntimeError, ValueError) as error:
            raise InputError(f"cannot join the other processes: {_first_line(error)}") from None
        _joined.append(Processes(dist.get_rank(), dist.get_world_size()))
        atexit.register(leave)  # gloo's threads abort a process that ends before they do
    return _joined[0]


def _take_gpu() -> None:
    """Make the GPU of this process's number on this machine the current one."""
    number, count = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if number >= count:
        raise InputError(
            f"torchrun started {os.environ.get('LOCAL_WORLD_SIZE', number + 1)} processes on a machine with "
            f"{counted(count, 'GPU')}; start one for each GPU, or train with train.device=cpu"
        )
    torch.cuda.set_device(number)


def leave() -> None:
    """Disconnect from the other processes; happens by itself when this one ends."""
    if _joined:
        _joined.clear()
        _patient.clear()
        dist.destroy_process_group()
        gc.collect()  # the group's threads are joined when its last reference is gone


class _Sum(torch.autograd.Function):
    """Sum over processes. Each may use the sum in a loss of its own, so gradients are summed as well."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _reduced(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return _reduced(gradients[0])


def _reduced(x: Tensor, operation: Any = dist.ReduceOp.SUM) -> Tensor:
    total = x.detach().clone(memory_format=torch.contiguous_format)
    with lost_processes():
        dist.all_reduce(total, operation)
    return total


def average_gradients(processes: Processes, weights: Sequence[Tensor]) -> None:
    """Replace the gradients of `weights` by their mean over processes, with one message."""
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    if processes.world_size == 1 or not gradients:
        return
    flat = processes.sum(torch.cat([gradient.flatten() for gradient in gradients])) / processes.world_size
    sizes = [gradient.numel() for gradient in gradients]
    for gradient, part in zip(gradients, torch.split(flat, sizes), strict=True):
        gradient.copy_(part.view(gradient.shape))


@contextmanager
def lost_processes() -> Iterator[None]:
    """Turn the errors of a collective that has lost a process into LostProcessError."""
    try:
        yield
    except RuntimeError as error:
        # NCCL's are a DistError; gloo has no class for them.
        if not (isinstance(error, dist.DistError) or LOST.search(str(error))):
            raise
        with suppress(ValueError):  # not in the main thread
            # When one process has ended torchrun sends this to the others. They end by themselves, and must not be
            # interrupted while they save and disconnect.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise LostProcessError(f"another process has ended or cannot be reached: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    """The first sentence of a message, without the place in gloo's own source."""
    lines = re.sub(r"^\[\S+:\d+\] ", "", str(error).strip()).splitlines()
    return lines[0].split(". ")[0] if lines else type(error).__name__
