"""whether Triton kernels run on a device"""

import warnings
from functools import cache
from importlib.util import find_spec
from subprocess import SubprocessError

import torch


@cache
def kernels_run(device: torch.device) -> bool:
    """Whether `device` runs Triton kernels, by running one: Triton needs a compiler and a recent GPU."""
    if device.type != "cuda":
        return False
    obstacle = _obstacle(device)
    if obstacle is not None:
        warnings.warn(f"training is slower here, because Triton cannot run its kernels: {obstacle}", stacklevel=2)
    return obstacle is None


def _obstacle(device: torch.device) -> str | None:
    if find_spec("triton") is None:
        return "it is not installed"
    from triton.errors import TritonError

    from diskoop.kernels.ridge_solver import solve_ridge

    one = torch.ones(1, 1, dtype=torch.float64, device=device)
    try:
        solve_ridge(one, one, 1e-9)
        torch.cuda.synchronize(device)
    except (RuntimeError, OSError, SubprocessError, TritonError) as error:  # no compiler, or none for this device
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    return None
