"""the training step as CUDA graphs: stages on the device that overlap with linear algebra on the CPU"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diskoop.data.sequences import Sequences
from diskoop.distributed import BatchSlice, average_gradients
from diskoop.errors import InputError
from diskoop.kernels.availability import kernels_run
from diskoop.losses import Errors, Extra, LossTerm, Penalties, weighted_sum
from diskoop.models.layers import full_precision
from diskoop.numerics.operator import (
    pair_sums,
    require_ridge,
    require_solvable,
    ridge_gradient,
    ridge_rank,
    ridge_solution,
    second_moment,
    single_threaded,
)
from diskoop.numerics.penalties import mean_penalties, with_gradient
from diskoop.numerics.spectrum import Spectrum
from diskoop.settings import Settings
from diskoop.training.estimate import Estimate
from diskoop.training.objective import BatchForward, Objective
from diskoop.training.precision import autocast
from diskoop.training.step import StepOutput, clip_gradients, set_lr

WARM_UPS = 3  # steps before capture, in which libraries choose their algorithms


def capture_obstacle(settings: Settings, data: Sequences) -> str | None:
    """Why training on `data` cannot be captured, or None if it can."""
    if settings.model.operator_scope != "batch":
        return f"model.operator_scope = {settings.model.operator_scope}"
    if settings.model.ridge == 0:
        return "model.ridge = 0"
    if data.is_video and data.mask is not None:
        return "clips of unequal length"
    if settings.train.augment is True:
        return "train.augment = true"
    if settings.model.pooled:
        return f"model.pooled = {settings.model.pooled}"
    return None


class CapturedStep:
    """Stages on the device, overlapped with linear algebra on the CPU.

    `encode` ends with the k x k sums of the operator's linear system. A small system is solved on the device, a large
    one on the CPU. `decode` needs no eigenvalues and runs while the CPU computes them; with noise in the dynamic part
    it waits for the CPU to split that off. `update` computes the spectral losses and their gradient in the operator,
    and the optimizer step. Its losses are copied to the CPU together with the sums of the next step, so that the device
    never waits.

    On CUDA each stage is captured once and replayed, with one launch instead of hundreds. On other devices the same
    stages run eagerly, for tests.

    Several processes (`objective.processes`) each run the stages on their own part of a batch. What they sum, NCCL sums
    inside the graphs; the CPUs all find the spectrum of the same operator.

    Args:
        objective: the loss to minimise.
        optimizer: of the objective's parameters.
        data: the data set of the batches, which are padded to its longest sequence.
        batch_size: sequences of a batch in this process.
    """

    def __init__(
        self, objective: Objective, optimizer: torch.optim.Optimizer, data: Sequences, batch_size: int
    ) -> None:
        self.objective, self.optimizer, self.units, self.is_video = objective, optimizer, data.units, data.is_video
        # Terms of the errors alone are computed when frames are decoded, the others when the spectrum is known.
        self.early_terms = [term for term in objective.terms if term.uses == ("errors",)]
        self.late_terms = [term for term in objective.terms if term.uses != ("errors",)]
        self.weights = list(objective.parameters())
        self.device, k = self.weights[0].device, objective.settings.model.k
        self.on_cuda = self.device.type == "cuda"
        x, _ = data.read_batch(np.arange(1), self.weights[0].dtype)
        self.raw = torch.zeros(batch_size, *data.shape[1:], dtype=x.dtype, device=self.device)
        self.mask = (
            None if data.mask is None else torch.ones(batch_size, data.shape[1], dtype=torch.bool, device=self.device)
        )
        self.processes = objective.processes
        self.batch_slice = BatchSlice.of(self.processes, batch_size)
        self.draws = BufferedTensors(self.batch_slice)
        count = len(objective.terms) + 1
        self.outgoing = HostDeviceBuffer.zeros([5 * k * k + count], self.device)
        # Sums of pairs (past, cross), C and the inverse of its system, the second moment, the losses and the norm.
        self.sums, self.solution, self.moment, self.losses = self.outgoing.views((2, k, k), (2, k, k), (k, k), (count,))
        self.solves_on_device = solves_on_device(self.device, k)
        self.eigen = HostDeviceBuffer.zeros([2 * k + 2, k], self.device)  # basis, dual, eigenvalues
        self.split = HostDeviceBuffer.zeros([2, k, k], self.device)  # the static projector, the root of the noise
        self.sums_copied = torch.cuda.Event() if self.on_cuda else None  # type: ignore[no-untyped-call]
        self.pending: tuple[Spectrum, Tensor] | None = None  # spectrum and sums of a step without diagnostics yet
        self.stages: dict[str, Callable[[], None]] = {
            "encode": self._encode,
            "decode": self._decode,
            "update": self._update,
        }
        self.host: dict[str, Callable[[], None]] = {"solve": self._solve, "spectrum": self._find_spectrum}
        self.has_noise = bool(objective.settings.model.dynamic_noise)  # then decoding waits for the split
        if objective.needs_split or self.has_noise:
            self.host["split"] = self._find_split
        if self.solves_on_device:
            del self.host["solve"]
            require_ridge(objective.settings.model.ridge)
        self.captured = not self.on_cuda

    def take(self, x: Tensor, mask: Tensor | None, lr: float, generator: torch.Generator) -> list[StepOutput]:
        self._load(x, mask)
        if not self.captured:
            self._capture()
        set_lr(self.optimizer, lr)
        return self._run(generator)

    def _run(self, generator: torch.Generator) -> list[StepOutput]:
        self.objective.batch_slice = self.batch_slice  # a validation has others
        self.draws.refill(generator)
        self.stages["encode"]()
        with single_threaded() if self.on_cuda else nullcontext():
            if self.sums_copied is not None:
                self.sums_copied.record()
            if self.solves_on_device and not self.has_noise:
                self.stages["decode"]()
            diagnostics = self._diagnostics()  # while the device encodes
            if self.sums_copied is not None:
                self.sums_copied.synchronize()
            finished = self._finished(diagnostics)  # the previous step, whose last stage ran before this encode
            if finished and not all(map(math.isfinite, (finished[0].terms["total"], finished[0].norm))):
                return finished
            if not self.solves_on_device:
                self.host["solve"]()
            if self.has_noise:
                self.host["split"]()
            if self.has_noise or not self.solves_on_device:
                self.stages["decode"]()
            self.host["spectrum"]()  # while the device decodes
            if "split" in self.host and not self.has_noise:
                self.host["split"]()
        self.stages["update"]()
        return finished

    def estimate(self, x: Tensor, mask: Tensor | None, steps: float) -> Estimate:
        """Measure a few steps, restore weights and optimizer, and extrapolate to `steps`."""
        if self.on_cuda:
            torch.cuda.reset_peak_memory_stats(self.device)
        self._load(x, mask)
        if not self.captured:
            self._capture()
        saved = self._snapshot()
        seconds = []
        for _ in range(8):
            start = time.perf_counter()
            self._run(torch.Generator(self.device))
            self.flush()
            seconds.append(time.perf_counter() - start)
        self._restore(saved)
        parameters = sum(weight.numel() for weight in self.weights)
        memory = torch.cuda.max_memory_allocated(self.device) if self.on_cuda else 0
        return Estimate(sorted(seconds)[2] * steps, parameters, memory)

    def flush(self) -> list[StepOutput]:
        self.outgoing.to_host()
        if self.on_cuda:
            torch.cuda.synchronize(self.device)
        return self._finished(self._diagnostics())

    def _finished(self, diagnostics: dict[str, float] | None) -> list[StepOutput]:
        """The step whose losses are on the CPU, if there is one."""
        if diagnostics is None:
            return []
        *values, norm = self.losses.host.tolist()
        terms = dict(zip((term.name for term in self.objective.terms), values, strict=True))
        total = weighted_sum(terms, self.objective.settings.loss)
        return [StepOutput({"total": total, **terms, **diagnostics}, norm)]

    def _loss(self, terms: Sequence[LossTerm]) -> Tensor:
        """The part of the total that these terms are."""
        values = {term.name: self.batch.compute(term) for term in terms}
        self.values |= values
        total: Tensor = weighted_sum(values, self.objective.settings.loss)
        return total

    # --- on the device

    def _encode(self) -> None:
        with self._precision():
            x = self.units.to_model(self.raw).to(self.weights[0].dtype) if self.is_video else self.raw
            self.x, self.z = x, self.objective.latents(x, self.mask, self.draws)
        with full_precision(self.z):
            self.pairs = self.processes.sum(torch.stack(pair_sums(self.z, self.mask)))
            if self.has_noise:
                total = None if self.processes.world_size == 1 else self.processes.sum
                self.moment.device.copy_(second_moment(self.z, self.mask, total))
        self.sums.device.copy_(self.pairs.detach())
        if self.solves_on_device:
            from diskoop.kernels.ridge_solver import solve_ridge

            past, cross = self.sums.device
            torch.stack(solve_ridge(past, cross, self.objective.settings.model.ridge), out=self.solution.device)
        self.outgoing.to_host()
        # Decoding has an autograd graph of its own; `update` passes its gradients on to the encoder's graph.
        self.z_leaf = self.z.detach().requires_grad_()

    def _decode(self) -> None:
        self.C_leaf = self.solution.device[0].clone().requires_grad_()
        with self._precision():
            with full_precision(self.z_leaf):
                predicted = self.z_leaf[:, :-1] @ self.C_leaf.to(self.z_leaf)
            root = self.split.device[1] if self.has_noise else None
            errors = self.objective.errors(self.z_leaf, predicted, self.x, self.mask, self.draws, root, jointly=True)
        self.extras: dict[Extra, Errors | Penalties | Tensor] = {"errors": errors}
        self.batch = BatchForward(self.objective, self.x, self.mask, self.z_leaf, self.C_leaf, self.extras)
        self.values: dict[str, Tensor] = {}
        used_again = any("errors" in term.uses for term in self.late_terms)
        torch.autograd.backward(self._loss(self.early_terms), retain_graph=used_again)

    def _update(self) -> None:
        self.extras |= {"penalties": self._penalties(), "static": self.split.device[0]}
        with self._precision():
            total = self._loss(self.late_terms)
        torch.autograd.backward(total)
        assert self.C_leaf.grad is not None
        C, inverse = self.solution.device
        ridge = self.objective.settings.model.ridge
        pairs = torch.stack(ridge_gradient(self.C_leaf.grad, C, inverse, ridge))
        torch.autograd.backward([self.z, self.pairs], [self.z_leaf.grad, pairs])
        average_gradients(self.processes, self.weights)
        norm = clip_gradients(self.weights, self.objective.settings.train.grad_clip)
        self.optimizer.step()
        losses = [*(self.values[term.name] for term in self.objective.terms), norm]
        own = torch.stack([value.detach().double() for value in losses])
        self.losses.device.copy_(self.batch_slice.mean_over_processes(own))
        if not self.on_cuda:
            self.optimizer.zero_grad()

    def _penalties(self) -> Penalties:
        """The spectral penalties, differentiable in C, from the CPU's eigendecomposition."""
        k = self.eigen.device.shape[1]
        basis, dual, (real, imaginary) = torch.split(self.eigen.device, [k, k, 2])
        spectrum = Spectrum(torch.complex(real, imaginary), basis, dual, self.solution.device[0])
        static_modes = spectrum.static(self.objective.settings.spectrum.static)
        values, gradients = mean_penalties(spectrum, static_modes, *self.objective.penalties)
        return Penalties(*(with_gradient(self.C_leaf, *pair) for pair in zip(values, gradients, strict=True)))

    # --- on the CPU, in inference mode, which has less overhead

    @torch.inference_mode()
    def _solve(self) -> None:
        past, cross = self.sums.host
        self.solution.to_device(torch.stack(ridge_solution(past, cross, self.objective.settings.model.ridge)))

    @torch.inference_mode()
    def _find_spectrum(self) -> None:
        with self._explain_nonfinite():
            spectrum = Spectrum.of(self.solution.host[0], self.objective.order)
        values = torch.view_as_real(spectrum.eigenvalues).mT
        self.eigen.to_device(torch.cat([spectrum.basis, spectrum.dual, values]))
        self.pending = spectrum, self.sums.host[0].clone()

    @torch.inference_mode()
    def _find_split(self) -> None:
        with self._explain_nonfinite():
            split = self.objective.split(self.solution.host[0])
        root = split.noise_root(self.moment.host) if self.has_noise else torch.zeros_like(split.projector)
        self.split.to_device(torch.stack([split.projector, root]))

    @contextmanager
    def _explain_nonfinite(self) -> Iterator[None]:
        """Where an operator is not finite, report latents that are not finite as the cause."""
        try:
            yield
        except InputError:
            past, cross = self.sums.host
            require_solvable(past, cross, self.objective.settings.model.ridge)
            raise

    @torch.inference_mode()
    def _diagnostics(self) -> dict[str, float] | None:
        """Diagnostics of the last step, or None if they have been returned already."""
        if self.pending is None:
            return None
        (spectrum, past), self.pending = self.pending, None
        gap, radius = spectrum.gap_and_radius(spectrum.static(self.objective.settings.spectrum.static))
        rank = ridge_rank(past, self.objective.settings.model.ridge)
        return {"static_gap": float(gap), "dynamic_radius": float(radius), "rank": float(rank)}

    # --- loading, capture and restoring

    def _load(self, x: Tensor, mask: Tensor | None) -> None:
        time = x.shape[1]
        self.raw[:, :time].copy_(x, non_blocking=True)
        if self.mask is not None:
            self.mask[:, time:] = False
            self.mask[:, :time] = True if mask is None else mask.to(self.device, non_blocking=True)

    def _precision(self) -> AbstractContextManager[None]:
        return autocast(self.objective.settings.train, self.device)

    def _capture(self) -> None:
        """Capture every stage; what the warm-up steps change is restored."""
        saved = self._snapshot()
        stream, pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                self._run(torch.Generator(self.device))
                self.optimizer.zero_grad()
        # References to tensors of the last warm-up would keep its memory in the graph.
        for name in ("x", "z", "pairs", "z_leaf", "C_leaf", "extras", "batch", "values"):
            delattr(self, name)
        self.draws.refill(torch.Generator(self.device))
        # NCCL has a thread of its own, whose calls must not count as part of what is captured.
        mode = "global" if self.processes.world_size == 1 else "thread_local"
        for name, stage in list(self.stages.items()):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode=mode):
                stage()
            self.stages[name] = graph.replay
        torch.cuda.current_stream().wait_stream(stream)
        self._restore(saved)
        self.captured = True

    def _snapshot(self) -> list[Tensor]:
        """A copy of all that a step changes, before trial steps with a learning rate of zero."""
        set_lr(self.optimizer, 0.0)
        return [tensor.detach().clone() for tensor in self._state()]

    @torch.no_grad()
    def _restore(self, saved: Sequence[Tensor]) -> None:
        state = self._state()
        for tensor, value in zip(state, saved, strict=False):
            tensor.copy_(value)
        for tensor in state[len(saved) :]:  # Adam had no moments yet
            tensor.zero_()
        self.pending = None

    def _state(self) -> list[Tensor]:
        """All that a step changes: weights, running statistics and Adam's moments."""
        moments = [tensor for weight in self.weights for tensor in self.optimizer.state.get(weight, {}).values()]
        return [*self.weights, *self.objective.buffers(), *moments]


