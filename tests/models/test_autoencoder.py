"""fit and predict are the operator's, whatever the precision around them."""

from collections.abc import Sequence

import pytest
import torch
from torch import nn

from diskoop.errors import InputError
from diskoop.models import autoencoder
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model, register_network, require_memory
from diskoop.numerics import fit_operator, fit_operator_per_sequence
from diskoop.settings import ModelSettings


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


@pytest.mark.parametrize(
    ("frame", "settings"),
    [((8,), {"k": 10**9}), ((8,), {"h": 10**9}), ((3, 32, 32), {"width": 10**9}), ((3, 32, 32), {"k": 200_000})],
)
def test_a_model_that_no_machine_can_hold_is_named_before_it_is_allocated(
    frame: tuple[int, ...], settings: dict[str, int]
) -> None:
    ((name, value),) = settings.items()
    with pytest.raises(InputError, match=rf"model.{name} = {value}\b.* of memory to train, this machine has [\d.]+ "):
        require_memory(ModelSettings.model_validate(settings), frame)


def test_networks_of_ones_own_that_need_numbers_are_not_asked_for_memory() -> None:
    @register_network("numbers")
    def numbers(frame: Sequence[int], settings: ModelSettings) -> tuple[nn.Module, nn.Module]:
        layer = nn.Linear(frame[0], settings.k)
        assert float(layer.weight.sum()) < 1e9
        return layer, nn.Linear(settings.k, frame[0])

    try:
        require_memory(ModelSettings(network="numbers", k=2000), (4,))
    finally:
        autoencoder.NETWORKS.pop("numbers")


def test_asking_for_memory_changes_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    def weights() -> list[torch.Tensor]:
        torch.manual_seed(5)
        require_memory(ModelSettings(k=6, h=8), (4,))
        return list(build_model(ModelSettings(k=6, h=8), (4,)).parameters())

    without = weights()
    monkeypatch.setattr(autoencoder, "LARGE_WIDTH", 1)
    assert all(torch.equal(one, other) for one, other in zip(without, weights(), strict=True))
