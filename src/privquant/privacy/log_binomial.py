"""ln of a binomial probability to nearly full precision, in the standard library alone: devices use it.

About 14 digits up to n = 10^15 (Loader's saddle-point form: the deviance is computed without cancellation, where
differences of lgamma lose eight digits at n = 10^8).
"""

from __future__ import annotations

import math

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)

# ln n! minus Stirling's formula, where the series below has not converged; lgamma is exact enough there.
_STIRLING_ERROR = [
    math.lgamma(n + 1) - (_HALF_LOG_TAU + (n + 0.5) * math.log(n) - n) if n else 0.0 for n in range(16)
]


def _stirling_error(n: int) -> float:
    if n < 16:
        return _STIRLING_ERROR[n]
    square = float(n) * float(n)
    series = 1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square
    return series / n


def _deviance(x: float, mean: float, gap: float) -> float:
    """x ln(x/mean) - gap for gap = x - mean: close to 0 where they are close, without cancellation."""
    if abs(gap) >= 0.1 * (x + mean):
        return x * math.log(x / mean) - gap
    v = gap / (x + mean)
    total = gap * v
    power = 2 * x * v
    order = 1
    while True:
        power *= v * v
        order += 2
        grown = total + power / order
        if grown == total:
            return grown
        total = grown


def log_pmf(x: int, n: int, q: float) -> float:
    """ln Pr[Bin(n, q) = x] for 0 < q < 1."""
    if x < 0 or x > n:
        return -math.inf
    if x == 0:
        return n * math.log1p(-q)
    if x == n:
        return n * math.log(q)
    saddle = _stirling_error(n) - _stirling_error(x) - _stirling_error(n - x)
    # The distance from the mean in integers: n q as a float would be off by 1e-16 of n q.
    numerator, denominator = q.as_integer_ratio()
    gap = (x * denominator - n * numerator) / denominator
    saddle -= _deviance(x, n * q, gap) + _deviance(n - x, n * (1.0 - q), -gap)
    return saddle - _HALF_LOG_TAU - 0.5 * (math.log(x) + math.log1p(-x / n))
