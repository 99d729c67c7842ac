"""Several answers together: exact sums, the worst round, one plain sentence."""

from __future__ import annotations

from fractions import Fraction

import pytest

from privquant.errors import InvalidInput
from privquant.messages import Guarantee, ShuffledRound
from privquant.privacy import shuffle
from privquant.privacy.composition import exact, rounded_up, same_user, total, worst_round

LOCAL = Guarantee("local", 0.1)
SHUFFLE = Guarantee("shuffle", 0.5, 1e-8, 6.6, 100_000)


def test_ten_times_a_tenth_is_one() -> None:
    assert total([0.1] * 10) == 1
    assert same_user([LOCAL] * 10).epsilon == 1.0


def test_floats_would_drift() -> None:
    """Twin: a running sum of floats misses a budget of 1 that is met exactly."""
    drifting = 0.0
    for _ in range(10):
        drifting += 0.1
    assert drifting != 1.0


def test_a_sum_that_is_no_float_is_rounded_up() -> None:
    for value in (Fraction(1, 3), Fraction(2, 3), Fraction(10**20 + 1, 10**20)):
        assert exact(rounded_up(value)) >= value
    assert rounded_up(Fraction(1, 10)) == 0.1


def test_the_same_user_pays_the_sum() -> None:
    both = same_user([LOCAL, SHUFFLE, SHUFFLE])
    assert both == Guarantee("shuffle", 1.1, 2e-8, 13.3, 100_000, 3)
    assert str(both) == (
        "A user's 3 answers together are (1.1, 2e-08)-differentially private if the shuffler is honest and mixes "
        "at least 100000 honest reports, and 13.3-differentially private otherwise."
    )
    assert str(same_user([LOCAL, LOCAL])) == (
        "A user's 2 answers together are 0.2-differentially private whatever any server does."
    )


def test_sums_of_sums_are_sums() -> None:
    assert same_user([same_user([LOCAL, SHUFFLE]), LOCAL]) == same_user([LOCAL, LOCAL, SHUFFLE])


def test_disjoint_users_pay_the_worst_round_only() -> None:
    small = Guarantee("shuffle", 0.7, 1e-9, 6.0, 20_000)
    worst = worst_round([SHUFFLE, small])
    rounds = (ShuffledRound(1, 100_000, 6.6, 0.5), ShuffledRound(2, 20_000, 6.0, 0.7))
    assert worst == Guarantee("shuffle", 0.7, 1e-8, 6.6, 20_000, rounds=rounds)
    assert str(worst).startswith("Each answer is (0.7, 1e-08)-differentially private")
    # 20,000 reports through the coin of the other round would be no such promise
    assert "its own number of honest reports (20,000 to 100,000 in 2 rounds)" in str(worst)
    assert shuffle.epsilon(local_epsilon=6.6, batch=20_000, delta=1e-8) > 0.7
    assert same_user([worst, SHUFFLE]).rounds == (*rounds, ShuffledRound(3, 100_000, 6.6, 0.5))
    assert worst_round([LOCAL, Guarantee("local", 0.3)]) == Guarantee("local", 0.3)
    assert worst_round([SHUFFLE]) == same_user([SHUFFLE]) == SHUFFLE


def test_a_local_round_counts_for_what_is_left_without_a_shuffler() -> None:
    assert worst_round([Guarantee("local", 9.0), SHUFFLE]).local_epsilon == 9.0


@pytest.mark.parametrize("wrong", [-0.1, float("nan"), float("inf"), "abc", None])
def test_what_is_no_privacy_parameter_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInput, match="privacy parameter"):
        exact(wrong)  # type: ignore[arg-type]


def test_nothing_cannot_be_composed() -> None:
    with pytest.raises(InvalidInput, match="no guarantee"):
        worst_round([])
    with pytest.raises(InvalidInput, match="no guarantee"):
        same_user([])
    with pytest.raises(InvalidInput, match="local_epsilon"):
        same_user([Guarantee("shuffle", 1.0, 1e-8)])