def solves_on_device(device: torch.device, k: int) -> bool:
    """Whether operators of size k are solved on `device` by a Triton kernel."""
    if not kernels_run(device):
        return False
    from diskoop.kernels.ridge_solver import MAX_K

    return k <= MAX_K


@dataclass
class HostDeviceBuffer:
    """A float64 tensor on the device and its copy on the CPU, in pinned memory."""

    device: Tensor
    host: Tensor

    @classmethod
    def zeros(cls, shape: Sequence[int], device: torch.device) -> "HostDeviceBuffer":
        on_device = torch.zeros(*shape, dtype=torch.float64, device=device)
        return cls(on_device, torch.zeros(*shape, dtype=torch.float64, pin_memory=device.type == "cuda"))

    def views(self, *shapes: Sequence[int]) -> "list[HostDeviceBuffer]":
        """Consecutive parts of it, which are copied together."""
        sizes = [math.prod(shape) for shape in shapes]
        parts = zip(torch.split(self.device, sizes), torch.split(self.host, sizes), shapes, strict=True)
        return [HostDeviceBuffer(on_device.view(shape), on_host.view(shape)) for on_device, on_host, shape in parts]

    def to_host(self) -> None:
        """Copy to the CPU, asynchronously."""
        self.host.copy_(self.device, non_blocking=True)

    def to_device(self, value: Tensor) -> None:
        """Copy `value` to the device, asynchronously.

        The previous copy is complete: the sums of its step were copied back after it.
        """
        self.host.copy_(value)
        self.device.copy_(self.host, non_blocking=True)


