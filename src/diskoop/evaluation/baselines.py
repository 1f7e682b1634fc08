"""baselines: PCA with DMD, slow features, the untrained network, a model that leaks, mean spectra for speech

Each is a run like any other, with networks and an operator of its own fitted on `train`, the set that the run was
trained on, so that every metric of the run can be measured of it. Its folder is an empty one inside the run's: factors
that are saved do not replace the run's own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diskoop.analysis.decomposition import chunks, mean_over_frames
from diskoop.data.formats.audio import cepstra
from diskoop.data.sequences import Sequences, Units
from diskoop.errors import InputError
from diskoop.kernels import accelerate
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model
from diskoop.run import Run
from diskoop.run_folder import RunFolder
from diskoop.training.frozen_operator import fit_frozen_operator

Codes = NDArray[np.float64]  # (n, features)

SAMPLE_FRAMES = 2000  # whose principal directions span the survey: a covariance of all pixels is too large
OVERSAMPLING = 3  # times k: the number of those directions
POWER_ITERATIONS = 4  # of subspace iteration
MIN_VARIANCE = 1e-10  # of a frame's mean square: less is rounding error in float32
CALIBRATION_CLIPS = 2048  # sequences at most that calibrate an untrained network's batch norm


def pca_dmd(run: Run, train: Sequences, seed: int = 0) -> Run:
    """The k principal components of frames and their operator: DMD around the mean frame."""
    return _build_run(run, _build_linear(run, train, seed, _choose_principal), train, "pca_dmd")


def slow_features(run: Run, train: Sequences, seed: int = 0) -> Run:
    """The k uncorrelated linear features of frames that change least from one frame to the next."""
    return _build_run(run, _build_linear(run, train, seed, _choose_slowest), train, "slow_features")


def untrained_network(run: Run, train: Sequences, seed: int = 0) -> Run:
    """The run's network with the initial weights of `seed`: what its architecture alone does."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = accelerate(build_model(run.settings.model, train.shape[2:]))
    model.to(next(run.model.parameters()))
    _calibrate_batch_norm(model, train, seed)
    return _build_run(run, model, train, "untrained_network")


def _build_run(run: Run, model: KoopmanAutoencoder, train: Sequences, name: str) -> Run:
    operator = fit_frozen_operator(model, train, run.settings.train.batch_size)
    folder = RunFolder(run.folder.path / name)
    return replace(run, model=model.eval(), operator=operator, folder=folder, factors=None)


