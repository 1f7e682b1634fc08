"""the device and the number format that networks are trained with"""

from contextlib import AbstractContextManager

import torch

from diskoop.errors import InputError
from diskoop.settings import TrainSettings


def available_devices() -> list[str]:
    """The types of devices that are available, the fastest first."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    return [name for name, is_available in available.items() if is_available]


def device_for(options: TrainSettings) -> torch.device:
    """The device that `train.device` names; auto is CUDA or MPS where there is one.

    Raises:
        InputError: the device is not available, or does not support `train.precision`.
    """
    available = available_devices()
    if options.device not in ("auto", *available):
        raise InputError(
            f"train.device = {options.device}, but this machine has {' and '.join(sorted(available))} only"
        )
    kind = available[0] if options.device == "auto" else options.device
    if options.precision == "64" and kind == "mps":
        raise InputError("train.precision = 64, but mps has no float64; take train.device=cpu")
    return torch.device(kind, torch.cuda.current_device()) if kind == "cuda" else torch.device(kind)


def precision_for(options: TrainSettings, kind: str) -> str:
    """`train.precision` on a device of this kind (cpu, cuda, mps); auto is bf16 on CUDA that computes in it."""
    if options.precision != "auto":
        return options.precision
    return "bf16" if kind == "cuda" and computes_in_bf16(kind) else "32"


def weights_dtype(options: TrainSettings) -> torch.dtype:
    """The dtype of the weights: float32 with bf16 too, where autocast rounds them."""
    return torch.float64 if options.precision == "64" else torch.float32


def autocast(options: TrainSettings, device: torch.device) -> AbstractContextManager[None]:
    """A context in which networks compute with `train.precision`."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision_for(options, device.type) == "bf16")


def computes_in_bf16(kind: str) -> bool:
    """Whether devices of this type have bf16 instructions, instead of emulating them."""
    if kind == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    # Private, but stable since torch 2.5; the public list of capabilities is newer.
    checks = (getattr(torch.cpu, f"_is_{name}_supported", None) for name in ("avx512_bf16", "amx_tile"))
    return kind == "cpu" and any(check is not None and check() for check in checks)
