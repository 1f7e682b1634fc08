"""which numbers networks are trained in"""

import torch

from diskoop.settings import TrainSettings


def precision_for(options: TrainSettings, kind: str) -> str:
    """`train.precision` on a device of this kind (cpu, cuda, mps); auto is bf16 on CUDA that computes in it."""
    if options.precision != "auto":
        return options.precision
    return "bf16" if kind == "cuda" and computes_in_bf16(kind) else "32"


def computes_in_bf16(kind: str) -> bool:
    """Whether such a device here has instructions for it, and need not emulate them."""
    if kind == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    # Private, but there under these names since torch 2.5; the public list of capabilities is younger.
    checks = (getattr(torch.cpu, f"_is_{name}_supported", None) for name in ("avx512_bf16", "amx_tile"))
    return kind == "cpu" and any(check is not None and check() for check in checks)
