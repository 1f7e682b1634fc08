"""what can be said of a run: without labels, of its codes where there are some, and of what it cost"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition, mean_over_frames
from diskoop.analysis.editing import PARTS
from diskoop.data.sequences import Sequences
from diskoop.evaluation.judges import Judge
from diskoop.evaluation.metrics import global_consistency, local_consistency, reconstruction_error
from diskoop.evaluation.probes import dci, probe
from diskoop.evaluation.protocols import ProtocolConfig
from diskoop.evaluation.results import Figures, exactly
from diskoop.run import Run
from diskoop.training.checkpoint import read_metrics
from diskoop.training.estimate import estimate
from diskoop.training.objective import Objective

LOOKED_AT = 512  # sequences that are enough for errors and the consistency of frames
PROBED = 2000  # sequences to learn a label from
STRETCHES = 4  # of time, over each of which a code is averaged


def limited(train: Sequences, limit: int | None) -> Sequences:
    """What a run was trained on, of the training split."""
    return train if limit is None else train.select(slice(limit))


# --- without labels


def errors(run: Run, clips: Sequences, plan: ProtocolConfig) -> Figures:
    """Reconstruction, one step ahead, the spectrum, the factors' stability, and the error of a swap and back."""
    some = plan.some(clips, LOOKED_AT, 6)
    parts, x = run.decompose(some), some.x
    figures: Figures = {}
    rebuilt = reconstruction_error(x, parts.decode(), some.lengths)
    spread = reconstruction_error(x, np.broadcast_to(_mean_frame(some), x.shape), some.lengths)
    figures["rec/rmse"] = exactly(rebuilt)
    figures["rec/explained"] = exactly(1 - (rebuilt / spread) ** 2 if spread else 1.0)
    figures["pred/ours"], figures["pred/held"] = map(exactly, _one_step(parts, x, some.lengths))
    spectrum, static = run.spectrum()
    gap, radius = spectrum.extent(static)
    figures |= {"spectrum/static_gap": exactly(float(gap)), "spectrum/dynamic_radius": exactly(float(radius))}
    if parts.static_modes.any() and math.isfinite(cycle := _cycle(run, parts, plan)):  # of a single clip there is none
        figures["cycle/static"] = exactly(cycle)
    if run.found is not None:
        figures["factors/count"] = exactly(len(run.found.without_remainder))
        if known := [each.stability for each in run.found.factors if each.stability is not None]:
            figures["factors/stability"] = exactly(float(np.mean(known)))
    return figures


def _mean_frame(clips: Sequences) -> NDArray[np.float64]:
    total = sum(
        clips.frames[s : s + n].sum(0, dtype=np.float64) for s, n in zip(clips.starts, clips.lengths, strict=True)
    )
    mean: NDArray[np.float64] = np.asarray(total) / clips.lengths.sum()
    return mean


def _one_step(parts: Decomposition, x: NDArray[np.generic], lengths: NDArray[np.int64]) -> tuple[float, float]:
    """The error of each next frame as the operator says it, and of holding the frame before."""
    ahead = torch.cat([parts.z[:, :1], parts.operator.advance(parts.z[:, :-1])], 1)
    guess = replace(parts, z=ahead.to(parts.z)).decode()
    return (
        reconstruction_error(x[:, 1:], guess[:, 1:], lengths - 1),
        reconstruction_error(x[:, 1:], x[:, :-1], lengths - 1),
    )


def _cycle(run: Run, parts: Decomposition, plan: ProtocolConfig) -> float:
    """How far a swapped latent is from what the encoder makes of its frames, next to how far apart sequences are."""
    donors = plan.random(7).permutation(len(parts))
    new = parts.swap("static", donors)
    again = run.decompose(Sequences.of(new.decode(), lengths=new.lengths, units=parts.units, name="swapped sequences"))
    whole = parts.code("static")
    return float(
        (again.code("static") - new.code("static")).square().mean().sqrt()
        / (whole - whole.mean(0)).square().mean().sqrt()
    )


# --- codes and labels


def readable(train: Sequences, clips: Sequences) -> tuple[str, ...]:
    """Labels that can be learnt from one set and asked for in the other: not who, where nobody is in both."""
    seen = {label: np.unique(train.labels[label]) for label in clips.labels if label in train.labels}
    return tuple(label for label, known in seen.items() if len(known) > 1 and np.isin(clips.labels[label], known).all())


