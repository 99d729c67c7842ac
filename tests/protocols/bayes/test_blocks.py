"""The forms of a block's functions that kernels get, against the plain ones that the interpreter runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privquant.protocols.bayes import blocks
from privquant.protocols.bayes.blocks import BLOCK

ROWS = st.lists(st.floats(1e-9, 1.0), min_size=BLOCK, max_size=BLOCK)


@given(ROWS, st.integers(0, BLOCK - 1))
def test_sums_around_a_slot(row: list[float], at: int) -> None:
    fast = blocks.sums_around_lanes(np.array(row), at)
    assert fast == pytest.approx(blocks.sums_around(row, at), rel=1e-12)
    assert sum(fast) + row[at] == pytest.approx(sum(row))


@given(ROWS, st.integers(0, BLOCK), st.integers(0, BLOCK))
def test_scaled_slots(row: list[float], start: int, end: int) -> None:
    before = list(row)
    blocks.scale_slots(row, start, end, 0.3)
    assert [k for k in range(BLOCK) if row[k] != before[k]] == list(range(start, end))


@given(ROWS, st.integers(0, BLOCK - 1))
def test_a_block_closed_at_a_slot(row: list[float], at: int) -> None:
    fast, before = np.array(row), list(row)
    total = blocks.close_slots_lanes(fast, at, 0.7, 0.3)
    assert blocks.close_slots(row, at, 0.7, 0.3) == pytest.approx(total, rel=1e-12)
    assert fast.tolist() == row == [mass * 0.3 for mass in before[:at]] + [0.7] + before[at + 1 :]
    assert total == pytest.approx(sum(row))


@given(ROWS, st.integers(0, BLOCK - 1), st.floats(-1.0, 70.0))
def test_the_slot_at_which_a_sum_is_reached(row: list[float], last: int, wanted: float) -> None:
    found = blocks.slot_at(row, last, wanted)
    upto = np.cumsum(row)
    assert found == min(int(np.searchsorted(upto, wanted)), last)


@given(ROWS, st.integers(1, 2), st.data())
def test_room_for_new_pieces(row: list[float], by: int, data: st.DataObject) -> None:
    length = data.draw(st.integers(0, BLOCK - by))
    at = data.draw(st.integers(0, length))
    fast, before = np.array(row), list(row)
    blocks.make_room_loop(fast, at, length, by)
    blocks.make_room(row, at, length, by)
    assert fast.tolist() == row
    assert len(row) == BLOCK
    assert row[at + by : length + by] == before[at:length]
    assert row[:at] + row[length + by :] == before[:at] + before[length + by :]


@given(ROWS, st.integers(0, BLOCK))
def test_the_end_of_a_row_moves_to_another(row: list[float], start: int) -> None:
    target, before = [7.0] * BLOCK, list(row)
    blocks.move_end(row, start, target)
    assert target == before[start:] + [0] * start
    assert row == before[:start] + [0] * (BLOCK - start)
