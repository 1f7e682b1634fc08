"""what things take: ways that take turns, medians and spans, the most memory, and the tables that say so"""

import gc
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from diskoop.analysis.discovery import Progress, no_progress
from diskoop.settings import TrainSettings
from diskoop.training.precision import computes_in_bf16, precision_for

Take = Callable[[], object]  # does once what is measured

FILL = 0.25  # seconds of a turn, unless someone says how often
MOST = 1000  # times in a turn
WARM_UPS = {"cuda": 3, "cpu": 1}  # libraries choose their algorithms, the device its clock


@dataclass(frozen=True)
class Setup:
    """Where to measure, and how often."""

    device: torch.device
    turns: int = 5
    steps: int | None = None  # in a turn; None: as many as fill it
    progress: Progress = no_progress


class Span(NamedTuple):
    """Milliseconds over some turns."""

    ms: float  # the median
    low: float
    high: float

    @classmethod
    def of(cls, times: list[float]) -> "Span":
        return cls(float(np.median(times)), min(times), max(times))


class Table(NamedTuple):
    """What was measured: plain numbers under short names."""

    title: str
    rows: list[dict[str, Any]]
    note: str = ""


def take_turns(ways: Mapping[str, Take], setup: Setup, what: str) -> dict[str, Span]:
    """What each way takes once. They take turns, so that whatever else the machine does falls on all of them."""
    counts = {name: repetitions(take, setup) for name, take in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in setup.progress(range(setup.turns), what):
        for name, take in ways.items():
            times[name].append(1000 * seconds(take, counts[name], setup.device) / counts[name])
    return {name: Span.of(row) for name, row in times.items()}


def repetitions(take: Take, setup: Setup) -> int:
    """How often `take` goes in a turn; it has warmed up then."""
    seconds(take, WARM_UPS[setup.device.type], setup.device)
    if setup.steps is not None:
        return setup.steps
    return int(np.clip(round(FILL / seconds(take, 1, setup.device)), 1, MOST))


def seconds(take: Take, count: int, device: torch.device) -> float:
    """How long `count` times take, to the end of what they ask of the device."""
    finish(device)
    began = time.perf_counter()
    for _ in range(count):
        take()
    finish(device)
    return time.perf_counter() - began


def compared(spans: Mapping[str, Span]) -> dict[str, dict[str, float]]:
    """The spans as columns, with how many times faster each is than the first."""
    reference = next(iter(spans.values())).ms
    return {name: {**span._asdict(), "times faster": reference / span.ms} for name, span in spans.items()}


def built(build: Callable[[], Take], device: torch.device) -> tuple[Take, dict[str, float]]:
    """What `build` makes, after it has gone twice, and the most memory of the device that took; empty elsewhere.

    Graphs take theirs when they are captured, so building counts. What lay on the device before does not.
    """
    tidy(device)
    finish(device)  # also wakes it up, before which it counts nothing
    on_cuda = device.type == "cuda"
    before = torch.cuda.memory_allocated(device) if on_cuda else 0
    if on_cuda:
        torch.cuda.reset_peak_memory_stats(device)
    take = build()
    if not on_cuda:
        return take, {}
    seconds(take, 2, device)
    return take, {"peak MiB": (torch.cuda.max_memory_allocated(device) - before) / 2**20}


def tidy(device: torch.device) -> None:
    """Nothing is left of what nobody holds: captured steps refer to themselves."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def precisions(device: torch.device) -> dict[str, str]:
    """What our step can compute in here without emulating it: a name for people -> `train.precision`."""
    return {"float32": "32", **({"bf16": "bf16"} if computes_in_bf16(device.type) else {})}


def usual_precision(device: torch.device) -> tuple[str, str]:
    """The one to measure in where one is enough: what `train.precision=auto` is here."""
    usual = precision_for(TrainSettings(), device.type)
    return next(both for both in precisions(device).items() if both[1] == usual)


def machine(device: torch.device) -> dict[str, Any]:
    """What the numbers were measured on."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
        name = known.get("cpu_name") or platform.processor() or "CPU"
    return {
        "device": name,
        "kind": device.type,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }
