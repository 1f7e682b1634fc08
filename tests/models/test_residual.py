"""Networks beside a fixed PCA: they start as PCA, learn, and are saved and loaded like others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diskoop import load, load_data, train
from diskoop.data.sequences import Sequences, Units
from diskoop.errors import InputError
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model
from diskoop.models.linear import fit_principal_components
from diskoop.models.residual import start_from_pca
from diskoop.settings import ModelSettings
from tests.helpers.training import Quiet


def video(count: int = 12) -> Sequences:
    random = np.random.default_rng(0)
    return Sequences.of(random.integers(0, 256, (count, 5, 3, 32, 32), dtype=np.uint8))


def signal(features: int = 6) -> Sequences:
    x = np.random.default_rng(1).normal(size=(30, 9, features)).cumsum(1)
    return Sequences.of(x, units=Units(dtype="float64"))


def started(clips: Sequences, k: int) -> KoopmanAutoencoder:
    settings = ModelSettings(k=k, h=8, width=4, pca_skip=True, decoder_memory="none")
    model = build_model(settings, clips.shape[2:]).double()
    start_from_pca(model, clips)
    return model.eval()


@pytest.mark.parametrize("clips", [video(), signal()], ids=["video", "signal"])
def test_it_starts_as_pca(clips: Sequences) -> None:
    model, (encoder, decoder) = started(clips, 4), fit_principal_components(clips, 4)
    x, _ = clips.batch(np.arange(len(clips)), torch.zeros((), dtype=torch.float64))
    with torch.no_grad():
        assert torch.allclose(model.encode(x), encoder(x), atol=1e-6)
        z = torch.randn(3, 5, 4, dtype=torch.float64)
        assert torch.allclose(model.decode(z), decoder(z), atol=1e-6)


def test_latents_beyond_the_frames_directions_are_the_networks() -> None:
    clips = signal(3)
    model = started(clips, 7)
    x, _ = clips.batch(np.arange(4), torch.zeros((), dtype=torch.float64))
    with torch.no_grad():
        z = model.encode(x)
        assert (z.std((0, 1)) > 1e-3).all()  # none is dead
        assert torch.allclose(model.decode(z), x, atol=1e-5)  # and the decoder does not see the others yet


def test_everything_but_the_components_learns() -> None:
    clips = video()
    model = started(clips, 4).train()
    x, _ = clips.batch(np.arange(4), torch.zeros((), dtype=torch.float64))
    (model(x) - x).square().mean().backward()
    learnt = {name for name, weight in model.named_parameters() if weight.grad is not None and weight.grad.any()}
    assert {"encoder.mix", "decoder.mix", "encoder.gate", "decoder.gate"} <= learnt
    fixed = {"encoder.mean", "encoder.directions", "decoder.mean", "decoder.frames"}
    assert not fixed & dict(model.named_parameters()).keys()
    assert fixed <= model.state_dict().keys()


def test_a_decoder_beside_pca_may_darken_pixels() -> None:
    model = started(video(), 4)
    with torch.no_grad():
        model.decoder.gate.fill_(1.0)  # type: ignore[operator]
        more = model.decoder.network(torch.randn(4, 5, 4, dtype=torch.float64))  # type: ignore[operator]
    assert (more < 0).any()


def test_frames_of_another_shape_are_told() -> None:
    with pytest.raises(InputError, match=r"expected \(batch, time, 3, 32, 32\), got \(2, 5, 3, 64, 64\)"):
        started(video(), 4).encode(torch.zeros(2, 5, 3, 64, 64, dtype=torch.float64))


def test_a_run_that_starts_from_pca_explains_more_and_is_loaded_again(tmp_path: Path) -> None:
    settings: dict[str, dict[str, Any]] = {
        "model": {"k": 5, "h": 16, "dropout": 0.0, "pca_skip": True},
        "spectrum": {"static": 2, "radius": 1.0},
        "loss": {"rec": 100.0},
        "train": {"steps": 150, "lr": 0.003, "batch_size": 50},
    }
    run = train("oscillators", tmp_path / "run", None, Quiet(), **settings)
    clips = load_data("oscillators", split="test")
    assert np.array_equal(load(tmp_path / "run").decompose(clips).decode(), run.decompose(clips).decode())
    verdict = run.verdict("test")
    assert verdict.explained > verdict.pca_explained + 0.005
