"""Exact accounting: brute force over all inputs, the reference values, and 50-digit arithmetic."""

from __future__ import annotations

import csv
import math
from fractions import Fraction
from itertools import product
from pathlib import Path

import brute
import mpmath
import pytest

from privquant.errors import InvalidInput
from privquant.privacy import shuffle
from privquant.privacy.shuffle_exact import divergence, log_extreme, stakes

REFERENCE = Path(__file__).parents[1] / "data" / "shuffle_exact.csv"

_ROWS = [
    pytest.param(
        *(int(row["batch"]), float(row["local_epsilon"]), float(row["delta"]), row["epsilon"]),
        id=f"b={row['batch']}-eL={row['local_epsilon']}",
        marks=[pytest.mark.full] if row["batch"] in ("1000000", "100000000") else [],
    )
    for row in csv.DictReader(REFERENCE.read_text().splitlines())
]


@pytest.mark.parametrize(("batch", "local", "delta", "epsilon"), _ROWS)
def test_the_reference_values_to_six_digits(batch: int, local: float, delta: float, epsilon: str) -> None:
    found = shuffle.epsilon(local_epsilon=local, batch=batch, delta=delta, rtol=1e-7)
    places = len(epsilon.split(".")[1])
    assert f"{found:.{places}f}" == epsilon


def test_the_reference_file_is_read_whole() -> None:
    assert len(_ROWS) == 12


def _shuffled_by_definition(bits: tuple[int, ...], q: Fraction) -> dict[int, Fraction]:
    """The law of the count of ones, by enumeration of every outcome of every coin."""
    law: dict[int, Fraction] = {}
    for flips in product((0, 1), repeat=len(bits)):
        chance = Fraction(1)
        for flip in flips:
            chance *= q if flip else 1 - q
        count = sum(b ^ f for b, f in zip(bits, flips, strict=True))
        law[count] = law.get(count, Fraction(0)) + chance
    return law


@pytest.mark.parametrize("batch", [1, 2, 3, 5])
def test_the_brute_force_is_the_definition(batch: int) -> None:
    """All 2^b inputs, all neighbours, all coins, in rationals."""
    local = 1.3
    q = Fraction(1 / (1 + math.exp(local)))
    for epsilon in (0.0, 0.4, 1.0):
        factor = Fraction(math.exp(epsilon))
        worst = Fraction(0)
        for bits in product((0, 1), repeat=batch):
            for user in range(batch):
                neighbour = (*bits[:user], 1 - bits[user], *bits[user + 1 :])
                law, other = _shuffled_by_definition(bits, q), _shuffled_by_definition(neighbour, q)
                worst = max(
                    worst, sum((max(p - factor * other[k], Fraction(0)) for k, p in law.items()), Fraction(0))
                )
        assert brute.delta(epsilon, local, batch) == pytest.approx(float(worst), rel=1e-12)


_GRID = [(0.2, 1e-2), (1.0, 1e-2), (1.0, 1e-6), (3.0, 1e-3), (5.0, 1e-6)]
_FULL_GRID = [(eL, d) for eL in (0.05, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0) for d in (0.1, 1e-2, 1e-4, 1e-6, 1e-8)]


def _check_against_brute_force(batch: int, local: float, delta: float) -> None:
    rtol = 1e-5
    found = shuffle.epsilon(local_epsilon=local, batch=batch, delta=delta, rtol=rtol)
    # The sums of brute force lose about 1e-15 in absolute terms.
    truth = brute.delta(found, local, batch)
    assert truth <= delta + 1e-14
    if found > 0:
        assert truth >= delta * (1 - 2.1 * rtol) - 1e-14
    middle = 0.6 * found + 0.1 * local
    bracket = shuffle.bracket(epsilon=middle, local_epsilon=local, batch=batch, rtol=rtol)
    truth = brute.delta(middle, local, batch)
    assert bracket.lower - 1e-14 <= truth <= bracket.upper + 1e-14
    assert bracket.upper <= bracket.lower * (1 + 1.01 * rtol) + 1e-60


@pytest.mark.parametrize("batch", range(1, 61))
def test_brute_force_over_all_inputs(batch: int) -> None:
    for local, delta in _GRID:
        _check_against_brute_force(batch, local, delta)