@torch.no_grad()
def _calibrate_batch_norm(model: KoopmanAutoencoder, train: Sequences, seed: int) -> None:
    """Set the statistics of batch norm on some sequences.

    The mean 0 and deviation 1 it is initialised with are wrong in each layer anew: frames would hardly differ in the
    end.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    if not norms:
        return
    for norm in norms:
        norm.momentum = None  # the mean over all batches
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(train))[:CALIBRATION_CLIPS]
    model.train()
    for places in chunks(len(order)):
        x, mask = train.batch(order[places], next(model.parameters()))
        model.decode(model.encode(x, mask), mask)


class LinearEncoder(nn.Module):
    """(batch, time, ...) -> (batch, time, k): the frame less the mean, along k directions."""

    def __init__(self, mean: Tensor, directions: Tensor) -> None:
        super().__init__()
        self.mean = nn.Parameter(mean)  # shaped as a frame
        self.directions = nn.Parameter(directions)  # (features, k)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if x.shape[2:] != self.mean.shape:
            raise InputError(f"expected (batch, time, {', '.join(map(str, self.mean.shape))}), got {tuple(x.shape)}")
        return (x - self.mean).flatten(2) @ self.directions


class LinearDecoder(nn.Module):
    """(batch, time, k) -> (batch, time, ...): the mean frame plus a linear combination of k frames."""

    def __init__(self, mean: Tensor, frames: Tensor) -> None:
        super().__init__()
        self.mean = nn.Parameter(mean)  # shaped as a frame
        self.frames = nn.Parameter(frames)  # (k, features)

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.mean + (z @ self.frames).reshape(*z.shape[:2], *self.mean.shape)


@dataclass(frozen=True, eq=False)
class _Survey:
    """Moments of all training frames along q directions; float64."""

    mean: Tensor  # (features,)
    basis: Tensor  # (features, q)
    spread: Tensor  # (q, q): the covariance of y, the frames along the basis
    change: Tensor  # (q, q): the mean square of y's differences from frame to frame
    cross: Tensor  # (q, features): the covariance of y and the frames
    size: float  # a frame's mean square, its features summed


# A survey and k -> (q, k at most): features of y that are uncorrelated and have variance 1, so that discovery treats
# all alike.
_Choice = Callable[[_Survey, int], Tensor]


def _choose_principal(survey: _Survey, k: int) -> Tensor:
    variances, directions = torch.linalg.eigh(survey.spread)
    used = variances > MIN_VARIANCE * survey.size
    white: Tensor = directions[:, used] / variances[used].sqrt()
    return white.flip(1)[:, :k]


def _choose_slowest(survey: _Survey, k: int) -> Tensor:
    white = _choose_principal(survey, len(survey.spread))
    slow: Tensor = torch.linalg.eigh(white.T @ survey.change @ white)[1]
    return white @ slow[:, :k]


def _build_linear(run: Run, train: Sequences, seed: int, choose: _Choice) -> KoopmanAutoencoder:
    """An autoencoder of k linear features that `choose` takes from a survey, decoded by least squares."""
    k, frame = run.settings.model.k, train.shape[2:]
    survey = _survey_frames(train, OVERSAMPLING * k, seed)
    chosen = choose(survey, k)
    # Where frames do not have k directions the other latents are zero, and so are their eigenvalues.
    chosen = nn.functional.pad(chosen, (0, k - chosen.shape[1]))
    mean = survey.mean.reshape(frame)
    encoder = LinearEncoder(mean, survey.basis @ chosen)
    decoder = LinearDecoder(mean.clone(), chosen.T @ survey.cross)  # regression on whitened features
    model = KoopmanAutoencoder(encoder, decoder, run.model.ridge, run.model.scope)
    return model.to(next(run.model.parameters()))


def _survey_frames(train: Sequences, width: int, seed: int) -> _Survey:
    """The principal directions of some frames, `width` at most, and one pass over all frames along them."""
    sample = _sample_frames(train, seed)
    about = sample.mean(0)  # near the mean, so that subtracting costs little precision
    basis = _principal_directions(sample - about, min(width, len(about)), seed)
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


def _sample_frames(train: Sequences, seed: int) -> Tensor:
    """(frames, features) float64 in the model's units: a frame each of sequences that are drawn uniformly."""
    random = np.random.Generator(np.random.PCG64(seed))
    owners = random.integers(len(train), size=SAMPLE_FRAMES)
    places = np.unique(train.starts[owners] + random.integers(train.lengths[owners]))
    return train.units.to_model(torch.from_numpy(np.array(train.frames[places], np.float64))).flatten(1)


def _principal_directions(x: Tensor, width: int, seed: int) -> Tensor:
    """(features, width): orthonormal columns that span the principal directions of `x` (frames, features).

    Subspace iteration is exact where `x` has no more directions than that, and close where the others are weaker.
    """
    generator = torch.Generator().manual_seed(seed)
    basis = torch.randn(x.shape[1], width, generator=generator, dtype=x.dtype)
    for _ in range(POWER_ITERATIONS):
        basis = torch.linalg.qr(x.T @ (x @ basis))[0]
    return basis


