"""the paper's experiments on labelled sequences: two factors, factorial swaps, all factors one at a time"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition, What
from diskoop.analysis.discovery import Criterion, ModeSearch, Progress, lowest, lowest_alone, no_progress
from diskoop.data.sequences import Indices, Sequences
from diskoop.errors import InputError
from diskoop.evaluation.judges import Judge
from diskoop.evaluation.metrics import (
    conditional_entropy,
    diversity,
    inception_score,
    marginal_entropy,
    mean_distance,
    probabilities,
    summarize,
)
from diskoop.evaluation.multifactor import Multifactor, describe, matched_factors, multifactors, shows_donor, single
from diskoop.evaluation.results import Figures, exactly
from diskoop.numerics.factors import Factor
from diskoop.numerics.weights import Weights, over_batch, over_two
from diskoop.run import Run

MOVING = (
    "action",
    "expression",
    "motion",
    "emotion",
    "activity",
    "gesture",
)  # labels that say what is done, not by whom

# The paper repeats its sampling 300 times. What it does not repeat, swaps and whatever stands beside a run, is repeated
# this often at most: each time goes over all test sequences, so the mean is known well by then.
MOST_REPEATS = 30


@dataclass(frozen=True)
class ProtocolConfig:
    """How thoroughly to measure."""

    repeats: int = 3  # of sampling, where the paper has 300; of swaps MOST_REPEATS at most
    batch: int = 256  # the paper's
    seed: int = 0
    searched: int | None = None  # batches in which modes are searched for; None: all
    progress: Progress = field(default=no_progress, compare=False)

    @property
    def swaps(self) -> range:
        """The repetitions of swaps."""
        return range(self.beside.repeats)

    @property
    def beside(self) -> "ProtocolConfig":
        """For what stands beside a run."""
        return replace(self, repeats=min(self.repeats, MOST_REPEATS))

    def random(self, *purpose: int) -> np.random.Generator:
        """A source of its own for each purpose, given as a few numbers."""
        # One more than each: zeros at the end would be overlooked.
        return np.random.Generator(np.random.PCG64([self.seed, *(number + 1 for number in purpose)]))

    def batches(self, count: int) -> list[Indices]:
        """Everyone once, mixed, in batches of one size or nearly so."""
        return np.array_split(self.random(0).permutation(count), max(1, round(count / self.batch)))

    def some(self, clips: Sequences, count: int, purpose: int) -> Sequences:
        """At most `count` of them, drawn by the seed, in their order."""
        return clips.select(np.sort(self.random(purpose).permutation(len(clips))[:count]))

    def summary(self, rounds: Sequence[Mapping[str, float]]) -> Figures:
        """Repetitions that measured the same things -> each thing's mean, deviation and interval."""
        return {key: summarize([each[key] for each in rounds], self.random(1)) for key in rounds[0]}


def moving_label(labels: Iterable[str]) -> str | None:
    """The label that says what is done, where one has such a name."""
    there = list(labels)
    return next((name for name in MOVING if name in there), None)


# --- two factors


@dataclass(frozen=True)
class TwoFactors:
    """A way to sample one part of every sequence and keep the other."""

    operator: str
    weights: Weights


WAYS = {"paper": TwoFactors("batch", over_batch), "two": TwoFactors("frozen", over_two)}


def two_factors(run: Run, clips: Sequences, judge: Judge, moving: str | None, plan: ProtocolConfig) -> Figures:
    """One part sampled, the other kept: what a judge still recognises of each label.

    "two/WAY/PART/kept/LABEL" for PART sampled; of the `moving` label also Acc, IS, H(y|x) and H(y) when the static part
    is sampled, which is what the paper prints. How diverse the samples are says whether sampling came to anything.
    """
    figures: Figures = {}
    halves: dict[str, What] = {"static": "static", "dynamic": "dynamic"}
    for name, way in WAYS.items():
        figures |= sampled_halves(f"two/{name}", run, clips, way, halves, judge, moving, plan)
    return figures


def two_factors_as_found(run: Run, clips: Sequences, judge: Judge, moving: str | None, plan: ProtocolConfig) -> Figures:
    """The same for factors that were found: those that move stand for the dynamic part, all others for the static."""
    found = run.require_found().without_remainder
    still, moves = ([each.name for each in found if each.moves is flag] for flag in (False, True))
    if not (still and moves):
        raise InputError(f"of the factors {', '.join(run.require_found().names)} {'all' if moves else 'none'} move")
    halves: dict[str, What] = {"static": still, "dynamic": moves}
    return sampled_halves("two/found", run, clips, WAYS["two"], halves, judge, moving, plan)


def sampled_halves(
    name: str,
    run: Run,
    clips: Sequences,
    way: TwoFactors,
    halves: Mapping[str, What],
    judge: Judge,
    moving: str | None,
    plan: ProtocolConfig,
) -> Figures:
    """Each of `halves` sampled in one `way`, the other kept."""
    figures: Figures = {}
    parts = [run.decompose(clips.select(batch), way.operator) for batch in plan.batches(len(clips))]
    likeness = _Likeness.to(parts[0])
    for number, (sampled, what) in enumerate(halves.items()):
        generator = torch.Generator().manual_seed(int(plan.random(2, number).integers(2**31)))
        halved = [(batch, batch.factor(what)) for batch in parts]
        rounds = [
            _sampled(halved, way.weights, generator, judge, moving if sampled == "static" else None, likeness)
            for _ in plan.progress(range(plan.repeats), f"{sampled} sampled")
        ]
        figures |= {f"{name}/{sampled}/{key}": value for key, value in plan.summary(rounds).items()}
    return figures


