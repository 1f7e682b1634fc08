"""the training step captured for CUDA: the plain one's mathematics in stages that do not wait for each other"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diskoop.data.sequences import Sequences
from diskoop.errors import InputError
from diskoop.models.autoencoder import full_precision
from diskoop.numerics.factors import Factor
from diskoop.numerics.kernels import kernels_run
from diskoop.numerics.losses import eigenvalue_means
from diskoop.numerics.operator import (
    one_thread,
    pair_sums,
    rank_of,
    require_ridge,
    require_solvable,
    ridge_gradient,
    ridge_solution,
)
from diskoop.numerics.spectrum import Spectrum
from diskoop.settings import Settings
from diskoop.training.estimate import Estimate
from diskoop.training.objective import Objective, Terms, second_moment
from diskoop.training.precision import autocast
from diskoop.training.step import StepOutput, clip_gradients, set_rate

WARM_UPS = 3  # before capture, so that libraries have made up their minds


def why_not_captured(settings: Settings, data: Sequences) -> str | None:
    """Why training on `data` cannot be captured, if it cannot."""
    if settings.model.scope != "batch":
        return f"model.scope = {settings.model.scope}"
    if settings.model.ridge == 0:
        return "model.ridge = 0"
    if data.is_video and data.mask is not None:
        return "clips of unequal length"
    return None


class CapturedStep:
    """Stages on the device, and linear algebra on the CPU while they run.

    `encode` ends in the k x k sums that an operator is fitted on. A small one is solved for at once; for a large one
    the sums travel to the CPU and it comes back. `decode` needs no eigenvalue and runs on, while the CPU finds them and
    their vectors; with noise in the dynamic part it waits until the CPU has split that off. `update` makes of these the
    spectral losses and their pull on the operator, and ends the step. Its figures leave the device together with the
    next one's sums, so the device never waits for a reader.

    On the device each stage is captured once and replayed, which costs one launch instead of hundreds. Elsewhere the
    same stages run as they are written.
    """

    def __init__(self, objective: Objective, optimizer: torch.optim.Optimizer, data: Sequences, batch: int) -> None:
        """For batches of so many sequences of `data`, all of them as long as the longest there is."""
        self.objective, self.optimizer, self.units, self.is_video = objective, optimizer, data.units, data.is_video
        self.weights = list(objective.parameters())
        self.device, k = self.weights[0].device, objective.settings.model.k
        self.on_cuda = self.device.type == "cuda"
        x, _ = data.fetch(np.arange(1), self.weights[0].dtype)
        self.raw = torch.zeros(batch, *data.shape[1:], dtype=x.dtype, device=self.device)
        self.mask = (
            None if data.mask is None else torch.ones(batch, data.shape[1], dtype=torch.bool, device=self.device)
        )
        self.draws = _Draws()
        self.told = _Shared.zeros([5 * k * k + 7], self.device)
        # Sums of pairs, past and cross; C and the inverse of its system; the latents' second moment; what is noted.
        self.sums, self.solved, self.moment, self.figures = self.told.parts((2, k, k), (2, k, k), (k, k), (7,))
        self.solves_there = solved_there(self.device, k)
        self.found = _Shared.zeros([2 * k + 2, k], self.device)  # a spectrum: basis, dual, the eigenvalues' two parts
        self.divided = _Shared.zeros([2, k, k], self.device)  # the static projector, and the root of the noise
        self.arrived = torch.cuda.Event() if self.on_cuda else None  # type: ignore[no-untyped-call]
        self.seen: tuple[Spectrum, Tensor] | None = None  # of the step not told of yet: its spectrum, its sums
        self.stages: dict[str, Callable[[], None]] = {
            "encode": self._encode,
            "decode": self._decode,
            "update": self._update,
        }
        self.host: dict[str, Callable[[], None]] = {"solve": self._solve, "spectrum": self._find_spectrum}
        self.noisy = bool(objective.settings.model.dynamic_noise)  # what is decoded waits for the dynamic part
        if self.noisy or objective.settings.loss.cycle:
            self.host["split"] = self._divide
        if self.solves_there:
            del self.host["solve"]
            require_ridge(objective.settings.model.ridge)
        self.captured = not self.on_cuda

    def take(self, x: Tensor, mask: Tensor | None, rate: float, generator: torch.Generator) -> list[StepOutput]:
        self._load(x, mask)
        if not self.captured:
            self._capture()
        set_rate(self.optimizer, rate)
        return self._run(generator)

    def _run(self, generator: torch.Generator) -> list[StepOutput]:
        self.draws.refill(generator)
        self.stages["encode"]()
        with one_thread() if self.on_cuda else nullcontext():
            if self.arrived is not None:
                self.arrived.record()
            if self.solves_there and not self.noisy:
                self.stages["decode"]()
            spectral = self._noted()  # while the device encodes
            if self.arrived is not None:
                self.arrived.synchronize()
            ended = self._ended(spectral)  # the step before: its last stage came before this one's first
            if ended and not all(map(math.isfinite, (ended[0].terms["total"], ended[0].norm))):
                return ended
            if not self.solves_there:
                self.host["solve"]()
            if self.noisy:
                self.host["split"]()
            if self.noisy or not self.solves_there:
                self.stages["decode"]()
            self.host["spectrum"]()  # while the device decodes
            if "split" in self.host and not self.noisy:
                self.host["split"]()
        self.stages["update"]()
        return ended

    def rehearse(self, x: Tensor, mask: Tensor | None, steps: float) -> Estimate:
        """What so many steps will cost: some are taken, and taken back."""
        if self.on_cuda:
            torch.cuda.reset_peak_memory_stats(self.device)
        self._load(x, mask)
        if not self.captured:
            self._capture()
        kept = self._kept()
        seconds = []
        for _ in range(8):
            began = time.perf_counter()
            self._run(torch.Generator(self.device))
            self.flush()
            seconds.append(time.perf_counter() - began)
        self._put_back(kept)
        parameters = sum(weight.numel() for weight in self.weights)
        memory = torch.cuda.max_memory_allocated(self.device) if self.on_cuda else 0
        return Estimate(sorted(seconds)[2] * steps, parameters, memory)

    def flush(self) -> list[StepOutput]:
        self.told.send()
        if self.on_cuda:
            torch.cuda.synchronize(self.device)
        return self._ended(self._noted())

    def _ended(self, spectral: dict[str, float] | None) -> list[StepOutput]:
        if spectral is None:
            return []
        *terms, norm = self.figures.here.tolist()
        named = dict(zip(("rec", "pred_z", "pred_x", "stat", "dyn", "cycle"), terms, strict=True))
        values = spectral | named | {"total": self.objective.weighed(*terms)}
        return [StepOutput({name: values[name] for name in Terms._fields}, norm)]

    # --- on the device

    def _encode(self) -> None:
        with self._precision():
            x = self.units.to_model(self.raw).to(self.weights[0].dtype) if self.is_video else self.raw
            self.x, self.z = x, self.objective.latents(x, self.mask, self.draws)
        with full_precision(self.z):
            self.pairs = torch.stack(pair_sums(self.z, self.mask))
            if self.noisy:
                self.moment.there.copy_(second_moment(self.z, self.mask))
        self.sums.there.copy_(self.pairs.detach())
        if self.solves_there:
            from diskoop.numerics.elimination import ridge_solution_there

            past, cross = self.sums.there
            torch.stack(ridge_solution_there(past, cross, self.objective.settings.model.ridge), out=self.solved.there)
        self.told.send()
        self.z_here = self.z.detach().requires_grad_()

    def _decode(self) -> None:
        self.C_here = self.solved.there[0].clone().requires_grad_()
        with self._precision():
            with full_precision(self.z_here):
                ahead = self.z_here[:, :-1] @ self.C_here.to(self.z_here)
            root = self.divided.there[1] if self.noisy else None
            self.errors = self.objective.errors(self.z_here, ahead, self.x, self.mask, self.draws, root, together=True)
        loss, (rec, pred_z, pred_x) = self.objective.settings.loss, self.errors
        (loss.rec * rec + loss.pred * (pred_z + pred_x)).backward()  # type: ignore[no-untyped-call]

    def _update(self) -> None:
        spectral, pull = self._pulled()
        back = torch.zeros_like(self.errors[0])
        if self.objective.settings.loss.cycle:
            with self._precision():
                back = self.objective.cycle(self.z_here, Factor("static", self.divided.there[0]), self.mask)
            (self.objective.settings.loss.cycle * back).backward()  # type: ignore[no-untyped-call]
        assert self.C_here.grad is not None
        C, inverse = self.solved.there
        pairs = torch.stack(ridge_gradient(self.C_here.grad + pull, C, inverse, self.objective.settings.model.ridge))
        torch.autograd.backward([self.z, self.pairs], [self.z_here.grad, pairs])
        norm = clip_gradients(self.weights, self.objective.settings.train.clip)
        self.optimizer.step()
        told = (*self.errors, *spectral, back, norm)
        torch.stack([value.detach().double() for value in told], out=self.figures.there)
        if not self.on_cuda:
            self.optimizer.zero_grad()

    @torch.no_grad()
    def _pulled(self) -> tuple[Tensor, Tensor]:
        """The spectral losses (2,) and their gradient in C (k, k), from the spectrum that the CPU found."""
        loss, choice, k = self.objective.settings.loss, self.objective.settings.spectrum, self.found.there.shape[1]
        basis, dual, (real, imaginary) = torch.split(self.found.there, [k, k, 2])
        spectrum = Spectrum(torch.complex(real, imaginary), basis, dual, self.solved.there[0])
        chosen = spectrum.static(choice.static)
        spectral, (static, dynamic) = eigenvalue_means(spectrum, chosen, *self.objective.penalties)
        return spectral, loss.eig * (loss.stat * static + loss.dyn * dynamic)

    # --- on the CPU, where tensors that autograd may forget are quicker to make

    @torch.inference_mode()
    def _solve(self) -> None:
        past, cross = self.sums.here
        self.solved.give(torch.stack(ridge_solution(past, cross, self.objective.settings.model.ridge)))

    @torch.inference_mode()
    def _find_spectrum(self) -> None:
        with self._blamed():
            spectrum = Spectrum.of(self.solved.here[0], self.objective.order)
        values = torch.view_as_real(spectrum.eigenvalues).mT
        self.found.give(torch.cat([spectrum.basis, spectrum.dual, values]))
        self.seen = spectrum, self.sums.here[0].clone()

    @torch.inference_mode()
    def _divide(self) -> None:
        with self._blamed():
            split = self.objective.split(self.solved.here[0])
        root = split.noise_root(self.moment.here) if self.noisy else torch.zeros_like(split.projector)
        self.divided.give(torch.stack([split.projector, root]))

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """An operator that is none is put down to its latents: where they are no numbers, neither is their operator."""
        try:
            yield
        except InputError:
            past, cross = self.sums.here
            require_solvable(past, cross, self.objective.settings.model.ridge)
            raise

    @torch.inference_mode()
    def _noted(self) -> dict[str, float] | None:
        """What the figures say of the last step's spectrum; once."""
        if self.seen is None:
            return None
        (spectrum, past), self.seen = self.seen, None
        gap, radius = spectrum.extent(spectrum.static(self.objective.settings.spectrum.static))
        rank = rank_of(past, self.objective.settings.model.ridge)
        return {"static_gap": float(gap), "dynamic_radius": float(radius), "rank": float(rank)}

    # --- around them

    def _load(self, x: Tensor, mask: Tensor | None) -> None:
        time = x.shape[1]
        self.raw[:, :time].copy_(x, non_blocking=True)
        if self.mask is not None:
            self.mask[:, time:] = False
            self.mask[:, :time] = True if mask is None else mask.to(self.device, non_blocking=True)

    def _precision(self) -> AbstractContextManager[None]:
        return autocast(self.objective.settings.train, self.device)

    def _capture(self) -> None:
        """Record every stage. The rehearsals before move the weights, which are put back afterwards."""
        kept = self._kept()
        stream, pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                self._run(torch.Generator(self.device))
                self.optimizer.zero_grad()
        # What hangs on the last rehearsal would tie the recording to it.
        for name in ("x", "z", "pairs", "z_here", "C_here", "errors"):
            delattr(self, name)
        self.draws.refill(torch.Generator(self.device))
        for name, work in list(self.stages.items()):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=stream):
                work()
            self.stages[name] = graph.replay
        torch.cuda.current_stream().wait_stream(stream)
        self._put_back(kept)
        self.captured = True

    def _kept(self) -> list[Tensor]:
        """A copy of all that a step changes, before steps that lead nowhere: with a learning rate of zero."""
        set_rate(self.optimizer, 0.0)
        return [tensor.detach().clone() for tensor in self._moved()]

    @torch.no_grad()
    def _put_back(self, kept: Sequence[Tensor]) -> None:
        moved = self._moved()
        for tensor, before in zip(moved, kept, strict=False):
            tensor.copy_(before)
        for tensor in moved[len(kept) :]:  # Adam had nothing to remember
            tensor.zero_()
        self.seen = None

    def _moved(self) -> list[Tensor]:
        """All that a step changes: weights, running statistics and what Adam remembers."""
        remembered = [tensor for weight in self.weights for tensor in self.optimizer.state.get(weight, {}).values()]
        return [*self.weights, *self.objective.buffers(), *remembered]