def leaks(run: Run, train: Sequences, clips: Sequences, labels: Sequence[str], plan: ProtocolConfig) -> Figures:
    """What a linear probe reads of each label from either part, "leak/PART/LABEL", beside chance."""
    some = plan.some(train, PROBED, 6)
    learnt, tested = run.decompose(some), run.decompose(clips)
    figures: Figures = {}
    for part in PARTS:
        mine, theirs = timed_code(learnt, part), timed_code(tested, part)
        for label in labels:
            seen = np.isin(clips.labels[label], some.labels[label])
            result = probe(mine, some.labels[label], theirs[seen], clips.labels[label][seen], plan.seed)
            figures[f"leak/{part}/{label}"] = exactly(result.accuracy)
            figures[f"leak/chance/{label}"] = exactly(result.chance)
    return figures


def timed_code(parts: Decomposition, what: str) -> NDArray[np.float64]:
    """(n, (1 + STRETCHES) * k): the part that belongs to `what` in the first frame, and its means over stretches.

    What turns its sign from frame to frame has no mean, and shows in the first frame.
    """
    part = parts.factors[what].part(parts.z.double())
    lengths = torch.from_numpy(parts.lengths).to(part.device)
    at = torch.arange(part.shape[1], device=part.device)
    columns = [part[:, 0]]
    for stretch in range(STRETCHES):  # in a sequence of fewer frames some stand for two
        begin, end = (lengths * stretch // STRETCHES, lengths * (stretch + 1) // STRETCHES)
        inside = (at >= begin.unsqueeze(1)) & (at < torch.maximum(end, begin + 1).unsqueeze(1))
        columns.append(mean_over_frames(part, inside))
    codes: NDArray[np.float64] = torch.cat(columns, 1).cpu().numpy()
    return codes


def disentanglement(run: Run, clips: Sequences, labels: Sequence[str], plan: ProtocolConfig) -> Figures:
    """DCI of the factors that were found."""
    parts = run.decompose(clips)
    names = [each.name for each in run.require_found().without_remainder]
    groups = {name: _coordinates(timed_code(parts, name)) for name in names}
    groups = {name: codes for name, codes in groups.items() if codes.shape[1]}
    result = dci(groups, {label: clips.labels[label] for label in labels}, plan.seed)
    return {f"dci/{name}": exactly(getattr(result, name)) for name in ("modularity", "compactness", "explicitness")}


def _coordinates(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same codes in as many columns as they have directions."""
    centred = codes - codes.mean(0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    along: NDArray[np.float64] = centred @ directions[sizes > 1e-6 * max(sizes[0], 1e-300)].T
    return along


def consistency(run: Run, clips: Sequences, judge: Judge, moving: str | None, plan: ProtocolConfig) -> Figures:
    """After a swap of the static part, whether all frames of a sequence show one value: "consistency/KIND/LABEL".

    KIND is global (the value most of its frames show) or local (that of the frame before); `judge` looks at single
    frames. What moves may change on the way and is left out.
    """
    parts = run.decompose(plan.some(clips, LOOKED_AT, 6))
    new = parts.swap("static", plan.random(8).permutation(len(parts)))
    seen = judge.predict_frames(new.decoded(), new.lengths)
    figures: Figures = {}
    for label, codes in seen.items():
        if label != moving:
            figures[f"consistency/global/{label}"] = exactly(global_consistency(codes, new.lengths))
            figures[f"consistency/local/{label}"] = exactly(local_consistency(codes, new.lengths))
    return figures


# --- cost


def resources(run: Run) -> Figures:
    """Parameters, sequences, and time and memory of a training step, measured now and as it was in training."""
    settings, train = run.settings, limited(run.data("train"), run.settings.data.limit)
    weight = next(run.model.parameters())
    batch = train.batch(np.arange(min(settings.train.batch, len(train))), weight)
    objective = Objective(run.model, settings)

    def loss(network: torch.nn.Module) -> Tensor:
        total: Tensor = network(*batch, torch.Generator(weight.device).manual_seed(0)).total
        return total

    objective.train()
    cost = estimate(objective, loss, steps=1)
    run.model.eval()
    rows = read_metrics(run.folder)
    return {
        "cost/parameters": exactly(cost.parameters),
        "cost/sequences": exactly(len(train)),
        "cost/step": exactly(cost.seconds),
        "cost/trained": exactly(sum(row["seconds"] for row in rows) / rows[-1]["step"]),
        "cost/memory": exactly(cost.bytes),
    }
