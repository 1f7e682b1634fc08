"""what a step and a run are made of: solving for operators, loading batches, taking clips apart and judging them"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diskoop.bench.steps import SPRITES, Case, fresh_model, noise, our_step, paper_spectral_loss, taking
from diskoop.bench.timing import Setup, Table, Take, compared, take_turns, tidy, usual_precision
from diskoop.data.sequences import PIXELS, Sequences
from diskoop.evaluation.judges import Judge, Network
from diskoop.numerics.losses import spectral_loss
from diskoop.numerics.operator import fit_operator, one_thread, pair_sums, ridge_gradient, ridge_solution
from diskoop.numerics.spectrum import Spectrum
from diskoop.run import Run
from diskoop.training.batches import DeviceBatches, Feed, read_ahead
from diskoop.training.captured import solved_there
from diskoop.training.checkpoint import RunFolder
from diskoop.training.loop import frozen_operator

SIZES = (20, 40, 80, 160, 320)  # k
PAIRS, FRAMES = 224, 8  # of neighbouring frames in a batch of the paper's Sprites, and frames of each clip
STATIC, RADIUS, RIDGE = 8, 0.5, 1e-9
LOADED = {"cuda": 4096, "cpu": 512}  # clips
CLIPS = {"cuda": 2048, "cpu": 128}  # to take apart
CLASSES = {"skin": 6, "pants": 6, "top": 6, "hair": 6, "action": 9}  # of Sprites

TensorFunction = Callable[[Tensor], Tensor]


# --- solvers


def by_pseudo_inverse(z: Tensor) -> Tensor:
    """C as the paper has it."""
    past, future = _pairs(z)
    C: Tensor = torch.linalg.pinv(past) @ future
    return C


def by_svd(z: Tensor) -> Tensor:
    """C from the singular values of the past, as a least-squares routine finds it."""
    past, future = _pairs(z)
    left, sizes, right = torch.linalg.svd(past, full_matrices=False)
    C: Tensor = right.mT @ ((left.mT @ future) / sizes.unsqueeze(-1))
    return C


def by_gram(z: Tensor) -> Tensor:
    """Ours, where `z` lies, with rank and condition."""
    return fit_operator(z, ridge=RIDGE).matrix


def by_gram_on_the_cpu(z: Tensor) -> Tensor:
    """Ours as in a captured step of larger k: sums on the device, the small system on the CPU."""
    past, cross = (part.cpu() for part in pair_sums(z))
    with one_thread():
        return ridge_solution(past, cross, RIDGE)[0]


def by_gram_in_one_program(z: Tensor) -> Tensor:
    """Ours as in a captured step up to k = 64: nothing leaves the device."""
    C: Tensor = _InOneProgram.apply(*pair_sums(z))  # type: ignore[no-untyped-call]
    return C


class _InOneProgram(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, past: Tensor, cross: Tensor) -> Tensor:
        from diskoop.numerics.elimination import ridge_solution_there

        C, inverse = ridge_solution_there(past, cross, RIDGE)
        ctx.save_for_backward(C, inverse)
        return C

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, Tensor]:
        C, inverse = ctx.saved_tensors
        return ridge_gradient(outer[0], C, inverse, RIDGE)


def _pairs(z: Tensor) -> tuple[Tensor, Tensor]:
    return z[:, :-1].flatten(0, 1), z[:, 1:].flatten(0, 1)


SOLVERS: dict[str, TensorFunction] = {"pseudo-inverse": by_pseudo_inverse, "SVD": by_svd, "ours": by_gram}


def latents(k: int, device: torch.device) -> Tensor:
    """(batch, FRAMES, k): a batch of the paper's Sprites, or a larger one where that has less than two pairs for k.

    They follow an operator with eigenvalues all over a disc, and are jostled on the way.
    """
    batch = -(-max(PAIRS, 2 * k) // (FRAMES - 1))
    random = torch.Generator().manual_seed(k)
    C = 0.9 * torch.randn(k, k, generator=random) / k**0.5
    z = [torch.randn(batch, k, generator=random)]
    for _ in range(FRAMES - 1):
        z.append(z[-1] @ C + 0.3 * torch.randn(batch, k, generator=random))
    return torch.stack(z, 1).to(device)


def solvers(setup: Setup, sizes: Sequence[int] = SIZES) -> Iterator[Table]:
    """Operators and their spectra, each with its gradient, as k grows."""
    on_cuda = setup.device.type == "cuda"
    # Many threads meet so often over so small a matrix that a busy machine makes any way look forty times as slow.
    with nullcontext() if on_cuda else one_thread():
        found = [_solvers_at(k, setup) for k in sizes]
    operators, spectra = ([row for rows in part for row in rows] for part in zip(*found, strict=True))
    where = "ours on the CPU in one thread" if on_cuda else "all in one thread"
    note = "the latents are float32; ours computes in float64, the others in what they are given"
    yield Table(f"operator C and its gradient, {PAIRS} pairs of latents or 2k; {where}", operators, note)
    yield Table(f"spectral loss and its gradient: autograd through eigenvalues, or closed form; {where}", spectra, note)


def _solvers_at(k: int, setup: Setup) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of both tables."""
    ways = SOLVERS | ({"ours, on the CPU": by_gram_on_the_cpu} if setup.device.type == "cuda" else {})
    if solved_there(setup.device, k):
        ways["ours, one program"] = by_gram_in_one_program
    z = latents(k, setup.device)
    truth = by_pseudo_inverse(z.double().cpu())
    # Whole pairs, or the two losses mean different eigenvalues.
    static = int(Spectrum.of(truth).static(STATIC).sum())
    theirs: TensorFunction = partial(paper_spectral_loss, static=static, radius=RADIUS)
    ours: TensorFunction = partial(_closed_form, static=static)
    spectra = _spectra(k, truth.to(z), {"eigvals": theirs, "ours, on the CPU": ours}, _gradient(theirs, truth), setup)
    return _solved(k, z, ways, truth, setup), spectra


