"""encoding and decoding shared out over the processes that torchrun started: one coordinates, the others compute

A command that torchrun starts calls `start_workers` in every process. In the main one it returns, and what is encoded
or decoded there by `apply` goes out in chunks, one to each process; the others compute until the main one ends. A chunk
is computed as it would be in one process, so results are the same to the last bit on processors of one kind with as
many threads.
"""

import atexit
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from diskoop.distributed import PATIENCE, LostProcessError, Processes, join, leave, lost_processes
from diskoop.errors import InputError
from diskoop.kernels import accelerate
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model
from diskoop.settings import ModelSettings

Network = Literal["encode", "decode"]
Versions = tuple[tuple[int, int], ...]  # of the tensors of a model


class Coordinator:
    """The main process's side: it sends models and chunks to the others, and receives what they compute.

    Args:
        processes: all of them, this one among them.
        control: the process group on which the others wait for work.
    """

    def __init__(self, processes: Processes, control: Any) -> None:
        self.processes, self.control = processes, control
        self.models: WeakKeyDictionary[KoopmanAutoencoder, tuple[int, Versions]] = WeakKeyDictionary()
        self.sent = 0  # models so far
        self.is_busy = False  # whether the others hold chunks whose results have not come back

    def apply(self, model: KoopmanAutoencoder, network: Network, chunks: Iterable[list[Tensor]]) -> Iterator[Tensor]:
        """See `apply`."""
        number = self._send_model(model)
        remaining = iter(chunks)
        while turn := list(islice(remaining, self.processes.world_size)):
            self.is_busy = True
            for rank, chunk in enumerate(turn[1:], 1):
                _send(rank, {"do": network, "model": number}, chunk, self.control)
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
            request = {
                "do": "load",
                "model": number,
                "settings": settings.model_dump(),
                "frame": list(frame),
                "names": list(tensors),
                "device": next(model.parameters()).device.type,
                "kept": [kept for kept, _ in self.models.values()],
            }
            self.is_busy = True
            for rank in range(1, self.processes.world_size):
                _send(rank, request, list(tensors.values()), self.control)
            self.is_busy = False
        return number

    def end(self) -> None:
        """Let the others go; where an error came in the middle of their work, by ending the connection."""
        if self.is_busy:
            leave()
            return
        with suppress(LostProcessError):
            for rank in range(1, self.processes.world_size):
                _send(rank, {"do": "end"}, [], self.control)


_coordinators: list[Coordinator] = []  # of this process, while others work for it


def start_workers() -> bool:
    """Whether this is the main process, for which the others work; in those it returns once that has ended."""
    processes = join()
    if processes.world_size == 1:
        return True
    with lost_processes():
        control = dist.new_group(backend="gloo", timeout=PATIENCE)  # such as while a classifier is trained
    if not processes.is_main:
        _serve(control)
        return False
    _coordinators.append(Coordinator(processes, control))
    atexit.register(_end)
    return True


def _end() -> None:
    while _coordinators:
        _coordinators.pop().end()


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
    if _coordinators and model.architecture is not None:
        yield from _coordinators[0].apply(model, network, given)
    else:
        yield from (getattr(model, network)(*chunk) for chunk in given)


@torch.no_grad()
def _serve(control: Any) -> None:
    """Load models, encode and decode as the main process asks, until it has ended."""
    models = dict[int, KoopmanAutoencoder]()
    while True:
        request, tensors = _receive(0, control)
        if request["do"] == "end":
            return
        if request["do"] == "load":
            model = accelerate(build_model(ModelSettings.model_validate(request["settings"]), request["frame"]))
            weights = dict(zip(request["names"], tensors, strict=True))
            model.load_state_dict(weights, assign=True)  # in the dtype that each has
            models = {number: models[number] for number in request["kept"] if number in models}
            models[request["model"]] = model.to(_own_device(request["device"])).eval()
        else:
            model = models[request["model"]]
            device = next(model.parameters()).device
            result = getattr(model, request["do"])(*(tensor.to(device) for tensor in tensors))
            _send(0, {}, [result])


def _own_device(kind: str) -> torch.device:
    """This process's device of a kind; GPUs are dealt out to the processes of a machine in turn."""
    if kind != "cuda":
        return torch.device(kind)
    if not torch.cuda.is_available():
        raise InputError("the first process computes on a GPU, but this one's machine has none; take --device cpu")
    return torch.device(kind, int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())


def _send(rank: int, request: dict[str, Any], tensors: Sequence[Tensor], group: Any = None) -> None:
    """An request as JSON, and tensors by way of the CPU."""
    facts = [{"shape": list(tensor.shape), "dtype": str(tensor.dtype)} for tensor in tensors]
    text = torch.frombuffer(bytearray(json.dumps(request | {"tensors": facts}).encode()), dtype=torch.uint8)
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
        request = json.loads(bytes(text.tolist()))
        for fact in request.pop("tensors"):
            content = torch.zeros(fact["shape"], dtype=getattr(torch, fact["dtype"].removeprefix("torch.")))
            dist.recv(content.reshape(-1).view(torch.uint8), rank, group=group)
            tensors.append(content)
    return request, tensors
