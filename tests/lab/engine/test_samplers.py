"""The samplers against exact laws, in every regime they switch between."""

import math

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from privquant.lab.engine.draws import binomial, hypergeometric, log_binomial

DRAWS = 10_000
BINOMIALS = [
    (5, 0.3),
    (12, 0.9),
    (40, 0.5),
    (1000, 0.02),
    (5000, 0.7),
    (10**6, 0.4),
    (10**9, 0.31),
    (10**12, 0.6),
    (10**15, 0.31),
]
HYPERGEOMETRICS = [
    (5, 7, 4),
    (20, 30, 25),
    (1000, 200, 900),
    (300, 10**6, 40_000),
    (50_000, 70_000, 60_000),
    (4 * 10**8, 6 * 10**8, 10**8),
    (10**12, 3 * 10**12, 2 * 10**10),
    (7, 10**11, 10**10),
]


def p_value(draws, law):
    """Chi-square against the exact law, in about 30 bins of equal probability."""
    edges = np.unique(law.ppf(np.linspace(0, 1, 31)[1:-1]))
    upto = np.concatenate(([0.0], law.cdf(edges), [1.0]))
    expected = np.diff(upto) * draws.size
    seen = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=expected.size)
    used = expected > 5
    return chisquare(
        np.append(seen[used], seen[~used].sum() + 1e-9), np.append(expected[used], expected[~used].sum() + 1e-9)
    ).pvalue


class Hypergeometric:
    """The exact law by ratios of neighbouring masses, on 12 deviations around the mean, made to sum to one."""

    def __init__(self, good, bad, drawn):
        total = good + bad
        mean = drawn * good / total
        deviation = math.sqrt(drawn * (good / total) * (bad / total) * (total - drawn) / (total - 1))
        low = max(0, drawn - bad, math.floor(mean - 12 * deviation))
        high = min(good, drawn, math.ceil(mean + 12 * deviation))
        x = np.arange(low, high, dtype=float)
        logs = np.log((good - x) * (drawn - x)) - np.log((x + 1) * (bad - drawn + x + 1))
        mass = np.concatenate(([0.0], np.cumsum(logs)))
        mass = np.exp(mass - mass.max())
        self.low, self.upto = low, np.cumsum(mass) / mass.sum()

    def ppf(self, shares):
        return self.low + np.searchsorted(self.upto, shares)

    def cdf(self, x):
        return self.upto[np.asarray(x, int) - self.low]


@pytest.mark.parametrize(("n", "p"), BINOMIALS)
def test_binomial_draws_follow_the_binomial_law(n, p):
    """False alarm 1e-4 each, fixed seed."""
    rng = np.random.default_rng(10)
    draws = np.array([binomial(n, p, rng) for _ in range(DRAWS)])
    assert p_value(draws, binom(n, p)) > 1e-4


@pytest.mark.parametrize(("good", "bad", "drawn"), HYPERGEOMETRICS)
def test_hypergeometric_draws_follow_the_hypergeometric_law(good, bad, drawn):
    """False alarm 1e-4 each, fixed seed."""
    rng = np.random.default_rng(11)
    draws = np.array([hypergeometric(good, bad, drawn, rng) for _ in range(DRAWS)])
    assert draws.min() >= max(0, drawn - bad)
    assert draws.max() <= min(good, drawn)
    assert p_value(draws, Hypergeometric(good, bad, drawn)) > 1e-4


def test_a_sampler_that_is_slightly_off_is_noticed():
    """Binomial draws in place of hypergeometric ones, and a rate off by a seventh of a deviation."""
    rng = np.random.default_rng(12)
    with_replacement = np.array([binomial(25, 0.4, rng) for _ in range(DRAWS)])
    assert p_value(with_replacement, Hypergeometric(20, 30, 25)) < 1e-4
    shifted = np.array([binomial(5000, 0.7 + 0.15 * math.sqrt(0.21 / 5000), rng) for _ in range(DRAWS)])
    assert p_value(shifted, binom(5000, 0.7)) < 1e-4


def test_the_certain_cases_are_certain():
    rng = np.random.default_rng(13)
    assert [binomial(0, 0.5, rng), binomial(9, 0.0, rng), binomial(9, 1.0, rng)] == [0, 0, 9]
    assert hypergeometric(0, 10**12, 10**6, rng) == 0
    assert hypergeometric(10**12, 0, 10**6, rng) == 10**6
    assert hypergeometric(30, 40, 70, rng) == 30
    assert hypergeometric(30, 40, 0, rng) == 0


@pytest.mark.parametrize("n", [1, 15, 16, 17, 1000, 10**6, 10**12])
def test_the_mass_keeps_its_digits(n):
    for p in (1e-3, 0.3, 0.5):
        for share in (0.0, 0.2, 0.5, 1.0):
            x = round(n * share) if n < 10**9 else round(n * p + (share - 0.5) * math.sqrt(n))
            exact = math.lgamma(n + 1) - math.lgamma(x + 1) - math.lgamma(n - x + 1)
            exact += x * math.log(p) + (n - x) * math.log1p(-p)
            # the twin by log-gamma itself loses digits as n grows
            assert log_binomial(float(x), float(n), p) == pytest.approx(exact, rel=1e-10, abs=1e-12 + 1e-14 * n)
