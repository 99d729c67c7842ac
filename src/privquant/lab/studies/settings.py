"""Where the planner's laws are measured: families of data, ends of every setting, and settings spread over them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

TYPICAL = ("pareto", "lognormal", "uniform", "normal", "gamma", "bimodal")
LUMPY = ("ties", "salary", "zeros", "atom", "gap48", "kink", "tiny")
FAMILIES = {"typical": TYPICAL, "lumpy": LUMPY, "hardest": ("cliff",)}

EPSILONS = (0.1, 4.0)
QUANTILES = (0.01, 0.99)
BITS = (8.0, 48.0)
# users * kappa^2
INFORMATION = (0.1, 5e4)
USERS = (10, 10_000_000)
DELTAS = (1e-12, 1e-4)


def spread_evenly(count: int, dimensions: int) -> NDArray[np.float64]:
    """Points of (0, 1)^d that fill it evenly, however many: multiples of powers of a generalised golden ratio."""
    ratio = 2.0
    for _ in range(40):
        ratio = (1.0 + ratio) ** (1.0 / (dimensions + 1.0))
    steps = ratio ** -np.arange(1.0, dimensions + 1.0)
    return np.asarray((0.5 + np.outer(np.arange(1.0, count + 1.0), steps)) % 1.0)


def between(ends: tuple[float, float], share: float) -> float:
    """The place that far from the first end to the second, by ratio."""
    return float(ends[0] * (ends[1] / ends[0]) ** share)
