"""a step of training: captured, plain and written as the paper reads; its parts, and how it grows"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from diskoop.bench.timing import (
    WARM_UPS,
    Setup,
    Table,
    Take,
    built,
    compared,
    precisions,
    repetitions,
    seconds,
    take_turns,
    usual_precision,
)
from diskoop.data import sprites
from diskoop.data.sequences import PIXELS, Sequences, Units
from diskoop.errors import Stopped
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model
from diskoop.models.frames import FrameDecoder, FrameEncoder
from diskoop.settings import Settings
from diskoop.training.batches import DeviceBatches
from diskoop.training.captured import CapturedStep
from diskoop.training.objective import Objective
from diskoop.training.precision import weights_dtype
from diskoop.training.step import PlainStep, Step, StepOutput, adam, set_rate

PATIENCE = 60.0  # seconds that a table of `growth` may take where there is no CUDA


class Case(NamedTuple):
    """A setting to measure at."""

    settings: Settings
    frame: tuple[int, ...]
    frames: int
    training: int | None = None  # steps of the paper's training, where the size of its set is known

    def on(self, device: torch.device, precision: str = "32") -> "Case":
        changes = {"train": {"device": device.type, "precision": precision}}
        return self._replace(settings=self.settings.replaced(changes))

    def __str__(self) -> str:
        return f"{self.settings.train.batch} x {self.frames} frames of {self.frame}, k = {self.settings.model.k}"


def _sprites() -> Case:
    settings = Settings.load("paper-sprites")
    clips = sprites.TRAIN * len(sprites.ACTIONS)  # to train on
    steps = clips // settings.train.batch * settings.train.epochs
    return Case(settings, (3, sprites.CELL, sprites.CELL), sprites.FRAMES, steps)


SPRITES = _sprites()
CASES = {
    "Sprites": SPRITES,
    "Sprites, cycle": SPRITES._replace(settings=SPRITES.settings.replaced({"loss": {"cycle": 1.0}})),
    "Sprites, best": SPRITES._replace(settings=Settings.load("best-sprites"), training=None),
    "speech": Case(Settings.load("paper-timit"), (201,), 450),
}
AXES: dict[str, Sequence[int]] = {
    "k": (20, 40, 80, 160, 320),
    "batch": (8, 16, 32, 64, 128),
    "frames": (4, 8, 16, 32),
    "size": (32, 64, 128),
}


# --- what is measured


def noise(case: Case, count: int | None = None) -> Sequences:
    """So many sequences (a batch, unless told) that mean nothing: nothing that is measured depends on it."""
    random, count = np.random.Generator(np.random.PCG64(0)), count or case.settings.train.batch
    shape = (count, case.frames, *case.frame)
    if len(case.frame) == 3:
        return Sequences.of(random.integers(0, 256, shape, dtype=np.uint8), units=PIXELS, name="noise")
    return Sequences.of(random.standard_normal(shape, np.float32), units=Units(), name="noise")


def fresh_model(case: Case, device: torch.device) -> KoopmanAutoencoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model(case.settings.model, case.frame)
    return model.to(device, weights_dtype(case.settings.train))


def paper_spectral_loss(C: Tensor, static: int, radius: float) -> Tensor:
    """L_stat + L_dyn where `C` lies, with autograd through its eigenvalues; a conjugate pair may be cut."""
    eigenvalues = torch.linalg.eigvals(C)
    away = (eigenvalues - 1).abs()
    order = torch.argsort(away)
    sizes = eigenvalues[order[static:]].abs()
    loss: Tensor = away[order[:static]].square().mean() + torch.where(sizes > radius, sizes, 0.0).mean()
    return loss


class PaperStep:
    """Written as the paper reads: pseudo-inverse and eigenvalues on the device, autograd through both."""

    def __init__(self, model: KoopmanAutoencoder, settings: Settings, data: Sequences) -> None:
        self.model, self.settings, self.data = model, settings, data
        self.weight = next(model.parameters())
        self.optimizer = torch.optim.Adam(model.parameters(), lr=settings.train.lr)

    def losses(self, x: Tensor) -> dict[str, Tensor]:
        settings = self.settings
        z = self.model.encode(self._blurred(x) if settings.train.blur else x)
        z = z + settings.model.noise * torch.rand_like(z)
        C = torch.linalg.pinv(z[:, :-1].flatten(0, 1)) @ z[:, 1:].flatten(0, 1)
        ahead = z[:, :-1] @ C
        spectral = paper_spectral_loss(C, settings.spectrum.static, settings.spectrum.radius)
        rec = functional.mse_loss(self.model.decode(functional.dropout(z, settings.model.dropout)), x)
        pred = functional.mse_loss(ahead, z[:, 1:]) + functional.mse_loss(self.model.decode(ahead), x[:, 1:])
        total = settings.loss.rec * rec + settings.loss.pred * pred + settings.loss.eig * spectral
        return {"total": total, "rec": rec, "pred": pred, "eig": spectral}

    def take(self, x: Tensor, mask: Tensor | None, rate: float, generator: torch.Generator) -> list[StepOutput]:
        set_rate(self.optimizer, rate)
        total = self.losses(self.data.deliver(x, mask, self.weight)[0])["total"]
        self.optimizer.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return [StepOutput({"total": total.item()}, 0.0)]

    def flush(self) -> list[StepOutput]:
        return []

    def _blurred(self, x: Tensor) -> Tensor:
        sigma = float(torch.empty(()).uniform_(0.1, 3.0))
        bells = [torch.exp(-0.5 * ((torch.arange(n) - n // 2) / sigma) ** 2) for n in (5, 9)]
        across, down = (bell / bell.sum() for bell in bells)
        images = functional.pad(x.flatten(0, 1), (2, 2, 4, 4), mode="reflect")
        channels = images.shape[1]
        kernel = (down[:, None] * across).to(x).expand(channels, 1, 9, 5)
        return functional.conv2d(images, kernel, groups=channels).reshape(x.shape)


def paper_step(case: Case, data: Sequences, device: torch.device) -> PaperStep:
    model = fresh_model(case, device).train()
    for network in (model.encoder, model.decoder):
        if isinstance(network, FrameEncoder | FrameDecoder):  # without what its layers do faster than in their turn
            network.frames = nn.Sequential(*network.frames)  # type: ignore[assignment]
    return PaperStep(model, case.settings, data)


def plain_step(case: Case, data: Sequences, device: torch.device) -> PlainStep:
    objective = _objective(case, device)
    return PlainStep(objective, adam(objective, case.settings.train.lr, device), data)


def our_step(case: Case, data: Sequences, device: torch.device) -> Step:
    """The one that trains on `device`."""
    return (captured_step if device.type == "cuda" else plain_step)(case, data, device)


def captured_step(case: Case, data: Sequences, device: torch.device) -> CapturedStep:
    objective = _objective(case, device)
    return CapturedStep(objective, adam(objective, case.settings.train.lr, device), data, case.settings.train.batch)


def _objective(case: Case, device: torch.device) -> Objective:
    model = fresh_model(case, device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Objective(model, case.settings).train()


def taking(step: Step, case: Case, data: Sequences, device: torch.device) -> Take:
    """One step on a batch out of a set that lies on the device."""
    feed, members = DeviceBatches(data, torch.zeros(1, device=device)), np.arange(case.settings.train.batch)
    generator = torch.Generator(device)

    def take() -> None:
        (ready,) = feed([members])
        for taken in step.take(ready.x, ready.mask, case.settings.train.lr, generator):
            if not math.isfinite(taken.terms["total"]):  # a step that has gone astray may do less than others
                raise Stopped(f"{case}: the loss became {taken.terms['total']}, so its time means nothing")

    return take


# --- steps


def steps(setup: Setup, cases: Mapping[str, Case] = CASES) -> Iterator[Table]:
    """A step in every way, one table for each case."""
    for name, case in cases.items():
        yield Table(f"{name}: a step, {case}", _compare(name, case.on(setup.device), setup))


def _compare(name: str, case: Case, setup: Setup) -> list[dict[str, Any]]:
    device, data = setup.device, noise(case)

    def way(make: Callable[[Case, Sequences, torch.device], Step], case: Case) -> tuple[Take, dict[str, float]]:
        return built(lambda: taking(make(case, data, device), case, data, device), device)

    ways: dict[str, tuple[Take, dict[str, float]]] = {}
    if not case.settings.loss.cycle:  # the paper has no such term
        ways["as the paper reads"] = way(paper_step, case)
    ways["plain"] = way(plain_step, case)
    for precision, word in precisions(device).items():
        if device.type == "cuda" or word != "32":
            key = "captured" if device.type == "cuda" else "plain"
            ways[f"{key}, {precision}"] = way(our_step, case.on(device, word))
    found = compared(take_turns({key: take for key, (take, _) in ways.items()}, setup, name))
    rows = []
    for key, (_, memory) in ways.items():
        row = {"way": key, **found[key], **memory}
        if device.type == "cuda" and case.training is not None:
            row["whole training"] = case.training * found[key]["ms"] / 1000
        rows.append(row)
    return rows


# --- shares


def shares(setup: Setup, cases: Mapping[str, Case] = CASES) -> Iterator[Table]:
    """Which part of a captured step takes how much of it: a table for each case, on CUDA in both precisions."""
    device = setup.device
    chosen = precisions(device) if device.type == "cuda" else dict([usual_precision(device)])
    for name, case in cases.items():
        for precision, word in chosen.items():
            here = case.on(device, word)
            data = noise(here)
            step = captured_step(here, data, device)
            rows = parts(step, taking(step, here, data, device), setup, f"{name}, {precision}")
            how = "captured, the CPU works while the device does" if device.type == "cuda" else "not captured"
            yield Table(f"{name}: a step in stages, {precision}; {how}", rows)


def parts(step: CapturedStep, take: Take, setup: Setup, what: str) -> list[dict[str, Any]]:
    """Mean milliseconds of each stage on the device, of each part on the CPU and of the whole; means add up."""
    device = setup.device
    each = repetitions(take, setup)  # captured by then
    on_device, on_host = _watch(step.stages, device), _watch(step.host, torch.device("cpu"))
    spent = sum(seconds(take, each, device) for _ in setup.progress(range(setup.turns), what))
    count = each * setup.turns
    whole = 1000 * spent / count
    stages, host = ({name: sum(clock()) / count for name, clock in some.items()} for some in (on_device, on_host))
    named = {**stages, "all of these": sum(stages.values())}
    named |= {f"CPU: {name}": ms for name, ms in host.items()} | {"whole step": whole}
    return [{"part": name, "ms": ms, "share": ms / whole} for name, ms in named.items()]


def _watch(works: dict[str, Callable[[], None]], device: torch.device) -> dict[str, Callable[[], list[float]]]:
    """Each of `works` replaced by itself under a clock; what gives the milliseconds of all its goes."""
    clocks: dict[str, Callable[[], list[float]]] = {}
    for name, work in list(works.items()):
        watched = _on_device if device.type == "cuda" else _on_host
        works[name], clocks[name] = watched(work)
    return clocks


def _on_device(work: Callable[[], None]) -> tuple[Callable[[], None], Callable[[], list[float]]]:
    events: list[tuple[Any, Any]] = []

    def go() -> None:
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        before.record()
        work()
        after.record()
        events.append((before, after))

    return go, lambda: [before.elapsed_time(after) for before, after in events]


def _on_host(work: Callable[[], None]) -> tuple[Callable[[], None], Callable[[], list[float]]]:
    times: list[float] = []

    def go() -> None:
        began = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - began))

    return go, lambda: times


# --- growth


def growth(setup: Setup, base: Case = SPRITES, axes: Mapping[str, Sequence[int]] = AXES) -> Iterator[Table]:
    """Our step while one thing grows and the others stay as in `base`."""
    device = setup.device
    precision, word = usual_precision(device)
    base = base.on(device, word)
    for axis, values in axes.items():
        rows = _grow(base, axis, values, setup)
        missing = [str(value) for value in values[len(rows) :]]
        note = f"left out, for the table would take more than {PATIENCE:g} s: {', '.join(missing)}" if missing else ""
        yield Table(f"our step, {precision}, by {axis}; otherwise {base}", rows, note)


def _grow(base: Case, axis: str, values: Sequence[int], setup: Setup) -> list[dict[str, Any]]:
    """A row for each of `values`; where there is no CUDA, as far as PATIENCE goes."""
    rows: list[dict[str, Any]] = []
    began, expected = time.perf_counter(), 0.0
    for value in values:
        case = grown(base, axis, value)
        if rows and setup.device.type != "cuda":
            expected = rows[-1]["ms"] / 1000 * _goes(setup) * _work(case) / _work(grown(base, axis, rows[-1][axis]))
        if expected and time.perf_counter() - began + expected > PATIENCE:
            break
        rows.append(_grown_row(axis, value, case, setup))
    return rows


def grown(base: Case, axis: str, value: int) -> Case:
    """`base` with another k, batch, number of frames, or size of frame."""
    if axis == "frames":
        return base._replace(frames=value)
    if axis == "size":
        return base._replace(frame=(base.frame[0], value, value))
    section = {"k": "model", "batch": "train"}[axis]
    return base._replace(settings=base.settings.replaced({section: {axis: value}}))


def _goes(setup: Setup) -> int:
    """Of a slow step."""
    return WARM_UPS[setup.device.type] + (0 if setup.steps else 1) + setup.turns * (setup.steps or 1)


def _work(case: Case) -> float:
    """What a step's time grows with, roughly: elements that go through the networks."""
    return case.settings.train.batch * case.frames * math.prod(case.frame)


def _grown_row(axis: str, value: int, case: Case, setup: Setup) -> dict[str, Any]:
    device, data = setup.device, noise(case)
    take, memory = built(lambda: taking(our_step(case, data, device), case, data, device), device)
    (span,) = take_turns({axis: take}, setup, f"{axis} = {value}").values()
    return {
        axis: value,
        **span._asdict(),
        "us a frame": 1000 * span.ms / case.settings.train.batch / case.frames,
        **memory,
    }
