"""The variants compute the same losses, and the stages add up to the step."""

import numpy as np
import pytest
import torch

from diskoop.bench.steps import (
    CASES,
    Case,
    captured_step,
    measure_shares,
    measure_steps,
    paper_spectral_loss,
    paper_step,
    plain_step,
    random_sequences,
    step_variant,
    time_stages,
    untrained_model,
)
from diskoop.bench.timing import BenchConfig, supported_precisions
from diskoop.errors import Stopped
from diskoop.numerics import Spectrum, fit_operator, spectral_loss
from diskoop.training.step import StepOutput
from tests.helpers.cases import CPU, CYCLE, QUICK, SIGNAL, SMALL, VIDEO


def with_whole_pairs(case: Case, x: torch.Tensor) -> Case:
    """`case` with a static count that cuts no conjugate pair: there the paper's split and ours differ."""
    with torch.no_grad():
        C = fit_operator(untrained_model(case, CPU).train().encode(x)).matrix
    count = int(Spectrum.of(C).static(case.settings.spectrum.static).sum())
    return case._replace(settings=case.settings.replaced({"spectrum": {"static": count}}))


@pytest.mark.parametrize("case", [VIDEO, SIGNAL])
def test_all_variants_have_the_same_losses(case: Case) -> None:
    case = case.on(CPU, "64")
    data = random_sequences(case)
    raw, mask = data.read_batch(np.arange(len(data)), torch.float64)
    x, _ = data.move_batch(raw, mask, torch.zeros((), dtype=torch.float64))
    case = with_whole_pairs(case, x)
    paper = paper_step(case, data, CPU).losses(x)
    captured = captured_step(case, data, CPU)
    captured.take(raw, mask, case.settings.train.lr, torch.Generator())
    (output,) = captured.flush()
    terms = output.terms
    assert terms["rec"] == pytest.approx(paper["rec"].item(), rel=1e-9)
    assert terms["pred_z"] + terms["pred_x"] == pytest.approx(paper["pred"].item(), rel=1e-6)
    assert terms["stat"] + terms["dyn"] == pytest.approx(paper["eig"].item(), rel=1e-5)
    assert terms["total"] == pytest.approx(paper["total"].item(), rel=1e-6)
    (plain,) = plain_step(case, data, CPU).take(raw, mask, case.settings.train.lr, torch.Generator())
    assert plain.terms["total"] == pytest.approx(paper["total"].item(), rel=1e-6)


def test_the_papers_spectral_loss_and_its_gradient_are_the_closed_forms(operator: torch.Tensor) -> None:
    static = int(Spectrum.of(operator).static(3).sum())
    leaf = operator.detach().requires_grad_()
    for radius in (0.05, 0.2):  # below all other eigenvalues, and between them
        losses = [paper_spectral_loss(leaf, static, radius), spectral_loss(leaf, static, radius)]
        paper, closed = (torch.autograd.grad(loss, leaf)[0] for loss in losses)
        assert float(losses[1].detach()) == pytest.approx(float(losses[0].detach()), rel=1e-9)
        assert torch.allclose(closed, paper, atol=1e-9)


def test_the_papers_step_learns_and_may_blur() -> None:
    case = VIDEO._replace(settings=VIDEO.settings.replaced({"train": {"blur": True}, "loss": {"eig": 0.0}})).on(CPU)
    data = random_sequences(case)
    step = paper_step(case, data, CPU)
    constant = torch.ones(1, 2, 3, 32, 32)
    assert torch.allclose(step._blur(constant), constant, atol=1e-5)
    raw, mask = data.read_batch(np.arange(len(data)), torch.float32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the width of the blur is drawn too
        assert step._blur(torch.rand(1, 2, 3, 32, 32)).std() < 0.28  # uniform noise has 0.289
        totals = [step.take(raw, mask, 0.01, torch.Generator())[0].terms["total"] for _ in range(20)]
    assert totals[-1] < totals[0]


def test_the_papers_training_is_as_long_as_its_set_says() -> None:
    assert CASES["Sprites"].training_steps == 9000 // 32 * 800
    assert CASES["speech"].training_steps is None
    assert CASES["Sprites"].frame_shape == (3, 64, 64)


@pytest.mark.slow
def test_a_table_for_each_case() -> None:
    ours = [f"plain, {precision}" for precision in supported_precisions(CPU) if precision != "float32"]
    variants = {"video": ["as the paper reads", "plain", *ours], "cycle": ["plain", *ours]}
    variants["signal"] = variants["video"]
    for table, (name, names) in zip(measure_steps(QUICK, SMALL), variants.items(), strict=True):
        assert table.title.startswith(f"{name}: ")
        assert [row["variant"] for row in table.rows] == names
        assert table.rows[0]["speedup"] == 1.0
        for row in table.rows:
            assert 0 < row["low"] <= row["ms"] <= row["high"]
            assert "peak MiB" not in row  # not counted on the CPU


def test_stages_add_up_to_the_step() -> None:
    case = CYCLE.on(CPU)
    data = random_sequences(case)
    step = captured_step(case, data, CPU)
    rows = time_stages(step, step_variant(step, case, data, CPU), BenchConfig(CPU, turns=2, steps=5), "stages")
    ms = {row["stage"]: row["ms"] for row in rows}
    stages = ["encode", "decode", "update"]
    assert list(ms) == [*stages, "all stages", "CPU: solve", "CPU: spectrum", "CPU: split", "whole step"]
    assert ms["all stages"] == pytest.approx(sum(ms[name] for name in stages))
    together = ms["all stages"] + ms["CPU: solve"] + ms["CPU: spectrum"] + ms["CPU: split"]
    assert 0.5 * ms["whole step"] < together <= ms["whole step"]
    assert rows[-1]["share"] == 1.0
    assert min(ms.values()) > 0


def test_shares_of_every_case() -> None:
    tables = list(measure_shares(QUICK, SMALL))
    assert [table.title.split(":")[0] for table in tables] == list(SMALL)
    for table in tables:
        assert [row["stage"] for row in table.rows[:4]] == ["encode", "decode", "update", "all stages"]


def test_a_diverged_step_is_not_timed() -> None:
    class Diverged:
        def take(self, *_: object) -> list[StepOutput]:
            return [StepOutput({"total": float("nan")}, 0.0)]

        flush = take

    with pytest.raises(Stopped, match="the loss became nan"):
        step_variant(Diverged(), VIDEO, random_sequences(VIDEO), CPU)()
