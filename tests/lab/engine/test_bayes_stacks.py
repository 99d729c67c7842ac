"""What a kernel does with one block of pieces, against the plain way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privquant._numba import HAVE_NUMBA
from privquant.lab.engine.bayes_stacks import BLOCK, _multiply, _sums_around, new_stacks

pytestmark = pytest.mark.skipif(not HAVE_NUMBA, reason="the kernels need numba")

ROWS = st.lists(st.floats(1e-9, 1.0), min_size=BLOCK, max_size=BLOCK)


def block_of(row: list[float]) -> np.void:
    block = new_stacks(1, 1, visits=False).blocks[0]
    block["masses"] = row
    return block


@settings(deadline=None)
@given(ROWS, st.integers(0, BLOCK - 1))
def test_sums_around_a_slot(row: list[float], at: int) -> None:
    assert _sums_around(block_of(row), at) == pytest.approx((sum(row[:at]), sum(row[at + 1 :])), rel=1e-12)


@settings(deadline=None)
@given(ROWS, st.integers(1, BLOCK), st.data())
def test_a_factor_for_each_side_of_a_slot(row: list[float], length: int, data: st.DataObject) -> None:
    """Slots beyond the pieces have no mass afterwards either."""
    at = data.draw(st.integers(0, length - 1))
    block = block_of(row)
    _multiply(block, at, length, 0.3, 0.7, 0.6)
    before, after = [mass * 0.3 for mass in row[:at]], [mass * 0.6 for mass in row[at + 1 : length]]
    assert block["masses"].tolist() == [*before, 0.7, *after, *[0.0] * (BLOCK - length)]
