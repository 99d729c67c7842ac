"""Where the planner's laws are measured: families of data, ends of every setting, and settings spread over them."""

from __future__ import annotations

import numpy as np

from privquant.arrays import Floats

TYPICAL = ("pareto", "lognormal", "uniform", "normal", "gamma")
LUMPY = ("ties", "salary", "zeros", "atom", "gap48", "kink", "tiny", "bimodal")
FAMILIES = {"typical": TYPICAL, "lumpy": LUMPY, "hardest": ("cliff",)}

EPSILONS = (0.1, 4.0)
QUANTILES = (0.01, 0.99)
BITS = (8.0, 48.0)
# users * kappa^2: from where nothing can be planned, over where plans begin, to where units say it all.
INFORMATION = (0.1, 3.0, 3e4)
# The part of the settings that is for the first of these.
_HOPELESS = 0.12
USERS = (10, 10_000_000)
DELTAS = (1e-12, 1e-4)


def spread_evenly(count: int, dimensions: int) -> Floats:
    """Points of (0, 1)^d that fill it evenly, however many: multiples of powers of a generalised golden ratio."""
    ratio = 2.0
    for _ in range(40):
        ratio = (1.0 + ratio) ** (1.0 / (dimensions + 1.0))
    steps = ratio ** -np.arange(1.0, dimensions + 1.0)
    return np.asarray((0.5 + np.outer(np.arange(1.0, count + 1.0), steps)) % 1.0)


def between(ends: tuple[float, float], share: float) -> float:
    """The place that far from the first end to the second, by ratio."""
    return float(ends[0] * (ends[1] / ends[0]) ** share)


def crowd(share: float) -> float:
    """The information of a setting: by ratio, with few settings where it is too little for any plan."""
    least, first, most = INFORMATION
    if share < _HOPELESS:
        return between((least, first), share / _HOPELESS)
    return between((first, most), (share - _HOPELESS) / (1.0 - _HOPELESS))
