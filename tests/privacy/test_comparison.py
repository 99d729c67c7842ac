"""What exact accounting saves: the table of the docs, and the noise it is measured in."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privquant.errors import InvalidInput
from privquant.privacy import shuffle
from privquant.privacy.coin import Coin
from privquant.privacy.comparison import (
    coin_noise,
    coins_by_method,
    epsilons_by_method,
    saving,
    savings,
    users_needed,
    whole_error,
)


def test_coin_noise_is_the_spread_of_a_simulated_batch() -> None:
    """4000 batches, fixed seed: the deviation is within 5 % (4.5 sd, false alarm 1e-5); 10 % is told apart."""
    rng = np.random.default_rng(1)
    local, batch = 1.5, 500
    coin = Coin.of(local)
    ones = rng.binomial(batch // 2, 1 - coin.flip, 4_000) + rng.binomial(batch // 2, coin.flip, 4_000)
    spread = float(np.std((ones / batch - 0.5) / coin.kappa))
    assert coin_noise(local, batch) == pytest.approx(spread, rel=0.05)
    assert coin_noise(1.1 * local, batch) != pytest.approx(spread, rel=0.05)


@pytest.mark.parametrize(
    ("epsilon", "exact", "lemma"), [(0.1, 47.5, 398.0), (0.5, 11.6, 80.0), (1.0, 7.0, 40.0), (2.0, 4.9, 20.0)]
)
def test_the_published_noise_in_users(epsilon: float, exact: float, lemma: float) -> None:
    results = {
        r.method: r for r in coins_by_method(epsilon=epsilon, delta=1e-8, batch=10**10, methods=("exact", "lemma"))
    }
    assert results["exact"].noise_users == pytest.approx(exact, abs=0.06)
    assert results["lemma"].noise_users == pytest.approx(lemma, abs=0.5)


def test_fewer_users_at_large_batches() -> None:
    """Four to eight times and a half, for epsilon 0.1 to 2 at a million users."""
    for row in savings(delta=1e-8, batches=(1_000_000,)):
        assert 4.0 < row.ratio < 8.6


def test_over_twenty_times_fewer_at_a_thousand() -> None:
    row = saving(epsilon=0.1, delta=1e-8, batch=1_000)
    assert row.ratio > 20
    # The number is the edge: one user fewer has more noise than the exact batch.
    assert users_needed(noise=row.noise, epsilon=0.1, delta=1e-8, method="lemma") == row.needed
    assert coin_noise(0.1, row.needed) <= row.noise < coin_noise(0.1, row.needed - 1)


@pytest.mark.parametrize(
    ("epsilon", "batch", "ratio"),
    [(0.1, 1_000, 40.1), (0.1, 1_000_000, 1.51), (0.5, 1_000_000, 1.02), (1.0, 1_000, 3.91), (2.0, 1_000_000, 1.0)],
)
def test_what_a_sample_gains(epsilon: float, batch: int, ratio: float) -> None:
    """The error of drawing people is the same under every account, so less is gained than as to coin noise."""
    row = saving(epsilon=epsilon, delta=1e-8, batch=batch)
    assert row.ratio_of_a_sample == pytest.approx(ratio, rel=0.005)
    assert row.ratio_of_a_sample < row.ratio
    lemma = shuffle.local_epsilon(epsilon=epsilon, delta=1e-8, batch=row.needed_of_a_sample, method="lemma")
    here = whole_error(row.local_epsilon, batch)
    assert whole_error(lemma, row.needed_of_a_sample) == pytest.approx(here, rel=1e-3)
    # By hand: a report is a one with probability 1/2, and the rate is read off with a slope of kappa.
    assert here == pytest.approx(0.5 / math.tanh(row.local_epsilon / 2) / math.sqrt(batch), rel=1e-9)


def test_exact_accounting_saves_nothing_against_itself() -> None:
    """Twin: the same search with the exact method finds the batch it started from."""
    row = saving(epsilon=1.0, delta=1e-8, batch=5_000, method="exact")
    assert row.ratio == pytest.approx(1.0, abs=2e-3)


def test_coins_and_epsilons_by_method_agree() -> None:
    results = coins_by_method(epsilon=1.0, delta=1e-6, batch=10_000)
    for result in results:
        found = {
            v.method: v for v in epsilons_by_method(local_epsilon=result.local_epsilon, delta=1e-6, batch=10_000)
        }
        assert found[result.method].epsilon <= 1.0
        assert found[result.method].epsilon == pytest.approx(1.0, rel=2e-3)


def test_a_noise_nobody_can_reach_is_refused() -> None:
    with pytest.raises(InvalidInput, match="needs more than"):
        users_needed(noise=1e-14, epsilon=0.1, delta=1e-8, method="lemma")
    assert math.isfinite(coin_noise(0.1, 1))
