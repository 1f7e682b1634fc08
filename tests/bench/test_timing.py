"""Medians of known numbers, turns in order, and as many of them as were asked for."""

import time
from collections.abc import Callable

import pytest
import torch

from diskoop.bench import timing
from diskoop.bench.timing import (
    BenchConfig,
    Timing,
    count_repetitions,
    default_precision,
    describe_device,
    measure_memory,
    supported_precisions,
    time_interleaved,
    with_speedups,
)
from tests.helpers.cases import CPU


def test_medians_and_speedups_of_known_numbers() -> None:
    assert Timing.of([3.0, 1.0, 10.0]) == Timing(3.0, 1.0, 10.0)
    assert Timing.of([2.0, 4.0]) == Timing(3.0, 2.0, 4.0)
    columns = with_speedups({"slow": Timing(8.0, 7.0, 9.0), "quick": Timing(2.0, 1.0, 3.0)})
    assert columns["slow"] == {"ms": 8.0, "low": 7.0, "high": 9.0, "speedup": 1.0}
    assert columns["quick"]["speedup"] == 4.0


def test_variants_are_interleaved() -> None:
    calls: list[str] = []
    descriptions: list[str] = []

    def progress(items: object, description: str) -> range:
        descriptions.append(description)
        assert isinstance(items, range)
        return items

    def variant(name: str) -> Callable[[], None]:
        return lambda: calls.append(name)

    timings = time_interleaved({"a": variant("a"), "b": variant("b")}, BenchConfig(CPU, 3, 2, progress), "both")
    assert calls == ["a", "b", *["a", "a", "b", "b"] * 3]  # each warms up once, then two in a turn
    assert descriptions == ["both"]
    assert all(0 < timing.low <= timing.ms <= timing.high for timing in timings.values())


def test_a_time_is_of_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def work() -> None:
        now[0] += 0.125

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    assert time_interleaved({"work": work}, BenchConfig(CPU, 3, 4), "") == {"work": Timing(125.0, 125.0, 125.0)}
    assert count_repetitions(work, BenchConfig(CPU)) == 2  # fill a quarter of a second
    assert count_repetitions(lambda: work() or work() or work(), BenchConfig(CPU)) == 1  # type: ignore[func-returns-value]


def test_repetitions_are_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(10**6))
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) * 1e-9)
    assert count_repetitions(lambda: None, BenchConfig(CPU)) == timing.MAX_REPETITIONS


def test_memory_is_not_counted_on_the_cpu() -> None:
    variant, memory = measure_memory(lambda: lambda: None, CPU)
    assert variant() is None
    assert memory == {}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA here")
def test_peak_memory_is_that_of_the_variant_alone() -> None:
    device = torch.device("cuda")
    other = torch.zeros(2**20, device=device)
    _, memory = measure_memory(lambda: lambda: torch.zeros(2**22, device=device) + 1, device)
    assert other.numel()
    assert 32 <= memory["peak MiB"] < 40  # two of 16 MiB


def test_the_device_is_described() -> None:
    facts = describe_device(CPU)
    assert (facts["kind"], facts["torch"]) == ("cpu", torch.__version__)
    assert facts["threads"] == torch.get_num_threads()
    assert facts["device"]


def test_bf16_is_measured_where_it_is_not_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    for native, expected in ((True, ["float32", "bf16"]), (False, ["float32"])):
        monkeypatch.setattr(timing, "computes_in_bf16", lambda kind, native=native: native)
        assert list(supported_precisions(CPU)) == expected
        assert default_precision(CPU) == ("float32", "32")  # `auto` on a CPU
