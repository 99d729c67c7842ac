"""Epochs that contradict the others: the evidence exact, the decision bounded, timed liars without their lever."""

import json
import math

import numpy as np
import pytest
from scipy.stats import ks_2samp

from privquant._numba import compiled
from privquant.domain import Integers
from privquant.errors import ProtocolError
from privquant.lab.engine import Setting
from privquant.lab.engine.isotonic import outcomes
from privquant.lab.run import drive, run
from privquant.lab.sample import Sample
from privquant.lab.schedule import Schedule
from privquant.lab.shapes import shape
from privquant.messages import Query, Report
from privquant.protocols.isotonic.contradiction import (
    ALARM,
    CUT,
    FIRST,
    LAST_CUT,
    MOST,
    beyond,
    binned,
    choose_kept,
    cuts_of,
    worst_window,
)
from privquant.protocols.isotonic.epochs import (
    ANCHOR,
    BULK,
    KINDS,
    SEARCH,
    epoch_at,
    epochs_of,
    new_arrivals,
    note,
)
from privquant.protocols.isotonic.guard import anchor, anchors_due, rebuild
from privquant.protocols.isotonic.posterior import profile, to_weights
from privquant.protocols.isotonic.prior import Search
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.isotonic.table import add_counts, new_table
from privquant.protocols.registry import from_state
from studies.attack import Attack, UsersAndLiars

SIZE = 10**6


def heard(rows, epochs=12):
    """Arrivals of (threshold, epoch, reports, ones)."""
    arrivals = new_arrivals(2048, epochs, 1)
    for threshold, epoch, reports, ones in rows:
        note(arrivals, threshold, SEARCH + KINDS * epoch, reports, ones)
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
    """30 thresholds of about the same weight are fewer than the bins: none are taken together."""
    rng = np.random.default_rng(2)
    for polluted in ((), (3,), (7, 8)):
        rows = random_rows(rng, 9, polluted=polluted)
        cuts = np.linspace(0.5, 0.0, 9)
        found, first, last = worst_window(*binned(heard(rows), 9), np.ones(9, np.bool_), cuts)
        windows = [(a, b) for a in range(9) for b in range(a, min(a + 3, 9))]
        excess = {(a, b): contradiction(rows, a, b) - cuts[a if b == 8 else 0] for a, b in windows}
        assert found == pytest.approx(max(excess.values()))
        assert (first, last) == max(windows, key=excess.__getitem__)


def test_the_cut_is_lower_for_late_windows_that_reach_the_present():
    cuts = cuts_of(16, 2_500.0, 1)
    assert cuts[0] == CUT
    assert cuts[-1] == LAST_CUT
    assert np.all(np.diff(cuts) <= 0.0)
    assert np.allclose(cuts_of(16, 20_000.0, 1) - cuts, beyond(CUT, 20_000, 1) - CUT)
    # the same contradiction: a part of the run is dropped if it is its end, not if it is its start or between
    level = 0.5 * (cuts[13] + cuts[0])
    reports, none, every = np.full((16, 1), 100.0), np.zeros(16), np.ones(16, np.bool_)
    for first, dropped in ((0, False), (8, False), (13, True)):
        polluted = np.full((16, 1), 50.0)
        while worst_window(reports, polluted, every, none)[0] < level:
            polluted[first : first + 3] -= 0.1
        assert (worst_window(reports, polluted, every, cuts)[0] > 0.0) == dropped


