"""Kernels are run by Triton's interpreter where there is no CUDA; that is decided when they are first imported."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

pytest.importorskip("triton", reason="there is no Triton here, and nothing uses it")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def off(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference, relative to the largest number."""
    return float(
        (found.detach().double() - wanted.detach().double()).abs().max() / wanted.detach().double().abs().max()
    )
