"""The slow, obviously right twins of the accounting: laws of the count by convolution, sums of positive parts."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray


@cache
def _count_law(users: int, zero: float, one: float) -> NDArray[np.float64]:
    """The count of ones among users who each report a one with the same probability."""
    law = np.ones(1)
    for _ in range(users):
        law = np.convolve(law, [zero, one])
    return law


@cache
def pairs(local_epsilon: float, batch: int) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...]:
    """For every number of ones among the others: the law of the count if the user holds a one, and if a zero."""
    # The small probability first: 1 - p would keep only some of its digits.
    q = 1 / (1 + math.exp(local_epsilon))
    p = 1 - q
    found = []
    for ones in range(batch):
        others = np.convolve(_count_law(ones, q, p), _count_law(batch - 1 - ones, p, q))
        found.append((np.convolve(others, [q, p]), np.convolve(others, [p, q])))
    return tuple(found)


def divergence(law: NDArray[np.float64], other: NDArray[np.float64], epsilon: float) -> float:
    return float(np.maximum(law - math.exp(epsilon) * other, 0.0).sum())


def delta(epsilon: float, local_epsilon: float, batch: int) -> float:
    """The worst over all inputs of a batch and both directions."""
    return max(
        max(divergence(one, zero, epsilon), divergence(zero, one, epsilon))
        for one, zero in pairs(local_epsilon, batch)
    )
