"""How long is a step of training, against one written as the paper reads? `python benchmarks/steps.py`

The reference solves by pseudo-inverse and takes eigenvalues on the device, with autograd through both. It, the plain
step and the captured one (which is made for CUDA, and runs uncaptured elsewhere) take turns on the same random
sequences, so that whatever else the machine does falls on all of them. Printed are the median over the turns, the span,
and how many times faster than the reference; on CUDA also how long each stage of the captured step takes, and the CPU's
part of it.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from diskoop.data.sequences import PIXELS, Sequences, Units
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model
from diskoop.settings import Settings
from diskoop.training.fast import FastStep
from diskoop.training.feeding import Resident
from diskoop.training.loop import start_fabric
from diskoop.training.objective import Objective
from diskoop.training.step import PlainStep, Step, adam

Take = Callable[[], object]


class Case(NamedTuple):
    settings: Settings
    frame: tuple[int, ...]
    frames: int


CASES = {
    "Sprites": Case(Settings.load("paper-sprites"), (3, 64, 64), 8),
    "Sprites, cycle": Case(Settings.load("paper-sprites").replaced({"loss": {"cycle": 1.0}}), (3, 64, 64), 8),
    "speech": Case(Settings.load("paper-timit"), (201,), 450),
}


def some_data(case: Case) -> Sequences:
    random, batch = np.random.Generator(np.random.PCG64(0)), case.settings.train.batch
    count = batch * case.frames
    if len(case.frame) == 3:
        frames: Any = random.integers(0, 256, (count, *case.frame), dtype=np.uint8)
    else:
        frames = random.standard_normal((count, *case.frame), np.float32)
    starts = np.arange(batch) * case.frames
    units = PIXELS if len(case.frame) == 3 else Units()
    return Sequences(frames, starts, np.full(batch, case.frames), units=units, name="noise")


def fresh_model(case: Case, device: torch.device) -> KoopmanAutoencoder:
    torch.manual_seed(0)
    return build_model(case.settings.model, case.frame).to(device)


def as_the_paper_reads(case: Case, data: Sequences, device: torch.device) -> Take:
    settings, model = case.settings, fresh_model(case, device)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.train.lr)
    raw = data.fetch(np.arange(len(data)), torch.float32)[0].to(device)

    def blurred(x: Tensor) -> Tensor:
        sigma = float(torch.empty(()).uniform_(0.1, 3.0))
        bells = [torch.exp(-0.5 * ((torch.arange(n) - n // 2) / sigma) ** 2) for n in (5, 9)]
        across, down = (bell / bell.sum() for bell in bells)
        images = functional.pad(x.flatten(0, 1), (2, 2, 4, 4), mode="reflect")
        kernel = (down[:, None] * across).to(x).expand(3, 1, 9, 5)
        return functional.conv2d(images, kernel, groups=3).reshape(x.shape)

    def take() -> object:
        x = data.units.to_model(raw)
        z = model.encode(blurred(x) if settings.train.blur else x)
        z = z + settings.model.noise * torch.rand_like(z)
        C = torch.linalg.pinv(z[:, :-1].flatten(0, 1)) @ z[:, 1:].flatten(0, 1)
        ahead = z[:, :-1] @ C
        eigenvalues = torch.linalg.eigvals(C)
        away = (eigenvalues - 1).abs()
        order = torch.argsort(away)
        static, sizes = away[order[: settings.spectrum.static]], eigenvalues[order[settings.spectrum.static :]].abs()
        spectral = static.square().mean() + torch.where(sizes > settings.spectrum.radius, sizes, 0.0).mean()
        rec = functional.mse_loss(model.decode(functional.dropout(z, settings.model.dropout)), x)
        pred = functional.mse_loss(ahead, z[:, 1:]) + functional.mse_loss(model.decode(ahead), x[:, 1:])
        loss = settings.loss.rec * rec + settings.loss.pred * pred + settings.loss.eig * spectral
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return take


def taking(step: Step, case: Case, data: Sequences, device: torch.device) -> Take:
    feed, everyone = Resident(data, torch.zeros(1, device=device)), np.arange(len(data))
    generator = torch.Generator(device)

    def take() -> object:
        (ready,) = feed([everyone])
        return list(step.take(ready.x, ready.mask, case.settings.train.lr, generator))

    return take


def plain_step(case: Case, data: Sequences, device: torch.device) -> Step:
    fabric = start_fabric(case.settings.train)
    model = fresh_model(case, device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    objective = Objective(model, case.settings).train()
    network, optimizer = fabric.setup(objective, adam(objective, case.settings.train.lr, device))
    return PlainStep(fabric, network, optimizer, data, case.settings.train.clip)


def fast_step(case: Case, data: Sequences, device: torch.device) -> FastStep:
    model = fresh_model(case, device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    objective = Objective(model, case.settings).train()
    return FastStep(objective, adam(objective, case.settings.train.lr, device), data, len(data))


def stages_of(step: FastStep, take: Take, steps: int) -> dict[str, float]:
    """Milliseconds of each stage on the device, and of the two parts on the CPU beside them; medians."""
    spans: dict[str, list[tuple[Any, Any]]] = {}
    clocked: dict[str, list[float]] = {}

    def watched(name: str, work: Callable[[], None]) -> Callable[[], None]:
        def go() -> None:
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            before.record()
            work()
            after.record()
            spans.setdefault(name, []).append((before, after))

        return go

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def go(*arguments: Any) -> Any:
            began = time.perf_counter()
            result = work(*arguments)
            clocked.setdefault(name, []).append(1000 * (time.perf_counter() - began))
            return result

        return go

    step.stages = {name: watched(name, work) for name, work in step.stages.items()}
    step.host = {name: timed(f"CPU: {name}", work) for name, work in step.host.items()}
    for _ in range(steps):
        take()
    torch.cuda.synchronize()
    medians = {name: float(np.median([a.elapsed_time(b) for a, b in pairs])) for name, pairs in spans.items()}
    return medians | {name: float(np.median(times)) for name, times in clocked.items()}


def measure(case: Case, device: torch.device, turns: int, steps: int) -> dict[str, dict[str, Any]]:
    data = some_data(case)
    bf16 = case._replace(settings=case.settings.replaced({"train": {"precision": "bf16"}}))
    fast = fast_step(bf16 if device.type == "cuda" else case, data, device)
    ways: dict[str, Take] = {}
    if not case.settings.loss.cycle:  # the paper has no such term
        ways["as the paper reads"] = as_the_paper_reads(case, data, device)
    ways["plain"] = taking(plain_step(case, data, device), case, data, device)
    if device.type == "cuda":
        ways["captured, float32"] = taking(fast_step(case, data, device), case, data, device)
    ways["captured, bf16" if device.type == "cuda" else "in stages"] = taking(fast, case, data, device)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for take in ways.values():
        for _ in range(3):
            take()
    for _ in range(turns):
        for name, take in ways.items():
            _wait(device)
            began = time.perf_counter()
            for _ in range(steps):
                take()
            _wait(device)
            times[name].append(1000 * (time.perf_counter() - began) / steps)
    reference = float(np.median(next(iter(times.values()))))
    rows: dict[str, dict[str, Any]] = {
        name: {"ms": float(np.median(row)), "span": [min(row), max(row)], "times": reference / float(np.median(row))}
        for name, row in times.items()
    }
    if device.type == "cuda":
        *_, (last, take) = ways.items()
        rows[last]["stages"] = stages_of(fast, take, steps)
    return rows


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7, help="of every way")
    parser.add_argument("--steps", type=int, default=None, help="in a turn; 50 on CUDA, 2 elsewhere")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--case", choices=list(CASES), default=None, help="only this one")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    choice = parser.parse_args()
    device = torch.device(choice.device)
    steps = choice.steps or (50 if device.type == "cuda" else 2)
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name() if device.type == 'cuda' else 'the CPU'}")
    found = {}
    for name in CASES if choice.case is None else [choice.case]:
        case = CASES[name]._replace(settings=CASES[name].settings.replaced({"train": {"device": device.type}}))
        found[name] = measure(case, device, choice.turns, steps)
        print(f"\n{name}: {case.settings.train.batch} x {case.frames} frames, k = {case.settings.model.k}")
        for way, row in found[name].items():
            low, high = row["span"]
            print(f"  {way:20} {row['ms']:9.2f} ms ({low:.2f} to {high:.2f}) {row['times']:6.2f} x", flush=True)
            if "stages" in row:
                print("    " + ", ".join(f"{stage} {ms:.2f}" for stage, ms in row["stages"].items()), flush=True)
    if choice.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