def _closed_form(C: Tensor, static: int) -> Tensor:
    with one_thread() if C.is_cuda else nullcontext():
        return spectral_loss(C.cpu(), static, RADIUS)


def _solved(k: int, z: Tensor, ways: Mapping[str, TensorFunction], truth: Tensor, setup: Setup) -> list[dict[str, Any]]:
    pull = torch.randn(k, k, generator=torch.Generator().manual_seed(0)).to(z)  # any gradient of C
    leaf = z.clone().requires_grad_()

    def way(solve: TensorFunction) -> Take:
        def take() -> None:
            C = solve(leaf)
            torch.autograd.grad(C, leaf, pull.to(C))

        return take

    found = compared(take_turns({name: way(solve) for name, solve in ways.items()}, setup, f"operator, k = {k}"))
    return [{"k": k, "way": name, **found[name], "off by": _off(solve(z), truth)} for name, solve in ways.items()]


def _spectra(
    k: int, C: Tensor, ways: Mapping[str, TensorFunction], known: Tensor, setup: Setup
) -> list[dict[str, Any]]:
    takes = {name: partial(_gradient, loss, C) for name, loss in ways.items()}
    found = compared(take_turns(takes, setup, f"spectrum, k = {k}"))
    return [{"k": k, "way": name, **found[name], "off by": _off(take(), known)} for name, take in takes.items()]


def _gradient(loss: TensorFunction, C: Tensor) -> Tensor:
    leaf = C.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(leaf), leaf)
    return gradient


def _off(found: Tensor, truth: Tensor) -> float:
    """The largest difference, relative to the largest entry: nobody should compare the speed of wrong answers."""
    return float((found.detach().cpu().double() - truth).abs().max() / truth.abs().max())


