"""The words of PyDMD, and its answers."""

from typing import Any

import numpy as np
import pydmd
import pytest
import torch
from torch import Tensor

from diskoop.errors import InputError
from diskoop.numerics import Spectrum
from diskoop.numerics.dmd import DMD, operator_from_dmd, operator_to_dmd
from tests.conftest import trajectories


@pytest.fixture
def snapshots(operator: Tensor, generator: torch.Generator) -> list[np.ndarray[Any, Any]]:
    """Trajectories (features, time) of different lengths."""
    z = trajectories(operator, 3, 30, generator)
    return [z[0, :20].T.numpy(), z[1].T.numpy(), z[2, :8].T.numpy()]


def by_value(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.sort_complex(np.round(values, 8))


def test_one_trajectory_is_what_pydmd_makes_of_it(snapshots: list[np.ndarray[Any, Any]]) -> None:
    ours, theirs = DMD().fit(snapshots[1]), pydmd.DMD(svd_rank=7).fit(snapshots[1])
    assert np.allclose(by_value(ours.eigs), by_value(theirs.eigs), atol=1e-6)
    assert np.allclose(ours.predict(snapshots[1]), theirs.predict(snapshots[1]), atol=1e-6)


def test_several_trajectories_recover_the_operator(snapshots: list[np.ndarray[Any, Any]], operator: Tensor) -> None:
    dmd = DMD().fit(snapshots)
    A = operator.T.numpy()
    assert np.allclose(dmd.operator.matrix.numpy(), operator.numpy(), atol=1e-8)
    assert np.allclose(A @ dmd.modes, dmd.modes @ np.diag(dmd.eigs), atol=1e-8)
    assert (dmd.operator.sequences, dmd.operator.steps) == (3, 19 + 29 + 7)
    for x in snapshots:  # no pair spans two trajectories
        assert np.allclose(dmd.predict(x[:, 0], steps=x.shape[1] - 1), x[:, 1:], atol=1e-8)
        assert np.allclose(dmd.predict(x[:, :-3], steps=3), x[:, 3:], atol=1e-8)


def test_there_and_back(operator: Tensor, snapshots: list[np.ndarray[Any, Any]]) -> None:
    ours = DMD().fit(snapshots).operator
    theirs = operator_to_dmd(ours)
    assert np.allclose(by_value(theirs.eigs), by_value(Spectrum.of(ours.matrix).eigenvalues.numpy()), atol=1e-7)
    assert np.allclose(theirs.predict(snapshots[0]), operator.T.numpy() @ snapshots[0], atol=1e-7)
    assert torch.allclose(operator_from_dmd(theirs).matrix, ours.matrix, atol=1e-7)


def test_a_spectrum_goes_there_and_back(operator: Tensor) -> None:
    spectrum = Spectrum.of(operator)
    theirs = operator_to_dmd(spectrum)
    known = spectrum.eigenvalues.numpy()
    assert np.allclose(by_value(theirs.eigs), by_value(known), atol=1e-7)
    for eigenvalue, mode in zip(theirs.eigs, theirs.modes.T, strict=True):  # theirs are ours but for a factor
        ours = spectrum.from_modes[int(np.abs(known - eigenvalue).argmin())].numpy()
        cosine = np.vdot(ours, mode) / np.linalg.norm(ours) / np.linalg.norm(mode)
        assert abs(cosine) == pytest.approx(1, abs=1e-9)
    back = Spectrum.of(operator_from_dmd(theirs).matrix)
    assert torch.allclose(back.eigenvalues, spectrum.eigenvalues, atol=1e-7)
    for static in (1, 2, 4):
        assert torch.allclose(
            back.projector(back.static(static)), spectrum.projector(spectrum.static(static)), atol=1e-7
        )


def test_fewer_modes_than_features_are_an_operator_of_that_rank(snapshots: list[np.ndarray[Any, Any]]) -> None:
    theirs = pydmd.DMD(svd_rank=3).fit(snapshots[1])
    ours = operator_from_dmd(theirs)
    assert (int(ours.rank), ours.matrix.shape) == (3, (7, 7))
    assert torch.linalg.matrix_rank(ours.matrix, rtol=1e-9) == 3
    eigenvalues = Spectrum.of(ours.matrix).eigenvalues.numpy()
    assert np.allclose(by_value(eigenvalues), by_value(np.append(theirs.eigs, np.zeros(4))), atol=1e-6)
    assert np.allclose(
        ours.advance(torch.from_numpy(snapshots[1].T)).T.numpy(), theirs.predict(snapshots[1]), atol=1e-8
    )


def test_what_is_no_snapshots_is_told(snapshots: list[np.ndarray[Any, Any]]) -> None:
    with pytest.raises(InputError, match="call fit first"):
        _ = DMD().eigs
    for wrong, told in (
        (np.zeros(3), r"expected real snapshots \(features, time\), got float64 \(3,\)"),
        (np.zeros((2, 3), complex), "got complex128"),
        ([np.zeros((2, 3)), np.zeros((4, 3))], r"same features, got \[2, 4\]"),
    ):
        with pytest.raises(InputError, match=told):
            DMD().fit(wrong)
    with pytest.raises(InputError, match=r"expected real snapshots of 7 features, got float64 \(3,\)"):
        DMD().fit(snapshots).predict(np.zeros(3))
    turning = pydmd.DMD(svd_rank=1).fit(np.exp(1j * np.arange(6))[None] * np.array([[1.0], [2.0]]))
    with pytest.raises(InputError, match="a DMD of real snapshots"):
        operator_from_dmd(turning)
