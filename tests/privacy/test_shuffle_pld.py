"""A second opinion: the privacy loss distributions of dp-accounting, for one pair of laws at a time.

Its composition of randomized response miscounts (`count` is ignored), so it is asked about single pairs only.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from privquant.privacy import shuffle
from privquant.privacy.difference import log_pmf
from privquant.privacy.shuffle_exact import divergence, log_extreme, stakes

_INTERVAL = 1e-5


def _count_logs(ones: int, zeros: int, local: float) -> dict[int, float]:
    """ln of the law of the count of ones among users of whom `ones` hold a one."""
    p = 1 / (1 + math.exp(-local))
    first = np.exp([log_pmf(x, ones, p) for x in range(ones + 1)]) if ones else np.ones(1)
    second = np.exp([log_pmf(x, zeros, 1 - p) for x in range(zeros + 1)]) if zeros else np.ones(1)
    law = np.convolve(first, second)
    return {k: float(math.log(v)) for k, v in enumerate(law) if v > 1e-300}


def _pld_delta(ones: int, zeros: int, local: float, epsilon: float) -> tuple[float, float]:
    """Optimistic and pessimistic divergence between a user's one and a zero, among these others."""
    upper, lower = _count_logs(ones + 1, zeros, local), _count_logs(ones, zeros + 1, local)
    shared = upper.keys() & lower.keys()
    found = [
        pld.from_two_probability_mass_functions(
            {k: lower[k] for k in shared},
            {k: upper[k] for k in shared},
            pessimistic_estimate=pessimistic,
            value_discretization_interval=_INTERVAL,
            symmetric=False,
        ).get_delta_for_epsilon(epsilon)
        for pessimistic in (False, True)
    ]
    return float(found[0]), float(found[1])


_CASES = [(20, 1.0, 0.3), (100, 2.0, 1.2), (300, 2.0, 0.4), (1000, 3.0, 0.7)]


@pytest.mark.parametrize(("batch", "local", "epsilon"), _CASES)
def test_the_extreme_pair(batch: int, local: float, epsilon: float) -> None:
    low, high = _pld_delta(batch - 1, 0, local, epsilon)
    found = math.exp(log_extreme(epsilon, local, batch))
    assert low * (1 - 1e-6) <= found <= high * (1 + 1e-6)
    assert high - low <= 0.01 * high


@pytest.mark.parametrize(("batch", "local", "epsilon"), _CASES)
def test_the_worst_pair(batch: int, local: float, epsilon: float) -> None:
    bracket = shuffle.bracket(epsilon=epsilon, local_epsilon=local, batch=batch, rtol=1e-5)
    low, high = _pld_delta(bracket.worst, batch - 1 - bracket.worst, local, epsilon)
    assert low * (1 - 1e-6) <= bracket.upper
    assert bracket.lower <= high * (1 + 1e-6)


@pytest.mark.parametrize(("ones", "zeros"), [(10, 30), (30, 10), (0, 40), (20, 20)])
def test_any_pair(ones: int, zeros: int) -> None:
    # dp-accounting answers for the worse of the two directions.
    both = [divergence(stakes(0.4, 2.0), j, m, 60.0) for j, m in ((ones, zeros), (zeros, ones))]
    low, high = max(found[0] for found in both), max(found[1] for found in both)
    optimistic, pessimistic = _pld_delta(ones, zeros, 2.0, 0.4)
    assert optimistic * (1 - 1e-6) <= high
    assert low <= pessimistic * (1 + 1e-6)


def test_the_cross_check_can_fail() -> None:
    """Twin: a local epsilon off by 1 %, or the pair of another batch, lies outside the two estimates."""
    batch, local, epsilon = 300, 2.0, 0.4
    low, high = _pld_delta(batch - 1, 0, local, epsilon)
    assert math.exp(log_extreme(epsilon, 1.01 * local, batch)) > high
    assert math.exp(log_extreme(epsilon, local, batch + 10)) < low
