"""Kernels are used where one runs; a machine on which none does says why, once."""

import warnings

import pytest
import torch

from diskoop.kernels import availability as kernels

from tests.helpers.kernels import DEVICE  # isort: skip - decides who runs kernels

from diskoop.kernels import ridge_solver  # isort: skip


def test_none_run_on_the_cpu() -> None:
    assert not kernels.kernels_run(torch.device("cpu"))


def test_a_kernel_that_does_not_run_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("Failed to find C compiler\nand more")

    monkeypatch.setattr(ridge_solver, "solve_ridge", broken)
    monkeypatch.setattr(torch, "ones", lambda *shape, **_: None)  # there may be no such device
    kernels.kernels_run.cache_clear()
    with pytest.warns(UserWarning, match="cannot run its kernels: Failed to find C compiler$"):
        assert not kernels.kernels_run(torch.device("cuda:0"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not kernels.kernels_run(torch.device("cuda:0"))
    kernels.kernels_run.cache_clear()


def test_triton_that_is_missing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "find_spec", lambda name: None)
    kernels.kernels_run.cache_clear()
    with pytest.warns(UserWarning, match="cannot run its kernels: it is not installed"):
        assert not kernels.kernels_run(torch.device("cuda:0"))
    kernels.kernels_run.cache_clear()


@pytest.mark.skipif(DEVICE.type != "cuda", reason="there is no CUDA here")
def test_they_run_where_all_is_well() -> None:
    assert kernels.kernels_run(torch.device("cuda", 0))
