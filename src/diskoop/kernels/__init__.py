"""Triton kernels for CUDA, and the one call that puts them into a model"""

from diskoop.kernels.layers import accelerate

__all__ = ["accelerate"]
