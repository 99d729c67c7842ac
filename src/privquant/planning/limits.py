"""How many users a quantile needs: the information limit, the paper's bounds, and where one party holds all values.

Each function gives users for a rank error of at most `alpha`. Where the paper leaves a constant open it is 1
here, and the number only shows the order of growth: compare such numbers with each other over B, alpha and
epsilon, never with a head count. Logarithms are natural, as in the paper.
"""

import math
from statistics import NormalDist

__all__ = [
    "adaptive_lower_bound",
    "adaptive_upper_bound",
    "information_limit",
    "limit_of_the_asked",
    "non_adaptive_lower_bound",
    "shuffle_order",
    "tree_sketch",
]


def kappa_of(epsilon: float) -> float:
    """tanh(epsilon/2): what is left of a difference in rates after the coin."""
    return math.tanh(epsilon / 2)


def information_limit(*, alpha: float, epsilon: float, confidence: float, quantile: float = 0.5) -> float:
    """Users needed if everybody could be asked at the true quantile of the population they were drawn from.

    The rank error is then normal with variance p*(1-p*)/(kappa^2 n), p* = 1/2 + kappa (q - 1/2). The quantile of
    the very users asked is easier: nobody is sampled, and at the median 1 - kappa^2 of these users would do.
    """
    kappa = kappa_of(epsilon)
    rate = 0.5 + kappa * (quantile - 0.5)
    spread = NormalDist().inv_cdf((1 + confidence) / 2)
    return rate * (1 - rate) * (spread / (kappa * alpha)) ** 2


def limit_of_the_asked(*, alpha: float, epsilon: float, confidence: float, quantile: float = 0.5) -> float:
    """The same for the quantile of the very users asked: the coin's noise alone, (1-kappa^2)/(4 kappa^2 n)."""
    kappa = kappa_of(epsilon)
    rate = 0.5 + kappa * (quantile - 0.5)
    drawn = information_limit(alpha=alpha, epsilon=epsilon, confidence=confidence, quantile=quantile)
    return drawn * (1 - kappa**2) / (4 * rate * (1 - rate))


def adaptive_lower_bound(*, alpha: float, epsilon: float, size: int) -> float:
    """Theorem 1.2: Omega(log B / (eps^2 alpha^2)) for any sequentially adaptive protocol (eps < 1). Constant 1."""
    return math.log(size) / (epsilon * alpha) ** 2


def non_adaptive_lower_bound(*, alpha: float, epsilon: float, size: int) -> float:
    """Theorem 1.3: Omega(log^2 B / (eps^2 alpha^2 log^4(1/alpha))) for any non-adaptive protocol. Constant 1.

    It is for small alpha; from e^-2 on, where the formula would rise with alpha, its last factor is held.
    """
    return (math.log(size) / (epsilon * alpha)) ** 2 / max(math.log(1 / alpha), 2.0) ** 4


def tree_sketch(*, alpha: float, epsilon: float, size: int) -> float:
    """Appendix D: O(log^3 B / (eps^2 alpha^2)) for the hierarchical mechanism, by its error sketch. Constant 1."""
    return math.log(size) ** 3 / (epsilon * alpha) ** 2


def adaptive_upper_bound(*, alpha: float, epsilon: float, size: int) -> float:
    """Theorem 1.1: O(log B / (eps^2 alpha^2)) for DpBayeSS (eps < 1). Constant 1."""
    return math.log(size) / (epsilon * alpha) ** 2


def shuffle_order(*, alpha: float, epsilon: float, confidence: float, size: int, delta: float) -> float:
    """Theorem 1.4: O((1/alpha^2 + 1/eps^2) log B sqrt(log(1/delta) log(log B / beta))). Constant 1."""
    inner = math.log(1 / delta) * max(math.log(max(math.log(size), 1.0) / (1 - confidence)), 1e-300)
    return (alpha**-2 + epsilon**-2) * math.log(size) * math.sqrt(inner)


def central_users(*, alpha: float, epsilon: float, confidence: float, size: int, many: int = 1) -> float:
    """Users that suffice where one trusted party holds all values; many: quantiles, each within alpha.

    The exponential mechanism picks the value v with probability in proportion to exp(-(epsilon/2) d(v)), where d(v)
    is the distance of q n to the counts #{x < v} .. #{x <= v}. One person changes it by at most 1, so this is
    epsilon-differentially private, and the true quantile has d = 0. Of B values at most B are off by alpha n people
    or more, each with at most exp(-epsilon alpha n / 2) times the weight of the true quantile, so

        P(rank error >= alpha) <= B exp(-epsilon alpha n / 2),     n = 2 ln(B / (1 - confidence)) / (epsilon alpha)

    people are enough, for any data (McSherry and Talwar 2007, Theorem 6; for quantiles Smith 2011). OpenDP's
    private quantiles are of this kind. Several quantiles of the same people share epsilon, an equal part for each.
    """
    return 2.0 * math.log(max(size, 2) / (1.0 - confidence)) / (epsilon / many * alpha)
