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

import heapq
import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import cache
from itertools import accumulate
from operator import mul

from privquant.privacy.coin import DRAW, check_flip_threshold
from privquant.privacy.difference import DEEPEST, Difference, Window, log_pmf, reach
from privquant.validation import check_count, check_epsilon, check_probability

LARGEST_BATCH = 10**6
MOST_LOOKS = 4_000
"""So many divergences are looked at; what takes more (epsilon below 0.01 in a large batch) counts as not kept."""

_EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN)
_ULP = 2.0**-53


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
    loss, q = math.expm1(at), flips / DRAW
    # What is cut off weighs a thousandth of a thousandth of delta at most.
    log_tail = min(DEEPEST, math.log(1e6 / most) + at)

    @cache
    def window(n: int) -> tuple[Window, list[float]]:
        found = _window(n, q, log_tail)
        return found, list(accumulate(found.pmf, initial=0.0))

    def upper(ones: int, zeros: int) -> float:
        """An upper end of H(ones, zeros), the hockey-stick divergence of bit 1 against bit 0."""
        law = Difference(window(ones)[0], window(zeros)[0], window(ones)[1], _products, sum)
        height, rounding = law.peak(gain, loss, (ones - zeros) * q, (ones + zeros) * q * (1.0 - q))
        return max(height, 0.0) + rounding + 4.0 * gain * math.exp(-log_tail)

    return _never_above(most, upper, gain, others)


def _never_above(delta: float, upper: Callable[[int, int], float], gain: float, others: int) -> bool:
    """H(k, others - k) <= delta for every number k of the others who hold a one: branch and bound over k.

    H(k1, others - k2) bounds all k in k1 .. k2.
    """
    if upper(others, 0) > delta:
        return False
    heap = [(-gain, 0, others)] if others else []
    for _ in range(MOST_LOOKS // 2):
        if not heap:
            return True
        _, first, last = heapq.heappop(heap)
        middle = (first + last) // 2
        for low, high in ((first, middle), (middle + 1, last)):
            bound = upper(low, others - high)
            if bound > delta:
                if low == high:
                    return False
                heapq.heappush(heap, (-bound, low, high))
    return False


def _products(a: list[float], b: list[float]) -> float:
    return sum(map(mul, a, b), 0.0)


def _window(n: int, q: float, log_tail: float) -> Window:
    if n == 0:
        return Window(0, [1.0])
    low, high, mode = reach(n, q, log_tail)
    odds = q / (1 - q)
    peak = math.exp(log_pmf(mode, n, q))
    falling = accumulate((x / (n + 1 - x) / odds for x in range(mode, low, -1)), mul, initial=peak)
    rising = accumulate(((n + 1 - x) / x * odds for x in range(mode + 1, high + 1)), mul, initial=peak)
    return Window(low, [*reversed(list(falling)), *list(rising)[1:]])
