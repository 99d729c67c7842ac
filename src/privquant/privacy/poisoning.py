"""How far liars can move the answer, told to the operator before a campaign is started.

A fraction f of the reports, spread at random over the run, comes from liars who all send the same bit. With
kappa = tanh(eps/2) and the target report rate pi = 1/2 + kappa (q - 1/2), the search then settles where
(1-f) (1/2 + kappa (F - 1/2)) + f bit = pi, that is at rank

    q - f (1 - pi) / ((1-f) kappa)   if they send 1,      q + f pi / ((1-f) kappa)   if they send 0.

Spread so, nobody can do more with that many reports: the report rate at a threshold is moved by f at most, either
way. Liars who choose their moment can do far more, because a search asks each threshold for a while only. The
breakdown point is the fraction that reaches the end of the domain: kappa / (1 + kappa) for the median.
"""

import numbers
from typing import NamedTuple

from privquant.errors import InvalidInput
from privquant.privacy.coin import Coin
from privquant.validation import check_count, check_probability, check_quantile

__all__ = ["Shift", "breakdown", "honest_rates", "impossible_rate", "liars_within", "shift"]


class Shift(NamedTuple):
    """By how much the rank of the answer can be moved: low <= 0 <= high, cut to the ranks there are."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"liars can move the answer's rank by {100 * self.low:+.2g} to {100 * self.high:+.2g} points"


def shift(liars: float, *, epsilon: float, quantile: float = 0.5) -> Shift:
    """What a fraction of liars, spread at random over the reports, can do to the rank of the answer."""
    if isinstance(liars, bool) or not isinstance(liars, numbers.Real) or not 0.0 <= liars < 1.0:
        raise InvalidInput(f"a fraction of liars lies from 0 to below 1, got {liars!r}")
    q = check_quantile(quantile)
    kappa, pi = _rates(epsilon, q)
    odds = float(liars) / (1.0 - float(liars))
    return Shift(max(-odds * (1.0 - pi) / kappa, -q), min(odds * pi / kappa, 1.0 - q))


def breakdown(*, epsilon: float, quantile: float = 0.5) -> float:
    """The smallest fraction of liars that can move the answer to an end of the domain."""
    q = check_quantile(quantile)
    kappa, pi = _rates(epsilon, q)
    return _fraction(min((1.0 - q) * kappa / pi, q * kappa / (1.0 - pi)))


def liars_within(alpha: float, *, epsilon: float, quantile: float = 0.5) -> float:
    """The largest fraction of liars that moves the rank by at most alpha: the inverse of `shift`."""
    a = check_probability(alpha, "alpha")
    q = check_quantile(quantile)
    kappa, pi = _rates(epsilon, q)
    return min(_fraction(a * kappa / max(pi, 1.0 - pi)), breakdown(epsilon=epsilon, quantile=q))


def honest_rates(*, epsilon: float) -> tuple[float, float]:
    """The report rates honest users can produce: (1 - kappa)/2 to (1 + kappa)/2."""
    coin = Coin.of(epsilon)
    return coin.flip, 1.0 - coin.flip


def impossible_rate(ones: int, reports: int, *, epsilon: float, false_alarm: float = 1e-6) -> bool:
    """Whether so many ones can no longer come from honest users; wrong with probability below false_alarm."""
    from privquant.privacy.binomial import lower_bound, upper_bound

    n = check_count(reports, "reports", 1)
    k = check_count(ones, "ones")
    if k > n:
        raise InvalidInput(f"ones is at most the number of reports {n}, got {k}")
    error = check_probability(false_alarm, "false_alarm") / 2
    low, high = honest_rates(epsilon=epsilon)
    return upper_bound(k, n, error) < low or lower_bound(k, n, error) > high


def _rates(epsilon: float, quantile: float) -> tuple[float, float]:
    coin = Coin.of(epsilon)
    return coin.kappa, coin.report_rate(quantile)


def _fraction(odds: float) -> float:
    return odds / (1.0 + odds)
