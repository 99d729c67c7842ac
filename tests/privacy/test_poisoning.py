"""Liars: the formulas against the equation they solve, against a simulated search, and the figures published."""

from __future__ import annotations

import numpy as np
import pytest

from privquant.errors import InvalidInput
from privquant.privacy.coin import Coin
from privquant.privacy.poisoning import breakdown, honest_rates, impossible_rate, liars_within, shift


def _settles_at(liars: float, bit: int, epsilon: float, quantile: float) -> float:
    """The rank where honest users and liars together report at the target rate, by bisection on the equation."""
    coin = Coin.of(epsilon)
    target = coin.report_rate(quantile)
    low, high = 0.0, 1.0
    for _ in range(200):
        rank = 0.5 * (low + high)
        if (1 - liars) * coin.report_rate(rank) + liars * bit < target:
            low = rank
        else:
            high = rank
    return low


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("liars", [0.0, 0.001, 0.01, 0.1, 0.5, 0.9])
def test_the_shift_solves_the_equation(epsilon: float, quantile: float, liars: float) -> None:
    found = shift(liars, epsilon=epsilon, quantile=quantile)
    assert quantile + found.low == pytest.approx(_settles_at(liars, 1, epsilon, quantile), abs=1e-12)
    assert quantile + found.high == pytest.approx(_settles_at(liars, 0, epsilon, quantile), abs=1e-12)


def test_the_published_figures() -> None:
    """5 % liars move the median by 5.7 points at epsilon 1; breakdown at 32 % and 4.8 %."""
    assert shift(0.05, epsilon=1.0).high == pytest.approx(0.057, abs=5e-4)
    assert shift(0.05, epsilon=1.0).low == pytest.approx(-0.057, abs=5e-4)
    assert breakdown(epsilon=1.0) == pytest.approx(0.316, abs=5e-4)
    assert breakdown(epsilon=0.1) == pytest.approx(0.0476, abs=5e-5)
    assert str(shift(0.05, epsilon=1.0)) == "liars can move the answer's rank by -5.7 to +5.7 points"


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.8])
def test_the_breakdown_point_is_where_an_end_is_reached(quantile: float) -> None:
    edge = breakdown(epsilon=1.0, quantile=quantile)
    before, after = (shift(edge * s, epsilon=1.0, quantile=quantile) for s in (0.999, 1.001))
    assert before.low > -quantile
    assert before.high < 1 - quantile
    assert after.low == -quantile or after.high == 1 - quantile


def test_how_many_liars_an_error_allows() -> None:
    for quantile in (0.2, 0.5):
        f = liars_within(0.02, epsilon=1.0, quantile=quantile)
        moved = shift(f, epsilon=1.0, quantile=quantile)
        assert max(-moved.low, moved.high) == pytest.approx(0.02, rel=1e-9)


def test_a_simulated_threshold_moves_as_far_as_said() -> None:
    """A million reports at each threshold: the crossing moves by the bound, within 4.9 sd (false alarm 1e-6)."""
    rng = np.random.default_rng(7)
    epsilon, liars, n = 1.0, 0.05, 1_000_000
    coin = Coin.of(epsilon)
    rank = 0.5 + shift(liars, epsilon=epsilon).high
    honest = rng.binomial(round(n * (1 - liars)), coin.report_rate(rank))
    assert abs(honest / n - 0.5) < 4.9 * 0.5 / np.sqrt(n)
    # Twin: one point of rank further is told apart.
    honest = rng.binomial(round(n * (1 - liars)), coin.report_rate(rank + 0.01))
    assert abs(honest / n - 0.5) > 4.9 * 0.5 / np.sqrt(n)


def test_a_rate_no_honest_users_can_have_raises_the_alarm() -> None:
    low, high = honest_rates(epsilon=1.0)
    assert (low, high) == (pytest.approx(0.2689, abs=1e-4), pytest.approx(0.7311, abs=1e-4))
    assert impossible_rate(80_000, 100_000, epsilon=1.0)
    assert impossible_rate(20_000, 100_000, epsilon=1.0)
    assert not impossible_rate(73_100, 100_000, epsilon=1.0)
    assert not impossible_rate(8, 10, epsilon=1.0)


def test_honest_users_at_the_edge_do_not_raise_it() -> None:
    """All hold a one; 300 looks at false alarm 1e-4 each: more than 2 alarms have probability below 5e-6."""
    rng = np.random.default_rng(11)
    ones = rng.binomial(10_000, honest_rates(epsilon=1.0)[1], size=300)
    alarms = sum(impossible_rate(int(k), 10_000, epsilon=1.0, false_alarm=1e-4) for k in ones)
    assert alarms <= 2


@pytest.mark.parametrize("wrong", [-0.1, 1.0, float("nan"), True, "half"])
def test_a_fraction_of_liars_that_cannot_be_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInput, match="fraction of liars"):
        shift(wrong, epsilon=1.0)  # type: ignore[arg-type]


def test_more_ones_than_reports_are_refused() -> None:
    with pytest.raises(InvalidInput, match="ones is at most"):
        impossible_rate(11, 10, epsilon=1.0)
