"""baselines: PCA with DMD, slow features, the untrained network, a model that leaks, mean spectra for speech

Each is a run like any other, with networks and an operator of its own fitted on `train`, the set that the run was
trained on, so that every metric of the run can be measured of it. Its folder is an empty one inside the run's: factors
that are saved do not replace the run's own.
"""

from collections.abc import Callable
from dataclasses import replace

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
from diskoop.models.linear import LinearNetworks, fit_principal_components, fit_slow_features
from diskoop.models.residual import ResidualEncoder, start_from_pca
from diskoop.run import Run
from diskoop.run_folder import RunFolder
from diskoop.training.frozen_operator import fit_frozen_operator

Codes = NDArray[np.float64]  # (n, features)

CALIBRATION_CLIPS = 2048  # sequences at most that calibrate an untrained network's batch norm


def pca_dmd(run: Run, train: Sequences, seed: int = 0) -> Run:
    """The k principal components of frames and their operator: DMD around the mean frame."""
    return _build_linear(run, fit_principal_components, train, "pca_dmd", seed)


def slow_features(run: Run, train: Sequences, seed: int = 0) -> Run:
    """The k uncorrelated linear features of frames that change least from one frame to the next."""
    return _build_linear(run, fit_slow_features, train, "slow_features", seed)


def untrained_network(run: Run, train: Sequences, seed: int = 0) -> Run:
    """The run's network with the initial weights of `seed`: what its architecture alone does."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = accelerate(build_model(run.settings.model, train.shape[2:]))
    if isinstance(model.encoder, ResidualEncoder):
        start_from_pca(model, train)
    model.to(next(run.model.parameters()))
    _calibrate_batch_norm(model, train, seed)
    return _build_run(run, model, train, "untrained_network")


def _build_linear(
    run: Run, fit: Callable[[Sequences, int, int], LinearNetworks], train: Sequences, name: str, seed: int
) -> Run:
    settings = run.settings.for_linear(train.shape[1])
    model = KoopmanAutoencoder(*fit(train, settings.model.k, seed), run.model.ridge, run.model.scope)
    return _build_run(replace(run, settings=settings), model.to(next(run.model.parameters())), train, name)


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
