"""The paper's problems: each runs, and its answer is what the problem asks for."""

import numpy as np
import pytest

from privquant.domain import Integers
from privquant.errors import InvalidInput
from privquant.lab.sample import Sample
from studies import paper_problems as problems

DOMAIN = Integers(0, 63)
VALUES = np.random.default_rng(0).integers(0, 64, 4000)
SAMPLE = Sample(VALUES, 64)


def rng(seed=1):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("protocol", ["naive", "hierarchical", "bayeslearn"])
def test_empirical_and_statistical_quantiles(protocol, q):
    for found in (
        problems.empirical_quantile(VALUES, q, epsilon=4.0, domain=DOMAIN, rng=rng(), protocol=protocol),
        problems.statistical_quantile(
            VALUES, q, users=6000, epsilon=4.0, domain=DOMAIN, rng=rng(), protocol=protocol
        ),
    ):
        assert SAMPLE.success(np.array([found.value]), q, 0.08)[0]
        assert found.quantile == q


def test_padding_moves_the_quantile_to_the_median_and_doubles_the_error():
    for q in (0.1, 0.25, 0.5, 0.9):
        more = problems.padded(SAMPLE, q)
        assert more.n == 2 * SAMPLE.n
        inner = np.arange(63)
        halved = (1 - q) / 2 + SAMPLE.at_most(inner) / SAMPLE.n / 2
        assert more.at_most(inner) / more.n == pytest.approx(halved, abs=1 / SAMPLE.n)
        found = problems.padded_quantile(VALUES, q, epsilon=4.0, domain=DOMAIN, rng=rng(2))
        assert SAMPLE.success(np.array([found.value]), q, 0.12)[0]
        assert (found.quantile, found.users) == (q, 4000)
        assert "4000 virtual users" in found.notes[0]


def test_direct_search_beats_padding_at_equal_real_users():
    """200 runs each of q = 0.9: the padded way's mean rank error is larger by many standard errors."""
    errors = {"direct": [], "padded": []}
    for seed in range(200):
        few = rng(seed).permutation(VALUES)[:600]
        for name, way in (("direct", problems.empirical_quantile), ("padded", problems.padded_quantile)):
            found = way(few, 0.9, epsilon=2.0, domain=DOMAIN, rng=rng(seed))
            errors[name].append(SAMPLE.rank_error(np.array([found.value]), 0.9)[0])
    gap = np.array(errors["padded"]) - np.array(errors["direct"])
    assert gap.mean() > 3 * gap.std() / 200**0.5


def test_the_trivial_answer_is_right_for_every_data_set():
    for values in (np.zeros(10), np.full(10, 63), np.arange(64)):
        sample = Sample(values.astype(np.int64), 64)
        for q, answer in ((0.01, 0), (0.99, 63)):
            assert problems.trivial_quantile(q, 0.02, DOMAIN) == answer
            assert sample.success(np.array([answer]), q, 0.02)[0]
    assert problems.trivial_quantile(0.02, 0.02, DOMAIN) is None, "at q = alpha nobody below may be nobody at all"
    assert problems.trivial_quantile(0.5, 0.02, Integers(-5, 5)) is None


COINS = np.linspace(0, 1, 200) ** 2


@pytest.mark.parametrize("protocol", ["naive", "bayess", "bayeslearn"])
def test_noisy_binary_search_without_privacy(protocol):
    for tau in (0.2, 0.5):
        found = problems.noisy_binary_search(COINS, tau, throws=4000, rng=rng(3), protocol=protocol)
        assert problems.is_good(COINS, found, tau, 0.06)


def test_a_target_below_every_coin_is_said_to_be():
    assert problems.noisy_binary_search([0.6, 0.9], 0.5, throws=3000, rng=rng()) == -1
    assert problems.noisy_binary_search([0.1, 0.2], 0.5, throws=3000, rng=rng()) == 1


@pytest.mark.parametrize("protocol", ["naive", "bayess"])
def test_the_adversary_moves_the_answer_by_no_more_than_its_reach(protocol):
    alpha, c = 0.05, 1.0
    for sign in (-1, 1):
        found = problems.adversarial_search(
            COINS,
            0.5,
            alpha=alpha,
            c=c,
            adversary=lambda index, p, thrown, sign=sign: p + sign * alpha,
            throws=4000,
            rng=rng(4),
            protocol=protocol,
        )
        assert problems.is_good(COINS, found, 0.5, alpha * (1 + c))
        # It does move it: the coin found is on the side the adversary wants.
        assert (COINS[found] < 0.5) == (sign > 0)


def test_an_adversary_who_goes_too_far_is_refused():
    with pytest.raises(InvalidInput, match=r"may move it by at most 0\.05"):
        problems.adversarial_search(
            COINS, alpha=0.05, c=1.0, adversary=lambda i, p, t: p + 0.2, throws=10, rng=rng()
        )


def test_coins_must_be_probabilities_that_do_not_fall():
    for bad in ([], [0.5, 0.4], [0.2, 1.2], [[0.1]]):
        with pytest.raises(InvalidInput, match="probabilities"):
            problems.noisy_binary_search(bad, throws=5, rng=rng())
    with pytest.raises(InvalidInput, match="throws must be at least 1"):
        problems.noisy_binary_search([0.5], throws=0, rng=rng())


def test_the_cdf_by_the_tree():
    found = problems.cdf_by_tree(VALUES, epsilon=6.0, domain=DOMAIN, rng=rng(), consistency=True)
    assert found.error(SAMPLE) < 0.1
    assert found.guarantee.epsilon == pytest.approx(6.0)
    assert found.at([63]) == [1.0]


def test_the_cdf_by_a_non_adaptive_median():
    """If each median is alpha-good the reduction promises alpha (1 + 1/q): 0.6 for alpha = 0.2 and the median."""
    values = VALUES[:1500]
    found = problems.cdf_by_medians(values, alpha=0.2, epsilon=16.0, domain=DOMAIN, rng=rng(), encoding="hadamard")
    assert found.guarantee.answers == 4
    assert found.guarantee.epsilon == pytest.approx(16.0)
    assert found.error(Sample(values, 64)) < 0.2 * 3
    rising = found.at(range(64))
    assert (np.diff(rising) >= 0).all()
    assert rising[-1] == 1.0


def test_the_reduction_needs_a_protocol_that_does_not_adapt():
    with pytest.raises(InvalidInput, match="non-adaptive protocol such as 'hierarchical', got 'naive'"):
        problems.cdf_by_medians(VALUES, alpha=0.2, epsilon=5.0, domain=DOMAIN, rng=rng(), protocol="naive")
