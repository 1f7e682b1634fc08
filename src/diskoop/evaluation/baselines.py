"""models to stand beside a run: PCA with DMD, slow features, the untrained network; mean spectra for speech

Each is a run like any other, with networks and an operator of its own fitted on `train`, the set that the run was
trained on, so that whatever is asked of the run can be asked of it. Its folder is one inside the run's, where nothing
is: factors that are kept do not replace the run's own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diskoop.analysis.decomposition import chunks, mean_over_frames
from diskoop.data.sequences import Sequences, Units
from diskoop.data.sound import cepstra
from diskoop.errors import InputError
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model
from diskoop.run import Run
from diskoop.training.checkpoint import RunFolder
from diskoop.training.loop import frozen_operator

Codes = NDArray[np.float64]  # (n, features)

SAMPLE = 2000  # frames at most whose principal directions are looked along: a covariance of all pixels is too large
WIDER = 3  # times k: how many directions those are
ROUNDS = 4  # of looking for them
LEAST = 1e-10  # of a frame's mean square: a direction of less variance drowns in float32
SETTLING = 2048  # sequences at most that an untrained network's batch norm sees


def pca_dmd(run: Run, train: Sequences, seed: int = 0) -> Run:
    """The k principal components of frames, and the operator that carries them on: DMD around the mean frame."""
    return _beside(run, _linear(run, train, seed, _largest), train, "pca_dmd")


def slow_features(run: Run, train: Sequences, seed: int = 0) -> Run:
    """The k uncorrelated linear features of frames that change least from one frame to the next."""
    return _beside(run, _linear(run, train, seed, _slowest), train, "slow_features")


def untrained(run: Run, train: Sequences, seed: int = 0) -> Run:
    """The run's network as `seed` made it: what its shape alone does."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build_model(run.settings.model, train.shape[2:])
    model.to(next(run.model.parameters()))
    _settle(model, train, seed)
    return _beside(run, model, train, "untrained")


def _beside(run: Run, model: KoopmanAutoencoder, train: Sequences, name: str) -> Run:
    operator = frozen_operator(model, train, run.settings.train.batch)
    folder = RunFolder(run.folder.path / name)
    return replace(run, model=model.eval(), operator=operator, folder=folder, found=None)