@pytest.mark.full
@pytest.mark.parametrize("batch", range(1, 61))
def test_brute_force_over_all_inputs_on_the_whole_grid(batch: int) -> None:
    for local, delta in _FULL_GRID:
        _check_against_brute_force(batch, local, delta)


def test_everybody_else_alike_is_not_the_worst_case() -> None:
    """Twin: without the search over inputs the answer would be 17 % too low here, and brute force says so."""
    batch, local, epsilon = 29, 3.0, 0.3
    alone = math.exp(log_extreme(epsilon, local, batch))
    truth = brute.delta(epsilon, local, batch)
    assert alone < 0.83 * truth
    found = shuffle.bracket(epsilon=epsilon, local_epsilon=local, batch=batch, rtol=1e-6)
    assert found.lower <= truth <= found.upper
    assert found.worst == 20


@pytest.mark.parametrize(
    ("batch", "local", "epsilon"), [(100, 2.0, 1.6), (10_000, 1.0, 0.05), (10**6, 1.0, 0.0041), (10**8, 12.0, 0.2)]
)
def test_the_closed_form_keeps_its_digits(batch: int, local: float, epsilon: float) -> None:
    """A Pr[L = l] - B Pr[L < l] at its peak, in 60 digits."""
    with mpmath.workdps(60):
        q = 1 / (1 + mpmath.exp(mpmath.mpf(local)))
        gain, loss = 1 - q - mpmath.exp(mpmath.mpf(epsilon)) * q, mpmath.expm1(mpmath.mpf(epsilon))
        n = batch - 1
        ratio, odds = 1 + loss / gain, q / (1 - q)
        level = max(0, int(mpmath.floor((n * odds - ratio) / (ratio + odds))) - 3)
        best = mpmath.mpf(0)
        for candidate in range(level, level + 8):
            term = mpmath.exp(
                mpmath.loggamma(n + 1)
                - mpmath.loggamma(candidate + 1)
                - mpmath.loggamma(n - candidate + 1)
                + candidate * mpmath.log(q)
                + (n - candidate) * mpmath.log(1 - q)
            )
            value, x = gain * term, candidate
            while x > 0 and term > mpmath.mpf(10) ** -40:
                term *= x / ((n - x + 1) * odds)
                x -= 1
                value -= loss * term
            best = max(best, value)
        truth = float(best)
    assert math.exp(log_extreme(epsilon, local, batch)) == pytest.approx(truth, rel=1e-9)
    low, high = divergence(stakes(epsilon, local), batch - 1, 0, 60.0)
    assert low <= truth <= high <= low * (1 + 1e-6)


def test_plain_local_privacy_is_never_lost() -> None:
    assert shuffle.delta(epsilon=1.0, local_epsilon=1.0, batch=50) == 0.0
    assert shuffle.delta(epsilon=2.0, local_epsilon=1.0, batch=50) == 0.0
    # A batch of one: the formula of one coin.
    p, q = 1 / (1 + math.exp(-1.0)), 1 / (1 + math.exp(1.0))
    assert shuffle.delta(epsilon=0.3, local_epsilon=1.0, batch=1) == pytest.approx(p - math.exp(0.3) * q, rel=1e-9)
    for method in shuffle.METHODS:
        assert shuffle.local_epsilon(epsilon=0.7, delta=1e-9, batch=1, method=method) >= 0.7
        assert shuffle.epsilon(local_epsilon=0.7, delta=1e-9, batch=2, method=method) <= 0.7


def test_a_delta_that_covers_everything_leaves_epsilon_zero() -> None:
    assert shuffle.epsilon(local_epsilon=1.0, batch=1000, delta=0.5) == 0.0
    assert brute.delta(0.0, 1.0, 60) < 0.5


def test_a_tiny_delta_is_answered_soundly() -> None:
    """Below what the windows resolve the answer falls back to plain local privacy, never to a guess."""
    assert shuffle.local_epsilon(epsilon=1.0, delta=1e-250, batch=1000) == pytest.approx(1.0, abs=1e-9)
    assert shuffle.epsilon(local_epsilon=3.0, delta=1e-250, batch=1000) == pytest.approx(3.0, abs=1e-9)
    assert shuffle.local_epsilon(epsilon=1.0, delta=1e-40, batch=10**5) > 5