def leaky_model(run: Run, train: Sequences, seed: int = 0) -> Run:
    """A model that leaks on purpose: all that it decodes is in its dynamic part, and its static part does nothing.

    The latents of the run's own networks change sign with every frame, so eigenvalues 1 become -1. A few more latents,
    projections of the first frame, are constant in time, differ between sequences, and are not decoded: the static
    part. Sampling it changes next to nothing, so whatever should be kept is kept.
    """
    count = run.settings.spectrum.static
    settings = run.settings.replaced({"model": {"k": run.settings.model.k + count}})
    numbers = int(torch.tensor(train.shape[2:]).prod())
    projection = torch.randn(numbers, count, generator=torch.Generator().manual_seed(seed)) / numbers**0.5
    model = KoopmanAutoencoder(
        _LeakyEncoder(run.model.encoder, projection), _LeakyDecoder(run.model.decoder, count), run.model.ridge
    )
    model = model.to(next(run.model.parameters())).eval()
    operator = fit_frozen_operator(model, train, run.settings.train.batch_size)
    return replace(run, settings=settings, model=model, operator=operator, factors=None)


class _LeakyEncoder(nn.Module):
    """Projections of the first frame, repeated over time, followed by another encoder's latents with flipped signs."""

    projection: Tensor

    def __init__(self, encoder: nn.Module, projection: Tensor) -> None:
        super().__init__()
        self.encoder = encoder
        self.register_buffer("projection", projection)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        z: Tensor = self.encoder(x) if mask is None else self.encoder(x, mask)
        static = x[:, :1].flatten(2) @ self.projection  # (batch, 1, count)
        return torch.cat([static.expand(-1, z.shape[1], -1), _flip_signs(z)], -1)


class _LeakyDecoder(nn.Module):
    """Another decoder, of all but the first `count` latents."""

    def __init__(self, decoder: nn.Module, count: int) -> None:
        super().__init__()
        self.decoder = decoder
        self.count = count

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        own = _flip_signs(z[..., self.count :])
        x: Tensor = self.decoder(own) if mask is None else self.decoder(own, mask)
        return x


def _flip_signs(z: Tensor) -> Tensor:
    """Every other frame of (batch, time, k) with its sign changed."""
    signs = 1.0 - 2.0 * (torch.arange(z.shape[1], device=z.device) % 2)
    return z * signs.to(z).unsqueeze(-1)


def mean_spectrum(clips: Sequences) -> Codes:
    """(n, bins): each recording's log spectrogram in the model's scale, averaged over time."""
    if clips.units.rate is None:
        raise InputError(f"expected the log spectrograms of recordings, got {clips.name}, which has no sound")
    double = torch.zeros((), dtype=torch.float64)
    means = [mean_over_frames(*clips.batch(indices, double)) for indices in chunks(len(clips))]
    return torch.cat(means).numpy()


def mean_cepstrum(clips: Sequences, train: Sequences, count: int = 20) -> Codes:
    """(n, count): each recording's cepstral coefficients 1 to `count`, averaged over time; without the 0th, loudness.

    Each has mean 0 and deviation 1 over the recordings of `train`: unscaled, all voices point in one direction.
    """
    codes, known = _mean_cepstrum(clips, count), _mean_cepstrum(train, count)
    spread = known.std(0)
    scaled: Codes = (codes - known.mean(0)) / np.where(spread > 0, spread, 1.0)
    return scaled


def _mean_cepstrum(clips: Sequences, count: int) -> Codes:
    """(n, count): the mean of the frames' cepstra, which are linear in them, so it is that of their mean."""
    return cepstra(mean_spectrum(replace(clips, units=Units(rate=clips.units.rate))), count)


BASELINES: dict[str, Callable[[Run, Sequences, int], Run]] = {
    "PCA + DMD": pca_dmd,
    "slow features": slow_features,
    "untrained network": untrained_network,
    "leaks on purpose": leaky_model,
}
# Of sound: (clips, train) -> codes (n, features).
SPEECH_BASELINES: dict[str, Callable[[Sequences, Sequences], Codes]] = {
    "mean spectrum": lambda clips, train: mean_spectrum(clips),
    "mean cepstrum": mean_cepstrum,
}
