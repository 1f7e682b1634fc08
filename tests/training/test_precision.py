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
        "train": {"epochs": 2, "batch_size": 20, "device": "cpu"},
    }
)


def test_auto_is_bf16_on_cuda_that_is_made_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    assert computes_in_bf16("cpu")
    for kind in ("cpu", "mps"):
        assert precision_for(Settings().train, kind) == "32"
    for native, wanted in ((True, "bf16"), (False, "32")):
        monkeypatch.setattr(precision, "computes_in_bf16", lambda kind, native=native: native)
        assert precision_for(Settings().train, "cuda") == wanted


def test_what_is_asked_for_is_taken() -> None:
    for word in ("32", "bf16", "64"):
        assert precision_for(Settings().replaced({"train": {"precision": word}}).train, "cpu") == word


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_without_cuda_it_computes_in_nothing() -> None:
    assert not computes_in_bf16("cuda")


def test_a_run_goes_on_only_in_the_numbers_it_began_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings say auto on both machines; one of them takes that for bf16."""
    monkeypatch.setattr(loop, "precision_for", lambda options, kind: "bf16")

    def stop(*_: object) -> None:
        raise Stopped("here")

    with monkeypatch.context() as patch:
        patch.setattr(loop.Trainer, "run", stop)
        with pytest.raises(Stopped):
            loop.train(SETTINGS, tmp_path / "run")
    monkeypatch.setattr(loop, "precision_for", precision_for)
    with pytest.raises(InputError, match=r"what differs: precision \(bf16 there, 32 here\)"):
        loop.resume(tmp_path / "run")
