"""The binary asymmetric channel against its definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privquant.errors import InvalidInput
from privquant.protocols.bayes.channel import Channel, capacity_input, entropy, learning_alpha

RATES = st.floats(0.02, 0.98)
RATIOS = st.floats(1e-5, 0.95)


def information(x: float, tau: float, alpha: float) -> float:
    mixed = (1 - x) * (tau - alpha) + x * (tau + alpha)
    return entropy(mixed) - (1 - x) * entropy(tau - alpha) - x * entropy(tau + alpha)


@settings(max_examples=200, deadline=None)
@given(RATES, st.floats(0.02, 0.95))
def test_q_maximises_the_information(tau: float, ratio: float) -> None:
    alpha = ratio * min(tau, 1 - tau)
    q = capacity_input(tau, alpha)
    best = information(q, tau, alpha)
    assert 0 < q < 1
    assert all(information(x, tau, alpha) <= best + 1e-13 for x in np.linspace(0.001, 0.999, 201))


@settings(max_examples=200, deadline=None)
@given(RATES, RATIOS)
def test_the_weights_keep_the_posterior_summing_to_one(tau: float, ratio: float) -> None:
    channel = Channel.of(tau, ratio * min(tau, 1 - tau))
    for y in (0, 1):
        assert channel.left[y] * channel.q + channel.right[y] * (1 - channel.q) == pytest.approx(1.0, abs=1e-12)
    assert channel.left[1] >= channel.left[0]
    assert channel.right[1] <= channel.right[0]


@settings(max_examples=200, deadline=None)
@given(RATES, st.floats(0.01, 0.95))
def test_capacity_is_the_gain_on_either_side(tau: float, ratio: float) -> None:
    """Lemma 9 of Gretta and Price: the expected log2 gain is C on both sides."""
    alpha = ratio * min(tau, 1 - tau)
    channel = Channel.of(tau, alpha)
    left = (tau + alpha) * math.log2(channel.left[1]) + (1 - tau - alpha) * math.log2(channel.left[0])
    right = (tau - alpha) * math.log2(channel.right[1]) + (1 - tau + alpha) * math.log2(channel.right[0])
    assert left == pytest.approx(right, rel=1e-4, abs=1e-10)
    assert information(channel.q, tau, alpha) / math.log(2) == pytest.approx(left, rel=1e-6, abs=1e-12)


def test_the_median_has_the_weights_of_the_authors_program() -> None:
    channel = Channel.of(0.5, 0.03)
    assert channel.q == 0.5
    assert channel.left == pytest.approx((1 - 0.06, 1 + 0.06))
    assert channel.right == pytest.approx((1 + 0.06, 1 - 0.06))


def test_the_series_meets_the_exact_form() -> None:
    for tau in (0.1, 0.3, 0.8):
        edge = 1e-3 * min(tau, 1 - tau)
        assert capacity_input(tau, edge * 0.999) == pytest.approx(capacity_input(tau, edge * 1.001), abs=1e-6)


@pytest.mark.parametrize(
    ("tau", "alpha"), [(0.0, 0.1), (1.0, 0.1), (0.5, 0.0), (0.5, 0.5), (0.2, 0.2), (0.5, math.nan)]
)
def test_what_is_no_channel_is_refused(tau: float, alpha: float) -> None:
    with pytest.raises(InvalidInput, match=r"must lie"):
        Channel.of(tau, alpha)


def test_alpha_is_the_papers_and_never_too_large() -> None:
    assert learning_alpha(4**9, 2500, 0.5, 0.6) == pytest.approx(0.6 * math.sqrt(math.log(4**9) / 2500))
    assert learning_alpha(2**63, 10, 0.5, 0.6) < 0.25
    assert learning_alpha(1, 10, 0.5, 0.6) > 0
    assert learning_alpha(100, 0, 0.3, 0.6) < 0.15
