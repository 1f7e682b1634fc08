"""What is timed does the same work: the reference loses what ours loses, and the parts make up the whole."""

import numpy as np
import pytest
import torch

from diskoop.bench import steps as benched
from diskoop.bench.steps import (
    CASES,
    Case,
    captured_step,
    grown,
    growth,
    noise,
    paper_step,
    parts,
    plain_step,
    shares,
    steps,
    taking,
)
from diskoop.bench.timing import Setup, precisions
from diskoop.errors import Stopped
from diskoop.numerics import Spectrum, fit_operator
from diskoop.training.step import StepOutput
from tests.bench.small import CPU, CYCLE, QUICK, SIGNAL, SMALL, VIDEO


def whole_pairs(case: Case, data: torch.Tensor) -> Case:
    """`case` with a static count that cuts no conjugate pair: there the paper's split and ours differ."""
    with torch.no_grad():
        C = fit_operator(benched.fresh_model(case, CPU).train().encode(data)).matrix
    count = int(Spectrum.of(C).static(case.settings.spectrum.static).sum())
    return case._replace(settings=case.settings.replaced({"spectrum": {"static": count}}))


@pytest.mark.parametrize("case", [VIDEO, SIGNAL])
def test_the_reference_loses_what_ours_loses(case: Case) -> None:
    case = case.on(CPU, "64")
    data = noise(case)
    raw, mask = data.fetch(np.arange(len(data)), torch.float64)
    x, _ = data.deliver(raw, mask, torch.zeros((), dtype=torch.float64))
    case = whole_pairs(case, x)
    theirs = paper_step(case, data, CPU).losses(x)
    ours = captured_step(case, data, CPU)
    ours.take(raw, mask, case.settings.train.lr, torch.Generator())
    (taken,) = ours.flush()
    terms = taken.terms
    assert terms["rec"] == pytest.approx(theirs["rec"].item(), rel=1e-9)
    assert terms["pred_z"] + terms["pred_x"] == pytest.approx(theirs["pred"].item(), rel=1e-6)
    assert terms["stat"] + terms["dyn"] == pytest.approx(theirs["eig"].item(), rel=1e-5)
    assert terms["total"] == pytest.approx(theirs["total"].item(), rel=1e-6)
    (plain,) = plain_step(case, data, CPU).take(raw, mask, case.settings.train.lr, torch.Generator())
    assert plain.terms["total"] == pytest.approx(theirs["total"].item(), rel=1e-6)


def test_the_reference_learns_and_may_blur() -> None:
    case = VIDEO._replace(settings=VIDEO.settings.replaced({"train": {"blur": True}, "loss": {"eig": 0.0}})).on(CPU)
    data = noise(case)
    step = paper_step(case, data, CPU)
    even = torch.ones(1, 2, 3, 32, 32)
    assert torch.allclose(step._blurred(even), even, atol=1e-5)
    assert step._blurred(torch.rand(1, 2, 3, 32, 32)).std() < 0.28  # uniform noise has 0.289
    raw, mask = data.fetch(np.arange(len(data)), torch.float32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        totals = [step.take(raw, mask, 0.01, torch.Generator())[0].terms["total"] for _ in range(20)]
    assert totals[-1] < totals[0]


def test_the_papers_training_is_as_long_as_its_set_says() -> None:
    assert CASES["Sprites"].training == 9000 // 32 * 800
    assert CASES["speech"].training is None
    assert CASES["Sprites"].frame == (3, 64, 64)


def test_a_table_for_each_case() -> None:
    ours = [f"plain, {precision}" for precision in precisions(CPU) if precision != "float32"]
    ways = {"video": ["as the paper reads", "plain", *ours], "cycle": ["plain", *ours]}
    ways["signal"] = ways["video"]
    for table, (name, names) in zip(steps(QUICK, SMALL), ways.items(), strict=True):
        assert table.title.startswith(f"{name}: ")
        assert [row["way"] for row in table.rows] == names
        assert table.rows[0]["times faster"] == 1.0
        for row in table.rows:
            assert 0 < row["low"] <= row["ms"] <= row["high"]
            assert "peak MiB" not in row  # nobody counts it on the CPU


def test_the_parts_make_up_the_whole() -> None:
    case = CYCLE.on(CPU)
    data = noise(case)
    step = captured_step(case, data, CPU)
    rows = parts(step, taking(step, case, data, CPU), Setup(CPU, turns=2, steps=5), "parts")
    ms = {row["part"]: row["ms"] for row in rows}
    stages = ["encode", "decode", "update"]
    assert list(ms) == [*stages, "all of these", "CPU: solve", "CPU: spectrum", "CPU: split", "whole step"]
    assert ms["all of these"] == pytest.approx(sum(ms[name] for name in stages))
    together = ms["all of these"] + ms["CPU: solve"] + ms["CPU: spectrum"] + ms["CPU: split"]
    assert 0.5 * ms["whole step"] < together <= ms["whole step"]
    assert rows[-1]["share"] == 1.0
    assert min(ms.values()) > 0


def test_shares_of_every_case() -> None:
    tables = list(shares(QUICK, SMALL))
    assert [table.title.split(":")[0] for table in tables] == list(SMALL)
    for table in tables:
        assert [row["part"] for row in table.rows[:4]] == ["encode", "decode", "update", "all of these"]


def test_one_thing_grows_at_a_time() -> None:
    axes = {"k": (4, 6), "batch": (2, 4), "frames": (3, 5), "size": (32, 64)}
    tables = list(growth(QUICK, VIDEO, axes))
    for table, (axis, values) in zip(tables, axes.items(), strict=True):
        assert [row[axis] for row in table.rows] == list(values)
        assert table.note == ""
    for axis, values in axes.items():
        small = grown(VIDEO, axis, values[0])
        back = {"k": 6, "batch": 4, "frames": 5, "size": 32}[axis]
        assert grown(small, axis, back) == VIDEO
    assert grown(VIDEO, "size", 64).frame == (3, 64, 64)
    assert grown(VIDEO, "frames", 9).frames == 9
    assert grown(VIDEO, "k", 5).settings.model.k == 5
    assert grown(VIDEO, "batch", 7).settings.train.batch == 7


def test_growth_without_patience_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benched, "PATIENCE", 0.0)
    (table,) = growth(QUICK, VIDEO, {"batch": (2, 4, 8)})
    assert [row["batch"] for row in table.rows] == [2]
    assert table.note.endswith("4, 8")


def test_a_step_that_went_astray_is_not_timed() -> None:
    class Astray:
        def take(self, *_: object) -> list[StepOutput]:
            return [StepOutput({"total": float("nan")}, 0.0)]

        flush = take

    with pytest.raises(Stopped, match="the loss became nan"):
        taking(Astray(), VIDEO, noise(VIDEO), CPU)()
