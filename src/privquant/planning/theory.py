"""The paper's sample sizes, as functions: how many users its lemmas ask for.

Constants are those of the corrected proofs, where the proofs have any; two-sided statements have ln(2/beta), and
"it suffices to use n" means at least n. Natural logarithms.
"""

import math

from privquant.validation import check_count, check_epsilon, check_probability

__all__ = [
    "cdf_drift_probability",
    "coin_to_sample_mean",
    "coin_to_statistical_mean",
    "naive_search_users",
    "padded_rate",
    "search_flips_order",
]


def coin_to_sample_mean(*, alpha: float, beta: float, epsilon: float) -> float:
    """Reports that suffice to learn the mean of the users' own bits to alpha, but with probability beta.

    Bernstein with the coin's variance e^eps/(e^eps+1)^2 alone (Lemma "one coin to its sample mean").
    """
    return _coin(alpha, epsilon, 0.0) * math.log(2.0 / check_probability(beta, "beta"))


def coin_to_statistical_mean(*, alpha: float, beta: float, epsilon: float, p: float = 0.5) -> float:
    """Reports that suffice to learn the probability p that users' bits were drawn with.

    The sampling adds 2 p (1-p) / alpha^2 (Lemma "one coin to its statistical mean", with its proof's constants).
    """
    return _coin(alpha, epsilon, p * (1.0 - p)) * math.log(2.0 / check_probability(beta, "beta"))


def naive_search_users(*, size: int, alpha: float, beta: float, epsilon: float, sampling: bool = True) -> int:
    """Users that suffice for a naive search over `size` values: every round learns its coin, but with beta.

    The theorem learns each round's own users (sampling=False). A quantile of ALL users also needs the batch to
    stand for them, which costs what a coin of probability 1/2 costs; without it the theorem promises too much where
    the coin is nearly honest.
    """
    rounds = (check_count(size, "size", 1) - 1).bit_length()
    if rounds == 0:
        return 0
    each = check_probability(beta, "beta") / rounds
    learn = coin_to_statistical_mean if sampling else coin_to_sample_mean
    return rounds * math.ceil(learn(alpha=alpha, beta=each, epsilon=epsilon))


def _coin(alpha: float, epsilon: float, sampling_variance: float) -> float:
    a, e = check_probability(alpha, "alpha"), check_epsilon(epsilon)
    # e^eps / (e^eps - 1)^2 = 1 / (2 sinh(eps/2))^2, which neither overflows early nor cancels.
    coin_variance = 0.25 / math.sinh(min(e, 700.0) / 2.0) ** 2
    return 2.0 * (sampling_variance + coin_variance) / a**2 + 2.0 / (3.0 * a * math.tanh(e / 2.0))


def cdf_drift_probability(*, users: int, alpha: float, thresholds: int = 1) -> float:
    """Lemma 3.1: the chance that, while half of the users are asked without replacement, the CDF of those not yet
    asked moves by alpha or more at one of `thresholds` thresholds.

    2 exp(-alpha^2 m / 2) for each, m = users/2, by Azuma's inequality with the constant of its proof.
    """
    half = check_count(users, "users") / 2.0
    each = 2.0 * math.exp(-(check_probability(alpha, "alpha") ** 2) * half / 2.0)
    return min(1.0, check_count(thresholds, "thresholds", 1) * each)


def search_flips_order(*, size: int, alpha: float) -> float:
    """Theorem 3.2: ln B / alpha^2, the order of growth of the coin flips that noisy binary search needs.

    The paper leaves the constant open; here it is 1, and the number is an order of growth, not a head count.
    """
    return math.log(check_count(size, "size", 2)) / check_probability(alpha, "alpha") ** 2


def padded_rate(rate: float, tau: float) -> float:
    """Padding lemma: (1 - tau)/2 + F/2, what a CDF value F becomes when n virtual users are added."""
    return (1.0 - tau) / 2.0 + rate / 2.0
