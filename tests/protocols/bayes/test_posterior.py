"""The posterior in pieces against a dense twin that holds one mass a cell and does what the paper writes."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from posterior_pieces import pieces

from privquant.protocols.bayes.channel import Channel
from privquant.protocols.bayes.count_posterior import CountPosterior
from privquant.protocols.bayes.posterior import Posterior


class Dense:
    """Algorithm 2, one weight a cell."""

    def __init__(self, cells: int, q: float) -> None:
        self.w = np.full(cells, 1.0 / cells)
        self.q = q

    def locate(self) -> tuple[int, float, float, float]:
        total = self.w.sum()
        upto = np.cumsum(self.w)
        j = min(int(np.searchsorted(upto, self.q * total)), self.w.size - 1)
        left, right = float(self.w[:j].sum()), float(self.w[j + 1 :].sum())
        return j, left, right, min(max(self.q * total - left, 0.0), float(self.w[j]))

    def update_here(self, d_left: float, d_right: float) -> None:
        j, _, _, part = self.locate()
        here = d_left * part + d_right * (self.w[j] - part)
        self.w[:j] *= d_left
        self.w[j + 1 :] *= d_right
        self.w[j] = here

    def update_split(self, boundary: int, d_left: float, d_right: float) -> None:
        self.w[: boundary + 1] *= d_left
        self.w[boundary + 1 :] *= d_right

    def margin(self) -> float:
        """How far the point of mass q is from the nearest edge of a cell, as a share of the whole."""
        total = self.w.sum()
        return float(np.abs(np.cumsum(self.w) / total - self.q).min())


def spread(posterior: Posterior, cells: int) -> np.ndarray:
    """The pieces as one mass a cell."""
    starts, masses = pieces(posterior)
    widths = np.diff([*starts, cells])
    return np.repeat(masses / widths, widths)


STEPS = st.lists(st.tuples(st.integers(0, 1), st.one_of(st.none(), st.integers(-1, 400))), max_size=120)


@settings(max_examples=150, deadline=None)
@given(
    cells=st.integers(1, 300),
    tau=st.floats(0.05, 0.95),
    ratio=st.floats(0.01, 0.45),
    steps=STEPS,
)
def test_pieces_are_the_dense_posterior(cells: int, tau: float, ratio: float, steps: list) -> None:
    channel = Channel.of(tau, ratio * min(tau, 1 - tau))
    fast, dense = Posterior(cells, channel), Dense(cells, channel.q)
    for bit, boundary in steps:
        if dense.margin() < 1e-9:
            return  # both may round to either side of an edge
        j, left, right, _ = dense.locate()
        total = dense.w.sum()
        assert fast.cell == j
        whole = sum(fast.sides)
        assert fast.sides[0] / whole == pytest.approx(left / total, abs=1e-9)
        assert fast.sides[2] / whole == pytest.approx(right / total, abs=1e-9)
        if boundary is None:
            fast.cut(bit)
            dense.update_here(channel.left[bit], channel.right[bit])
        else:
            inside = min(boundary, cells - 1)
            fast.split(inside, bit)
            dense.update_split(inside, channel.left[bit], channel.right[bit])
        masses = spread(fast, cells)
        np.testing.assert_allclose(masses / masses.sum(), dense.w / dense.w.sum(), rtol=1e-8, atol=1e-13)


@settings(max_examples=60, deadline=None)
@given(cells=st.integers(2, 300), tau=st.floats(0.1, 0.9), steps=STEPS)
def test_the_median_is_where_half_of_the_mass_is_reached(cells: int, tau: float, steps: list) -> None:
    channel = Channel.of(tau, 0.3 * min(tau, 1 - tau))
    fast = Posterior(cells, channel)
    for bit, boundary in steps:
        if boundary is None:
            fast.cut(bit)
        else:
            fast.split(min(boundary, cells - 1), bit)
    masses = spread(fast, cells)
    upto = np.cumsum(masses) / masses.sum()
    found = fast.median()
    assert upto[found] >= 0.5 - 1e-9
    assert found == 0 or upto[found - 1] < 0.5 + 1e-9


@settings(max_examples=60, deadline=None)
@given(cells=st.integers(2, 300), tau=st.floats(0.05, 0.95), counts=st.data())
def test_the_table_of_counts_is_the_dense_two_region_posterior(
    cells: int, tau: float, counts: st.DataObject
) -> None:
    channel = Channel.of(tau, 0.3 * min(tau, 1 - tau))
    rows = counts.draw(
        st.lists(st.tuples(st.integers(-1, cells - 1), st.integers(0, 5), st.integers(0, 5)), max_size=30)
    )
    table, dense, back = CountPosterior(cells, channel), Dense(cells, channel.q), CountPosterior(cells, channel)
    for threshold, zeros, ones in rows:
        table.add(threshold, zeros, ones)
        for bit, times in ((0, zeros), (1, ones)):
            for _ in range(times):
                dense.update_split(threshold, channel.left[bit], channel.right[bit])
    for threshold, zeros, ones in reversed(rows):
        back.add(threshold, 0, ones)
        back.add(threshold, zeros, 0)
    assert back.to_dict() == table.to_dict()
    assert back.at(channel.q) == table.at(channel.q)
    if dense.margin() > 1e-9:
        point, (j, left, right, _) = table.at(channel.q), dense.locate()
        assert point.cell == j
        assert math.isclose(point.left * right, point.right * left, rel_tol=1e-7, abs_tol=1e-300)


def test_a_state_read_back_goes_on_exactly_as_before() -> None:
    rng = np.random.default_rng(5)
    channel = Channel.of(0.4, 0.05)
    posterior = Posterior(10_000, channel)
    for step in range(2000):
        if step % 97 == 0:
            posterior = Posterior.from_dict(json.loads(json.dumps(posterior.to_dict())), channel)
        twin = Posterior.from_dict(posterior.to_dict(), channel)
        bit = int(rng.random() < 0.4)
        posterior.visit()
        twin.visit()
        if step % 3:
            posterior.cut(bit)
            twin.cut(bit)
        else:
            boundary = posterior.cell + int(rng.integers(-50, 50))
            posterior.split(boundary, bit)
            twin.split(boundary, bit)
        if step % 97 == 0:
            assert twin.to_dict() == posterior.to_dict()
    assert posterior.visited()[1].sum() == 2000


@pytest.mark.parametrize("target", [0, 1, 2**62 + 12345, 2**63 - 2, 2**63 - 1])
def test_integers_stay_exact_up_to_2_to_the_63(target: int) -> None:
    """Truthful answers about one single value of 2^63 must end exactly on it."""
    channel = Channel.of(0.5, 0.2)
    posterior = Posterior(2**63, channel)
    for _ in range(700):
        coin = posterior.cell - 1 if posterior.left_coin() else posterior.cell
        coin = min(max(coin, 0), 2**63 - 2)
        bit = int(target <= coin)
        posterior.cut(bit)
    assert posterior.cell == target
    starts = pieces(posterior)[0].tolist()
    assert starts == sorted(set(starts))


def test_a_wrong_phase_is_recovered_from() -> None:
    """After a long stretch of lies one side has a mass far below 1e-16; the truth must still win."""
    channel = Channel.of(0.5, 0.2)
    posterior = Posterior(1000, channel)
    for step in range(1200):
        coin = posterior.cell - 1 if posterior.left_coin() else posterior.cell
        bit = int((900 if step < 400 else 100) <= min(max(coin, 0), 998))
        posterior.cut(bit)
    assert posterior.cell == 100


def test_the_cost_of_a_report_does_not_grow_with_the_cells() -> None:
    """Pieces, not cells: 3000 reports leave at most 6001 of them whatever the domain."""
    rng = np.random.default_rng(1)
    channel = Channel.of(0.5, 0.05)
    posterior = Posterior(2**63, channel)
    for _ in range(3000):
        bit = int(rng.random() < 0.5)
        posterior.cut(bit)
    assert pieces(posterior)[0].size <= 2 * 3001 + 1
