"""a ridge system solved and inverted by one Triton program, for small operators on the GPU"""

import torch
import triton
import triton.language as tl
from torch import Tensor

MAX_K = 64  # one program holds a (k, k) matrix


def solve_ridge(past: Tensor, cross: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """`numerics.operator.ridge_solution` on the device of the sums, without its checks, which would synchronize."""
    k = len(past)
    system, inverse = torch.empty_like(past), torch.empty_like(past)
    _invert[(1,)](
        past.contiguous(), system, inverse, k, RIDGE=ridge, SIZE=max(16, triton.next_power_of_2(k)), num_warps=8
    )
    C = inverse @ cross
    return C + inverse @ (cross - system @ C), inverse  # one step of iterative refinement


@triton.jit
def _invert(past, system, inverse, k, RIDGE: tl.constexpr, SIZE: tl.constexpr):
    """Gauss-Jordan elimination in place. A Gram matrix with a ridge is positive definite and needs no pivoting.

    Each thread holds its part of the matrix and reads the pivot row and column from memory, which is two and a half
    times as fast as a reduction over the threads. Until the last line flips its sign, `inverse` holds minus the inverse
    of the eliminated rows.
    """
    index = tl.arange(0, SIZE)
    row, column = index[:, None], index[None, :]
    inside = (row < k) & (column < k)
    A = tl.load(past + row * k + column, inside, 0.0)
    A += tl.where(row == column, tl.where(A > 0, RIDGE * A, 1.0), 0.0)  # relative to the diagonal
    tl.store(system + row * k + column, A, inside)
    tl.store(inverse + row * k + column, A, inside)
    for j in range(k):
        tl.debug_barrier()  # all writes are done
        pivot_column = tl.load(inverse + index * k + j, index < k, 0.0)
        pivot_row = tl.load(inverse + j * k + index, index < k, 0.0)
        pivot = 1.0 / tl.load(inverse + j * k + j)
        tl.debug_barrier()  # all reads are done
        A -= pivot_column[:, None] * (pivot_row * pivot)[None, :]
        A = tl.where(row == j, (pivot_row * pivot)[None, :], tl.where(column == j, (pivot_column * pivot)[:, None], A))
        A = tl.where((row == j) & (column == j), -pivot, A)
        tl.store(inverse + row * k + column, A, inside)
    tl.store(inverse + row * k + column, -A, inside)
