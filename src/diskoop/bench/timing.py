"""interleaved timing of variants, peak memory, and tables of the results"""

import gc
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from diskoop.analysis.discovery.results import Progress, no_progress
from diskoop.settings import TrainSettings
from diskoop.training.precision import computes_in_bf16, precision_for

Variant = Callable[[], object]  # does once what is measured

TURN_SECONDS = 0.25  # of a turn, where no number of repetitions is given
MAX_REPETITIONS = 1000  # in a turn
WARM_UPS = {"cuda": 3, "cpu": 1}  # libraries choose their algorithms, the device its clock


@dataclass(frozen=True)
class BenchConfig:
    """Where to measure, and how often."""

    device: torch.device
    turns: int = 5
    steps: int | None = None  # repetitions in a turn; None: as many as fill TURN_SECONDS
    progress: Progress = no_progress


class Timing(NamedTuple):
    """Milliseconds over some turns."""

    ms: float  # the median
    low: float
    high: float

    @classmethod
    def of(cls, times: list[float]) -> "Timing":
        return cls(float(np.median(times)), min(times), max(times))


class BenchTable(NamedTuple):
    """Measurements: rows of numbers by column name."""

    title: str
    rows: list[dict[str, Any]]


def time_interleaved(variants: Mapping[str, Variant], config: BenchConfig, description: str) -> dict[str, Timing]:
    """Time one call of each variant.

    Variants take turns, so that whatever else the machine does affects all of them.

    Args:
        variants: name -> what to call.
        config: device, turns, and repetitions in a turn.
        description: for the progress display.
    """
    counts = {name: count_repetitions(variant, config) for name, variant in variants.items()}
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in config.progress(range(config.turns), description):
        for name, variant in variants.items():
            times[name].append(1000 * measure_seconds(variant, counts[name], config.device) / counts[name])
    return {name: Timing.of(row) for name, row in times.items()}


def count_repetitions(variant: Variant, config: BenchConfig) -> int:
    """Warm up, and return how often to call `variant` in a turn."""
    measure_seconds(variant, WARM_UPS[config.device.type], config.device)
    if config.steps is not None:
        return config.steps
    return int(np.clip(round(TURN_SECONDS / measure_seconds(variant, 1, config.device)), 1, MAX_REPETITIONS))


def measure_seconds(variant: Variant, count: int, device: torch.device) -> float:
    """Seconds that `count` calls take, until the device has finished them."""
    synchronize(device)
    start = time.perf_counter()
    for _ in range(count):
        variant()
    synchronize(device)
    return time.perf_counter() - start


def with_speedups(timings: Mapping[str, Timing]) -> dict[str, dict[str, float]]:
    """The timings as columns, with how many times faster each is than the first."""
    reference = next(iter(timings.values())).ms
    return {name: {**timing._asdict(), "speedup": reference / timing.ms} for name, timing in timings.items()}


def measure_memory(build: Callable[[], Variant], device: torch.device) -> tuple[Variant, dict[str, float]]:
    """Build a variant, call it twice, and measure the peak memory of both.

    Building counts because CUDA graphs allocate when they are captured; what was allocated before does not.

    Returns:
        The variant, and the column `peak MiB`; no column on the CPU, where nothing counts it.
    """
    free_memory(device)
    synchronize(device)  # also initialises CUDA, which has no statistics before
    on_cuda = device.type == "cuda"
    before = torch.cuda.memory_allocated(device) if on_cuda else 0
    if on_cuda:
        torch.cuda.reset_peak_memory_stats(device)
    variant = build()
    if not on_cuda:
        return variant, {}
    measure_seconds(variant, 2, device)
    return variant, {"peak MiB": (torch.cuda.max_memory_allocated(device) - before) / 2**20}


def free_memory(device: torch.device) -> None:
    """Free what is no longer referenced; captured steps are reference cycles."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def supported_precisions(device: torch.device) -> dict[str, str]:
    """Precisions that the device computes in without emulation: name -> `train.precision`."""
    return {"float32": "32", **({"bf16": "bf16"} if computes_in_bf16(device.type) else {})}


def default_precision(device: torch.device) -> tuple[str, str]:
    """What `train.precision=auto` is on this device: its name and its value."""
    default = precision_for(TrainSettings(), device.type)
    return next(item for item in supported_precisions(device).items() if item[1] == default)


def describe_device(device: torch.device) -> dict[str, Any]:
    """The hardware and the version of torch, as a JSON object."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
        name = capabilities.get("cpu_name") or platform.processor() or "CPU"
    return {
        "device": name,
        "kind": device.type,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }
