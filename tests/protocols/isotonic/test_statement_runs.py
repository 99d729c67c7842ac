"""The fast runs that statements are judged by, against the protocol object asked and told the same."""

from collections import deque

import pytest
from statement_runs import SCHEDULES, heard_together, paced, runs

from privquant.error_words import Typical
from privquant.planning.statement import certain_of, typical_of
from privquant.protocols.isotonic.certain import certain
from privquant.protocols.isotonic.rules import is_extreme
from privquant.protocols.isotonic.typical import typical


def told_the_same(template, pace, log, together):
    """A fresh protocol, asked on its schedule; every question must be the log's, and is answered as there.

    together: how many of those in flight answer before others are asked.
    """
    protocol = template.fresh()
    coins = sorted(protocol.coins())
    rows = deque((phase, arm, coins[coin], c, n, s) for phase, arm, coin, c, n, s in log.tolist())

    def answered(query, users):
        phase, arm, coin, threshold, reports, ones = rows.popleft()
        assert (query.phase, query.arm, query.coin, query.threshold) == (phase, arm, coin, threshold)
        assert users == reports
        return ones

    if pace.kind == "in-flight":
        waiting = deque(protocol.ask(int(pace.number)))
        while waiting:
            for query in [waiting.popleft() for _ in range(min(together, len(waiting)))]:
                protocol.tell_counts(query, 1, answered(query, 1))
            waiting.extend(protocol.ask(int(pace.number) - len(waiting)))
    else:
        sizes = pace.batches_of(protocol)
        while pairs := protocol.ask_counts(next(sizes)):
            for query, users, ones in [(query, users, answered(query, users)) for query, users in pairs]:
                protocol.tell_counts(query, users, ones)
    assert not rows
    return protocol


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("quantile", [0.5, 0.9])
def test_a_run_is_that_of_the_protocol(schedule, quantile):
    users = 600
    for run in runs(
        "spikes_on_smooth", schedule, size=10**6, users=users, epsilon=2.0, quantile=quantile, trials=2, seed=4
    ):
        protocol = told_the_same(run.template, paced(schedule, users), run.log, heard_together(users))
        which = protocol.quantiles.index(quantile)
        answer = protocol.estimates()[which].index
        assert answer == run.answer
        assert protocol.believed().left_out != run.whole
        said, spread = certain_of(protocol, quantile, answer), protocol.spread > 0.0
        found = None
        if run.whole:
            found = certain(run.own, protocol.search, quantile, answer, most=run.most, spread=spread)
        if found is None:
            assert said is None
        else:
            assert (said.low, said.high) == (found.low, found.high)
            assert said.within == found.within
        boosted = run.template.run_plan.bulk > 0 and bool(is_extreme(quantile))
        part = 1.0 / len(protocol.quantiles)
        fast = typical(run.table, protocol.search, quantile, boosted, answer, part=part, people=True)
        slow = typical_of(protocol, quantile, answer)
        if isinstance(fast, Typical) and slow is not None:
            assert (slow.within, slow.low, slow.high) == (fast.within, fast.low, fast.high)
            assert slow.if_lumpy in (fast.if_lumpy, None)


def test_users_in_flight_may_be_heard_together():
    setting = {"size": 10**6, "users": 600, "epsilon": 2.0, "quantile": 0.9}
    for run in runs("gamma", "in flight", **setting, trials=2, seed=8, together=7):
        protocol = told_the_same(run.template, paced("in flight", 600), run.log, together=7)
        assert protocol.estimate().index == run.answer


@pytest.mark.parametrize("schedule", ["sequential", "rounds"])
def test_how_many_could_have_been_counted_follows_from_the_plan(schedule):
    """What is proven needs a number that no answer changes. The twin: the number counted is not one, where a part
    of the search may be asked again.
    """
    could, did = set(), set()
    for shape in ("pareto", "both_slacks"):
        for run in runs(shape, schedule, size=10**6, users=600, epsilon=2.0, quantile=0.5, trials=4, seed=6):
            could.add(float(run.most[0]))
            did.add(float(run.own.reports[:, : int(run.own.held[0])].sum()))
    assert len(could) == 1
    assert len(did) > 1 or schedule == "three"
    assert max(did) <= min(could)
