"""Shapes survive from X to X; the paper's size is met."""

import pytest
import torch

from diskoop.errors import InputError
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.models.frames import FrameDecoder, FrameEncoder
from diskoop.models.layers import over_time


def test_the_papers_sprites_setting_has_1_735_million_parameters() -> None:
    model = KoopmanAutoencoder.for_shape((3, 64, 64), k=40, h=40)
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 3) == 1.735


@pytest.mark.parametrize("size", [32, 64, 128])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("batch", "time"), [(1, 2), (3, 5)])
def test_any_number_of_frames_at_every_size(size: int, channels: int, batch: int, time: int) -> None:
    model = KoopmanAutoencoder.for_shape((channels, size, size), k=6, h=9, width=4)
    x = torch.rand(batch, time, channels, size, size)
    z = model.encode(x)
    assert z.shape == (batch, time, 6)
    assert z.abs().max() < 1
    decoded = model.decode(z)
    assert decoded.shape == x.shape
    assert 0 <= float(decoded.detach().min()) <= float(decoded.detach().max()) <= 1
    assert torch.equal(model.eval()(x), model.decode(model.encode(x)))


def test_in_evaluation_a_sequence_does_not_see_its_company() -> None:
    model = KoopmanAutoencoder.for_shape((3, 32, 32), k=6, h=6, width=4).eval()
    x = torch.rand(4, 3, 3, 32, 32)
    assert torch.allclose(model(x)[2], model(x[2:3])[0], atol=1e-6)


def test_every_parameter_learns() -> None:
    model = KoopmanAutoencoder.for_shape((3, 32, 32), k=6, h=6, width=4)
    model(torch.rand(2, 3, 3, 32, 32)).square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


@pytest.mark.parametrize(
    ("frame", "h", "sentence"),
    [
        ((3, 48, 48), 8, "32, 64, 128 pixels, got 48"),
        ((3, 64, 32), 8, r"got \(3, 64, 32\)"),
        ((2, 64, 64), 8, r"1 or 3 channels.*got \(2, 64, 64\)"),
        ((3, 64), 8, r"got \(3, 64\)"),
        ((3, 64, 64), None, "model.h = null is for signals"),
    ],
)
def test_impossible_frames_are_named(frame: tuple[int, ...], h: int | None, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        KoopmanAutoencoder.for_shape(frame, k=8, h=h)


def test_frames_of_another_shape_are_named() -> None:
    model = KoopmanAutoencoder.for_shape((3, 32, 32), k=6, h=6, width=4)
    with pytest.raises(InputError, match=r"expected video \(batch, time, 3, 32, 32\), got \(2, 3, 3, 64, 64\)"):
        model(torch.rand(2, 3, 3, 64, 64))


def test_time_is_never_rounded() -> None:
    lstm = torch.nn.LSTM(3, 4, batch_first=True)
    x = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16):
        y = over_time(lstm, x)
        rounded = over_time(lstm, x.bfloat16())
    assert torch.equal(y, lstm(x)[0])
    assert rounded.dtype == torch.float32


def test_latents_and_frames_and_the_layers_next_to_latents_are_never_rounded() -> None:
    seen: dict[str, torch.dtype] = {}

    def watch(name: str, layer: torch.nn.Module) -> None:
        layer.register_forward_hook(lambda _, inputs, output: seen.update({name: output.dtype}))

    encoder, decoder = FrameEncoder(3, 32, 6, width=4), FrameDecoder(3, 32, 6, 6, width=4)
    for name, layer in (
        ("first of the encoder", encoder.frames[1]),
        ("last of the encoder", encoder.frames[-2]),
        ("first of the decoder", decoder.frames[1]),
        ("second of the decoder", decoder.frames[4]),
        ("frames", decoder.frames[-1]),
    ):
        watch(name, layer)
    with torch.autocast("cpu", torch.bfloat16):
        decoder(encoder(torch.rand(2, 3, 3, 32, 32)))
    assert seen == {
        "first of the encoder": torch.bfloat16,
        "last of the encoder": torch.float32,
        "first of the decoder": torch.float32,
        "second of the decoder": torch.bfloat16,
        "frames": torch.float32,
    }
