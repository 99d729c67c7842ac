"""One block of neighbouring pieces: a row of BLOCK slots, those beyond its pieces without mass and visits.

A row is a list where the interpreter runs and an array where a kernel does. The interpreter is quick on slices and
the compiler on loops of fixed length; where that is a factor of ten a function has both forms, under one name: the
plain one, and the one that kernels get instead of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privquant._numba import BORROWED, compiled_form

BLOCK = 64
# Lanes need sums in any order; no NaN or infinity is assumed away. A call would hand over all arrays of the stacks
# one by one, so everything is inlined.
KERNEL: dict[str, Any] = {
    "fastmath": {"reassoc", "contract", "nsz"},
    "error_model": "numpy",
    "forceinline": True,
    **BORROWED,
}

_U = np.uint64  # an index that cannot be negative needs no check
_LANES = _U(BLOCK)


def row_sum(masses: Any) -> float:
    """The sum of a row."""
    return float(sum(masses))


@compiled_form(row_sum, **KERNEL)
def row_sum_lanes(masses: Any) -> float:
    total = 0.0
    for k in range(_LANES):
        total += masses[k]
    return total


def sum_of_eight(masses: Any, start: int) -> float:
    """The sum of eight neighbours."""
    return float(sum(masses[start : start + 8]))


@compiled_form(sum_of_eight, **KERNEL)
def sum_of_eight_lanes(masses: Any, start: int) -> float:
    total = 0.0
    first = _U(start)
    for k in range(_U(8)):
        total += masses[first + k]
    return total


def sums_around(masses: Any, at: int) -> tuple[float, float]:
    """The sums before and after a slot."""
    return sum(masses[:at]), sum(masses[at + 1 :])


@compiled_form(sums_around, **KERNEL)
def sums_around_lanes(masses: Any, at: int) -> tuple[float, float]:
    before = 0.0
    after = 0.0
    here = _U(at)
    for k in range(_LANES):
        mass = masses[k]
        before += mass if k < here else 0.0
        after += mass if k > here else 0.0
    return before, after


def scale_before(masses: Any, at: int, ratio: float) -> None:
    """Multiply what lies before a slot."""
    masses[:at] = [mass * ratio for mass in masses[:at]]


@compiled_form(scale_before, **KERNEL)
def scale_before_lanes(masses: Any, at: int, ratio: float) -> None:
    here = _U(at)
    for k in range(_LANES):
        masses[k] *= ratio if k < here else 1.0


def make_room(row: Any, at: int, length: int, by: int) -> None:
    """Move the slots from `at` on, of `length` in use, up by so many."""
    row[at + by : length + by] = row[at:length]


@compiled_form(make_room, **KERNEL)
def make_room_loop(row: Any, at: int, length: int, by: int) -> None:
    for k in range(length - 1, at - 1, -1):
        row[_U(k + by)] = row[_U(k)]


def move_slots(target: Any, source: Any, start: int, length: int) -> None:
    """Put `length` slots of one row from `start` on at the start of another, or of the same, and zeros behind."""
    target[:length] = source[start : start + length]
    target[length:] = [0] * (BLOCK - length)


@compiled_form(move_slots, **KERNEL)
def move_slots_loop(target: Any, source: Any, start: int, length: int) -> None:
    for k in range(length):
        target[_U(k)] = source[_U(start + k)]
    for k in range(length, BLOCK):
        target[_U(k)] = 0
