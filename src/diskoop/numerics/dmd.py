"""DMD of several trajectories with PyDMD's words and conventions; operators to and from PyDMD objects"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from diskoop.errors import InputError, MissingDependencyError
from diskoop.numerics.operator import Operator, SnapshotQR
from diskoop.numerics.spectrum import Spectrum

REAL_TOLERANCE = 1e-8  # imaginary part of a real operator that was put together from complex modes, relative


class DMD:
    """Dynamic mode decomposition of one or several trajectories, for who knows PyDMD.

    Snapshots are columns, (features, time), and a step is A x; everywhere else in this package latents are rows and a
    step is z C with C = A^T. Trajectories may have different lengths, and no pair of snapshots spans two of them.

    Args:
        ridge: of the least squares, see `fit_operator`.

    Example:
        >>> A = np.array([[0.9, 0.3], [-0.3, 0.9]])
        >>> walks = [np.stack([np.linalg.matrix_power(A, t) @ x for t in range(n)], 1)
        ...          for n, x in ((9, [1, 0]), (5, [0, 2]))]
        >>> dmd = DMD().fit(walks)
        >>> dmd.eigs.round(6)
        array([0.9+0.3j, 0.9-0.3j])
        >>> np.allclose(dmd.predict(walks[0][:, 0], steps=8), walks[0][:, 1:])
        True
    """

    def __init__(self, ridge: float = 0.0) -> None:
        self.ridge = ridge
        self._operator: Operator | None = None

    def fit(self, X: ArrayLike | Sequence[ArrayLike]) -> "DMD":
        """Fit A to snapshots.

        Args:
            X: (features, time), or a list of such arrays.
        """
        given: Any = X if _is_list(X) else [X]
        trajectories = [_snapshots(each) for each in given]
        features = {len(each) for each in trajectories}
        if len(features) != 1:
            raise InputError(f"expected trajectories of the same features, got {sorted(features)}")
        factors = [SnapshotQR.of(torch.from_numpy(each.T.copy()).unsqueeze(0)) for each in trajectories]
        self._operator = sum(factors[1:], factors[0]).solve(self.ridge)
        return self

    @property
    def operator(self) -> Operator:
        """The fitted operator, of row vectors."""
        if self._operator is None:
            raise InputError("expected a fitted DMD; call fit first")
        return self._operator

    @property
    def eigs(self) -> NDArray[np.complex128]:
        """Eigenvalues, (features,), nearest to 1 first."""
        eigs: NDArray[np.complex128] = Spectrum.of(self.operator.matrix).eigenvalues.numpy()
        return eigs

    @property
    def modes(self) -> NDArray[np.complex128]:
        """Modes, (features, features), a column for each eigenvalue: A modes = modes diag(eigs)."""
        # z C = z V diag(eigs) U, so A = C^T = U^T diag(eigs) V^T, and its eigenvectors are the columns of U^T.
        modes: NDArray[np.complex128] = Spectrum.of(self.operator.matrix).from_modes.T.numpy()
        return modes

    def predict(self, X: ArrayLike, steps: int = 1) -> NDArray[np.float64]:
        """What follows a snapshot, (features,) -> (features, steps); of several, the snapshot `steps` ahead of each.

        Args:
            X: a snapshot, (features,), or snapshots (features, n).
            steps: how far to go.
        """
        given, features = np.asarray(X), len(self.operator.matrix)
        if given.ndim not in (1, 2) or len(given) != features or given.dtype.kind not in "uif":
            raise InputError(f"expected real snapshots of {features} features, got {given.dtype} {given.shape}")
        x = torch.from_numpy(given.astype(np.float64))
        if x.ndim == 1:
            future: NDArray[np.float64] = self.operator.rollout(x.unsqueeze(0), steps)[0].T.numpy()
            return future
        ahead: NDArray[np.float64] = self.operator.advance(x.T, steps).T.numpy()
        return ahead


def operator_from_dmd(dmd: Any) -> Operator:
    """The operator of a fitted PyDMD object, whose modes may be fewer than its features.

    Its spectrum, with an eigenvalue 0 for each missing mode, is `Spectrum.of(operator.matrix)`.

    Args:
        dmd: anything with `modes` (features, rank), `eigs` (rank,) and `snapshots` (features, time), of real ones.

    Example:
        >>> from pydmd import DMD as PyDMD
        >>> x = np.array([[1, 0.5, 0.25, 0.125], [1, 1, 1, 1]])
        >>> operator_from_dmd(PyDMD(svd_rank=2).fit(x)).matrix.round(decimals=6).diagonal()
        tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    modes, eigs = np.asarray(dmd.modes), np.asarray(dmd.eigs)
    A = modes @ np.diag(eigs) @ np.linalg.pinv(modes)
    if np.abs(A.imag).max() > REAL_TOLERANCE * max(np.abs(A).max(), 1e-300):
        raise InputError("expected a DMD of real snapshots, whose complex modes come in conjugate pairs")
    values = np.linalg.svd(modes, compute_uv=False)
    rank, condition = torch.tensor(len(eigs)), torch.tensor(float(values[0] / values[-1]), dtype=torch.float64)
    steps = int(np.asarray(dmd.snapshots).shape[1]) - 1
    return Operator(torch.from_numpy(A.real.T.copy()), rank, condition, 1, steps, "a PyDMD object")


def operator_to_dmd(operator: Operator | Spectrum) -> Any:
    """A fitted PyDMD object with the eigenvalues and modes of an operator or a spectrum, for its plots and tools.

    It is fitted to the pairs (x, A x) of the unit vectors x, which determine A. The modes are in PyDMD's order.
    """
    try:
        from pydmd import DMD as PyDMD  # noqa: N811 - this module has a DMD of its own
    except ImportError:
        raise MissingDependencyError("PyDMD objects need PyDMD: pip install pydmd") from None
    if operator.matrix.ndim != 2:
        raise InputError(f"expected one operator (k, k), got {tuple(operator.matrix.shape)}")
    A = operator.matrix.T.double().cpu().numpy()
    return PyDMD(svd_rank=len(A), exact=True).fit(np.eye(len(A)), A)


def _is_list(X: Any) -> bool:
    """Whether these are several trajectories."""
    return isinstance(X, Sequence) and len(X) > 0 and np.ndim(X[0]) == 2


def _snapshots(X: ArrayLike) -> NDArray[np.float64]:
    x = np.asarray(X)
    if x.ndim != 2 or x.dtype.kind not in "uif":
        raise InputError(f"expected real snapshots (features, time), got {x.dtype} {x.shape}")
    return x.astype(np.float64)
