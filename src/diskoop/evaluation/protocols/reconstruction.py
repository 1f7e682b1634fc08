"""metrics that need no labels: reconstruction, prediction, spectrum, cycle error, and what training costs"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition
from diskoop.data.scaling import frame_deviations
from diskoop.data.sequences import Sequences
from diskoop.evaluation.metrics import reconstruction_error
from diskoop.evaluation.registry import EvalConfig, EvalContext, Outcome, metric
from diskoop.evaluation.results import Column, Key, Table, Values, single_value
from diskoop.run import Run
from diskoop.run_folder import read_metrics
from diskoop.training.estimate import estimate
from diskoop.training.objective import Objective

MAX_CLIPS = 512  # sequences that are enough for errors


def _error_tables(labels: Sequence[str], motion_label: str | None) -> list[Table]:
    scores = [Column("factors", "factors", "count"), Column("stability", "factors", "stability", better="↑")]
    columns = [
        Column("reconstruction error", "reconstruction", "error", better="↓"),
        Column("variance explained", "reconstruction", "explained_variance", percent=True, better="↑"),
        Column("next frame error", "prediction", "error", better="↓"),
        Column("holding the last", "prediction", "hold_last_error"),
        Column("static eigenvalues from 1", "spectrum", "static_gap", better="↓"),
        Column("largest dynamic", "spectrum", "dynamic_radius"),
        Column("cycle error", "cycle", "static", better="↓"),
    ]
    remark = (
        "Errors are root mean squares, relative to the deviation of the data, with each feature of a series scaled: "
        "the mean frame has 1. The cycle error is how far the static code of a swapped, decoded and encoded sequence "
        "is from what was put in, next to how far apart sequences are."
    )
    return [Table("Without labels", columns, remark), Table("Scores", scores)]


@metric("errors", tables=_error_tables)
def measure_errors(run: Run, context: EvalContext) -> Outcome:
    """Reconstruction, one step ahead, the spectrum, the factors' stability, and the error of a swap and back."""
    clips = context.config.subset(context.clips, MAX_CLIPS, 6)
    parts, x = run.decompose(clips), clips.x
    values: Values = {}

    def add(metric: str, column: str, value: float) -> None:
        values[Key(metric, column)] = single_value(value)

    # Both errors and deviation in the model's units, in which all features of a signal have the same scale.
    scale = np.asarray(parts.units.scale)
    deviation = scale * (np.sqrt(np.square(frame_deviations(clips) / scale).mean()) or 1.0)
    error = reconstruction_error(x, parts.decode(), clips.lengths, deviation)
    add("reconstruction", "error", error)
    add("reconstruction", "explained_variance", 1 - error**2)
    for column, predicted in (("error", _predict_next(parts)[:, 1:]), ("hold_last_error", x[:, :-1])):
        add("prediction", column, reconstruction_error(x[:, 1:], predicted, clips.lengths - 1, deviation))
    spectrum, static = run.spectrum()
    gap, radius = spectrum.gap_and_radius(static)
    add("spectrum", "static_gap", float(gap))
    add("spectrum", "dynamic_radius", float(radius))
    # A single clip has none.
    if parts.static_modes.any() and math.isfinite(cycle := swap_consistency(run, parts, context.config).cycle):
        add("cycle", "static", cycle)
    if run.factors is not None:
        add("factors", "count", len(run.factors.without_remainder))
        if known := [each.stability for each in run.factors.factors if each.stability is not None]:
            add("factors", "stability", float(np.mean(known)))
    return Outcome(values)


def _predict_next(parts: Decomposition) -> NDArray[Any]:
    """(n, time, ...): the first frame reconstructed, and one-step predictions of frames 2..time."""
    ahead = torch.cat([parts.z[:, :1], parts.operator.advance(parts.z[:, :-1])], 1)
    return replace(parts, z=ahead.to(parts.z)).decode()


class SwapConsistency(NamedTuple):
    """What is left of a swap of static parts once its frames are encoded again."""

    cycle: float  # distance of static codes from what was put in, next to how far apart sequences are; 0 is best
    kept: float  # share of the dynamic part's variance over all frames that is as before; 1 is best


def swap_consistency(run: Run, parts: Decomposition, config: EvalConfig) -> SwapConsistency:
    """Swap static parts, decode, encode: how near that is to what was decoded, without any label.

    Args:
        run: encodes the frames.
        parts: sequences decomposed by it.
        config: its seed draws the donors.
    """
    donors = config.generator(7).permutation(len(parts))
    swapped = parts.swap("static", donors)
    frames = Sequences.of(swapped.decode(), lengths=swapped.lengths, units=parts.units, name="swapped sequences")
    again, own = run.decompose(frames), parts.code("static")
    distance = (again.code("static") - swapped.code("static")).square().mean().sqrt()
    before, after = parts.dynamic.double(), again.dynamic.double()
    time = after.shape[1]  # a swap is as long as the shorter of both sequences
    exists = torch.ones(after.shape[:2], dtype=torch.bool) if swapped.mask is None else swapped.mask[:, :time]
    before, after = before[:, :time][exists.to(before.device)], after[exists.to(after.device)]  # (frames, k)
    spread = (before - before.mean(0)).square().sum()
    return SwapConsistency(
        float(distance / (own - own.mean(0)).square().mean().sqrt()),
        float(1 - (after - before).square().sum() / spread),
    )


# --- cost


def _cost_tables(labels: Sequence[str], motion_label: str | None) -> list[Table]:
    columns = [
        Column("parameters", "cost", "parameters"),
        Column("training sequences", "cost", "sequences"),
        Column("seconds a step", "cost", "step_seconds"),
        Column("in training", "cost", "training_step_seconds"),
        Column("bytes", "cost", "memory"),
    ]
    remark = "Weights, gradients, moments and what one step keeps for its backward pass."
    return [Table("Resources", columns, remark)]


@metric("cost", tables=_cost_tables, baselines=False)
def measure_cost(run: Run, context: EvalContext) -> Outcome:
    """Parameters, sequences, and time and memory of a training step, measured now and as it was in training."""
    settings, train = run.settings, run.data("train")
    weight = next(run.model.parameters())
    batch = train.batch(np.arange(min(settings.train.batch_size, len(train))), weight)
    objective = Objective(run.model, settings)

    def loss(network: torch.nn.Module) -> Tensor:
        total: Tensor = network(*batch, torch.Generator(weight.device).manual_seed(0)).total
        return total

    objective.train()
    cost = estimate(objective, loss, steps=1)
    run.model.eval()
    rows = read_metrics(run.folder)
    columns = {
        "parameters": cost.parameters,
        "sequences": len(train),
        "step_seconds": cost.seconds,
        "training_step_seconds": sum(row["seconds"] for row in rows) / rows[-1]["step"],
        "memory": cost.bytes,
    }
    return Outcome({Key("cost", name): single_value(value) for name, value in columns.items()})
