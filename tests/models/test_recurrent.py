"""Signals of any width; what comes later cannot change what came before."""

import pytest
import torch

from diskoop.errors import InputError
from diskoop.models.autoencoder import KoopmanAutoencoder


@pytest.mark.parametrize("features", [1, 3, 201])
@pytest.mark.parametrize("h", [None, 7])
def test_shapes_survive(features: int, h: int | None) -> None:
    model = KoopmanAutoencoder.for_shape((features,), k=5, h=h)
    x = torch.randn(2, 11, features)
    assert model.encode(x).shape == (2, 11, 5)
    assert model(x).shape == x.shape


def test_the_papers_decoder_is_an_lstm_alone_and_bounded() -> None:
    model = KoopmanAutoencoder.for_shape((201,), k=165, h=None)
    names = {name.split(".")[0] + "." + name.split(".")[1] for name, _ in model.named_parameters()}
    assert names == {"encoder.time", "decoder.time"}
    assert model(100 * torch.randn(2, 4, 201)).abs().max() <= 1


def test_padding_cannot_reach_a_real_frame() -> None:
    model = KoopmanAutoencoder.for_shape((4,), k=5, h=6)
    x = torch.randn(2, 9, 4)
    longer = torch.cat([x, torch.full((2, 3, 4), 1e3)], dim=1)
    assert torch.allclose(model(longer)[:, :9], model(x), atol=1e-6)


def test_another_width_is_named() -> None:
    with pytest.raises(InputError, match=r"expected a signal \(batch, time, 4\), got \(2, 9, 5\)"):
        KoopmanAutoencoder.for_shape((4,), k=5, h=6)(torch.randn(2, 9, 5))
