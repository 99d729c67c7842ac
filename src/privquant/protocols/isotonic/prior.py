"""What does not change in a run of isotonic search, and the prior over the domain.

The prior mixes uniform and log-uniform (`lam`). Masses are computed from integer differences, so that narrow cells
high up in a domain of up to 2^63 values keep all their digits.
"""

import math
from typing import NamedTuple

from privquant._numba import njit
from privquant.arrays import Floats


class Search(NamedTuple):
    """What does not change in a run, as numbers a compiled kernel can read.

    last:    the greatest domain index (size - 1).
    lam:     share of the log-uniform prior; the rest is uniform.
    kappas:  one for each coin of the run; the first is the largest, counts of the others are converted to it.
    """

    last: int
    lam: float
    kappas: Floats


@njit(cache=True)
def prior_mass(low: int, high: int, search: Search) -> float:
    """Prior mass of the indices low + 1 .. high; low may be -1.

    The prior mixes uniform and log-uniform: up to index i it has mass (1-lam) (i+1)/B + lam ln(i+2)/ln(1+B).
    """
    size = float(search.last) + 1.0
    # high - low itself overflows for the whole of a domain of 2^63 values
    width = float(high) + 1.0 if low < 0 else float(high - low)
    share = width / size
    if search.lam == 0.0:
        return share
    return (1.0 - search.lam) * share + search.lam * math.log1p(width / (float(low) + 2.0)) / math.log1p(size)


@njit(cache=True)
def point_in_cell(low: int, high: int, share: float, search: Search) -> int:
    """The index in low .. high with about `share` of the prior mass of low + 1 .. high at or below it."""
    target = share * prior_mass(low, high, search)
    left = low
    right = high
    while left + 1 < right:
        # the exact midpoint, without a difference that could overflow
        middle = (left >> 1) + (right >> 1) + (left & right & 1)
        if prior_mass(low, middle, search) < target:
            left = middle
        else:
            right = middle
    if target - prior_mass(low, left, search) < prior_mass(low, right, search) - target:
        return left
    return right
