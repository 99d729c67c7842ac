"""Blocks of pieces, as the kernel of `privquant.lab.engine.bayes_kernel` keeps them: 64 slots, padded with zeros.

All functions work on slots of the kernel's arrays; none allocates, except the read-out at the end.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privquant._numba import njit

BLOCK = 64
FLOOR = 1e-280  # a mass this small cannot matter, but zero could never recover
FAST = {"reassoc", "contract", "nsz"}  # lets the compiler sum a block in lanes; no NaN or infinity is assumed away
_U = np.uint64
_LANES = _U(BLOCK)


@njit(cache=True, fastmath=FAST)
def around(masses: Any, base: int, at: int) -> Any:
    """The sums of a block's masses before and after one of its pieces."""
    before = 0.0
    after = 0.0
    here = _U(at)
    start = _U(base)
    for k in range(_LANES):
        mass = masses[start + k]
        before += mass if k < here else 0.0
        after += mass if k > here else 0.0
    return before, after


@njit(cache=True, fastmath=FAST)
def closed_sum(masses: Any, base: int, at: int, ratio: float) -> float:
    """Bring the pieces before `at` to the unit of the others; the block's sum in that unit."""
    total = 0.0
    here = _U(at)
    start = _U(base)
    for k in range(_LANES):
        mass = masses[start + k] * (ratio if k < here else 1.0)
        masses[start + k] = mass
        total += mass
    return total


@njit(cache=True, fastmath=FAST)
def block_sum(masses: Any, base: int) -> float:
    total = 0.0
    start = _U(base)
    for k in range(_LANES):
        total += masses[start + k]
    return total


@njit(cache=True, fastmath=FAST)
def eight(masses: Any, start: int) -> float:
    """The sum of eight neighbouring pieces."""
    total = 0.0
    first = _U(start)
    for k in range(_U(8)):
        total += masses[first + k]
    return total


@njit(cache=True)
def shift(starts: Any, masses: Any, visits: Any, base: int, at: int, length: int, by: int, count: bool) -> None:
    """Make room for `by` pieces at place `at` of a block."""
    for k in range(base + length - 1, base + at - 1, -1):
        starts[_U(k + by)] = starts[_U(k)]
    for k in range(base + length - 1, base + at - 1, -1):
        masses[_U(k + by)] = masses[_U(k)]
    if count:
        for k in range(base + length - 1, base + at - 1, -1):
            visits[_U(k + by)] = visits[_U(k)]


@njit(cache=True)
def copy(starts: Any, masses: Any, visits: Any, target: int, source: int, length: int, count: bool) -> None:
    """Copy pieces to the start of a block and pad it with zeros."""
    for k in range(length):
        starts[_U(target + k)] = starts[_U(source + k)]
        masses[_U(target + k)] = masses[_U(source + k)]
    if count:
        for k in range(length):
            visits[_U(target + k)] = visits[_U(source + k)]
    for k in range(length, BLOCK):
        masses[_U(target + k)] = 0.0


@njit(cache=True)
def fold(weights: Any, prefix: Any, count: int, scale: float) -> None:
    """Bring a stack to the common unit, with a floor, and its prefix sums anew."""
    total = 0.0
    for k in range(count):
        weights[k] = max(weights[k] * scale, FLOOR)
        total += weights[k]
        prefix[k + 1] = total


@njit(cache=True, error_model="numpy")
def read_out(
    starts: Any,
    masses: Any,
    visits: Any,
    lengths: Any,
    sums: Any,
    sides: Any,
    block: int,
    open_mass: float,
    last: int,
    count: bool,
) -> Any:
    """Walk the pieces in order: the visited cells, how often each was visited, and the median."""
    l_block, l_weight, l_count, l_scale, r_block, r_weight, r_count, r_scale = sides
    total = open_mass
    for z in range(l_count):
        total += l_weight[z] * l_scale
    for z in range(r_count):
        total += r_weight[z] * r_scale
    half_mass = 0.5 * total
    found = 0
    for z in range(l_count + 1 + r_count):
        b = l_block[z] if z < l_count else (block if z == l_count else r_block[r_count - 1 - (z - l_count - 1)])
        for k in range(b * BLOCK, b * BLOCK + lengths[b]):
            found += count and visits[k] > 0
    cells = np.empty(found, np.int64)
    counts = np.empty(found, np.int64)
    found = 0
    median = np.int64(-1)
    passed = 0.0
    for z in range(l_count + 1 + r_count):
        if z < l_count:
            b = l_block[z]
            whole = l_weight[z] * l_scale
            following = starts[l_block[z + 1] * BLOCK] if z + 1 < l_count else starts[block * BLOCK]
        elif z == l_count:
            b = block
            whole = open_mass
            following = starts[r_block[r_count - 1] * BLOCK] if r_count > 0 else np.int64(-1)
        else:
            y = r_count - 1 - (z - l_count - 1)
            b = r_block[y]
            whole = r_weight[y] * r_scale
            following = starts[r_block[y - 1] * BLOCK] if y > 0 else np.int64(-1)
        scale = whole / sums[b]
        for k in range(b * BLOCK, b * BLOCK + lengths[b]):
            mass = masses[k] * scale
            if median < 0 and passed + mass >= half_mass:
                is_last = k + 1 == b * BLOCK + lengths[b]
                final = following - 1 if is_last else starts[k + 1] - 1
                if is_last and following < 0:
                    final = np.int64(last)
                spare = final - starts[k]
                place = math.ceil((half_mass - passed) / mass * (float(spare) + 1.0)) - 1.0
                offset = np.int64(min(max(place, 0.0), float(spare)))
                median = starts[k] + (spare if offset > spare or offset < 0 else offset)
            passed += mass
            if count and visits[k] > 0:
                cells[found] = starts[k]
                counts[found] = visits[k]
                found += 1
    if median < 0:
        median = np.int64(last)
    return cells, counts, median
