"""Binomial probabilities to nearly full precision, and exact bounds made of them.

`window` is the part of the law that carries all but a stated tail. `lower_bound` and `upper_bound` are the
Clopper-Pearson limits, found by bisection on the exact tail. `most_colluders` says how many colluders a batch may
hold, at worst: an exact tail bound, not the average.
"""

import math
import numbers
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from privquant.errors import InvalidInput
from privquant.privacy.difference import Window, log_pmf, reach

# The probabilities of colluders keep 12 digits at least; what is added covers the rest.
_SLACK = 1e-9


def window(n: int, q: float, log_tail: float) -> Window:
    """Where Bin(n, q) lies, up to e^-log_tail on each side."""
    if n == 0:
        return Window(0, np.ones(1))
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


def check_colluding(colluding: object) -> Fraction:
    """A fraction of users, as the decimal that was written: 10 % of 1000 are 100, not 101."""
    if isinstance(colluding, bool) or not isinstance(colluding, numbers.Real) or not 0.0 <= float(colluding) < 1.0:
        raise InvalidInput(f"colluding is a fraction from 0 to below 1, got {colluding!r}")
    return Fraction(repr(float(colluding)))


def most_colluders(batch: int, colluding: float, *, miss: float, population: int | None = None) -> int:
    """A number of colluders among the others of a batch that is passed with probability at most `miss`.

    A fraction of all users works with the aggregator, or is fake. A batch is a random part of the users, so the
    number of colluders in it varies. Seen from an honest user in the batch the others are drawn from the rest:

        population given   hypergeometric; where everybody is in the batch there is nothing to vary
        population unknown binomial, the limit of a large population, which spreads the widest
    """
    fraction, others = check_colluding(colluding), batch - 1
    if not fraction or not others:
        return 0
    if population is None:
        # Pr[X > count] by the mirror image: no 1 - tail is formed, and 1 - f is rounded down.
        honest = math.nextafter(float(1 - fraction), 0.0)
        start = math.floor(fraction * others)
        return _first(lambda count: lower_tail(others - count - 1, others, honest), start, others, miss)
    if population < batch:
        raise InvalidInput(f"population is at least the batch of {batch}, got {population}")
    colluders = min(math.ceil(fraction * population), population - 1)
    least, most = max(0, colluders - (population - batch)), min(colluders, others)
    start = max(least, colluders * others // (population - 1))

    rest = population - 1
    return _first(lambda count: hypergeometric_tail(count + 1, others, colluders, rest), start, most, miss)


def hypergeometric_tail(x: int, drawn: int, marked: int, total: int) -> float:
    """An upper bound on Pr[X >= x], x marked or more among `drawn` of `total`; tight where it is small."""
    if x > min(drawn, marked):
        return 0.0
    if x <= max(0, drawn + marked - total):
        return 1.0
    odds = (marked - x) * (drawn - x) / ((x + 1) * (total - marked - drawn + x + 1))
    if odds >= 1.0:  # below the mode
        return 1.0
    return min(1.0, math.exp(_log_hypergeometric(x, drawn, marked, total)) / (1.0 - odds))


def _log_hypergeometric(x: int, drawn: int, marked: int, total: int) -> float:
    """ln Pr[X = x] from binomials of one common rate, which cancels; each keeps its digits at any size."""
    rate = drawn / total
    if rate == 1.0:
        return 0.0 if x == marked else -math.inf
    return log_pmf(x, marked, rate) + log_pmf(drawn - x, total - marked, rate) - log_pmf(drawn, total, rate)


def _first(passed: Callable[[int], float], low: int, high: int, miss: float) -> int:
    """The smallest count from low to high that is passed with probability at most `miss`; at `high` it never is."""
    allowed = miss * (1.0 - _SLACK)
    return low + bisect_left(range(low, high), True, key=lambda count: passed(count) <= allowed)
