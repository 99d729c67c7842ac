"""Binomials on the device: `log_pmf`, and where the hockey-stick divergence of a difference D = L - Z peaks.

`log_pmf` has about 14 digits up to n = 10^15 (Loader's saddle-point form: the deviance is computed without
cancellation, where differences of lgamma lose eight digits at n = 10^8).

Of the others in a shuffled batch some hold a one and some a zero; L and Z of these are flipped by their coins. See
`shuffle_exact` for the formulas. Lists on the device and arrays elsewhere: what is summed is the same, and each
brings its own way to sum. Standard library only.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

# The windows reach down to this tail at most: products of two such probabilities must not underflow.
DEEPEST = 150.0

_ULP = 2.0**-53

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


def reach(n: int, q: float, log_tail: float) -> tuple[int, int, int]:
    """Where Bin(n, q) lies, up to e^-log_tail on each side (Bernstein above, Chernoff below): from where to where,
    and its mode.
    """
    mean = n * q
    third = log_tail / 3
    above = third + math.sqrt(third * third + 2 * log_tail * (mean * (1 - q)))
    below = min(above, math.sqrt(2 * log_tail * mean))
    low, high = max(0, math.floor(mean - below)), min(n, math.ceil(mean + above))
    return low, high, min(max(int((n + 1) * q), low), high)


class Window(NamedTuple):
    """pmf[i] = Pr[Bin(n, q) = start + i]; the mass on either side of it is at most e^-log_tail."""

    start: int
    pmf: Any

    @property
    def stop(self) -> int:
        return self.start + len(self.pmf)


class Difference:
    """Pr[D = l] and Pr[D < l].

    before:   the sums of ones.pmf before each place, and of all.
    products: the sum of the products of two rows. total: the sum of a row.
    """

    def __init__(
        self,
        ones: Window,
        zeros: Window,
        before: Any,
        products: Callable[[Any, Any], float],
        total: Callable[[Any], float],
    ) -> None:
        self._ones, self._zeros, self._before = ones.pmf, zeros.pmf, before
        self._products, self._total = products, total
        self._shift = zeros.start - ones.start
        self._ends = ones.start - zeros.stop, ones.stop - 1 - zeros.start
        self._known: dict[int, float] = {}

    def _overlap(self, level: int) -> tuple[int, int, int]:
        offset = level + self._shift
        start, stop = max(0, -offset), min(len(self._zeros), len(self._ones) - offset)
        return offset, start, stop if stop > start else start

    def at(self, level: int) -> float:
        if level not in self._known:
            offset, start, stop = self._overlap(level)
            ones = self._ones[offset + start : offset + stop]
            self._known[level] = self._products(self._zeros[start:stop], ones)
        return self._known[level]

    def below(self, level: int) -> float:
        """Sums of positive terms only: prefix sums of one law, the rest of the other."""
        offset, start, stop = self._overlap(level)
        inside = self._products(self._zeros[start:stop], self._before[offset + start : offset + stop])
        return inside + float(self._before[-1]) * float(self._total(self._zeros[stop:]))

    def peak(self, gain: float, loss: float, centre: float, variance: float) -> tuple[float, float]:
        """The largest gain Pr[D = l] - loss Pr[D < l], and by how much rounding may have moved it.

        It is at the smallest level where Pr[D = level + 1] <= rho Pr[D = level], rho = 1 + loss / gain.
        """
        rho = 1.0 + loss / gain
        # A normal law would turn here; where the law is far from normal the search walks on from it.
        guess = math.floor(centre - min(variance * math.log(rho), 2.0**60))
        level = _first_failure(lambda level: self.at(level + 1) > rho * self.at(level), *self._ends, guess)
        gained, lost = gain * self.at(level), loss * self.below(level)
        # Every term is a product of at most `steps` rounded factors and is added at most `steps` times.
        steps = len(self._ones) + len(self._zeros)
        return gained - lost, (8 * steps + 64) * _ULP * (gained + lost)


def _first_failure(holds: Callable[[int], bool], low: int, high: int, guess: int) -> int:
    """The smallest integer after low for which a condition that holds at low does not; it fails at high.

    Steps from the guess grow fourfold, so that a good guess makes few looks.
    """
    probe = min(max(guess, low), high)
    reach = 2
    if probe > low and not holds(probe):
        high = probe
        while high - reach > low and not holds(high - reach):
            high, reach = high - reach, 4 * reach
        low = max(low, high - reach)
    elif probe < high:
        low = probe
        while low + reach < high and holds(low + reach):
            low, reach = low + reach, 4 * reach
        high = min(high, low + reach)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high
