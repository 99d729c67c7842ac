"""Colluders and drop-outs at their worst: exact tails, and the sentences that were false without them."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from privquant.errors import InvalidInput
from privquant.privacy import shuffle
from privquant.privacy.binomial import hypergeometric_tail, most_colluders
from privquant.privacy.shuffle_exact import stakes


def _binomial_tail(x: int, n: int, f: Fraction) -> Fraction:
    """Pr[X >= x], by its definition."""
    return sum((math.comb(n, k) * f**k * (1 - f) ** (n - k) for k in range(x, n + 1)), Fraction(0))


def _drawn_tail(x: int, drawn: int, marked: int, total: int) -> Fraction:
    ways = sum(math.comb(marked, k) * math.comb(total - marked, drawn - k) for k in range(x, drawn + 1))
    return Fraction(ways, math.comb(total, drawn))


@pytest.mark.parametrize("batch", [2, 7, 60])
@pytest.mark.parametrize("colluding", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("miss", [0.1, 1e-4, 1e-9])
def test_the_number_is_passed_as_seldom_as_said_and_is_the_smallest(batch, colluding, miss):
    f, others = Fraction(repr(colluding)), batch - 1
    most = most_colluders(batch, colluding, miss=miss)
    assert _binomial_tail(most + 1, others, f) <= miss
    if most > math.floor(f * others):
        assert _binomial_tail(most, others, f) > miss * (1 - 1e-8)


@pytest.mark.parametrize(("population", "batch"), [(12, 12), (40, 12), (300, 60)])
@pytest.mark.parametrize("colluding", [0.1, 0.5])
@pytest.mark.parametrize("miss", [0.1, 1e-6])
def test_drawing_without_return_is_bounded_too(population, batch, colluding, miss):
    marked = math.ceil(Fraction(repr(colluding)) * population)
    most = most_colluders(batch, colluding, miss=miss, population=population)
    assert _drawn_tail(most + 1, batch - 1, marked, population - 1) <= miss
    assert most <= most_colluders(batch, colluding, miss=miss)


def test_the_tail_of_drawing_is_a_bound_and_close_where_it_is_small():
    for x in range(12, 24):
        true = float(_drawn_tail(x, 60, 30, 300))
        assert true <= hypergeometric_tail(x, 60, 30, 300) * (1 + 1e-9) <= 1.6 * true
    assert hypergeometric_tail(31, 60, 30, 300) == 0.0


def test_all_of_a_population_in_the_batch_leaves_nothing_to_vary():
    assert most_colluders(100_000, 0.3, miss=1e-9, population=100_000) == 30_000
    assert most_colluders(100_000, 0.3, miss=1e-9) > most_colluders(100_000, 0.3, miss=1e-9, population=200_000)
    assert most_colluders(100_000, 0.0, miss=1e-9) == most_colluders(1, 0.5, miss=1e-9) == 0
    assert most_colluders(10, 0.9, miss=1e-300) == 9
    with pytest.raises(InvalidInput, match="population is at least the batch of 100, got 99"):
        most_colluders(100, 0.3, miss=1e-9, population=99)


# -- what a guarantee says of it -----------------------------------------------------------------------------

COIN = shuffle.local_epsilon(epsilon=1.0, delta=1e-8, batch=100_000, colluding=0.3)


def test_colluders_do_not_shrink_with_the_drop_outs():
    """30 % of 100,000 collude and 40,000 answer: 10,000 of them are honest, not 28,000."""
    found = shuffle.guarantee(
        local_epsilon=COIN, batch=100_000, delta=1e-8, colluding=0.3, answered=40_000, population=100_000
    )
    assert found.batch == 10_000
    assert found.epsilon == pytest.approx(7.26, abs=0.005)
    by_share = shuffle.epsilon(local_epsilon=COIN, batch=40_000, delta=1e-8, colluding=0.3)
    assert by_share == pytest.approx(2.84, abs=0.005)  # the sentence that was false


def test_a_random_batch_may_hold_more_than_its_share():
    """Even with everybody answering, 30 % of all users are not at most 30 % of each batch."""
    found = shuffle.guarantee(local_epsilon=COIN, batch=100_000, delta=1e-8, colluding=0.3)
    worst = most_colluders(100_000, 0.3, miss=1e-9)
    assert found.batch == 100_000 - worst < 70_000
    assert found.epsilon > 1.0
    assert found.delta == 1e-8
    # what is left of delta beside the chance of more colluders is what the batch was accounted for
    assert shuffle.delta(epsilon=found.epsilon, local_epsilon=COIN, batch=found.batch) <= 0.9e-8


def test_more_colluders_than_answers_leave_the_coin_alone():
    found = shuffle.guarantee(local_epsilon=2.0, batch=1000, delta=1e-8, colluding=0.5, answered=400)
    assert found.batch == 1
    assert 1.999999 < found.epsilon <= 2.0


def test_without_colluders_all_of_delta_is_the_batchs():
    found = shuffle.guarantee(local_epsilon=2.0, batch=1000, delta=1e-8)
    assert found.epsilon == shuffle.epsilon(local_epsilon=2.0, batch=1000, delta=1e-8)


@pytest.mark.parametrize("local", [0.3, 1.3, 7.7, 44.0])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.37, 0.999])
def test_the_cap_on_delta_is_never_below_what_a_user_alone_loses(local, share):
    import mpmath

    epsilon = share * local
    with mpmath.workdps(60):
        q = 1 / (1 + mpmath.e ** mpmath.mpf(local))
        alone = (1 - q) - mpmath.e ** mpmath.mpf(epsilon) * q
        for method in ("exact", "stronger", "clones"):
            assert shuffle.delta(epsilon=epsilon, local_epsilon=local, batch=1, method=method) >= alone
        assert stakes(epsilon, local).most <= alone * (1 + mpmath.mpf(2) ** -44)
