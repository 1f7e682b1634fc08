"""which device networks are trained on, and in which numbers"""

from contextlib import AbstractContextManager

import torch

from diskoop.errors import InputError
from diskoop.settings import TrainSettings


def device_for(options: TrainSettings) -> torch.device:
    """The device that `train.device` names; auto is CUDA or MPS where there is one.

    Raises:
        InputError: it is not there, or has no numbers of `train.precision`.
    """
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if options.device != "auto" and not available[options.device]:
        there = " and ".join(sorted(device for device in available if available[device]))
        raise InputError(f"train.device = {options.device}, but this machine has {there} only")
    kind = next(name for name in available if available[name] and options.device in ("auto", name))
    if options.precision == "64" and kind == "mps":
        raise InputError("train.precision = 64, but mps has no float64; take train.device=cpu")
    return torch.device(kind, 0) if kind == "cuda" else torch.device(kind)


def precision_for(options: TrainSettings, kind: str) -> str:
    """`train.precision` on a device of this kind (cpu, cuda, mps); auto is bf16 on CUDA that computes in it."""
    if options.precision != "auto":
        return options.precision
    return "bf16" if kind == "cuda" and computes_in_bf16(kind) else "32"


def weights_dtype(options: TrainSettings) -> torch.dtype:
    """What weights are kept in: with bf16 in float32, and rounded where they are used."""
    return torch.float64 if options.precision == "64" else torch.float32


def autocast(options: TrainSettings, device: torch.device) -> AbstractContextManager[None]:
    """A context in which networks compute as `train.precision` says."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision_for(options, device.type) == "bf16")


def computes_in_bf16(kind: str) -> bool:
    """Whether such a device here has instructions for it, and need not emulate them."""
    if kind == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    # Private, but there under these names since torch 2.5; the public list of capabilities is younger.
    checks = (getattr(torch.cpu, f"_is_{name}_supported", None) for name in ("avx512_bf16", "amx_tile"))
    return kind == "cpu" and any(check is not None and check() for check in checks)
