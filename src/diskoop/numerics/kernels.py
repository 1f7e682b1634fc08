"""whether kernels of our own run on a CUDA device"""

import warnings
from functools import cache
from importlib.util import find_spec
from subprocess import SubprocessError

import torch


@cache
def kernels_run(device: torch.device) -> bool:
    """Found out by running one: Triton comes with PyTorch for CUDA, but needs a compiler and a recent device."""
    if device.type != "cuda":
        return False
    why = _obstacle(device)
    if why is not None:
        warnings.warn(f"training is slower here, for Triton cannot run its kernels: {why}", stacklevel=2)
    return why is None


def _obstacle(device: torch.device) -> str | None:
    if find_spec("triton") is None:
        return "it is not installed"
    from triton.errors import TritonError

    from diskoop.numerics.elimination import ridge_solution_there

    one = torch.ones(1, 1, dtype=torch.float64, device=device)
    try:
        ridge_solution_there(one, one, 1e-9)
        torch.cuda.synchronize(device)
    except (RuntimeError, OSError, SubprocessError, TritonError) as error:  # no compiler, or none for this device
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    return None