def test_a_cap_wins() -> None:
    free = shuffle.local_epsilon(epsilon=1.0, delta=1e-8, batch=10_000)
    assert shuffle.local_epsilon(epsilon=1.0, delta=1e-8, batch=10_000, cap=4.0) == 4.0 < free
    assert shuffle.local_epsilon(epsilon=1.0, delta=1e-8, batch=10_000, cap=20.0) == pytest.approx(free, rel=1e-3)
    assert shuffle.local_epsilon(epsilon=1.0, delta=1e-8, batch=10_000, cap=0.5) == 0.5


def test_colluding_users_hide_nobody() -> None:
    for method in shuffle.METHODS:
        whole = shuffle.local_epsilon(epsilon=1.0, delta=1e-8, batch=10_000, method=method, colluding=0.1)
        assert whole == shuffle.local_epsilon(epsilon=1.0, delta=1e-8, batch=9_000, method=method)
    assert shuffle.honest(1000, 0.1) == 900
    assert shuffle.honest(10, 0.99) == 1
    assert shuffle.honest(7, 0.5) == 3


def test_drop_outs_cost_what_a_smaller_batch_costs() -> None:
    local = shuffle.local_epsilon(epsilon=0.5, delta=1e-8, batch=100_000)
    planned = shuffle.guarantee(local_epsilon=local, batch=100_000, delta=1e-8)
    fewer = shuffle.guarantee(local_epsilon=local, batch=100_000, delta=1e-8, answered=20_000)
    assert planned.epsilon <= 0.5 < fewer.epsilon <= local
    assert fewer.batch == 20_000
    assert "20000 honest reports" in str(fewer)
    with pytest.raises(InvalidInput, match="answered is at most"):
        shuffle.guarantee(local_epsilon=local, batch=100, delta=1e-8, answered=101)


def test_the_published_table_of_methods() -> None:
    """The largest local epsilon at delta 1e-8, b = 10^5, in the order of METHODS."""
    expected = {0.5: (6.610, 6.202, 5.518, 3.603, 2.759), 1.0: (7.617, 7.386, 6.696, 5.446, 4.145)}
    for epsilon, row in expected.items():
        for method, value in zip(shuffle.METHODS, row, strict=True):
            found = shuffle.local_epsilon(epsilon=epsilon, delta=1e-8, batch=10**5, method=method, rtol=1e-5)
            assert found == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize("batch", [10**9, 10**12])
def test_batches_beyond_a_hundred_million(batch: int) -> None:
    local = shuffle.local_epsilon(epsilon=0.5, delta=1e-8, batch=batch)
    # For large batches e^eL grows with b: the noise in users stays what it is.
    at = shuffle.local_epsilon(epsilon=0.5, delta=1e-8, batch=10**8)
    assert local - at == pytest.approx(math.log(batch / 10**8), abs=1e-3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"batch": 0}, "batch must be at least 1"),
        ({"batch": 10.5}, "batch must be a whole number"),
        ({"batch": 10**13}, "batch is at most"),
        ({"local_epsilon": -1.0}, "local_epsilon must be"),
        ({"local_epsilon": 101.0}, "local_epsilon is at most 100"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"epsilon": -0.5}, "epsilon must be"),
        ({"method": "magic"}, "method must be one of"),
        ({"rtol": 0.0}, "rtol is a number"),
        ({"rtol": 0.5}, "rtol is a number"),
        ({"colluding": 1.0}, "colluding is a fraction"),
        ({"colluding": math.nan}, "colluding is a fraction"),
    ],
)
def test_bad_input_is_refused_in_one_line(given: dict[str, object], said: str) -> None:
    good: dict[str, object] = {"epsilon": 0.5, "local_epsilon": 1.0, "batch": 10}
    with pytest.raises(InvalidInput, match=f"^{said}") as caught:
        shuffle.delta(**{**good, **given})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-8, math.nan, "x"])
def test_a_delta_that_cannot_be_is_refused(delta: object) -> None:
    with pytest.raises(InvalidInput, match="delta must be"):
        shuffle.epsilon(local_epsilon=1.0, batch=10, delta=delta)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="delta must be"):
        shuffle.local_epsilon(epsilon=1.0, batch=10, delta=delta)  # type: ignore[arg-type]