def test_bins_keep_every_report_in_its_epoch_and_in_order():
    rng = np.random.default_rng(3)
    rows = [(int(c), int(e), 5, int(rng.integers(6))) for c, e in rng.integers(0, (700, 12), (1500, 2))]
    reports, ones = binned(heard(rows), 12)
    assert reports.shape[1] <= 65
    assert np.all(reports.sum(axis=1) == [sum(r[2] for r in rows if r[1] == e) for e in range(12)])
    assert np.all(ones.sum(axis=1) == [sum(r[3] for r in rows if r[1] == e) for e in range(12)])
    # columns rise: the first holds what is asked lowest
    lowest = sorted(rows)[: int(reports[:, 0].sum()) // 5]
    assert ones[:, 0].sum() == sum(row[3] for row in lowest)
    # what is not closed is not looked at
    assert binned(heard(rows), 4)[0].sum() == sum(r[2] for r in rows if r[1] < 4)


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
    arrivals = heard([(5, 0, 10, 4), (5, 1, 20, 9), (7, 1, 6, 6)], epochs=2)
    note(arrivals, 9, BULK, 8, 3)
    note(arrivals, 5, BULK, 2, 1)
    table = new_table(16)
    assert rebuild(table, search, arrivals, np.array([True, False])) == 10
    assert table.threshold[: table.held[0]].tolist() == [5, 9]
    assert table.reports[0, :2].tolist() == [12.0, 8.0]
    assert table.ones[0, :2].tolist() == [5.0, 3.0]
    assert table.grid[:2].tolist() == [1, 1]


def test_epochs_share_a_run_and_small_runs_have_fewer():
    assert [epochs_of(users) for users in (10, 300, 960, 10**6)] == [1, 5, 16, 16]
    assert epoch_at(0, 1600, 16) == 0
    assert epoch_at(1599, 1600, 16) == 15
    assert epoch_at(5000, 1600, 16) == 15  # beyond the plan
    # two parts cannot say which of them lies
    assert Isotonic(Integers(0, 99), users=170, epsilon=1.0).run_plan.epochs == 0
    assert Isotonic(Integers(0, 99), users=180, epsilon=1.0).run_plan.epochs == 3


def test_more_reports_need_more_evidence():
    assert beyond(CUT, 100, 1) == CUT == beyond(CUT, 2_500, 1)
    assert CUT < beyond(CUT, 20_000, 1) < beyond(CUT, 10**6, 1) < beyond(ALARM, 2_500, 1)
    assert beyond(CUT, 2_500, 1) < beyond(CUT, 2_500, 2) < beyond(CUT, 2_500, 3) < beyond(CUT, 20_000, 3)


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


# -- a guarded run -------------------------------------------------------------------------------------------


def guarded(users=2_000, **options):
    return Isotonic(Integers(0, SIZE - 1), users=users, epsilon=1.0, **options)


def sample_of(users, name="normal", seed=1):
    return Sample(shape(name, users, SIZE, np.random.default_rng(seed)), SIZE)


def test_queries_say_their_epoch_and_one_in_twenty_is_an_anchor():
    protocol = guarded()
    run(protocol, sample_of(2_000), rng=1)
    in_epoch, kinds = np.zeros(16), np.zeros(3)
    for (phase, _, _, threshold), reports, _ in protocol.counts():
        in_epoch[phase // KINDS] += reports
        kinds[phase % KINDS] += reports
        if phase % KINDS == ANCHOR:
            assert any(key[0] < phase - 1 and key[3] == threshold for key, _, _ in protocol.counts())
    assert np.all(abs(in_epoch - 125) <= 40)  # a batch belongs to the epoch it is asked in
    assert kinds[BULK] == 0
    assert 0.03 * 2_000 <= kinds[ANCHOR] <= 0.05 * 2_000  # none in the first epoch, nor where nothing lies beyond


def test_the_order_of_reports_does_not_matter_and_a_state_goes_on_as_the_run_did():
    protocol, sample = guarded(spread=0.25), sample_of(2_000)
    users, log = UsersAndLiars(sample, Attack(0.05, "middle"), 2_000, np.random.default_rng(3)), []
    while protocol.heard < 1_800:
        reports = users.answer(protocol.ask(25))
        protocol.tell(reports)
        log += reports
    assert protocol.believed().left_out
    permuted = protocol.fresh()
    permuted.tell([log[k] for k in np.random.default_rng(5).permutation(len(log))])
    loaded = from_state(json.loads(json.dumps(protocol.state())))
    for other in (permuted, loaded):
        assert other.state() == protocol.state()
        assert other.believed().judgement == protocol.believed().judgement
        assert other.estimate() == protocol.estimate()
    asked = protocol.ask(40)
    assert permuted.ask(40) == asked == loaded.ask(40)


def test_a_run_that_is_not_guarded_has_the_state_it_had_before_there_were_epochs():
    protocol = guarded(guard=False)
    run(protocol, sample_of(2_000), rng=1)
    assert {key[0] for key, _, _ in protocol.counts()} == {SEARCH}
    assert "guard" not in protocol.state()["settings"]
    assert from_state(protocol.state()).guard is False
    assert protocol.fresh().guard is False
    assert guarded().fresh().guard is True
    for promised_whole in ({"interval": 0.9}, {"rounds": [(2_000, 2**62)]}):
        assert guarded(**promised_whole).guard is False


def test_a_report_of_an_epoch_that_the_run_has_not_is_refused():
    protocol = guarded()
    coin = protocol.coin.threshold
    for phase in (BULK, KINDS * 16 + SEARCH, -1):
        with pytest.raises(ProtocolError, match="phases 1 .. 2 in each of 16 epochs"):
            protocol.tell([Report(Query(7, coin, phase, 0), 1)])
    protocol.tell([Report(Query(7, coin, KINDS * 15 + ANCHOR, 0), 1)])


CASES = [
    ({}, {}, Attack(0.05, "last")),
    ({"quantile": 0.9}, {}, Attack(0.05, "first")),
    ({"quantile": [0.25, 0.5, 0.9]}, {}, Attack(0.05, "middle", bit=1)),
    ({"spread": 0.25}, {"rounds": 30}, Attack(0.05, "thin", rank=0.99)),
    ({"spread": 0.25}, {"in_flight": 40}, Attack(0.05, "last")),
    ({}, {"batch": 20}, Attack(0.06, "last", withheld=True)),
    ({"guard": False}, {"batch": 20}, Attack(0.06, "last", withheld=True)),
    ({"spread": 0.25}, {"in_flight": 40}, Attack(0.06, "middle", withheld=True)),
]


def slowly(template, sample, attack, trials, seed, schedule):
    """The protocol object asks users and liars one by one: answers, contradictions, dropped or not."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(trials):
        protocol = template.fresh()
        users = UsersAndLiars(sample, attack, template.users, rng)
        with compiled():
            if attack.withheld and schedule.kind == "in-flight":
                _in_flight_with_late(protocol, users, int(schedule.number))
            else:
                drive(protocol, users, schedule)
                protocol.tell(users.late())
            said = protocol.believed().judgement
            found.append((*(e.index for e in protocol.estimates()), said.evidence, bool(said.dropped)))
    return np.array(found, float)


def _in_flight_with_late(protocol, users, k):
    """A user who withholds its report makes room for the next all the same."""
    waiting = list(protocol.ask(k))
    while waiting:
        protocol.tell(users.answer([waiting.pop(0)]))
        waiting += protocol.ask(k - len(waiting))
    protocol.tell(users.late())


@pytest.mark.parametrize(("options", "schedule", "attack"), CASES, ids=str)
def test_the_engine_does_what_protocol_and_liars_do(options, schedule, attack):
    """Kolmogorov-Smirnov on ranks of answers and on contradictions; false alarm 1e-4 each, fixed seed."""
    sample = sample_of(400)
    template = guarded(400, **options)
    pace = Schedule.of(**schedule)
    slow = slowly(template, sample, attack, 40, 4, pace)
    fast = outcomes(template, sample, 400, np.random.default_rng(5), Setting(schedule=pace, attack=attack))
    for k in range(fast.answers.shape[1]):
        ranks = [sample.at_most(found[:, k].astype(np.int64)) for found in (slow, fast.answers)]
        assert ks_2samp(*ranks).pvalue > 1e-4
    # the engine's is the largest of any decision, the protocol's that of the last
    assert (fast.evidence >= 0.0).all()
    assert abs((fast.dropped > 0).mean() - slow[:, -1].mean()) < 0.3


def test_that_comparison_notices_liars_who_say_the_opposite():
    sample, template = sample_of(400), guarded(400, quantile=0.9)
    slow = slowly(template, sample, Attack(0.2, "spread"), 40, 4, Schedule.of())
    fast = outcomes(template, sample, 400, np.random.default_rng(5), Setting(attack=Attack(0.2, "spread", bit=1)))
    ranks = [sample.at_most(found[:, 0].astype(np.int64)) for found in (slow, fast.answers)]
    assert ks_2samp(*ranks).pvalue < 1e-4


def shifts(attack, *, guard, name="normal", users=5_000, runs=60, quantile=0.5):
    """(rank errors, contradictions, shares dropped) of runs with liars, each on data of its own."""
    template, found = guarded(users, quantile=quantile, guard=guard), []
    for number in range(runs):
        sample = sample_of(users, name, seed=[users, number])
        seen = outcomes(template, sample, 1, np.random.default_rng([6, number]), Setting(attack=attack))
        found.append((sample.rank_error(seen.answers[:, 0], quantile)[0], seen.evidence[0], seen.dropped[0]))
    return np.array(found).T


def test_liars_at_the_end_lose_their_lever():
    """60 runs each; without the guard the rank is off by more than three times the bound in one run of twenty."""
    bound = 0.05 / (2 * math.tanh(0.5) * 0.95)
    open_to_it, _, _ = shifts(Attack(0.05, "last"), guard=False)
    kept, evidence, dropped = shifts(Attack(0.05, "last"), guard=True)
    assert np.quantile(open_to_it, 0.95) > 3 * bound
    assert np.quantile(kept, 0.95) < bound
    assert (evidence > beyond(ALARM, 5_000, 1)).mean() > 0.9
    assert dropped.max() <= MOST


def test_liars_thinly_spread_over_the_end_are_found():
    """A quarter of the last fifth lies; the twin is a run without the guard.

    Of 300 runs 2 % are off by more than twice the bound, and a part is left out in 98 %. If it were 3 % and 95 %,
    60 runs would fail here once in a hundred times.
    """
    bound = 0.05 / (2 * math.tanh(0.5) * 0.95)
    open_to_it, _, _ = shifts(Attack(0.05, "thin"), guard=False)
    kept, _, dropped = shifts(Attack(0.05, "thin"), guard=True)
    assert (open_to_it > 2 * bound).mean() > 0.3
    assert (kept > 2 * bound).mean() < 0.1
    assert (dropped > 0).mean() > 0.85


def test_honest_runs_are_left_alone():
    settings = {"name": "pareto", "users": 2_000, "runs": 120}
    plain, _, _ = shifts(None, guard=False, **settings)
    kept, evidence, dropped = shifts(None, guard=True, **settings)
    assert evidence.max() < ALARM
    assert (dropped > 0).mean() <= 0.05
    assert kept.mean() < 1.3 * plain.mean()


def test_a_dropped_bulk_phase_is_asked_again():
    """Liars who fill the bulk phase lose it, and the search for the median starts anew."""
    users = 5_000
    template = guarded(users, quantile=0.9)
    sample = sample_of(users, "pareto", seed=2)
    protocol = template.fresh()
    drive(protocol, UsersAndLiars(sample, Attack(0.06, "first"), users, np.random.default_rng(1)))
    assert 0 in protocol.believed().judgement.dropped
    late = [key for key, _, _ in protocol.counts() if key[0] % KINDS == BULK and key[0] // KINDS >= FIRST]
    assert late
