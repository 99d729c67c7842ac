"""What no search can beat: everybody asked at the true quantile, each user once."""

from __future__ import annotations

import math
from statistics import NormalDist

from privquant.planning.limits import kappa_of


def rank_unit(epsilon: float, quantile: float, users: int) -> float:
    """sd / (kappa sqrt n): standard deviation of the rank if users drawn from a distribution were asked at its
    quantile."""
    kappa = kappa_of(epsilon)
    rate = 0.5 + kappa * (quantile - 0.5)
    return math.sqrt(rate * (1.0 - rate) / users) / kappa


def success_limit(epsilon: float, quantile: float, users: int, alpha: float) -> float:
    """Share of such runs within alpha."""
    return 2.0 * NormalDist().cdf(alpha / rank_unit(epsilon, quantile, users)) - 1.0


def mean_rank_error(epsilon: float, users: int) -> float:
    """Mean absolute rank error if all n of n users were asked at the true quantile, whichever quantile it is.

    Only the coin is then random: a report has variance f(1-f) = (1 - kappa^2)/4 whatever the user's bit, so the
    de-biased rate has standard deviation sqrt((1 - kappa^2)/(4n)) / kappa; the mean of a normal's absolute
    value is sqrt(2/pi) of that.
    """
    kappa = kappa_of(epsilon)
    return math.sqrt(2.0 / math.pi * (1.0 - kappa * kappa) / (4.0 * users)) / kappa