# --- loader


def loader(setup: Setup, case: Case = SPRITES, count: int | None = None) -> Iterator[Table]:
    """Batches that reach the device out of its own memory and out of a file, beside those that a step takes."""
    device, batch = setup.device, case.settings.train.batch
    case = case.on(device, usual_precision(device)[1])
    data = noise(case, count or LOADED[device.type])
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(data))
    batches = [order[at : at + batch] for at in range(0, len(order) - batch + 1, batch)]
    weight = torch.zeros(1, device=device)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a mapped file may have to stay
        streamed = _on_disk(data, Path(folder) / "noise.npy")
        pinned = device.type == "cuda"
        feeds: dict[str, Feed] = {
            "resident": DeviceBatches(data, weight),
            "streamed": partial(read_ahead, streamed, dtype=weight.dtype, pinned=pinned),
        }
        takes: dict[str, Take] = {name: partial(_drain, feed, batches, device) for name, feed in feeds.items()}
        found = take_turns(takes, setup, "loading")
    few = data.select(np.arange(batch))
    (step,) = take_turns({"step": taking(our_step(case, few, device), case, few, device)}, setup, "a step").values()
    sequences = {name: 1000 * len(batches) * batch / span.ms for name, span in found.items()}
    sequences["what our step takes"] = 1000 * batch / step.ms
    size = data.frames[0].nbytes * case.frames / 1e6
    rows = [
        {"from": name, "sequences/s": rate, "MB/s": rate * size, "times a step's": rate * step.ms / 1000 / batch}
        for name, rate in sequences.items()
    ]
    file = "a file that the system has in memory"
    yield Table(f"batches of {batch} out of {len(data)} sequences: on the device, or read ahead from {file}", rows)


def _drain(feed: Feed, batches: Sequence[Any], device: torch.device) -> None:
    """Every batch as far as the device."""
    for ready in feed(batches):
        ready.x.to(device, non_blocking=True)


def _on_disk(data: Sequences, path: Path) -> Sequences:
    np.save(path, data.frames)
    return replace(data, frames=np.load(path, mmap_mode="r"))


# --- inference


def inference(setup: Setup, case: Case = SPRITES, count: int | None = None) -> Iterator[Table]:
    """Clips taken apart, put together otherwise, and judged."""
    device = setup.device
    clips = noise(case, count or CLIPS[device.type])
    verbs = inference_verbs(case, clips, device)
    found = take_turns(verbs, setup, "inference")
    rows = [
        {"what": name, **span._asdict(), "sequences/s": 1000 * len(clips) / span.ms} for name, span in found.items()
    ]
    tidy(device)
    yield Table(f"{len(clips)} clips of {case.frames} frames of {case.frame}, from memory and back", rows)


def inference_verbs(case: Case, clips: Sequences, device: torch.device) -> dict[str, Take]:
    """With networks that have learnt nothing, which are as fast as others."""
    model = fresh_model(case, device).eval()
    operator = frozen_operator(model, clips, case.settings.train.batch)
    run = Run(case.settings, model, operator, clips.units, RunFolder(Path()))
    judge = onlooker(case.frame, device)
    donors = np.roll(np.arange(len(clips)), 1)
    parts, frames = run.decompose(clips), clips.x
    return {
        "encode, decompose": lambda: run.decompose(clips),
        "swap, decode": lambda: parts.swap("static", donors).decode(),
        "judge": lambda: judge.logits(frames),
        "swap, decode, judge, all on the device": lambda: judge.logits(parts.swap("static", donors).decoded()),
    }


def onlooker(frame: Sequence[int], device: torch.device) -> Judge:
    """A judge of Sprites that has learnt nothing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = Network(frame, list(CLASSES.values())).to(device).eval()
    values = {label: tuple(map(str, range(count))) for label, count in CLASSES.items()}
    return Judge(network, values, {}, {}, PIXELS, 0)
