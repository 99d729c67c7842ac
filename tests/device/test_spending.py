"""Epsilons as whole numbers: never below what the coin really spends, and ten tenths are one."""

from decimal import Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privquant.device.spending import UNITS, cost, keeps, limit, shown
from privquant.errors import InvalidInput
from privquant.privacy.coin import DRAW, flip_threshold

EXACT = Context(prec=80)


def spent_exactly(flips: int) -> Decimal:
    return EXACT.multiply(EXACT.ln(EXACT.divide(Decimal(DRAW - flips), Decimal(flips))), Decimal(UNITS))


@given(st.integers(1, DRAW // 2 - 1))
def test_cost_is_the_real_epsilon_rounded_up_but_for_the_last_hundredth_of_a_unit(flips):
    real = spent_exactly(flips)
    assert cost(flips) >= EXACT.subtract(real, Decimal("0.0100000001"))
    assert cost(flips) <= max(Decimal(1), EXACT.add(real, Decimal(1)))


@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "0.3", "0.7", "1", "1.1", "2.2", "10"])
def test_a_campaign_at_a_round_epsilon_costs_exactly_that(epsilon):
    units = limit(epsilon, "x")
    assert cost(flip_threshold(float(epsilon))) == units == Decimal(epsilon) * UNITS
    assert limit(float(epsilon), "x") == units
    assert 10 * cost(flip_threshold(float(epsilon))) == limit(Decimal(epsilon) * 10, "x")


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.7, 1.0, 3.0])
def test_one_step_less_noise_than_the_limit_is_too_much(epsilon):
    flips = flip_threshold(epsilon)
    units = limit(epsilon, "x")
    assert keeps(units, flips)
    assert keeps(units, flips + 1)
    assert not keeps(units, flips - 1)


@pytest.mark.parametrize("bad", [0, -1, "nan", "inf", float("inf"), True, None, [], "one", 1e-10, 10**7])
def test_a_limit_that_is_no_limit_is_refused(bad):
    with pytest.raises(InvalidInput, match="max_epsilon must be"):
        limit(bad, "max_epsilon")


def test_limits_are_rounded_down_and_shown_as_written():
    assert limit("0.1000000000009", "x") == 10**11
    assert [shown(limit(e, "x")) for e in (1, "2.50", 0.1, "0.000000001")] == ["1", "2.5", "0.1", "0.000000001"]
