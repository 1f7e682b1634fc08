"""Medians of known numbers, turns in order, and as many of them as were asked for."""

import time
from collections.abc import Callable

import pytest
import torch

from diskoop.bench import timing
from diskoop.bench.timing import (
    Setup,
    Span,
    built,
    compared,
    machine,
    precisions,
    repetitions,
    take_turns,
    usual_precision,
)
from tests.bench.small import CPU


def test_medians_and_spans_of_known_numbers() -> None:
    assert Span.of([3.0, 1.0, 10.0]) == Span(3.0, 1.0, 10.0)
    assert Span.of([2.0, 4.0]) == Span(3.0, 2.0, 4.0)
    found = compared({"slow": Span(8.0, 7.0, 9.0), "quick": Span(2.0, 1.0, 3.0)})
    assert found["slow"] == {"ms": 8.0, "low": 7.0, "high": 9.0, "times faster": 1.0}
    assert found["quick"]["times faster"] == 4.0


def test_ways_take_turns() -> None:
    went: list[str] = []
    seen: list[str] = []

    def watch(over: object, what: str) -> range:
        seen.append(what)
        assert isinstance(over, range)
        return over

    def way(name: str) -> Callable[[], None]:
        return lambda: went.append(name)

    spans = take_turns({"a": way("a"), "b": way("b")}, Setup(CPU, 3, 2, watch), "both")
    assert went == ["a", "b", *["a", "a", "b", "b"] * 3]  # each warms up once, then two in a turn
    assert seen == ["both"]
    assert all(0 < span.low <= span.ms <= span.high for span in spans.values())


def test_a_time_is_of_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def work() -> None:
        now[0] += 0.125

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    assert take_turns({"work": work}, Setup(CPU, 3, 4), "") == {"work": Span(125.0, 125.0, 125.0)}
    assert repetitions(work, Setup(CPU)) == 2  # fill a quarter of a second
    assert repetitions(lambda: work() or work() or work(), Setup(CPU)) == 1  # type: ignore[func-returns-value]


def test_quick_things_do_not_go_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(10**6))
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) * 1e-9)
    assert repetitions(lambda: None, Setup(CPU)) == timing.MOST


def test_memory_is_told_only_where_it_is_counted() -> None:
    take, memory = built(lambda: lambda: None, CPU)
    assert take() is None
    assert memory == {}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA here")
def test_the_most_memory_is_that_of_the_way_alone() -> None:
    device = torch.device("cuda")
    held = torch.zeros(2**20, device=device)  # not its own
    _, memory = built(lambda: lambda: torch.zeros(2**22, device=device) + 1, device)
    assert held.numel()
    assert 32 <= memory["peak MiB"] < 40  # two of 16 MiB


def test_what_was_measured_on() -> None:
    facts = machine(CPU)
    assert (facts["kind"], facts["torch"]) == ("cpu", torch.__version__)
    assert facts["threads"] == torch.get_num_threads()
    assert facts["device"]


def test_bf16_is_measured_where_it_is_not_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    for native, wanted in ((True, ["float32", "bf16"]), (False, ["float32"])):
        monkeypatch.setattr(timing, "computes_in_bf16", lambda kind, native=native: native)
        assert list(precisions(CPU)) == wanted
        assert usual_precision(CPU) == ("float32", "32")  # what trains on a CPU, unless told otherwise
