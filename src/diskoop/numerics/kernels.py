"""whether kernels of our own run on a CUDA device"""

import warnings
from functools import cache
from importlib.util import find_spec

import torch


@cache
def kernels_run(device: torch.device) -> bool:
    """Found out by running one: Triton comes with PyTorch for CUDA, but needs a compiler and a recent device."""
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    from diskoop.numerics.elimination import ridge_solution_there

    one = torch.ones(1, 1, dtype=torch.float64, device=device)
    try:
        ridge_solution_there(one, one, 1e-9)
        torch.cuda.synchronize(device)
    except Exception as error:  # whatever a compiler may say
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        warnings.warn(f"training is slower here, for Triton cannot run its kernels: {reason}", stacklevel=2)
        return False
    return True
