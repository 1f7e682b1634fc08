"""Pooled latents: statistics of a clip, constant in time, beside the best linear model of frames."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from diskoop import load, train
from diskoop.data.sequences import Sequences, Units
from diskoop.errors import InputError
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model
from diskoop.models.framewise import FramewiseNetwork
from diskoop.models.pooling import FLOOR, StatisticsPooling
from diskoop.models.residual import start_from_pca
from diskoop.numerics.operator import fit_operator
from diskoop.numerics.spectrum import Spectrum
from diskoop.settings import ModelSettings, Settings
from diskoop.training import loop
from tests.helpers.training import Quiet

DOUBLE = torch.zeros((), dtype=torch.float64)
NETWORKS = ("framewise", "signals")


def signal(features: int = 6, lengths: Any = None) -> Sequences:
    """Clips with levels of their own."""
    random = np.random.default_rng(1)
    x = random.normal(size=(40, 12, features)).cumsum(1) + 3 * random.normal(size=(40, 1, features))
    return Sequences.of(x, units=Units(dtype="float64"), lengths=np.full(40, 12) if lengths is None else lengths)


def started(clips: Sequences, k: int, pooled: int, network: str = "framewise") -> KoopmanAutoencoder:
    settings = ModelSettings(k=k, h=8, pca_skip=True, pooled=pooled, network=network, decoder_memory="none")
    model = build_model(settings, clips.shape[2:]).double()
    start_from_pca(model, clips)
    return model.eval()


def encoded(model: KoopmanAutoencoder, clips: Sequences) -> tuple[Tensor, Tensor, Tensor]:
    """Frames, which are real, and latents."""
    x, mask = clips.batch(np.arange(len(clips)), DOUBLE)
    with torch.no_grad():
        return x, torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask, model.encode(x, mask)


def test_statistics_are_mean_deviation_and_speed() -> None:
    pooling = StatisticsPooling((2,), 1).double()
    pooling.components.copy_(torch.eye(2))
    x = torch.tensor([[[0.0, 5.0], [2.0, 5.0], [0.0, 5.0], [2.0, 5.0]]], dtype=torch.float64)
    floor = np.log(FLOOR)
    expected = torch.tensor([[1.0, 5.0, 0.0, floor, np.log(2.0), floor]], dtype=torch.float64)
    assert torch.allclose(pooling.statistics(x), expected, atol=1e-5)


@pytest.mark.parametrize("network", NETWORKS)
def test_the_operator_has_eigenvalue_one_on_pooled_latents_alone(network: str) -> None:
    clips = signal(lengths=np.random.default_rng(0).integers(5, 13, 40))
    _, real, z = encoded(started(clips, 8, 3, network), clips)
    matrix = fit_operator(z, real).matrix
    assert torch.allclose(matrix[:, :3], torch.eye(8, 3, dtype=torch.float64), atol=1e-9)
    eigenvalues = Spectrum.of(matrix).eigenvalues
    assert torch.allclose(eigenvalues[:3], torch.ones(3, dtype=eigenvalues.dtype), atol=1e-9)
    assert ((eigenvalues[3:] - 1).abs() > 1e-3).all()


@pytest.mark.parametrize("network", NETWORKS)
def test_it_starts_as_the_best_linear_model_beside_the_pooled_latents(network: str) -> None:
    clips = signal()
    model = started(clips, 5, 2, network)
    x, _, z = encoded(model, clips)
    frames, latents = (each.flatten(0, 1) - each.flatten(0, 1).mean(0) for each in (x, z))
    with torch.no_grad():
        error = (model.decode(z) - x).square().sum()
    # What no linear model explains: the frames' regression on pooled latents, then the other principal components.
    pooled = latents[:, :2]
    left = frames - pooled @ torch.linalg.lstsq(pooled, frames).solution
    assert torch.isclose(error, torch.linalg.svdvals(left)[3:].square().sum())
    assert torch.allclose(latents[:, 2:].T @ latents[:, 2:] / len(latents), torch.eye(3, dtype=torch.float64))
    assert torch.allclose(pooled.T @ latents[:, 2:], torch.zeros(2, 3, dtype=torch.float64), atol=1e-8)


def test_frames_are_exact_where_the_other_latents_are_as_many_as_features() -> None:
    clips = signal(4)
    model = started(clips, 9, 3)  # two latents are the network's own
    x, _, z = encoded(model, clips)
    with torch.no_grad():
        assert torch.allclose(model.decode(z), x)
    assert (z[..., 7:].std((0, 1)) > 1e-3).all()


def test_padding_does_not_matter() -> None:
    lengths = np.random.default_rng(0).integers(5, 13, 40)
    clips = signal(lengths=lengths)
    model = started(clips, 8, 3)
    x, mask, z = encoded(model, clips)
    with torch.no_grad():
        alone = model.encode(x[:1, : lengths[0]])
        noisy = model.encode(torch.where(mask.unsqueeze(-1), x, torch.nan), mask)
    assert torch.allclose(z[:1, : lengths[0]], alone)
    assert torch.allclose(noisy[mask], z[mask])


def test_pooled_latents_are_fixed_and_the_rest_learns() -> None:
    clips = signal()
    model = started(clips, 5, 2).train()
    x, _ = clips.batch(np.arange(8), DOUBLE)
    (model(x) - x).square().mean().backward()
    learnt = {name for name, weight in model.named_parameters() if weight.grad is not None and weight.grad.any()}
    assert {"encoder.mix", "decoder.mix", "encoder.network.out.weight", "decoder.network.out.weight"} <= learnt
    assert not any("pooling" in name for name, _ in model.named_parameters())


def test_frames_of_another_width_are_told() -> None:
    with pytest.raises(InputError, match=r"expected \(batch, time, 6\), got \(2, 5, 7\)"):
        FramewiseNetwork(6, 8, 3)(torch.zeros(2, 5, 7))
    with pytest.raises(InputError, match=r"model.network = framewise, got \(3, 32, 32\)"):
        build_model(ModelSettings(network="framewise"), (3, 32, 32))


@pytest.mark.parametrize(
    "changes", [{"pca_skip": False}, {"pooled": 4}, {"k": 3}], ids=["no PCA", "more than static", "nothing else"]
)
def test_settings_that_cannot_be_pooled_are_told(changes: dict[str, Any]) -> None:
    model = {"k": 8, "pca_skip": True, "pooled": 3} | changes
    with pytest.raises(InputError, match=r"model\.pooled = "):
        Settings.of({"model": model, "spectrum": {"static": 3}})


def test_as_many_are_pooled_as_are_static() -> None:
    model = {"k": 20, "pca_skip": True, "pooled": "static"}
    assert Settings.of({"model": model, "spectrum": {"static": 5}}).model.pooled == 5
    assert Settings.of({"model": model, "spectrum": {"static": "auto"}}).model.pooled == 9
    assert Settings.of({"model": model}).model.pooled == 8
    with pytest.raises(InputError, match=r"model\.pooled should be a whole number or static"):
        Settings.of({"model": model | {"pooled": "all"}})


def test_few_windows_have_fewer_pooled_latents() -> None:
    """One of either kind for every four windows; of the static ones beyond the pooled, their share of the others."""
    settings = Settings.of({"model": {"pca_skip": True, "k": 30, "pooled": 14}, "spectrum": {"static": 20}})
    fitted, notes = loop.fit_to_data(settings, signal())
    assert (fitted.model.k, fitted.model.pooled, fitted.spectrum.static) == (20, 10, 14)
    assert notes == ["only 40 windows without overlap: model.k = 20 instead of 30, spectrum.static = 14"]
    enough, none = loop.fit_to_data(fitted, signal())
    assert (enough, none) == (fitted, [])


def test_a_linear_model_of_the_same_size_keeps_as_many_numbers_of_a_clip() -> None:
    settings = Settings.of({"model": {"pca_skip": True, "k": 30, "pooled": 14}, "spectrum": {"static": 14}})
    assert settings.for_linear(14).model.k == 17  # 16 a frame, and 14 in 14 frames
    assert settings.for_linear(13).model.k == 18
    assert settings.for_linear(14).model.pooled == 0
    few = settings.replaced({"model": {"k": 16}})
    assert few.for_linear(14).model.k == 15  # one that moves beside the static ones
    plain = Settings.of({"model": {"k": 30}})
    assert plain.for_linear(14) == plain


def test_there_are_no_more_pooled_latents_than_statistics() -> None:
    settings = Settings.of({"model": {"pca_skip": True, "k": 9, "pooled": 5}, "spectrum": {"static": 6}})
    fitted, notes = loop.fit_to_data(settings, signal(1))
    assert (fitted.model.k, fitted.model.pooled, fitted.spectrum.static) == (7, 3, 4)
    assert notes == ["frames of 1 features have 3 statistics: model.pooled = 3, model.k = 7 and spectrum.static = 4"]


def test_what_the_network_adds_has_mean_zero_over_a_clip() -> None:
    clips = signal(4, lengths=np.random.default_rng(0).integers(5, 13, 40))
    _, real, z = encoded(started(clips, 9, 3), clips)
    own = torch.where(real.unsqueeze(-1), z, 0.0)[..., 7:]
    assert torch.allclose(own.sum(1), torch.zeros(40, 2, dtype=torch.float64), atol=1e-12)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_run_with_pooled_latents_swaps_forecasts_and_is_loaded_again(network: str, tmp_path: Path) -> None:
    x = np.random.default_rng(2).normal(size=(60, 16, 4)).cumsum(1).astype(np.float32)
    settings: dict[str, dict[str, Any]] = {
        "data": {"test_fraction": 0.2},
        "model": {"k": 7, "h": 16, "dropout": 0.0, "pca_skip": True, "pooled": 2, "network": network},
        "spectrum": {"static": 2, "radius": 1.0},
        "loss": {"contrast": 0.1, "cycle": 0.1},
        "train": {"steps": 20, "batch_size": 20},
    }
    run = train(x, tmp_path / "run", None, Quiet(), **settings)
    clips = run.data("test")
    for operator in ("frozen", "batch"):
        parts = run.decompose(clips, operator)
        assert torch.allclose(parts.static, parts.static[:, :1].expand_as(parts.static), atol=1e-4)
        swapped = parts.swap("static", np.roll(np.arange(len(clips)), 1))
        assert torch.allclose(swapped.z[..., :2], parts.z.roll(1, 0)[..., :2], atol=1e-4)
        ahead = parts.forecast(5).z
        assert torch.allclose(ahead[:, -1, :2], parts.z[:, -1, :2], atol=1e-3)
    again = load(tmp_path / "run").decompose(clips)
    assert np.array_equal(again.decode(), run.decompose(clips).decode())
    assert run.decompose(clips.select([0])).decode().shape == (1, 16, 4)  # one clip alone
    assert run.verdict("test").within == pytest.approx(0, abs=1e-6)


def test_a_run_with_pooled_latents_resumes_bit_equal(tmp_path: Path) -> None:
    model = {"k": 9, "h": 8, "pca_skip": True, "pooled": "static", "network": "framewise"}
    values = {"data": {"name": "oscillators"}, "model": model, "spectrum": {"static": 3}, "train": {"steps": 12}}
    settings = Settings.of(values)
    loop.train(settings, tmp_path / "a", reporter=Quiet())
    with pytest.raises(MemoryError):
        loop.train(settings, tmp_path / "b", reporter=Quiet(crash_at=7))
    loop.resume(tmp_path / "b", reporter=Quiet())
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()
