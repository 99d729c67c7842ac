"""How many colluders a batch may hold, at worst: an exact tail bound, not the average.

A fraction of all users works with the aggregator, or is fake. A batch is a random part of the users, so the number
of colluders in it varies; `most_colluders` is passed with at most a stated probability. Seen from an honest user in
the batch the others are drawn from the rest:

    population given   hypergeometric; where everybody is in the batch there is nothing to vary
    population unknown binomial, the limit of a large population, which spreads the widest
"""

from __future__ import annotations

import math
import numbers
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction

from privquant.errors import InvalidInput
from privquant.privacy.binomial import log_pmf, lower_tail

# The probabilities below keep 12 digits at least; what is added covers the rest.
_SLACK = 1e-9


def check_colluding(colluding: object) -> Fraction:
    """A fraction of users, as the decimal that was written: 10 % of 1000 are 100, not 101."""
    if isinstance(colluding, bool) or not isinstance(colluding, numbers.Real) or not 0.0 <= float(colluding) < 1.0:
        raise InvalidInput(f"colluding is a fraction from 0 to below 1, got {colluding!r}")
    return Fraction(repr(float(colluding)))


def most_colluders(batch: int, colluding: float, *, miss: float, population: int | None = None) -> int:
    """A number of colluders among the others of a batch that is passed with probability at most `miss`."""
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
