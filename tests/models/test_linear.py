"""Principal components of frames are NumPy's."""

import numpy as np
import torch

from diskoop.data.sequences import Sequences
from diskoop.models.linear import fit_principal_components
from tests.helpers.known_models import DOUBLE


def test_principal_components_reconstruct_what_numpys_do() -> None:
    random = np.random.Generator(np.random.PCG64(0))
    x = random.normal(size=(30, 8, 6)) @ random.normal(size=(6, 6)) + random.normal(size=6)
    encoder, decoder = fit_principal_components(Sequences.of(x, units=DOUBLE), k=3)
    frames = x.reshape(-1, 6)
    mean = frames.mean(0)
    directions = np.linalg.svd(frames - mean, full_matrices=False)[2][:3]
    expected = mean + (frames - mean) @ directions.T @ directions
    z = encoder(torch.from_numpy(x))
    assert np.allclose(decoder(z).detach().numpy().reshape(-1, 6), expected)
    assert torch.allclose(z.flatten(0, 1).T.cov(correction=0), torch.eye(3, dtype=torch.float64), atol=1e-6)
