"""encoding and decoding shared out over the processes that torchrun started: one leads, the others work for it

A command that torchrun starts calls `lead_or_serve` in every process. In the main one it returns, and what is encoded
or decoded there by `apply` goes out in chunks, one to each process; the others compute until the main one ends. A chunk
is computed as it would be in one process, so results are the same to the last bit on processors of one kind with as
many threads.
"""

import atexit
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from diskoop.distributed import LostProcessError, Processes, join, leave, lost_processes
from diskoop.errors import InputError
from diskoop.kernels import accelerate
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model
from diskoop.settings import ModelSettings

Network = Literal["encode", "decode"]
Versions = tuple[tuple[int, int], ...]  # of the tensors of a model
IDLE = timedelta(days=30)  # that a process waits for work, such as while a classifier is trained


class Leader:
    """The main process's side: it sends models and chunks to the others, and receives what they compute.

    Args:
        processes: all of them, this one among them.
        orders: the channel that the others wait at.
    """

    def __init__(self, processes: Processes, orders: Any) -> None:
        self.processes, self.orders = processes, orders
        self.models: WeakKeyDictionary[KoopmanAutoencoder, tuple[int, Versions]] = WeakKeyDictionary()
        self.sent = 0  # models so far
        self.is_busy = False  # whether the others hold chunks whose results have not come back

    def apply(self, model: KoopmanAutoencoder, network: Network, chunks: Iterable[list[Tensor]]) -> Iterator[Tensor]:
        """See `apply`."""
        number = self._send_model(model)
        remaining = iter(chunks)
        while turn := list(islice(remaining, self.processes.count)):
            self.is_busy = True
            for rank, chunk in enumerate(turn[1:], 1):
                _send(rank, {"do": network, "model": number}, chunk, self.orders)
            own = getattr(model, network)(*turn[0])
            # All of them before the first is given away: whoever takes them may stop at any.
            results = [own, *(_receive(rank)[1][0].to(own.device) for rank in range(1, len(turn)))]
            self.is_busy = False
            yield from results

    def _send_model(self, model: KoopmanAutoencoder) -> int:
        """The number by which the other processes know `model` with the weights that it has now."""
        tensors = model.state_dict(keep_vars=True)
        versions = tuple((id(tensor), tensor._version) for tensor in tensors.values())
        number, sent_versions = self.models.get(model, (0, ()))
        if sent_versions != versions:
            number, self.sent = self.sent, self.sent + 1
            self.models[model] = number, versions
            assert model.architecture is not None
            settings, frame = model.architecture
            order = {
                "do": "load",
                "model": number,
                "settings": settings.model_dump(),
                "frame": list(frame),
                "names": list(tensors),
                "device": next(model.parameters()).device.type,
                "kept": [kept for kept, _ in self.models.values()],
            }
            self.is_busy = True
            for rank in range(1, self.processes.count):
                _send(rank, order, list(tensors.values()), self.orders)
            self.is_busy = False
        return number

    def end(self) -> None:
        """Let the others go; where an error came in the middle of their work, by ending the connection."""
        if self.is_busy:
            leave()
            return
        with suppress(LostProcessError):
            for rank in range(1, self.processes.count):
                _send(rank, {"do": "end"}, [], self.orders)


_leaders: list[Leader] = []  # of this process, while others work for it


def lead_or_serve() -> bool:
    """Whether this is the main process, for which the others work; in those it returns once that has ended."""
    processes = join()
    if processes.count == 1:
        return True
    with lost_processes():
        orders = dist.new_group(backend="gloo", timeout=IDLE)
    if not processes.is_main:
        _serve(orders)
        return False
    _leaders.append(Leader(processes, orders))
    atexit.register(_end)
    return True


def _end() -> None:
    while _leaders:
        _leaders.pop().end()


@torch.no_grad()  # as a decorator, for a `with` would switch gradients off for the caller between chunks
def apply(model: KoopmanAutoencoder, network: Network, chunks: Iterable[Sequence[Tensor | None]]) -> Iterator[Tensor]:
    """`model.encode` or `model.decode` of each chunk in turn, computed by all processes if there are several.

    Args:
        model: in evaluation mode. One that `build_model` did not build, such as PCA, is not shared out.
        network: which of its two.
        chunks: their arguments; those that are None are left out.

    Example:
        >>> model = KoopmanAutoencoder.for_shape((4,), k=6, h=8).eval()
        >>> [z.shape for z in apply(model, "encode", [[torch.randn(2, 10, 4)], [torch.randn(1, 10, 4)]])]
        [torch.Size([2, 10, 6]), torch.Size([1, 10, 6])]
    """
    given = ([tensor for tensor in chunk if tensor is not None] for chunk in chunks)
    if _leaders and model.architecture is not None:
        yield from _leaders[0].apply(model, network, given)
    else:
        yield from (getattr(model, network)(*chunk) for chunk in given)


@torch.no_grad()
def _serve(orders: Any) -> None:
    """Load models, encode and decode as the main process asks, until it has ended."""
    models = dict[int, KoopmanAutoencoder]()
    while True:
        order, tensors = _receive(0, orders)
        if order["do"] == "end":
            return
        if order["do"] == "load":
            model = accelerate(build_model(ModelSettings.model_validate(order["settings"]), order["frame"]))
            weights = dict(zip(order["names"], tensors, strict=True))
            model.load_state_dict(weights, assign=True)  # in the dtype that each has
            models = {number: models[number] for number in order["kept"] if number in models}
            models[order["model"]] = model.to(_own_device(order["device"])).eval()
        else:
            model = models[order["model"]]
            device = next(model.parameters()).device
            result = getattr(model, order["do"])(*(tensor.to(device) for tensor in tensors))
            _send(0, {}, [result])


def _own_device(kind: str) -> torch.device:
    """This process's device of a kind; GPUs are dealt out to the processes of a machine in turn."""
    if kind != "cuda":
        return torch.device(kind)
    if not torch.cuda.is_available():
        raise InputError("the first process computes on a GPU, but this one's machine has none; take --device cpu")
    return torch.device(kind, int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())


def _send(rank: int, order: dict[str, Any], tensors: Sequence[Tensor], group: Any = None) -> None:
    """An order as JSON, and tensors by way of the CPU."""
    facts = [{"shape": list(tensor.shape), "dtype": str(tensor.dtype)} for tensor in tensors]
    text = torch.frombuffer(bytearray(json.dumps(order | {"tensors": facts}).encode()), dtype=torch.uint8)
    with lost_processes():
        dist.send(torch.tensor([len(text)]), rank, group=group)
        dist.send(text, rank, group=group)
        for tensor in tensors:  # as bytes, for gloo knows neither booleans nor bf16
            dist.send(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8), rank, group=group)


def _receive(rank: int, group: Any = None) -> tuple[dict[str, Any], list[Tensor]]:
    """What `_send` has sent."""
    tensors = []
    with lost_processes():
        size = torch.zeros(1, dtype=torch.int64)
        dist.recv(size, rank, group=group)
        text = torch.zeros(int(size), dtype=torch.uint8)
        dist.recv(text, rank, group=group)
        order = json.loads(bytes(text.tolist()))
        for fact in order.pop("tensors"):
            content = torch.zeros(fact["shape"], dtype=getattr(torch, fact["dtype"].removeprefix("torch.")))
            dist.recv(content.reshape(-1).view(torch.uint8), rank, group=group)
            tensors.append(content)
    return order, tensors
