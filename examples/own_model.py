"""A model of one's own: another encoder and decoder, and the numerics without any of the rest.

python examples/own_model.py           # a minute on two cores
python examples/own_model.py --quick   # seconds
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor, nn

import diskoop
from diskoop.models.autoencoder import NETWORKS
from diskoop.numerics import Factor, Spectrum, fit_operator, spectral_loss, swap
from diskoop.settings import ModelSettings


class Convolutions(nn.Module):
    """Convolutions over time: (batch, time, inputs) -> (batch, time, outputs)."""

    def __init__(self, inputs: int, outputs: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(inputs, width, 5, padding=2), nn.GELU(), nn.Conv1d(width, outputs, 5, padding=2)
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x if mask is None else x * mask.unsqueeze(-1)
        y: Tensor = self.layers(x.transpose(1, 2))
        return y.transpose(1, 2)


def convolutions(frame: Sequence[int], settings: ModelSettings) -> tuple[nn.Module, nn.Module]:
    """An encoder and a decoder for signals with frames (feature,)."""
    (features,) = frame
    return Convolutions(features, settings.k, settings.width), Convolutions(settings.k, features, settings.width)


def main(out: Path, quick: bool = False) -> float:
    if "convolutions" not in NETWORKS:
        diskoop.register_network("convolutions")(convolutions)
    run = diskoop.train(
        "oscillators",
        out / "own-model",
        model={"network": "convolutions", "k": 10, "width": 32, "dropout": 0.0},
        spectrum={"static": 3, "radius": 1.0},
        train={"epochs": 1 if quick else 20},
    )
    print(run, *run.summary().items(), sep="\n  ")

    # The same by hand, with any latents (batch, time, k): here those of the trained encoder.
    z = run.decompose(run.data("test")).z
    operator = fit_operator(z)
    loss = spectral_loss(operator.matrix, static=3, radius=1.0)  # differentiable, for a training loop of your own
    spectrum = Spectrum.of(operator.matrix)
    who = Factor.from_modes("who", spectrum, spectrum.static(3))
    exchanged = swap(z, z.roll(1, 0), who)
    print(f"spectral loss {float(loss):.3f}; a swap moves latents by {float((exchanged - z).square().mean()):.3f}")
    return float(loss)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"))
    parser.add_argument("--quick", action="store_true")
    main(**vars(parser.parse_args()))
