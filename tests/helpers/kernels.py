"""Triton's interpreter runs the kernels where there is no CUDA; import this before any kernel."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

pytest.importorskip("triton", reason="Triton is not installed, and nothing uses it")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, relative to the largest expected number."""
    return float(
        (actual.detach().double() - expected.detach().double()).abs().max() / expected.detach().double().abs().max()
    )
