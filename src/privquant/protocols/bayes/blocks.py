"""One block of neighbouring pieces: a row of BLOCK slots, those beyond its pieces without mass and visits.

A row is a list where the interpreter runs and an array where a kernel does. The interpreter is quick on slices and
the compiler on loops of fixed length; where that is a factor of ten a function has both forms, under one name: the
plain one, and the one that kernels get instead of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privquant._numba import BORROWED, compiled_form, shared

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
_HALF = _U(BLOCK // 2)


def sums_around(masses: Any, at: int) -> tuple[float, float]:
    """The sums before and after a slot."""
    return sum(masses[:at]), sum(masses[at + 1 :])


@compiled_form(sums_around, **KERNEL)
def sums_around_lanes(masses: Any, at: int) -> tuple[float, float]:
    before, before_high, after, after_high = 0.0, 0.0, 0.0, 0.0
    here = _U(at)
    for k in range(_HALF):  # two chains of additions a sum, or each would wait for the one before it
        mass, high = masses[k], masses[k + _HALF]
        before += mass if k < here else 0.0
        before_high += high if k + _HALF < here else 0.0
        after += mass if k > here else 0.0
        after_high += high if k + _HALF > here else 0.0
    return before + before_high, after + after_high


@shared(**KERNEL)
def scale_slots(masses: Any, start: int, end: int, ratio: float) -> None:
    """Multiply the slots from `start` to before `end`."""
    for k in range(start, end):
        masses[k] *= ratio


def close_slots(masses: Any, at: int, here: float, ratio: float) -> float:
    """Put a mass into a slot and multiply those before it; the sum of all."""
    masses[: at + 1] = [*[mass * ratio for mass in masses[:at]], here]
    total: float = sum(masses)
    return total


@compiled_form(close_slots, **KERNEL)
def close_slots_lanes(masses: Any, at: int, here: float, ratio: float) -> float:
    total = 0.0
    slot = _U(at)
    masses[slot] = here
    for k in range(_LANES):
        mass = masses[k] * (ratio if k < slot else 1.0)
        masses[k] = mass
        total += mass
    return total


@shared(**KERNEL)
def slot_at(masses: Any, last: int, wanted: float) -> int:
    """The first slot, `last` at most, at which the sum from the first on reaches so much."""
    passed = masses[0]
    k = 0
    while k < last and passed < wanted:
        k += 1
        passed += masses[k]
    return k


def make_room(row: Any, at: int, length: int, by: int) -> None:
    """Move the slots from `at` on, of `length` in use, up by so many."""
    row[at + by : length + by] = row[at:length]


@compiled_form(make_room, **KERNEL)
def make_room_loop(row: Any, at: int, length: int, by: int) -> None:
    for k in range(length - 1, at - 1, -1):
        row[_U(k + by)] = row[_U(k)]


@shared(**KERNEL)
def move_end(row: Any, start: int, target: Any) -> None:
    """Move the slots from `start` on to the start of another row, and leave zeros on both."""
    for k in range(BLOCK):
        target[k] = row[start + k] if start + k < BLOCK else 0
    for k in range(start, BLOCK):
        row[k] = 0
