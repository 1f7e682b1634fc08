"""auto is what the device computes in; anything else is what was asked for."""

from pathlib import Path

import pytest
import torch

from diskoop.errors import InputError, Stopped
from diskoop.settings import Settings
from diskoop.training import loop, precision
from diskoop.training.precision import computes_in_bf16, precision_for

SETTINGS = Settings.of(
    {
        "data": {"name": "oscillators", "limit": 40},
        "model": {"k": 6, "h": 8},
        "spectrum": {"static": 2},
        "train": {"epochs": 2, "batch": 20, "device": "cpu"},
    }
)


def test_auto_is_bf16_where_that_is_not_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    for native, wanted in ((True, "bf16"), (False, "32")):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda native=native: native)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
        assert precision_for(Settings().train, "cpu") == wanted
    assert precision_for(Settings().train, "mps") == "32"


def test_what_is_asked_for_is_taken() -> None:
    for word in ("32", "bf16", "64"):
        assert precision_for(Settings().replaced({"train": {"precision": word}}).train, "cpu") == word


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_without_cuda_it_computes_in_nothing() -> None:
    assert not computes_in_bf16("cuda")


def test_a_run_goes_on_only_in_the_numbers_it_began_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings say auto on both machines; one of them computes in bf16."""
    monkeypatch.setattr(precision, "computes_in_bf16", lambda kind: True)

    def stop(*_: object) -> None:
        raise Stopped("here")

    with monkeypatch.context() as patch:
        patch.setattr(loop.Training, "run", stop)
        with pytest.raises(Stopped):
            loop.train(SETTINGS, tmp_path / "run")
    monkeypatch.setattr(precision, "computes_in_bf16", lambda kind: False)
    with pytest.raises(InputError, match="belongs to another run: precision differ"):
        loop.resume(tmp_path / "run")
