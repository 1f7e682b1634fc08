"""Decomposing, swapping, decoding and classifying have a rate each."""

import pytest

from diskoop.bench.inference import measure_inference
from tests.helpers.cases import QUICK, VIDEO


def test_every_operation_is_measured() -> None:
    (table,) = measure_inference(QUICK, VIDEO, 6)
    operations = ["encode, decompose", "swap, decode", "classify", "swap, decode, classify, all on the device"]
    assert [row["operation"] for row in table.rows] == operations
    for row in table.rows:
        assert row["sequences/s"] == pytest.approx(6000 / row["ms"])
