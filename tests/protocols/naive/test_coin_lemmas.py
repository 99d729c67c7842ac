"""The paper's lemmas on one coin and on the naive search, as checks of their formulas.

A lemma says that n reports suffice; the check runs with that n and counts failures. Each failure count is
compared with its binomial bound at a false-alarm rate of 1e-6, with a fixed seed, and a twin shows that far fewer
reports, or the formula as printed where it is wrong, do not do.
"""

import math

import numpy as np
import pytest
from scipy import stats

from privquant.domain import Integers
from privquant.errors import InvalidInput
from privquant.lab.engine import naive
from privquant.lab.sample import Sample
from privquant.planning.theory import coin_to_sample_mean, coin_to_statistical_mean, naive_search_users
from privquant.privacy.coin import Coin
from privquant.protocols.naive.search import NaiveSearch

RUNS = 4000
SETTINGS = [(0.05, 0.1, 0.5), (0.05, 0.1, 1.0), (0.1, 0.02, 2.0), (0.02, 0.2, 4.0)]


def too_many(failures: int, runs: int, beta: float) -> bool:
    """Whether so many failures refute a failure probability of at most beta, at a false-alarm rate of 1e-6."""
    return bool(stats.binom.sf(failures - 1, runs, beta) < 1e-6)


def coin_failures(n, alpha, epsilon, share, rng, *, drawn):
    """Runs in which n reports miss the mean of the users' bits (or the probability they were drawn with)."""
    coin = Coin.of(epsilon)
    true = rng.binomial(n, share, RUNS) if drawn else np.full(RUNS, round(share * n))
    ones = rng.binomial(true, 1 - coin.flip) + rng.binomial(n - true, coin.flip)
    missed = np.abs(0.5 + (ones / n - 0.5) / coin.kappa - (share if drawn else true / n)) > alpha
    return int(missed.sum())


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
@pytest.mark.parametrize(("alpha", "beta", "epsilon"), SETTINGS)
def test_one_coin_to_its_sample_mean(alpha, beta, epsilon, share):
    rng = np.random.default_rng(1)
    n = math.ceil(coin_to_sample_mean(alpha=alpha, beta=beta, epsilon=epsilon))
    assert not too_many(coin_failures(n, alpha, epsilon, share, rng, drawn=False), RUNS, beta)


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize(("alpha", "beta", "epsilon"), SETTINGS)
def test_one_coin_to_its_statistical_mean(alpha, beta, epsilon, share):
    rng = np.random.default_rng(2)
    n = math.ceil(coin_to_statistical_mean(alpha=alpha, beta=beta, epsilon=epsilon, p=share))
    assert not too_many(coin_failures(n, alpha, epsilon, share, rng, drawn=True), RUNS, beta)


def test_an_eighth_of_the_reports_does_not_do():
    alpha, beta, epsilon = SETTINGS[1]
    rng = np.random.default_rng(3)
    for drawn, lemma in ((False, coin_to_sample_mean), (True, coin_to_statistical_mean)):
        n = math.ceil(lemma(alpha=alpha, beta=beta, epsilon=epsilon) / 8)
        assert too_many(coin_failures(n, alpha, epsilon, 0.5, rng, drawn=drawn), RUNS, beta)


def test_the_sample_lemma_is_not_enough_for_the_statistical_mean():
    """With a nearly honest coin the users' own mean is known at once, and not the one they were drawn from."""
    n = math.ceil(coin_to_sample_mean(alpha=0.05, beta=0.1, epsilon=6.0))
    assert too_many(coin_failures(n, 0.05, 6.0, 0.5, np.random.default_rng(4), drawn=True), RUNS, 0.1)


def test_formulas_are_those_of_the_proofs():
    a, b, e = 0.05, 0.1, 1.0
    grown = math.exp(e)
    noise = 2 * grown / (a * a * (grown - 1) ** 2) + 2 * (grown + 1) / (3 * a * (grown - 1))
    assert coin_to_sample_mean(alpha=a, beta=b, epsilon=e) == pytest.approx(noise * math.log(2 / b))
    wanted = (noise + 2 * 0.3 * 0.7 / a**2) * math.log(2 / b)
    assert coin_to_statistical_mean(alpha=a, beta=b, epsilon=e, p=0.3) == pytest.approx(wanted)
    assert naive_search_users(size=1024, alpha=a, beta=b, epsilon=e, sampling=False) == 10 * math.ceil(
        noise * math.log(20 / b)
    )
    # Orders of growth: 1/eps^2 for small eps, 1/e^eps for large, log B log log B in the domain.
    small = [coin_to_sample_mean(alpha=0.01, beta=b, epsilon=x) for x in (0.01, 0.02)]
    assert small[0] / small[1] == pytest.approx(4, rel=0.01)
    assert naive_search_users(size=1, alpha=a, beta=b, epsilon=e) == 0
    assert math.isfinite(coin_to_sample_mean(alpha=a, beta=b, epsilon=2000.0))


def search_failures(users, sample, alpha, epsilon, q, trials, seed):
    template = NaiveSearch(Integers(0, sample.size - 1), users=users, epsilon=epsilon, quantile=q)
    answers = naive.simulate(template, sample, trials, np.random.default_rng(seed))[:, 0]
    return int((~sample.success(answers, q, alpha)).sum())


def crowd(users: int, size: int) -> Sample:
    return Sample.of_counts(np.arange(size), np.full(size, -(-users // size)), size)


@pytest.mark.parametrize(("epsilon", "q"), [(0.5, 0.5), (1.0, 0.5), (1.0, 0.9), (6.0, 0.5)])
def test_the_naive_search_needs_no_more_users_than_its_theorem(epsilon, q):
    """alpha = 0.05, beta = 0.1, B = 1024 uniform values: failures over 1500 runs, false-alarm rate 1e-6."""
    users = naive_search_users(size=1024, alpha=0.05, beta=0.1, epsilon=epsilon)
    assert not too_many(search_failures(users, crowd(users, 1024), 0.05, epsilon, q, 1500, seed=5), 1500, 0.1)


def test_a_fortieth_of_the_users_is_too_few():
    users = naive_search_users(size=1024, alpha=0.05, beta=0.1, epsilon=1.0)
    assert too_many(search_failures(users // 40, crowd(users, 1024), 0.05, 1.0, 0.5, 1500, seed=6), 1500, 0.1)


def test_the_theorem_without_sampling_promises_too_much_of_a_nearly_honest_coin():
    """As printed it learns each batch's own mean: at epsilon = 6 its n misses the quantile of all users."""
    users = naive_search_users(size=1024, alpha=0.05, beta=0.1, epsilon=6.0, sampling=False)
    # The users asked are a small part of the crowd whose quantile is wanted.
    assert too_many(search_failures(users, crowd(40 * users, 1024), 0.05, 6.0, 0.5, 1500, seed=7), 1500, 0.1)


def test_bad_settings_are_refused():
    for bad in ({"alpha": 0}, {"beta": 1.0}, {"epsilon": -1}):
        with pytest.raises(InvalidInput):
            coin_to_sample_mean(**({"alpha": 0.1, "beta": 0.1, "epsilon": 1.0} | bad))
