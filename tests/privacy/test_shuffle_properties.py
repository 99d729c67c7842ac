"""What must hold between the answers, whatever the question."""

from __future__ import annotations

import math

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privquant.privacy import shuffle

RTOL = 1e-3
_METHODS = st.sampled_from(shuffle.METHODS)
_LOCAL = st.floats(0.05, 14.0)
_BATCH = st.integers(0, 50).map(lambda k: math.ceil(10 ** (k / 10)))  # 1 .. 10^5
_SHARE = st.floats(0.001, 1.0)
_DELTA = st.floats(-12.0, -0.5).map(lambda x: 10.0**x)
_FEW = settings(max_examples=60, deadline=None, derandomize=True)


def _delta(epsilon: float, local: float, batch: int, method: str) -> float:
    return shuffle.delta(epsilon=epsilon, local_epsilon=local, batch=batch, method=method, rtol=RTOL)


# Both ends of a comparison may sit anywhere in their brackets; below 1e-60 nothing is resolved.
def _at_most(smaller: float, larger: float) -> bool:
    return smaller <= larger * (1 + 1.01 * RTOL) + 1e-60


@_FEW
@given(_LOCAL, _BATCH, _SHARE, _SHARE, _METHODS)
def test_delta_falls_in_epsilon(local: float, batch: int, a: float, b: float, method: str) -> None:
    low, high = sorted((a * local, b * local))
    assert _at_most(_delta(high, local, batch, method), _delta(low, local, batch, method))


@_FEW
@given(_LOCAL, _BATCH, _BATCH, _SHARE, _METHODS)
def test_delta_falls_in_the_batch(local: float, a: int, b: int, share: float, method: str) -> None:
    fewer, more = sorted((a, b))
    epsilon = share * local
    assert _at_most(_delta(epsilon, local, more, method), _delta(epsilon, local, fewer, method))


@_FEW
@given(_LOCAL, _LOCAL, _BATCH, st.floats(0.01, 5.0), _METHODS)
def test_delta_rises_in_the_local_epsilon(a: float, b: float, batch: int, epsilon: float, method: str) -> None:
    low, high = sorted((a, b))
    assert _at_most(_delta(epsilon, low, batch, method), _delta(epsilon, high, batch, method))


def test_the_comparison_tells_the_wrong_direction() -> None:
    """Twin: each of the three laws read backwards fails, for every method, by a change of a few per cent."""
    for method in shuffle.METHODS:
        base = _delta(0.5, 3.0, 10_000, method)
        assert not _at_most(base, _delta(0.51, 3.0, 10_000, method))
        assert not _at_most(base, _delta(0.5, 3.0, 10_300, method))
        assert not _at_most(_delta(0.5, 3.05, 10_000, method), base)


@_FEW
@given(st.floats(0.05, 6.0), _DELTA, _BATCH, _METHODS)
def test_the_calibrated_coin_keeps_its_epsilon(epsilon: float, delta: float, batch: int, method: str) -> None:
    local = shuffle.local_epsilon(epsilon=epsilon, delta=delta, batch=batch, method=method)
    assert local >= epsilon
    assert shuffle.epsilon(local_epsilon=local, batch=batch, delta=delta, method=method) <= epsilon
    assert _delta(epsilon, local, batch, method) <= delta * (1 + 1e-9)


@_FEW
@given(st.floats(0.05, 6.0), _DELTA, _BATCH)
def test_a_coin_a_little_more_honest_breaks_it(epsilon: float, delta: float, batch: int) -> None:
    """Twin of the above: the calibrated coin is the edge (the lower end of the bracket says so)."""
    local = shuffle.local_epsilon(epsilon=epsilon, delta=delta, batch=batch)
    assume(local < shuffle.LARGEST_LOCAL_EPSILON)
    found = shuffle.bracket(epsilon=epsilon, local_epsilon=min(local * 1.02 + 0.01, 100.0), batch=batch)
    assert found.lower > delta


@_FEW
@given(_LOCAL, _DELTA, _BATCH, _METHODS)
def test_the_epsilon_found_is_one_that_holds(local: float, delta: float, batch: int, method: str) -> None:
    epsilon = shuffle.epsilon(local_epsilon=local, batch=batch, delta=delta, method=method)
    assert 0 <= epsilon <= local
    assert _delta(epsilon, local, batch, method) <= delta * (1 + 1e-9)


@_FEW
@given(_LOCAL, _BATCH, _SHARE)
def test_the_exact_value_is_below_every_general_bound(local: float, batch: int, share: float) -> None:
    epsilon = share * local
    exact = _delta(epsilon, local, batch, "exact")
    for method in shuffle.METHODS[1:]:
        assert _at_most(exact, _delta(epsilon, local, batch, method))
