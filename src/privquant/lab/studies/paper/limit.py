"""The limit the figures show: everybody asked at the true quantile, each user once."""

from __future__ import annotations

import math

from privquant.planning.limits import kappa_of


def mean_rank_error(epsilon: float, users: int) -> float:
    """Mean absolute rank error if all n of n users were asked at the true quantile, whichever quantile it is.

    Only the coin is then random: a report has variance f(1-f) = (1 - kappa^2)/4 whatever the user's bit, so the
    de-biased rate has standard deviation sqrt((1 - kappa^2)/(4n)) / kappa; the mean of a normal's absolute
    value is sqrt(2/pi) of that.
    """
    kappa = kappa_of(epsilon)
    return math.sqrt(2.0 / math.pi * (1.0 - kappa * kappa) / (4.0 * users)) / kappa
