"""Epochs that contradict the others: the evidence exact, the decision bounded, timed liars without their lever."""

import math

import numpy as np
import pytest
from timed_runs import timed

from privquant.protocols.isotonic.epochs import (
    ALARM,
    CUT,
    MOST,
    add_arrival,
    anchor,
    anchors_due,
    beyond,
    choose_kept,
    epoch_at,
    epochs_of,
    new_arrivals,
    rebuild,
    worst_window,
)
from privquant.protocols.isotonic.posterior import profile, to_weights
from privquant.protocols.isotonic.prior import Search
from privquant.protocols.isotonic.table import add_counts, new_table


def heard(rows):
    """Arrivals of (threshold, epoch, reports, ones)."""
    arrivals = new_arrivals(512)
    for threshold, epoch, reports, ones in rows:
        add_arrival(arrivals, threshold, epoch, False, reports, ones)
    return arrivals


def best_monotone(rows):
    """The largest log-likelihood of monotone rates, by the min-max formula."""
    at = sorted({row[0] for row in rows})
    n = np.array([sum(r[2] for r in rows if r[0] == c) for c in at], float)
    s = np.array([sum(r[3] for r in rows if r[0] == c) for c in at], float)
    found = 0.0
    for i in range(len(at)):
        rate = max(min(s[a : b + 1].sum() / n[a : b + 1].sum() for b in range(i, len(at))) for a in range(i + 1))
        found += (s[i] * math.log(rate) if s[i] else 0.0) + (
            (n[i] - s[i]) * math.log(1 - rate) if s[i] < n[i] else 0.0
        )
    return found


def contradiction(rows, first, last):
    inside = [row for row in rows if first <= row[1] <= last]
    rest = [row for row in rows if not first <= row[1] <= last]
    return best_monotone(inside) + best_monotone(rest) - best_monotone(rows)


def random_rows(rng, epochs, per_epoch=4, polluted=()):
    rows = []
    for epoch in range(epochs):
        for threshold in rng.choice(30, per_epoch, replace=False):
            rate = 0.1 if epoch in polluted else 0.3 + threshold / 80
            rows.append((int(threshold), epoch, 40, int(rng.binomial(40, rate))))
    return rows


def test_the_evidence_is_that_of_its_definition():
    rng = np.random.default_rng(2)
    for polluted in ((), (3,), (7, 8)):
        rows = random_rows(rng, 9, polluted=polluted)
        found, first, last = worst_window(heard(rows), np.ones(9, np.bool_))
        windows = [(a, b) for a in range(9) for b in range(a, min(a + 3, 9))]
        best = max(windows, key=lambda window: contradiction(rows, *window))
        assert (first, last) == best
        assert found == pytest.approx(contradiction(rows, *best))


def test_arrivals_of_one_threshold_and_epoch_are_one_row():
    arrivals = heard([(5, 1, 3, 1), (4, 2, 2, 2), (5, 0, 1, 0), (5, 1, 4, 4)])
    assert arrivals.held[0] == 3
    assert list(zip(arrivals.threshold[:3], arrivals.epoch[:3], arrivals.reports[:3], strict=True)) == [
        (4, 2, 2.0),
        (5, 0, 1.0),
        (5, 1, 7.0),
    ]


def test_a_polluted_window_is_dropped_and_an_honest_one_is_not():
    rng = np.random.default_rng(4)
    kept = np.ones(12, np.bool_)
    assert choose_kept(heard(random_rows(rng, 12)), 12, kept) < CUT
    assert kept.all()
    assert choose_kept(heard(random_rows(rng, 12, polluted=(5, 6))), 12, kept) > CUT
    assert [epoch for epoch in range(12) if not kept[epoch]] == [5, 6]


def test_never_more_than_a_third_is_dropped_and_nothing_at_first():
    rng = np.random.default_rng(5)
    kept = np.ones(12, np.bool_)
    choose_kept(heard(random_rows(rng, 12, polluted=(0, 2, 4, 6, 8, 10))), 12, kept)
    assert 1 - kept.mean() <= MOST
    choose_kept(heard(random_rows(rng, 2, polluted=(1,))), 2, kept)
    assert kept.all()


def test_the_table_is_rebuilt_from_what_is_kept():
    search = Search(99, 0.5, np.array([0.5]))
    arrivals = heard([(5, 0, 10, 4), (5, 1, 20, 9), (7, 1, 6, 6)])
    add_arrival(arrivals, 9, 0, True, 8, 3)
    table = new_table(16)
    assert rebuild(table, search, arrivals, np.array([True, False])) == 8
    assert table.threshold[: table.held[0]].tolist() == [5, 9]
    assert table.reports[0, :2].tolist() == [10.0, 8.0]
    assert table.grid[:2].tolist() == [0, 1]


def test_epochs_share_a_run_and_small_runs_have_fewer():
    assert [epochs_of(users) for users in (10, 300, 960, 10**6)] == [1, 5, 16, 16]
    assert epoch_at(0, 1600) == 0
    assert epoch_at(1599, 1600) == 15
    assert epoch_at(5000, 1600) == 15  # late reports belong to the last


def test_more_reports_need_more_evidence():
    assert beyond(CUT, 100) == CUT == beyond(CUT, 2_500)
    assert CUT < beyond(CUT, 20_000) < beyond(CUT, 10**6) < beyond(ALARM, 2_500)


def test_anchors_are_one_in_twenty_and_ask_what_was_asked_before_on_both_sides():
    assert sum(anchors_due(asked, 1) for asked in range(1000)) == 50
    assert anchors_due(0, 1000) == 50
    search = Search(999, 0.0, np.array([0.5]))
    table = new_table(64)
    for c in range(100, 900, 50):
        add_counts(table, search, 0, -1, False, c, 200, round(200 * (0.25 + 0.5 * c / 1000)))
    n, s = table.reports[0], table.ones[0]
    profile(table, n, s, 0.5, 0.01, 0.25, 0.75)
    to_weights(table, 1.0, False)
    places = [anchor(table, step) for step in range(40)]
    assert set(places) <= set(range(100, 900, 50))
    assert max(places[0::2]) < 500 < min(places[1::2])
    assert len(set(places)) > 6


def test_liars_at_the_end_lose_their_lever():
    """40 runs each; today's way is off by more than three times the bound in one run of twenty."""
    settings = {"name": "normal", "quantile": 0.5, "users": 5_000, "epsilon": 1.0, "runs": 40, "seed": 3}
    bound = 0.05 / (2 * math.tanh(0.5) * 0.95)
    open_to_it, _, _ = timed("last", 0.05, 0, guarded=False, **settings)
    guarded, evidence, _ = timed("last", 0.05, 0, guarded=True, **settings)
    assert np.quantile(open_to_it, 0.95) > 3 * bound
    assert np.quantile(guarded, 0.95) < bound
    assert (evidence > ALARM).mean() > 0.9


def test_honest_runs_are_left_alone():
    settings = {"name": "pareto", "quantile": 0.5, "users": 2_000, "epsilon": 0.879, "runs": 60, "seed": 6}
    plain, _, _ = timed("none", 0.0, 0, guarded=False, **settings)
    guarded, evidence, dropped = timed("none", 0.0, 0, guarded=True, **settings)
    assert evidence.max() < ALARM
    assert (dropped > 0).mean() <= 0.05
    assert guarded.mean() < 1.3 * plain.mean()
