"""Decompositions and results that the tests of discovery share."""

import pytest

from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery.label_free import LabelFree
from diskoop.analysis.discovery.results import DiscoveryResult
from tests.helpers.decompositions import behind_identity


@pytest.fixture(scope="package")
def parts() -> Decomposition:
    """The oscillators' training split behind identity networks."""
    return behind_identity("oscillators", "train")


@pytest.fixture(scope="package")
def found(parts: Decomposition) -> DiscoveryResult:
    """The label-free factors of `parts`."""
    return LabelFree().find(parts)