def solved_there(device: torch.device, k: int) -> bool:
    """Whether operators of this size can be solved for on `device`."""
    if not kernels_run(device):
        return False
    from diskoop.numerics.elimination import LARGEST

    return k <= LARGEST


@dataclass
class _Shared:
    """Float64 numbers on the device and their double on the CPU, in memory that both can reach."""

    there: Tensor
    here: Tensor

    @classmethod
    def zeros(cls, shape: Sequence[int], device: torch.device) -> "_Shared":
        there = torch.zeros(*shape, dtype=torch.float64, device=device)
        return cls(there, torch.zeros(*shape, dtype=torch.float64, pin_memory=device.type == "cuda"))

    def parts(self, *shapes: Sequence[int]) -> "list[_Shared]":
        """What lies in it one after another: when it is sent, they are."""
        sizes = [math.prod(shape) for shape in shapes]
        both = zip(torch.split(self.there, sizes), torch.split(self.here, sizes), shapes, strict=True)
        return [_Shared(there.view(shape), here.view(shape)) for there, here, shape in both]

    def send(self) -> None:
        """From the device."""
        self.here.copy_(self.there, non_blocking=True)

    def give(self, value: Tensor) -> None:
        """To the device. What was given before has long arrived: its step's sums came back after it."""
        self.here.copy_(value)
        self.there.copy_(self.here, non_blocking=True)


class _Draws:
    """Random numbers that stay where they are: made when a stage first asks, filled anew for every step."""

    def __init__(self) -> None:
        self.buffers: list[tuple[Callable[..., Tensor], Tensor]] = []
        self.asked = 0

    def uniform(self, shape: Sequence[int], like: Tensor) -> Tensor:
        return self._buffer(Tensor.uniform_, shape, like)

    def normal(self, shape: Sequence[int], like: Tensor) -> Tensor:
        return self._buffer(Tensor.normal_, shape, like)

    def _buffer(self, fill: Callable[..., Tensor], shape: Sequence[int], like: Tensor) -> Tensor:
        if self.asked == len(self.buffers):
            empty = torch.empty(shape, device=like.device, dtype=like.dtype)
            self.buffers.append((fill, fill(empty, generator=self.generator)))
        self.asked += 1
        return self.buffers[self.asked - 1][1]

    def refill(self, generator: torch.Generator) -> None:
        """In the order in which they were asked for first, which is the plain step's."""
        self.generator, self.asked = generator, 0
        for fill, buffer in self.buffers:
            fill(buffer, generator=generator)
