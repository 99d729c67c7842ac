"""Binomial probabilities and Clopper-Pearson limits, held against scipy and against 50-digit arithmetic."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from privquant.privacy.binomial import lower_bound, lower_tail, tail_series, upper_bound, window
from privquant.privacy.difference import log_pmf


def _precise_log_pmf(x: int, n: int, q: float) -> mpmath.mpf:
    with mpmath.workdps(50):
        rate = mpmath.mpf(q)
        choose = mpmath.loggamma(n + 1) - mpmath.loggamma(x + 1) - mpmath.loggamma(n - x + 1)
        return choose + x * mpmath.log(rate) + (n - x) * mpmath.log(1 - rate)


@pytest.mark.parametrize("n", [1, 7, 40, 1_000, 10**6, 10**8, 10**12])
@pytest.mark.parametrize("q", [1e-6, 0.01, 0.2689, 0.5])
def test_the_pmf_keeps_its_digits(n: int, q: float) -> None:
    mean, spread = n * q, math.sqrt(n * q * (1 - q))
    for z in (-6.0, -1.0, 0.0, 1.0, 6.0):
        x = min(max(round(mean + z * spread), 0), n)
        assert log_pmf(x, n, q) == pytest.approx(float(_precise_log_pmf(x, n, q)), rel=1e-13, abs=2e-13)


def test_log_gamma_would_lose_them() -> None:
    """Twin: at n = 10^8 the textbook formula misses what the check above demands."""
    n, q = 10**8, 0.2689
    x = round(n * q)
    textbook = math.lgamma(n + 1) - math.lgamma(x + 1) - math.lgamma(n - x + 1)
    textbook += x * math.log(q) + (n - x) * math.log1p(-q)
    assert abs(textbook - float(_precise_log_pmf(x, n, q))) > 1e-9


@pytest.mark.parametrize(("n", "q"), [(1, 0.3), (50, 0.01), (1_000, 0.2689), (10**6, 1e-5), (10**8, 0.25)])
def test_a_window_holds_all_but_its_tails(n: int, q: float) -> None:
    found = window(n, q, 40.0)
    law = stats.binom(n, q)
    assert law.cdf(found.start - 1) <= math.exp(-40)
    assert law.sf(found.stop - 1) <= math.exp(-40)
    assert np.sum(found.pmf) == pytest.approx(1.0, abs=1e-11)
    for i in (0, len(found.pmf) // 2, len(found.pmf) - 1):
        assert math.log(found.pmf[i]) == pytest.approx(log_pmf(found.start + i, n, q), abs=1e-10)


@pytest.mark.parametrize(("x", "n", "q"), [(3, 20, 0.3), (40, 1_000, 0.06), (266_000, 10**6, 0.2689), (0, 5, 0.1)])
def test_a_tail_in_units_of_its_last_term(x: int, n: int, q: float) -> None:
    law = stats.binom(n, q)
    assert tail_series(x, n, q / (1 - q)) == pytest.approx(law.cdf(x - 1) / law.pmf(x), rel=1e-7)
    assert lower_tail(x, n, q) == pytest.approx(law.cdf(x), rel=1e-7)
    assert lower_tail(n - x, n, q) == pytest.approx(law.cdf(n - x), rel=1e-9)


@pytest.mark.parametrize("trials", [1, 10, 1_000, 2_000_000])
@pytest.mark.parametrize("error", [0.05, 1e-3, 1e-9])
def test_clopper_pearson_agrees_with_the_beta_quantile(trials: int, error: float) -> None:
    for successes in sorted({0, 1, trials // 10, trials // 4, trials // 2, trials - 1, trials}):
        low = stats.beta.ppf(error, successes, trials - successes + 1) if successes else 0.0
        high = stats.beta.isf(error, successes + 1, trials - successes) if successes < trials else 1.0
        assert lower_bound(successes, trials, error) == pytest.approx(low, rel=1e-7)
        assert upper_bound(successes, trials, error) == pytest.approx(high, rel=1e-7)
