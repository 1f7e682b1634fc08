"""fit and predict are the operator's, whatever the precision around them."""

import torch

from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics import fit_operator, fit_operator_per_sequence


def test_predict_steps_every_latent_once() -> None:
    model = KoopmanAutoencoder.for_shape((4,), k=5, h=6)
    z = model.encode(torch.randn(8, 6, 4))
    operator = model.fit_operator(z)
    assert torch.equal(operator.matrix, fit_operator(z, ridge=1e-9).matrix)
    assert torch.allclose(model.predict(z, operator), z[:, :-1] @ operator.matrix.float())


def test_scope_sequence_fits_one_operator_each() -> None:
    model = KoopmanAutoencoder.for_shape((4,), k=5, h=6, scope="sequence")
    z = model.encode(torch.randn(3, 6, 4))
    operator = model.fit_operator(z)
    assert torch.equal(operator.matrix, fit_operator_per_sequence(z, ridge=1e-9).matrix)
    assert model.predict(z, operator).shape == (3, 5, 5)


def test_the_solver_stays_out_of_mixed_precision() -> None:
    model = KoopmanAutoencoder.for_shape((3, 32, 32), k=6, h=6, width=4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = model.encode(torch.rand(4, 3, 3, 32, 32))
        ahead = model.predict(z, model.fit_operator(z))
    assert z.dtype == ahead.dtype == torch.float32