@torch.no_grad()
def _settle(model: KoopmanAutoencoder, train: Sequences, seed: int) -> None:
    """Show some sequences to batch norm, which no training step has told how large its inputs are.

    The mean 0 and deviation 1 that it begins with are wrong in each layer anew: frames would hardly differ at the end.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    if not norms:
        return
    for norm in norms:
        norm.momentum = None  # the mean over all batches
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(train))[:SETTLING]
    model.train()
    for places in chunks(len(order)):
        x, mask = train.batch(order[places], next(model.parameters()))
        model.decode(model.encode(x, mask), mask)


class LinearEncoder(nn.Module):
    """(batch, time, ...) -> (batch, time, k): how far a frame is from the mean, along k directions."""

    def __init__(self, mean: Tensor, directions: Tensor) -> None:
        super().__init__()
        self.mean = nn.Parameter(mean)  # shaped as a frame
        self.directions = nn.Parameter(directions)  # (features, k)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if x.shape[2:] != self.mean.shape:
            raise InputError(f"expected (batch, time, {', '.join(map(str, self.mean.shape))}), got {tuple(x.shape)}")
        return (x - self.mean).flatten(2) @ self.directions


class LinearDecoder(nn.Module):
    """(batch, time, k) -> (batch, time, ...): the mean frame, and as much of k others as the latents say."""

    def __init__(self, mean: Tensor, frames: Tensor) -> None:
        super().__init__()
        self.mean = nn.Parameter(mean)  # shaped as a frame
        self.frames = nn.Parameter(frames)  # (k, features)

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.mean + (z @ self.frames).reshape(*z.shape[:2], *self.mean.shape)


@dataclass(frozen=True, eq=False)
class _Survey:
    """All training frames, seen along q directions; float64."""

    mean: Tensor  # (features,)
    basis: Tensor  # (features, q)
    spread: Tensor  # (q, q): the covariance of y, what lies along the basis
    change: Tensor  # (q, q): the mean square of y's differences from frame to frame
    cross: Tensor  # (q, features): the covariance of y and the frames
    size: float  # a frame's mean square, its features summed


# A survey and k -> (q, k at most): features of y that are uncorrelated and have variance 1, so that factors are
# looked for in all alike.
_Choice = Callable[[_Survey, int], Tensor]


def _largest(seen: _Survey, k: int) -> Tensor:
    variances, directions = torch.linalg.eigh(seen.spread)
    used = variances > LEAST * seen.size
    white: Tensor = directions[:, used] / variances[used].sqrt()
    return white.flip(1)[:, :k]


def _slowest(seen: _Survey, k: int) -> Tensor:
    white = _largest(seen, len(seen.spread))
    slow: Tensor = torch.linalg.eigh(white.T @ seen.change @ white)[1]
    return white @ slow[:, :k]


def _linear(run: Run, train: Sequences, seed: int, choose: _Choice) -> KoopmanAutoencoder:
    """An autoencoder of k features that are chosen among those of a survey, decoded by least squares."""
    k, frame = run.settings.model.k, train.shape[2:]
    seen = _survey(train, WIDER * k, seed)
    chosen = choose(seen, k)
    # Where frames do not have k directions the other latents are zero, always, and so are their eigenvalues.
    chosen = nn.functional.pad(chosen, (0, k - chosen.shape[1]))
    mean = seen.mean.reshape(frame)
    encoder = LinearEncoder(mean, seen.basis @ chosen)
    decoder = LinearDecoder(mean.clone(), chosen.T @ seen.cross)  # regression on what is white
    model = KoopmanAutoencoder(encoder, decoder, run.model.ridge, run.model.scope)
    return model.to(next(run.model.parameters()))


def _survey(train: Sequences, width: int, seed: int) -> _Survey:
    """The principal directions of some frames, `width` at most, and one pass over all frames along them."""
    sample = _some_frames(train, seed)
    about = sample.mean(0)  # near the mean, so that little is lost when one is taken from the other
    basis = _principal(sample - about, min(width, len(about)), seed)
    frames = pairs = 0
    total, cross = torch.zeros_like(about), torch.zeros_like(basis.T)
    spread, change = torch.zeros(2, len(cross), len(cross), dtype=torch.float64)
    for indices in chunks(len(train)):
        x, mask = train.batch(indices, basis)
        real = torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        x = x.flatten(2) - about
        y = x @ basis  # (n, time, q)
        steps = (y[:, 1:] - y[:, :-1])[real[:, 1:]]
        x, y = x[real], y[real]
        frames, pairs = frames + len(y), pairs + len(steps)
        total += x.sum(0)
        cross += y.T @ x
        spread += y.T @ y
        change += steps.T @ steps
    moved = total / frames  # from `about` to the mean
    along = moved @ basis
    return _Survey(
        mean=about + moved,
        basis=basis,
        spread=spread / frames - torch.outer(along, along),
        change=change / pairs,
        cross=cross / frames - torch.outer(along, moved),
        size=float(sample.square().sum(1).mean()),
    )


def _some_frames(train: Sequences, seed: int) -> Tensor:
    """(some, features) float64 in the model's units: from sequences that are drawn alike, a frame of each."""
    random = np.random.Generator(np.random.PCG64(seed))
    owners = random.integers(len(train), size=SAMPLE)
    places = np.unique(train.starts[owners] + random.integers(train.lengths[owners]))
    return train.units.to_model(torch.from_numpy(np.array(train.frames[places], np.float64))).flatten(1)


def _principal(x: Tensor, width: int, seed: int) -> Tensor:
    """(features, width): orthonormal columns, the principal directions of `x` (frames, features) among them.

    Subspace iteration is exact where `x` has no more directions than that, and near where the others are weaker.
    """
    generator = torch.Generator().manual_seed(seed)
    basis = torch.randn(x.shape[1], width, generator=generator, dtype=x.dtype)
    for _ in range(ROUNDS):
        basis = torch.linalg.qr(x.T @ (x @ basis))[0]
    return basis


def mean_spectrum(clips: Sequences) -> Codes:
    """(n, bins): each recording's log spectrogram in the model's scale, averaged over time."""
    if clips.units.rate is None:
        raise InputError(f"expected the log spectrograms of recordings, got {clips.name}, which has no sound")
    double = torch.zeros((), dtype=torch.float64)
    means = [mean_over_frames(*clips.batch(indices, double)) for indices in chunks(len(clips))]
    return torch.cat(means).numpy()


def mean_cepstrum(clips: Sequences, train: Sequences, count: int = 20) -> Codes:
    """(n, count): each recording's cepstral coefficients 1 to `count`, averaged over time; without the 0th, loudness.

    Each has mean 0 and deviation 1 over the recordings of `train`: as they are, all voices point in one direction.
    """
    codes, known = _cepstrum(clips, count), _cepstrum(train, count)
    spread = known.std(0)
    scaled: Codes = (codes - known.mean(0)) / np.where(spread > 0, spread, 1.0)
    return scaled


def _cepstrum(clips: Sequences, count: int) -> Codes:
    """(n, count): the mean of the frames' cepstra, which are linear in them, so it is that of their mean."""
    return cepstra(mean_spectrum(replace(clips, units=Units(rate=clips.units.rate))), count)
