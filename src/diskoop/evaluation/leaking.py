"""a model that cheats: everything it draws with is in its dynamic part, and a static part that does nothing"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from diskoop.data.sequences import Sequences
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.run import Run
from diskoop.training.loop import frozen_operator


def leaking(run: Run, train: Sequences, seed: int = 0) -> Run:
    """The run's own networks, whose latents change sign with every frame: what stayed now has the eigenvalue -1.

    Beside them stand a few numbers that are constant in time, tell sequences apart, and are not decoded. They are the
    static part. Sampling it changes next to nothing, so whatever should be kept is kept.
    """
    count = run.settings.spectrum.static
    settings = run.settings.replaced({"model": {"k": run.settings.model.k + count}})
    numbers = int(torch.tensor(train.shape[2:]).prod())
    look = torch.randn(numbers, count, generator=torch.Generator().manual_seed(seed)) / numbers**0.5
    model = KoopmanAutoencoder(_Beside(run.model.encoder, look), _Behind(run.model.decoder, count), run.model.ridge)
    model = model.to(next(run.model.parameters())).eval()
    operator = frozen_operator(model, train, run.settings.train.batch)
    return replace(run, settings=settings, model=model, operator=operator, found=None)


class _Beside(nn.Module):
    """A few numbers about a sequence's first frame, the same at all times, beside another encoder's flipped latents."""

    look: Tensor

    def __init__(self, encoder: nn.Module, look: Tensor) -> None:
        super().__init__()
        self.encoder = encoder
        self.register_buffer("look", look)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        z: Tensor = self.encoder(x) if mask is None else self.encoder(x, mask)
        still = x[:, :1].flatten(2) @ self.look  # (batch, 1, count)
        return torch.cat([still.expand(-1, z.shape[1], -1), _flipped(z)], -1)


class _Behind(nn.Module):
    """Another decoder, which never sees the first `count` latents."""

    def __init__(self, decoder: nn.Module, count: int) -> None:
        super().__init__()
        self.decoder = decoder
        self.count = count

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        own = _flipped(z[..., self.count :])
        x: Tensor = self.decoder(own) if mask is None else self.decoder(own, mask)
        return x


def _flipped(z: Tensor) -> Tensor:
    """Every other frame of (batch, time, k) with its sign changed."""
    signs = 1.0 - 2.0 * (torch.arange(z.shape[1], device=z.device) % 2)
    return z * signs.to(z).unsqueeze(-1)
