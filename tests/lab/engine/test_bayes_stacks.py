"""What a kernel does with one block of pieces, against the plain way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privquant._numba import HAVE_NUMBA
from privquant.lab.engine.bayes_stacks import BLOCK, _close, _sums_around, _walk, new_stacks

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
@given(ROWS, st.integers(0, BLOCK - 1))
def test_a_block_closed_at_a_slot(row: list[float], at: int) -> None:
    block = block_of(row)
    total = _close(block, at, 0.7, 0.3)
    assert block["masses"].tolist() == [mass * 0.3 for mass in row[:at]] + [0.7] + row[at + 1 :]
    assert total == pytest.approx(block["masses"].sum(), rel=1e-12)


@settings(deadline=None)
@given(ROWS, st.integers(0, BLOCK - 1), st.integers(0, BLOCK - 1))
def test_what_is_passed_on_the_way_to_another_slot_keeps_its_mass(row: list[float], at: int, to: int) -> None:
    """In common units, in which the left half counts twice and the right half four times."""
    head, block = new_stacks(1, 1, visits=False).head[0], block_of(row)
    head["unit"], head["at"], head["here"] = (2.0, 4.0), at, 0.7

    def masses(located: int) -> list[float]:
        found = [mass * (2.0 if k < located else 4.0) for k, mass in enumerate(block["masses"].tolist())]
        return [*found[:located], float(head["here"]), *found[located + 1 :]]

    before = masses(at)
    _walk(head, block, to)
    assert head["at"] == to
    assert masses(to) == pytest.approx(before, rel=1e-12)
