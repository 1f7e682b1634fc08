"""time of a training step: captured, plain and as the paper reads; time of its stages"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from diskoop.bench.timing import (
    BenchConfig,
    BenchTable,
    Variant,
    count_repetitions,
    default_precision,
    measure_memory,
    measure_seconds,
    supported_precisions,
    time_interleaved,
    with_speedups,
)
from diskoop.data.batches import DeviceLoader
from diskoop.data.sequences import PIXELS, Sequences, Units
from diskoop.data.sets import sprites
from diskoop.errors import Stopped
from diskoop.kernels import accelerate
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model
from diskoop.settings import Settings
from diskoop.training.cuda_graph import CapturedStep
from diskoop.training.objective import Objective
from diskoop.training.precision import weights_dtype
from diskoop.training.step import PlainStep, Step, StepOutput, adam, set_lr


class Case(NamedTuple):
    """Settings and the size of a batch to measure at."""

    settings: Settings
    frame_shape: tuple[int, ...]
    num_frames: int
    training_steps: int | None = None  # of the paper's training, where the size of its set is known

    def on(self, device: torch.device, precision: str = "32") -> "Case":
        changes = {"train": {"device": device.type, "precision": precision}}
        return self._replace(settings=self.settings.replaced(changes))

    def __str__(self) -> str:
        batch_size, k = self.settings.train.batch_size, self.settings.model.k
        return f"{batch_size} x {self.num_frames} frames of {self.frame_shape}, k = {k}"


def _sprites_case() -> Case:
    settings = Settings.load("paper-sprites")
    num_clips = sprites.TRAIN * len(sprites.ACTIONS)
    assert settings.train.epochs is not None  # the paper counts in epochs
    steps = num_clips // settings.train.batch_size * settings.train.epochs
    return Case(settings, (3, sprites.CELL, sprites.CELL), sprites.FRAMES, steps)


SPRITES = _sprites_case()
CASES = {
    "Sprites": SPRITES,
    "Sprites, cycle": SPRITES._replace(settings=SPRITES.settings.replaced({"loss": {"cycle": 1.0}})),
    "Sprites, best": SPRITES._replace(settings=Settings.load("best-sprites"), training_steps=None),
    "speech": Case(Settings.load("paper-timit"), (201,), 450),
}


# --- variants of a step


def random_sequences(case: Case, count: int | None = None) -> Sequences:
    """`count` sequences of random numbers, by default a batch: speed does not depend on their values."""
    random, count = np.random.Generator(np.random.PCG64(0)), count or case.settings.train.batch_size
    shape = (count, case.num_frames, *case.frame_shape)
    if len(case.frame_shape) == 3:
        return Sequences.of(random.integers(0, 256, shape, dtype=np.uint8), units=PIXELS, name="noise")
    return Sequences.of(random.standard_normal(shape, np.float32), units=Units(), name="noise")


def untrained_model(case: Case, device: torch.device) -> KoopmanAutoencoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model(case.settings.model, case.frame_shape)
    return model.to(device, weights_dtype(case.settings.train))


def paper_spectral_loss(C: Tensor, static: int, radius: float) -> Tensor:
    """L_stat + L_dyn on the device of `C`, with autograd through eigenvalues; may cut a conjugate pair."""
    eigenvalues = torch.linalg.eigvals(C)
    distances = (eigenvalues - 1).abs()
    order = torch.argsort(distances)
    sizes = eigenvalues[order[static:]].abs()
    loss: Tensor = distances[order[:static]].square().mean() + torch.where(sizes > radius, sizes, 0.0).mean()
    return loss


class PaperStep:
    """A step as the paper reads: pseudo-inverse and eigenvalues on the device, autograd through both."""

    def __init__(self, model: KoopmanAutoencoder, settings: Settings, data: Sequences) -> None:
        self.model, self.settings, self.data = model, settings, data
        self.weight = next(model.parameters())
        self.optimizer = torch.optim.Adam(model.parameters(), lr=settings.train.lr)

    def losses(self, x: Tensor) -> dict[str, Tensor]:
        settings = self.settings
        z = self.model.encode(self._blur(x) if settings.train.blur else x)
        z = z + settings.model.noise * torch.rand_like(z)
        C = torch.linalg.pinv(z[:, :-1].flatten(0, 1)) @ z[:, 1:].flatten(0, 1)
        predicted = z[:, :-1] @ C
        spectral = paper_spectral_loss(C, settings.spectrum.static, settings.spectrum.radius)
        rec = functional.mse_loss(self.model.decode(functional.dropout(z, settings.model.dropout)), x)
        pred = functional.mse_loss(predicted, z[:, 1:]) + functional.mse_loss(self.model.decode(predicted), x[:, 1:])
        total = settings.loss.rec * rec + settings.loss.pred * pred + settings.loss.eig * spectral
        return {"total": total, "rec": rec, "pred": pred, "eig": spectral}

    def take(self, x: Tensor, mask: Tensor | None, lr: float, generator: torch.Generator) -> list[StepOutput]:
        set_lr(self.optimizer, lr)
        total = self.losses(self.data.move_batch(x, mask, self.weight)[0])["total"]
        self.optimizer.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return [StepOutput({"total": total.item()}, 0.0)]

    def flush(self) -> list[StepOutput]:
        return []

    def _blur(self, x: Tensor) -> Tensor:
        sigma = float(torch.empty(()).uniform_(0.1, 3.0))
        kernels = [torch.exp(-0.5 * ((torch.arange(n) - n // 2) / sigma) ** 2) for n in (5, 9)]
        across, down = (kernel / kernel.sum() for kernel in kernels)
        images = functional.pad(x.flatten(0, 1), (2, 2, 4, 4), mode="reflect")
        channels = images.shape[1]
        kernel = (down[:, None] * across).to(x).expand(channels, 1, 9, 5)
        return functional.conv2d(images, kernel, groups=channels).reshape(x.shape)


def paper_step(case: Case, data: Sequences, device: torch.device) -> PaperStep:
    return PaperStep(untrained_model(case, device).train(), case.settings, data)


def plain_step(case: Case, data: Sequences, device: torch.device) -> PlainStep:
    objective = _objective(case, device)
    return PlainStep(objective, adam(objective, case.settings.train.lr, device), data)


def captured_step(case: Case, data: Sequences, device: torch.device) -> CapturedStep:
    objective = _objective(case, device)
    return CapturedStep(
        objective, adam(objective, case.settings.train.lr, device), data, case.settings.train.batch_size
    )


def default_step(case: Case, data: Sequences, device: torch.device) -> Step:
    """The step that `diskoop train` uses on `device`."""
    return (captured_step if device.type == "cuda" else plain_step)(case, data, device)


def _objective(case: Case, device: torch.device) -> Objective:
    model = accelerate(untrained_model(case, device)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Objective(model, case.settings).train()


def step_variant(step: Step, case: Case, data: Sequences, device: torch.device) -> Variant:
    """A call that takes one step on a batch that is on the device already."""
    loader, indices = DeviceLoader(data, torch.zeros(1, device=device)), np.arange(case.settings.train.batch_size)
    generator = torch.Generator(device)

    def variant() -> None:
        (batch,) = loader([indices])
        for output in step.take(batch.x, batch.mask, case.settings.train.lr, generator):
            if not math.isfinite(output.terms["total"]):  # a diverged step may do less than others
                raise Stopped(f"{case}: the loss became {output.terms['total']}, so its time means nothing")

    return variant


# --- sections


def measure_steps(config: BenchConfig, cases: Mapping[str, Case] = CASES) -> Iterator[BenchTable]:
    """Time all variants of a step: one table for each case."""
    for name, case in cases.items():
        yield BenchTable(f"{name}: a step, {case}", _time_variants(name, case.on(config.device), config))


def _time_variants(name: str, case: Case, config: BenchConfig) -> list[dict[str, Any]]:
    device, data = config.device, random_sequences(case)

    def build(make: Callable[[Case, Sequences, torch.device], Step], case: Case) -> tuple[Variant, dict[str, float]]:
        return measure_memory(lambda: step_variant(make(case, data, device), case, data, device), device)

    built: dict[str, tuple[Variant, dict[str, float]]] = {}
    if not case.settings.loss.cycle:  # the paper has no such term
        built["as the paper reads"] = build(paper_step, case)
    built["plain"] = build(plain_step, case)
    for precision, value in supported_precisions(device).items():
        if device.type == "cuda" or value != "32":
            kind = "captured" if device.type == "cuda" else "plain"
            built[f"{kind}, {precision}"] = build(default_step, case.on(device, value))
    variants = {variant: call for variant, (call, _) in built.items()}
    timings = with_speedups(time_interleaved(variants, config, name))
    rows = []
    for variant, (_, memory) in built.items():
        row = {"variant": variant, **timings[variant], **memory}
        if device.type == "cuda" and case.training_steps is not None:
            row["whole training"] = case.training_steps * timings[variant]["ms"] / 1000
        rows.append(row)
    return rows


def measure_shares(config: BenchConfig, cases: Mapping[str, Case] = CASES) -> Iterator[BenchTable]:
    """Time the stages of a captured step: a table for each case, on CUDA in each precision."""
    device = config.device
    on_cuda = device.type == "cuda"
    precisions = supported_precisions(device) if on_cuda else dict([default_precision(device)])
    for name, case in cases.items():
        for precision, value in precisions.items():
            case = case.on(device, value)
            data = random_sequences(case)
            step = captured_step(case, data, device)
            variant = step_variant(step, case, data, device)
            rows = time_stages(step, variant, config, f"{name}, {precision}")
            how = "captured, the CPU works while the device does" if on_cuda else "not captured"
            yield BenchTable(f"{name}: a step in stages, {precision}; {how}", rows)


def time_stages(step: CapturedStep, variant: Variant, config: BenchConfig, description: str) -> list[dict[str, Any]]:
    """Mean milliseconds, which add up, of each stage on the device, of each part on the CPU and of the whole step."""
    device = config.device
    repetitions = count_repetitions(variant, config)  # the step is captured then
    on_device, on_host = _instrument(step.stages, device), _instrument(step.host, torch.device("cpu"))
    turns = config.progress(range(config.turns), description)
    seconds = sum(measure_seconds(variant, repetitions, device) for _ in turns)
    count = repetitions * config.turns
    whole = 1000 * seconds / count
    stages, host = ({name: sum(times()) / count for name, times in group.items()} for group in (on_device, on_host))
    ms = {**stages, "all stages": sum(stages.values())}
    ms |= {f"CPU: {name}": value for name, value in host.items()} | {"whole step": whole}
    return [{"stage": name, "ms": value, "share": value / whole} for name, value in ms.items()]


def _instrument(stages: dict[str, Callable[[], None]], device: torch.device) -> dict[str, Callable[[], list[float]]]:
    """Replace each stage by itself under a clock; returns functions that give the milliseconds of all its calls."""
    clocks: dict[str, Callable[[], list[float]]] = {}
    timed = _timed_on_cuda if device.type == "cuda" else _timed_on_cpu
    for name, stage in list(stages.items()):
        stages[name], clocks[name] = timed(stage)
    return clocks


def _timed_on_cuda(stage: Callable[[], None]) -> tuple[Callable[[], None], Callable[[], list[float]]]:
    events: list[tuple[Any, Any]] = []

    def run() -> None:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        stage()
        end.record()
        events.append((start, end))

    return run, lambda: [start.elapsed_time(end) for start, end in events]


def _timed_on_cpu(stage: Callable[[], None]) -> tuple[Callable[[], None], Callable[[], list[float]]]:
    times: list[float] = []

    def run() -> None:
        start = time.perf_counter()
        stage()
        times.append(1000 * (time.perf_counter() - start))

    return run, lambda: times
