"""metrics of two-factor sampling: one part sampled, the other kept, and what a classifier still recognises"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition, FactorLike
from diskoop.errors import InputError
from diskoop.evaluation.metrics import (
    conditional_entropy,
    diversity,
    inception_score,
    marginal_entropy,
    mean_distance,
    probabilities,
)
from diskoop.evaluation.registry import EvalContext, Outcome, label_chance, label_columns, metric
from diskoop.evaluation.results import Column, Key, Table, Values
from diskoop.numerics.factors import Factor
from diskoop.numerics.mixing import Weights, batch_weights, pair_weights
from diskoop.run import Run


@dataclass(frozen=True)
class SamplingMode:
    """How to sample one part of every sequence and keep the other."""

    operator: str  # "batch" or "frozen"
    weights: Weights


SAMPLING_MODES = {"paper": SamplingMode("batch", batch_weights), "two": SamplingMode("frozen", pair_weights)}
SAMPLING_ROWS = {"paper": "the paper's way", "two": "two clips mixed", "factors": "two mixed, factors as found"}


def _sampling_tables(labels: Sequence[str], motion_label: str | None) -> list[Table]:
    if motion_label is None:
        ideal = {"static": "chance for what stays", "dynamic": "chance for what moves"}
    else:
        others = ", ".join(label for label in labels if label != motion_label) or "the others"
        ideal = {
            "static": f"all for {motion_label} and chance for {others}",
            "dynamic": f"all for {others} and chance for {motion_label}",
        }
    columns = [
        Column("Acc", "sampling", "acc", True, "↑"),
        Column("IS", "sampling", "is", False, "↑"),
        Column("H(y|x)", "sampling", "hyx", False, "↓"),
        Column("H(y)", "sampling", "hy", False, "↑"),
        Column("multifactor score", "multifactor", "score", False, "↑", row=""),
        Column("kept", "multifactor", "kept", False, "↑", row=""),
    ]
    remark = (
        f"Acc: the static part is sampled, and a classifier still recognises the {motion_label}, as the paper measures "
        "it. It does not tell whether anything else changed: a model that keeps everything in its dynamic part has a "
        "perfect one. The multifactor score tells what changes when one factor is taken, kept what does not. The "
        "paper's way mixes the static parts of a whole batch, split by the batch's own operator; below are mixtures of "
        "two clips with the frozen operator, split by eigenvalue and by the discovered factors (those that move are "
        "the dynamic part)."
    )
    kept = [
        Table(
            f"{part.capitalize()} part sampled: what is still recognised",
            [*label_columns(f"{part}_sampled", labels), Column("diversity", "sampling", f"{part}_diversity")],
            f"Fraction of sequences that still show their own value, which should be {ideal[part]}. Diversity is that "
            "of the samples next to that of the reconstructions.",
            SAMPLING_ROWS,
        )
        for part in ("static", "dynamic")
    ]
    return [Table("Two factors", columns, remark, SAMPLING_ROWS), *kept]


def _sampling_chance(context: EvalContext) -> Values:
    return {
        key: value
        for part in ("static", "dynamic")
        for key, value in label_chance(f"{part}_sampled", tuple(SAMPLING_ROWS), context).items()
    }


@metric("sampling", requires=("classifier",), tables=_sampling_tables, chance=_sampling_chance)
def measure_sampling(run: Run, context: EvalContext) -> Outcome:
    """One part sampled, the other kept: what a classifier still recognises of each label.

    Of the motion label also Acc, IS, H(y|x) and H(y) when the static part is sampled, which is what the paper prints.
    How diverse the samples are says whether sampling changed anything.
    """
    values: Values = {}
    for row, mode in SAMPLING_MODES.items():
        values |= sample_parts(run, context, row, mode, {"static": "static", "dynamic": "dynamic"})
    return Outcome(values)


@metric("factor sampling", requires=("classifier", "factors"))
def measure_factor_sampling(run: Run, context: EvalContext) -> Outcome:
    """The same for discovered factors: those that move are the dynamic part, all others the static part."""
    factors = run.require_factors().without_remainder
    static, dynamic = ([each.name for each in factors if each.is_motion is moves] for moves in (False, True))
    if not (static and dynamic):
        names = ", ".join(run.require_factors().names)
        raise InputError(f"of the factors {names} {'all' if dynamic else 'none'} move")
    parts: dict[str, FactorLike] = {"static": static, "dynamic": dynamic}
    return Outcome(sample_parts(run, context, "factors", SAMPLING_MODES["two"], parts))


def sample_parts(
    run: Run, context: EvalContext, row: str, mode: SamplingMode, parts: Mapping[str, FactorLike]
) -> Values:
    """Sample each of the parts, keep the rest, and classify what is decoded.

    Args:
        run: the model.
        context: with a classifier.
        row: of the keys.
        mode: how to sample.
        parts: "static" and "dynamic" -> what they are.
    """
    config, clips = context.config, context.clips
    batches = [run.decompose(clips.select(indices), mode.operator) for indices in config.batches(len(clips))]
    reference = _Reference.of(batches[0])
    values: Values = {}
    for number, (part, what) in enumerate(parts.items()):
        generator = torch.Generator().manual_seed(int(config.generator(2, number).integers(2**31)))
        sources = [(batch, batch.factor(what)) for batch in batches]
        repetitions = [
            _sample_once(sources, mode.weights, generator, context, part, row, reference)
            for _ in config.progress(range(config.repeats), f"{part} sampled")
        ]
        values |= config.summarize(repetitions)
    return values


@dataclass(frozen=True, eq=False)
class _Reference:
    """The reconstructions of the first batch, with which samples of it are compared; one batch is enough."""

    frames: Tensor  # (n, time, ...): where lengths differ, the frames that all sequences have
    distance: float

    @classmethod
    def of(cls, batch: Decomposition) -> "_Reference":
        frames = torch.cat(list(batch.decoded()))[:, : int(batch.lengths.min())]
        return cls(frames, mean_distance(frames, "real sequences"))

    def diversity(self, samples: Tensor) -> float:
        return diversity(samples[:, : self.frames.shape[1]], self.frames, self.distance)


def _sample_once(
    sources: Sequence[tuple[Decomposition, Factor]],
    weights: Weights,
    generator: torch.Generator,
    context: EvalContext,
    part: str,
    row: str,
    reference: _Reference,
) -> dict[Key, float]:
    """One repetition over all batches, which are classified in one go: a GPU need not wait between them."""
    first, *others = [batch.sample(factor, generator, weights) for batch, factor in sources]
    frames = torch.cat(list(first.decoded()))
    lengths = np.concatenate([new.lengths for new in (first, *others)])
    logits = context.require_classifier().logits(chain([frames], *(new.decoded() for new in others)), lengths)
    values: dict[Key, float] = {}
    for label, scores in logits.items():
        if label in first.clips.labels:
            truth = np.concatenate([batch.clips.labels[label] for batch, _ in sources])
            values[Key(f"{part}_sampled", label, row)] = float((scores.argmax(1) == truth).mean())
    values[Key("sampling", f"{part}_diversity", row)] = reference.diversity(frames)
    motion = context.motion_label
    if part == "static" and motion in logits:
        p = probabilities(logits[motion])
        columns = {
            "acc": values[Key(f"{part}_sampled", motion, row)],
            "is": inception_score(p),
            "hyx": conditional_entropy(p),
            "hy": marginal_entropy(p),
        }
        values |= {Key("sampling", column, row): value for column, value in columns.items()}
    return values
