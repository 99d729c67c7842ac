"""Whether a shuffled round keeps (epsilon, delta): exact accounting in the standard library alone.

    keeps(epsilon=1.0, delta=1e-8, coin=flip_threshold, batch=1000)

This runs on the device, which trusts no number that a campaign gives it and has no numpy. It decides the
question that `privquant.privacy.shuffle_exact` (see there for the formulas and why they hold) answers with a
bracket: True means that the certified upper end of delta(epsilon) is at most delta. The coin is taken as the
integer it is.

Why it is fast: the search over the number of others who hold a one stops at the first that breaks delta, and
leaves out whatever is already below it. Batches above a million are decided at a million: delta does not rise
with the batch.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from itertools import accumulate
from operator import mul

from privquant.privacy.bisection import first_failure
from privquant.privacy.coin import DRAW, check_flip_threshold
from privquant.privacy.log_binomial import log_pmf
from privquant.validation import check_count, check_epsilon, check_probability

LARGEST_BATCH = 10**6
MOST_LOOKS = 4_000
"""So many divergences are looked at; what takes more (epsilon below 0.01 in a large batch) counts as not kept."""

_EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN)
_ULP = 2.0**-53
# The windows reach down to this tail at most: products of two such probabilities must not underflow.
_DEEPEST = 150.0


@dataclass(frozen=True, slots=True)
class _Window:
    """pmf[i] = Pr[Bin(n, q) = start + i]; below[i] = the sum before it. All but e^-log_tail of either side."""

    start: int
    pmf: list[float]
    below: list[float]


def keeps(*, epsilon: float, delta: float, coin: int, batch: int) -> bool:
    """Whether `batch` honest reports through this coin (a flip threshold), shuffled, keep (epsilon, delta)."""
    at, most = check_epsilon(epsilon), check_probability(delta, "delta")
    flips = check_flip_threshold(coin)
    others = min(check_count(batch, "batch", 1), LARGEST_BATCH) - 1
    grown = _EXACT.exp(Decimal(at))
    # p - e^epsilon q in 60 digits: no cancellation however close the coin's epsilon is.
    exact = _EXACT.divide(_EXACT.subtract(DRAW - flips, _EXACT.multiply(grown, flips)), DRAW)
    if exact <= 0:
        return True
    gain = float(exact) * (1.0 + 4 * _ULP)
    if gain <= most:
        return True  # what a user alone has
    return _Search(gain, math.expm1(at), flips / DRAW, most, at).keeps(others)


class _Search:
    """Branch and bound over the number k of the others who hold a one."""

    def __init__(self, gain: float, loss: float, q: float, delta: float, epsilon: float) -> None:
        self._gain = gain
        self._loss = loss
        self._rho = 1.0 + loss / gain
        self._q = q
        self._delta = delta
        # What is cut off weighs a thousandth of a thousandth of delta at most.
        self._log_tail = min(_DEEPEST, math.log(1e6 / delta) + epsilon)
        self._window: Callable[[int], _Window] = lru_cache(maxsize=None)(lambda n: _window(n, q, self._log_tail))

    def keeps(self, others: int) -> bool:
        """H(k, others - k) <= delta for every k; H(k1, others - k2) bounds all k in k1 .. k2."""
        if self._upper(others, 0) > self._delta:
            return False
        heap = [(-self._gain, 0, others)] if others else []
        for _ in range(MOST_LOOKS // 2):
            if not heap:
                return True
            _, first, last = heapq.heappop(heap)
            middle = (first + last) // 2
            for low, high in ((first, middle), (middle + 1, last)):
                bound = self._upper(low, others - high)
                if bound > self._delta:
                    if low == high:
                        return False
                    heapq.heappush(heap, (-bound, low, high))
        return False

    def _upper(self, ones: int, zeros: int) -> float:
        """An upper end of H(ones, zeros), the hockey-stick divergence of bit 1 against bit 0."""
        law = _Difference(self._window(ones), self._window(zeros))
        spread = (ones + zeros) * self._q * (1.0 - self._q)
        # A normal law would turn here; where the law is far from normal the search walks on from it.
        guess = math.floor((ones - zeros) * self._q - min(spread * math.log(self._rho), 2.0**50))
        level = law.turn(self._rho, guess)
        gain, loss = self._gain * law.at(level), self._loss * law.below(level)
        # Every term is a product of at most `steps` rounded factors and is added at most `steps` times.
        rounding = (8 * law.steps + 64) * _ULP * (gain + loss)
        return max(gain - loss, 0.0) + rounding + 4.0 * self._gain * math.exp(-self._log_tail)


class _Difference:
    """Pr[D = l] and Pr[D < l] for D = L - Z, both binomials cut to their windows."""

    def __init__(self, ones: _Window, zeros: _Window) -> None:
        self._ones = ones
        self._zeros = zeros
        self._shift = zeros.start - ones.start
        self.first = ones.start - zeros.start - len(zeros.pmf) + 1
        self.last = ones.start + len(ones.pmf) - 1 - zeros.start
        self.steps = len(ones.pmf) + len(zeros.pmf)
        self._known: dict[int, float] = {}

    def _overlap(self, level: int) -> tuple[int, int, int]:
        offset = level + self._shift
        return offset, max(0, -offset), min(len(self._zeros.pmf), len(self._ones.pmf) - offset)

    def at(self, level: int) -> float:
        if level not in self._known:
            self._known[level] = self._at(level)
        return self._known[level]

    def _at(self, level: int) -> float:
        offset, start, stop = self._overlap(level)
        if stop <= start:
            return 0.0
        ones = self._ones.pmf[offset + start : offset + stop]
        found: float = sum(map(mul, self._zeros.pmf[start:stop], ones), 0.0)
        return found

    def below(self, level: int) -> float:
        """Sums of positive terms only: prefix sums of one law, the rest of the other."""
        offset, start, stop = self._overlap(level)
        stop = max(stop, 0)
        before = self._ones.below[offset + start : offset + stop] if stop > start else []
        inside: float = sum(map(mul, self._zeros.pmf[start:stop], before), 0.0)
        return inside + self._ones.below[-1] * sum(self._zeros.pmf[max(stop, start) :], 0.0)

    def turn(self, rho: float, guess: int) -> int:
        """The smallest level where Pr[D = level + 1] <= rho Pr[D = level]: the peak of the divergence."""
        return first_failure(
            lambda level: self.at(level + 1) > rho * self.at(level), self.first - 1, self.last, guess
        )


def _window(n: int, q: float, log_tail: float) -> _Window:
    """Where Bin(n, q) lies, up to e^-log_tail on each side (Bernstein above, Chernoff below)."""
    if n == 0:
        return _Window(0, [1.0], [0.0, 1.0])
    mean = n * q
    third = log_tail / 3
    above = third + math.sqrt(third * third + 2 * log_tail * mean * (1 - q))
    below = min(above, math.sqrt(2 * log_tail * mean))
    low = max(0, math.floor(mean - below))
    high = min(n, math.ceil(mean + above))
    mode = min(max(int((n + 1) * q), low), high)
    odds = q / (1 - q)
    peak = math.exp(log_pmf(mode, n, q))
    falling = accumulate((x / (n + 1 - x) / odds for x in range(mode, low, -1)), mul, initial=peak)
    rising = accumulate(((n + 1 - x) / x * odds for x in range(mode + 1, high + 1)), mul, initial=peak)
    pmf = [*reversed(list(falling)), *list(rising)[1:]]
    return _Window(low, pmf, list(accumulate(pmf, initial=0.0)))
