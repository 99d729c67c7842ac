"""Binomial probabilities to nearly full precision, and exact bounds made of them.

`log_pmf` (from `log_binomial`) keeps about 14 digits up to n = 10^15. `window` is the part of the law
that carries all but a stated tail. `lower_bound` and `upper_bound` are the Clopper-Pearson limits, found by
bisection on the exact tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privquant.privacy.difference import Window, reach
from privquant.privacy.log_binomial import log_pmf as log_pmf

_POINT = np.ones(1)


def window(n: int, q: float, log_tail: float) -> Window:
    """Where Bin(n, q) lies, up to e^-log_tail on each side."""
    if n == 0:
        return Window(0, _POINT)
    low, high, mode = reach(n, q, log_tail)
    peak = math.exp(log_pmf(mode, n, q))
    odds = q / (1 - q)
    rising = np.arange(mode + 1, high + 1, dtype=np.float64)
    falling = np.arange(mode, low, -1, dtype=np.float64)
    pmf = np.empty(high - low + 1)
    pmf[mode - low] = peak
    pmf[mode - low + 1 :] = peak * np.cumprod((n + 1 - rising) / rising * odds)
    pmf[: mode - low] = (peak * np.cumprod(falling / (n + 1 - falling) / odds))[::-1]
    return Window(low, pmf)


def tail_series(x: int, n: int, odds: float) -> float:
    """(Pr[X = x-1] + Pr[X = x-2] + ...) / Pr[X = x] for X ~ Bin(n, q) with q/(1-q) = odds, x below the mean.

    The terms are products of falling ratios, so what is left out at the end is below one part in 10^17.
    """
    total = 0.0
    term = 1.0
    done = 0
    while done < min(x, 32):
        term *= (x - done) / ((n - x + 1 + done) * odds)
        total += term
        done += 1
        if term < 1e-18 * total:
            return total
    chunk = 256
    while done < x:
        step = np.arange(done, min(x, done + chunk), dtype=np.float64)
        terms = term * np.cumprod((x - step) / ((n - x + 1 + step) * odds))
        total += float(terms.sum())
        term = float(terms[-1])
        if term < 1e-18 * total:
            break
        done += chunk
        chunk = min(4 * chunk, 1 << 18)
    return total


def lower_tail(x: int, n: int, q: float) -> float:
    """Pr[Bin(n, q) <= x], summed from the terms themselves, so that a small tail keeps its digits."""
    if x < 0 or q >= 1.0:
        return 0.0 if x < n else 1.0
    if x >= n or q <= 0.0:
        return 1.0
    if x > n * q:
        return 1.0 - lower_tail(n - x - 1, n, 1.0 - q)
    return math.exp(log_pmf(x, n, q)) * (1.0 + tail_series(x, n, q / (1.0 - q)))


def last_float(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest x in [low, high] for which a condition that holds at low, and then no more, holds."""
    if holds(high):
        return high
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return low
        low, high = (middle, high) if holds(middle) else (low, middle)


def upper_bound(successes: int, trials: int, error: float) -> float:
    """Clopper-Pearson: the true rate is above this with probability at most `error`."""
    if successes >= trials:
        return 1.0
    # Pr[X <= successes] falls in the rate.
    return -last_float(lambda rate: lower_tail(successes, trials, -rate) <= error, -1.0, -successes / trials)


def lower_bound(successes: int, trials: int, error: float) -> float:
    """Clopper-Pearson: the true rate is below this with probability at most `error`."""
    if successes <= 0:
        return 0.0
    # Pr[X >= successes], from the mirror image so that no 1 - tail is formed.
    mirrored = trials - successes
    return last_float(lambda rate: lower_tail(mirrored, trials, 1.0 - rate) <= error, 0.0, successes / trials)
