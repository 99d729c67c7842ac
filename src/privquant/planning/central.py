"""What whoever holds the data already can reach: a quantile under central differential privacy.

The exponential mechanism picks the value v with probability in proportion to exp(-(epsilon/2) d(v)), where d(v) is
the distance of q n to the counts #{x < v} .. #{x <= v}. One person changes it by at most 1, so this is
epsilon-differentially private, and the true quantile has d = 0. Of B values at most B are off by alpha n people or
more, each with at most exp(-epsilon alpha n / 2) times the weight of the true quantile, so

    P(rank error >= alpha) <= B exp(-epsilon alpha n / 2),      n = 2 ln(B / (1 - confidence)) / (epsilon alpha)

people are enough, for any data (McSherry and Talwar 2007, Theorem 6; for quantiles Smith 2011). OpenDP's private
quantiles are of this kind. Several quantiles of the same people share epsilon, an equal part for each.
"""

from __future__ import annotations

import math


def central_users(*, alpha: float, epsilon: float, confidence: float, size: int, many: int = 1) -> float:
    """Users that suffice where one trusted party holds all values; many: quantiles, each within alpha."""
    return 2.0 * math.log(max(size, 2) / (1.0 - confidence)) / (epsilon / many * alpha)