class BufferedTensors:
    """Random numbers at fixed addresses: allocated at the first request, refilled for every step.

    They are drawn for the whole batch, of which every process takes its own rows.
    """

    def __init__(self, batch_slice: BatchSlice) -> None:
        self.batch_slice = batch_slice
        self.buffers: list[tuple[Callable[..., Tensor], Tensor]] = []
        self.position = 0  # of the next request

    def uniform(self, shape: Sequence[int], like: Tensor) -> Tensor:
        return self._buffer(Tensor.uniform_, shape, like)

    def normal(self, shape: Sequence[int], like: Tensor) -> Tensor:
        return self._buffer(Tensor.normal_, shape, like)

    def _buffer(self, fill: Callable[..., Tensor], shape: Sequence[int], like: Tensor) -> Tensor:
        if self.position == len(self.buffers):
            empty = torch.empty(self.batch_slice.shape(shape), device=like.device, dtype=like.dtype)
            self.buffers.append((fill, fill(empty, generator=self.generator)))
        self.position += 1
        return self.batch_slice.own(self.buffers[self.position - 1][1])

    def refill(self, generator: torch.Generator) -> None:
        """Draw all buffers anew from `generator`, in the order of the first requests, which is that of a plain step."""
        self.generator, self.position = generator, 0
        for fill, buffer in self.buffers:
            fill(buffer, generator=generator)
