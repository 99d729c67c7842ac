"""The paper's lemmas about the Bayesian search, each run against its formula. A check states the constant it tests.

Monte-Carlo checks have fixed seeds; each says how often it would fail if the lemma holds with exactly its bound.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privquant._numba import HAVE_NUMBA
from privquant.domain import Integers
from privquant.lab.populations import Coins
from privquant.lab.run import run
from privquant.lab.sample import Sample
from privquant.lab.trials import trials
from privquant.planning.limits import adaptive_lower_bound
from privquant.planning.theory import cdf_drift_probability, padded_rate, search_flips_order
from privquant.protocols.bayes.bayeslearn import BayesLearn
from privquant.protocols.registry import protocol
from studies.paper_problems import adversarial_search, is_good, padded

# -- Lemma 3.1: the CDF of the users not yet asked ---------------------------------------------------------------


def drifts(users: int, size: int, runs: int, seed: int) -> NDArray[np.float64]:
    """max over t <= n/2 of |p_j^t - p_j^0| for every threshold j: one row a run."""
    rng = np.random.default_rng(seed)
    values = np.sort(rng.integers(0, size, users))
    left = users - np.arange(1, users // 2 + 1)
    found = np.empty((runs, size - 1))
    for k in range(runs):
        below = rng.permutation(values)[:, None] <= np.arange(size - 1)
        total = below.sum(axis=0)
        asked = np.cumsum(below, axis=0)[: users // 2]
        found[k] = np.abs((total - asked) / left[:, None] - total / users).max(axis=0)
    return found


@pytest.mark.parametrize("alpha", [0.16, 0.2, 0.25])
def test_one_threshold_drifts_no_more_than_azuma_says(alpha: float) -> None:
    """Constant: exponent alpha^2 m / 2 with m = n/2. 4 standard errors above the bound: false-alarm rate 3e-5."""
    runs = 1500
    seen = drifts(400, 3, runs, seed=1)[:, 0] >= alpha
    bound = cdf_drift_probability(users=400, alpha=alpha)
    assert seen.mean() <= bound + 4 * math.sqrt(bound * (1 - min(bound, 1)) / runs)


def test_an_exponent_sixteen_times_as_large_would_be_noticed() -> None:
    """The check above can fail: the true exponent is about 4 alpha^2 m, not 8."""
    runs, alpha, half = 1500, 0.06, 200
    seen = (drifts(400, 3, runs, seed=1)[:, 0] >= alpha).mean()
    claimed = 2 * math.exp(-8 * alpha**2 * half)
    assert claimed < 1
    assert seen > claimed + 4 * math.sqrt(claimed * (1 - claimed) / runs)


def test_no_threshold_drifts_when_n_is_8_log_b_over_alpha_squared() -> None:
    """Constant C = 8: the union bound gives 2 B^(1 - C/4) = 2/B a run. 200 runs at B = 64, at most 6 expected; more
    than 17 has probability below 1e-4."""
    size, alpha = 64, 0.25
    users = math.ceil(8 * search_flips_order(size=size, alpha=alpha))
    assert cdf_drift_probability(users=users, alpha=alpha, thresholds=size) == pytest.approx(2 / size, rel=0.05)
    seen = drifts(users, size, 200, seed=2).max(axis=1) >= alpha
    assert seen.sum() <= 17


# -- Theorem 3.2: adversarial noisy binary search ----------------------------------------------------------------

SIZE, ALPHA = 64, 0.12


def coins(crossing: int, step: float = 0.01) -> list[float]:
    """Rates that rise slowly and jump across 1/2 at one coin: only coins near it are good."""
    rates = [0.5 + math.copysign(0.3, i - crossing + 0.5) + step * (i - crossing) / 4 for i in range(SIZE - 1)]
    return [min(max(r, 0.02), 0.98) for r in rates]


def towards_the_target(index: int, rate: float, flips: int) -> float:
    """The worst an adversary of reach c alpha can do: every coin looks as close to 1/2 as allowed."""
    return rate - math.copysign(min(ALPHA, abs(rate - 0.5)), rate - 0.5)


def searched(crossing: int, flips: int, seed: int) -> bool:
    rates = coins(crossing)
    found = adversarial_search(
        rates,
        0.5,
        alpha=ALPHA,
        c=1.0,
        adversary=towards_the_target,
        throws=flips,
        rng=np.random.default_rng(seed),
        protocol="bayess",
        final="test",
        split="theorem",
    )
    return bool(is_good(rates, found, 0.5, 2 * ALPHA))


def test_an_adversary_of_reach_alpha_is_withstood() -> None:
    """Constant: 30 ln B / alpha^2 flips, c = 1. "With high probability in B": all of 12 runs."""
    flips = math.ceil(30 * search_flips_order(size=SIZE, alpha=ALPHA))
    assert all(searched(5 + 4 * k, flips, seed=k) for k in range(12))


def test_too_few_flips_do_not_withstand_it() -> None:
    """The check above can fail: with a hundredth of the flips most runs end on a bad coin."""
    flips = math.ceil(0.3 * search_flips_order(size=SIZE, alpha=ALPHA))
    assert sum(searched(5 + 4 * k, flips, seed=k) for k in range(12)) < 8


def test_a_share_of_gamma_of_the_visited_cells_is_good() -> None:
    """The lemma behind it, gamma = 1/13: after 30 ln B / alpha^2 flips against the adversary, more than 1/13 of the
    visited cells are (1/2, 2 alpha)-good."""
    flips = math.ceil(30 * search_flips_order(size=SIZE, alpha=ALPHA))
    for crossing in (3, 31, 58):
        rates = coins(crossing)
        made = protocol("bayeslearn", Integers(0, SIZE - 1), users=flips, epsilon=60.0, alpha=ALPHA)
        assert isinstance(made, BayesLearn)
        run(
            made,
            Coins(
                lambda i, r=rates: r[i], np.random.default_rng(crossing), adversary=towards_the_target, reach=ALPHA
            ),
        )
        good = sum(
            count
            for cell, count in zip(*made._posterior.visited(), strict=True)
            if is_good(rates, cell - 1, 0.5, 2 * ALPHA)
        )
        assert good > flips / 13


# -- The padding lemma -------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=10, max_size=60), st.integers(1, 9), st.floats(0.01, 0.3))
def test_a_median_of_the_padded_users_is_a_quantile_of_the_users(
    values: list[int], tenths: int, alpha: float
) -> None:
    """Exact: F_P = (1-tau)/2 + F/2 below the top, so an alpha-median of D_P is a 2 alpha-quantile of D."""
    values = values * 10  # so that tau n is whole
    tau, sample = tenths / 10, Sample(np.array(values), 31)
    both = padded(sample, tau)
    assert both.n == 2 * sample.n
    thresholds = np.arange(30)
    np.testing.assert_allclose(
        both.at_most(thresholds) / both.n, padded_rate(sample.at_most(thresholds) / sample.n, tau), atol=1e-12
    )
    answers = np.arange(1, 31)
    of_median = both.success(answers, 0.5, alpha)
    of_quantile = sample.success(answers, tau, 2 * alpha + 1e-12)
    assert not (of_median & ~of_quantile).any()


# -- The lower bound's hard family -------------------------------------------------------------------------------


def hard(size: int, users: int, alpha: float, beta: int, q: float = 0.5) -> NDArray[np.int64]:
    """q - 2 alpha of the users at the bottom, 4 alpha at beta, the rest at the top."""
    low, middle = round((q - 2 * alpha) * users), round(4 * alpha * users)
    return np.repeat(np.array([0, beta, size - 1], np.int64), [low, middle, users - low - middle])


def success(size: int, factor: float, seed: int, alpha: float = 0.1, epsilon: float = 0.5) -> float:
    users = math.ceil(factor * adaptive_lower_bound(alpha=alpha, epsilon=epsilon, size=size))
    values = hard(size, users, alpha, beta=size // 3 + 12_345 % size)
    done = trials(
        values, protocol="bayeslearn", epsilon=epsilon, domain=Integers(0, size - 1), trials=150, seed=seed
    )
    return done.success(alpha)


@pytest.mark.skipif(not HAVE_NUMBA, reason="needs the engine")
@pytest.mark.parametrize("bits", [10, 20, 40])
def test_the_hard_family_takes_users_in_proportion_to_log_b(bits: int) -> None:
    """Constants: 1/10 of ln B/(eps alpha)^2 users give success below 1/2, 4 times as many above 3/4, for every B.
    150 trials put the rates within 0.12 at a false-alarm rate of 3e-3; the measured ones are far from both."""
    assert success(2**bits, 0.1, seed=bits) < 0.5
    assert success(2**bits, 4.0, seed=bits) > 0.75


def test_only_beta_is_a_good_answer() -> None:
    sample = Sample(hard(1000, 1000, 0.1, 400), 1000)
    good = np.flatnonzero(sample.success(np.arange(1000), 0.5, 0.1))
    assert good.tolist() == [400]