@dataclass(frozen=True, eq=False)
class _Likeness:
    """The first batch, decoded as it is: what samples of it are compared with. One batch says enough."""

    real: Tensor  # (n, time, ...): where lengths differ, what all of them have
    apart: float

    @classmethod
    def to(cls, batch: Decomposition) -> "_Likeness":
        real = torch.cat(list(batch.decoded()))[:, : int(batch.lengths.min())]
        return cls(real, mean_distance(real, "real sequences"))

    def diversity(self, frames: Tensor) -> float:
        return diversity(frames[:, : self.real.shape[1]], self.real, self.apart)


def _sampled(
    halved: Sequence[tuple[Decomposition, Factor]],
    weights: Weights,
    generator: torch.Generator,
    judge: Judge,
    moving: str | None,
    likeness: _Likeness,
) -> dict[str, float]:
    """One round over all batches, which are judged in one go: a GPU need not wait between them."""
    first, *others = [batch.sample(factor, generator, weights) for batch, factor in halved]
    frames = torch.cat(list(first.decoded()))
    lengths = np.concatenate([new.lengths for new in (first, *others)])
    logits = judge.logits(chain([frames], *(new.decoded() for new in others)), lengths)
    row = {}
    for label, seen in logits.items():
        if label in first.clips.labels:
            truth = np.concatenate([batch.clips.labels[label] for batch, _ in halved])
            row[f"kept/{label}"] = float((seen.argmax(1) == truth).mean())
    row["diversity"] = likeness.diversity(frames)
    if moving in logits:
        p = probabilities(logits[moving])
        row |= {"acc": row[f"kept/{moving}"], "is": inception_score(p)}
        row |= {"hyx": conditional_entropy(p), "hy": marginal_entropy(p)}
    return row


# --- factorial swaps


CRITERIA: dict[str, Criterion] = {"factorial": lowest, "factorial-alone": lowest_alone}


def factorial(run: Run, clips: Sequences, judge: Judge, moving: str | None, plan: ProtocolConfig) -> Figures:
    """Each static label's modes searched for in every batch, as the paper does it, then swapped among that batch.

    "factorial/TAKEN/LABEL": the share that shows its donor's value. The search has seen the batch that is scored; see
    `one_at_a_time` for a score that has not.
    """
    taken = [label for label in judge.labels if label in clips.labels and label != moving]
    if not taken:
        raise InputError(f"there is no label but {moving} to swap")
    batches = plan.batches(len(clips))[: plan.searched]
    chosen: list[tuple[Decomposition, dict[tuple[str, str], Factor]]] = []
    for batch in plan.progress(batches, "searching modes"):
        parts = run.decompose(clips.select(batch), "batch")
        tried = ModeSearch(judge.predict, tuple(taken)).tried(parts)
        picked = {(key, label): tried.best(label, pick) for key, pick in CRITERIA.items() for label in taken}
        chosen.append((parts, {which: parts.factor(modes) for which, modes in picked.items()}))
    rounds = []
    for number in plan.progress(plan.swaps, "factorial swaps"):
        shown: dict[str, list[NDArray[Any]]] = {}
        for place, (parts, factors) in enumerate(chosen):
            donors = plan.random(3, number, place).permutation(len(parts))
            for (key, label), factor in factors.items():
                for seen, flags in shows_donor(parts, factor, judge.predict, donors).items():
                    shown.setdefault(f"{key}/{label}/{seen}", []).append(flags)
        rounds.append({key: float(np.concatenate(flags).mean()) for key, flags in shown.items()})
    return plan.summary(rounds)


# --- one factor at a time


def one_at_a_time(
    run: Run, train: Sequences, clips: Sequences, judge: Judge, plan: ProtocolConfig
) -> tuple[Figures, list[str]]:
    """The multifactor matrices over `clips` of the run's factors, which were found without them, and their scores.

    "multifactor/TAKEN/LABEL": the share that shows its donor's value; "kept/TAKEN/LABEL": the share that still shows
    its own, of every label but the one taken. Beside each of the two scores stands that of one factor a label,
    "multifactor-single/score" and "kept-single/score". Which factors stand for which label is decided on some of
    `train`.
    """
    matched = matched_factors(run, train, judge)
    parts = run.decompose(clips)
    results = [
        multifactors(parts, [matched, single(matched)], judge.predict, int(plan.random(10, number).integers(2**31)))
        for number in plan.progress(plan.swaps, "one factor at a time")
    ]
    rounds = [{**_matrices(joined), **_scores(joined, ""), **_scores(alone, "-single")} for joined, alone in results]
    found = run.require_found()
    notes = [f"factors: {found.way}, in {found.source}", *describe(matched)]
    return plan.summary(rounds) | {"multifactor/floor": exactly(results[0][0].floor)}, notes


def _matrices(result: Multifactor) -> dict[str, float]:
    """Every share of both matrices."""
    shares = {}
    for i, taken in enumerate(result.labels):
        for j, shown in enumerate(result.labels):
            shares[f"multifactor/{taken}/{shown}"] = float(result.matrix[i, j])
            if i != j:
                shares[f"kept/{taken}/{shown}"] = float(result.kept_matrix[i, j])
    return shares


def _scores(result: Multifactor, suffix: str) -> dict[str, float]:
    """Of a single label nothing else can be kept."""
    kept = {f"kept{suffix}/score": result.kept} if len(result.labels) > 1 else {}
    return {f"multifactor{suffix}/score": result.score, **kept}
