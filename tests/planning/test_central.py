"""The formula for whoever holds the data, beside the exponential mechanism itself."""

import numpy as np
import pytest

from privquant.planning.limits import central_users


def failures(values, size, q, alpha, epsilon, runs, rng):
    """The share of draws of the exponential mechanism whose rank is off by alpha or more."""
    upto = np.searchsorted(np.sort(values), np.arange(size), side="right")
    below = np.concatenate(([0], upto[:-1]))
    error = np.maximum(np.maximum(below - q * values.size, q * values.size - upto), 0.0)
    weight = np.exp(-0.5 * epsilon * error)
    drawn = rng.choice(size, runs, p=weight / weight.sum())
    return float(np.mean(error[drawn] >= alpha * values.size))


@pytest.mark.parametrize("q", [0.5, 0.9])
def test_so_many_users_are_enough_and_a_fifth_of_them_are_not(q):
    """2,000 draws each. Enough on a uniform column and on a cliff; a fifth is not, on the cliff.

    False alarm: the bound has a slack of several times on these data, so none to speak of.
    """
    rng = np.random.default_rng(6)
    size, alpha, epsilon, confidence = 4096, 0.02, 0.5, 0.9
    needed = int(np.ceil(central_users(alpha=alpha, epsilon=epsilon, confidence=confidence, size=size)))

    def cliff(n):
        below, upto = int(n * (q - alpha)), int(np.ceil(n * (q + alpha)))
        return np.repeat([0, 3001, size - 1], [below, upto - below, n - upto])

    for values in (rng.integers(0, size, needed), cliff(needed)):
        assert failures(values, size, q, alpha, epsilon, 2000, rng) <= 1 - confidence
    assert failures(cliff(needed // 5), size, q, alpha, epsilon, 2000, rng) > 1 - confidence


def test_several_quantiles_share_epsilon():
    asked = {"alpha": 0.02, "epsilon": 1.0, "confidence": 0.9, "size": 2**20}
    assert central_users(**asked, many=3) == pytest.approx(3 * central_users(**asked))
