"""The conformance suite: what every protocol must keep, for ours and for yours.

    import pytest
    from privquant.testing import CHECKS, Case

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_protocol_conforms(check):
        check(Case("my-protocol"))

A check raises AssertionError, saying which rule of `privquant.protocols.base` was broken. All are
deterministic: simulated users have fixed seeds.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privquant.domain import MAX_SIZE, Integers
from privquant.errors import ProtocolError
from privquant.lab.populations import Users
from privquant.lab.run import run
from privquant.lab.sample import Sample
from privquant.messages import (
    AnyQuery,
    AnyReport,
    Query,
    Report,
    TreeQuery,
    TreeReport,
    report_from_dict,
    report_to_dict,
)
from privquant.protocols.base import Protocol, ThresholdProtocol
from privquant.protocols.registry import from_state
from privquant.protocols.registry import protocol as make_protocol

__all__ = ["CHECKS", "Case"]


@dataclass(frozen=True)
class Case:
    """A protocol by its registered name, with the options it is to be checked under."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def make(self, size: int, users: int, *, epsilon: float = 2.0, quantile: float = 0.5) -> Protocol:
        domain = Integers(0, size - 1)
        return make_protocol(self.name, domain, users=users, epsilon=epsilon, quantile=quantile, **self.options)


def _users(values: Any, size: int, seed: int = 0) -> Users:
    return Users(Sample(np.asarray(values, np.int64), size), np.random.default_rng(seed))


def _spread(count: int, size: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, size, count)


def _in_domain(protocol: Protocol) -> None:
    for estimate in protocol.estimates():
        assert estimate.value is not None, "a finished run of at least one user has an answer"
        assert 0 <= estimate.value < protocol.domain.size, f"answer {estimate.value} lies outside the domain"
        assert estimate.index == protocol.domain.index(estimate.value), "an estimate's index is its value's place"


def _refuses(call: Callable[..., None], *args: Any) -> bool:
    try:
        call(*args)
    except ProtocolError:
        return True
    return False


def silent_before_any_report(case: Case) -> None:
    protocol = case.make(64, 10)
    estimate = protocol.estimate()
    assert estimate.value is None
    assert estimate.users == 0
    protocol.ask(3)
    assert protocol.estimate().value is None


def nobody_is_asked_twice_nor_beyond_the_plan(case: Case) -> None:
    for chunk in (1, 7, 1000):
        protocol, users = case.make(64, 120), _users(_spread(120, 64), 64)
        while queries := protocol.ask(chunk):
            assert len(queries) <= chunk
            assert protocol.asked <= protocol.users
            protocol.tell(users.answer(queries))
        assert protocol.finished
        assert protocol.ask(5) == []
        assert protocol.heard == protocol.asked
        _in_domain(protocol)


def reports_may_come_in_any_order(case: Case) -> None:
    rng = np.random.default_rng(1)
    protocol, users = case.make(1000, 150), _users(_spread(150, 1000), 1000)
    waiting: list[AnyReport] = []
    for _ in range(10_000):
        queries = protocol.ask(int(rng.integers(1, 12)))
        waiting += users.answer(queries)
        if not waiting:
            break
        order = rng.permutation(len(waiting))
        told = order[: max(1, len(order) // 2)]
        protocol.tell([waiting[k] for k in told])
        waiting = [waiting[k] for k in sorted(set(order.tolist()) - set(told.tolist()))]
    assert protocol.finished, "the run must end when every report has arrived"
    assert protocol.heard == protocol.asked <= 150
    _in_domain(protocol)


def users_who_give_up_do_not_stop_the_run(case: Case) -> None:
    rng = np.random.default_rng(2)
    protocol, users = case.make(256, 200), _users(_spread(200, 256), 256)
    while queries := protocol.ask(10):
        stays = rng.random(len(queries)) < 0.7
        protocol.tell([r for r, stay in zip(users.answer(queries), stays, strict=True) if stay])
        protocol.give_up([q for q, stay in zip(queries, stays, strict=True) if not stay])
    assert protocol.finished
    assert protocol.heard + protocol.given_up == protocol.asked
    _in_domain(protocol)


def late_reports_are_counted_once(case: Case) -> None:
    """Users given up who answer after all: heard, and either used or shown as unused."""
    protocol, users = case.make(256, 120), _users(_spread(120, 256), 256)
    late: list[AnyReport] = []
    while queries := protocol.ask(12):
        reports = users.answer(queries)
        protocol.tell(reports[3:])
        protocol.give_up(queries[:3])
        late += reports[:3]
    before = protocol.heard
    protocol.tell(late)
    assert protocol.heard == before + len(late)
    assert 0 <= protocol.unused <= len(late)
    assert protocol.estimate().unused == protocol.unused


def state_round_trips_at_every_point(case: Case) -> None:
    protocol, users = case.make(300, 60), _users(_spread(60, 300), 300)
    while True:
        copy = from_state(json.loads(json.dumps(protocol.state())))
        assert copy.state() == protocol.state()
        assert copy.estimates() == protocol.estimates()
        queries = protocol.ask(3)
        assert copy.ask(3) == queries, "a protocol read back from its state asks something else"
        if not queries:
            break
        reports = users.answer(queries)
        copy = from_state(json.loads(json.dumps(protocol.state())))
        protocol.tell(reports)
        copy.tell(reports)
        assert copy.state() == protocol.state()


def killed_and_rebuilt_from_its_reports(case: Case) -> None:
    protocol, users = case.make(300, 60), _users(_spread(60, 300), 300)
    log: list[str] = []
    while queries := protocol.ask(4):
        reports = users.answer(queries)
        heard = reports[:3]  # the fourth is in flight when the process dies
        protocol.tell(heard)
        log += [json.dumps(report_to_dict(r)) for r in heard]
        rebuilt = protocol.fresh()
        for line in log:
            rebuilt.tell([report_from_dict(json.loads(line))])
        assert rebuilt.estimates() == protocol.estimates()
        assert rebuilt.heard == protocol.heard
        assert rebuilt.asked == rebuilt.heard, "users in flight at the kill count as not asked"
        protocol.tell(reports[3:])
        log += [json.dumps(report_to_dict(r)) for r in reports[3:]]
    rebuilt = protocol.fresh()
    rebuilt.tell([report_from_dict(json.loads(line)) for line in log])
    assert rebuilt.state() == protocol.state()
    assert rebuilt.finished


def foreign_reports_change_nothing(case: Case) -> None:
    protocol, users = case.make(100, 40), _users(_spread(40, 100), 100)
    good = users.answer(protocol.ask(1))
    before = protocol.state()
    for bad in _foreign(protocol, good[0]):
        assert _refuses(protocol.tell, [*good, bad]), f"a report that cannot belong here was accepted: {bad}"
        assert protocol.state() == before, "a refused batch must change nothing"
    protocol.tell(good)
    assert protocol.heard == 1


def _foreign(protocol: Protocol, good: AnyReport) -> Iterator[AnyReport]:
    if isinstance(good, Report):
        query = good.query
        for threshold in (-1, protocol.domain.size - 1, 10**30):
            yield Report(Query(threshold, query.coin, query.phase, query.arm, query.step), 0)
        yield Report(Query(query.threshold, query.coin ^ 1, query.phase, query.arm, query.step), 0)
        yield Report(query, 2)
        yield TreeReport(TreeQuery(2, 3, "oue", query.coin), 1, b"\0")
    else:
        yield Report(Query(0, good.query.coin), 1)
        yield TreeReport(good.query, good.query.height + 1, good.bits, good.index, good.bit)
        yield TreeReport(good.query, 0, good.bits, good.index, good.bit)
        wrong = TreeQuery(good.query.branching + 1, good.query.height, good.query.encoding, good.query.coin)
        yield TreeReport(wrong, good.level, good.bits, good.index, good.bit)


def every_size_of_domain_and_population(case: Case) -> None:
    for size in (1, 2, 3, 5, MAX_SIZE):
        for count in (0, 1, 2, 30):
            protocol = case.make(size, count)
            if count:
                values = np.full(count, size // 2, np.int64)
                run(protocol, _users(values, size), batch=3)
                _in_domain(protocol)
            else:
                assert protocol.ask(1) == []
                assert protocol.estimate().value is None
            assert protocol.finished


def extreme_quantiles_and_coins(case: Case) -> None:
    for quantile in (0.001, 0.01, 0.5, 0.99, 0.999):
        for epsilon in (1e-6, 0.1, 20.0, 60.0):
            protocol = case.make(1000, 80, epsilon=epsilon, quantile=quantile)
            run(protocol, _users(_spread(80, 1000), 1000), batch=5)
            assert protocol.finished
            _in_domain(protocol)
            json.dumps(protocol.state(), allow_nan=False)


def finds_ties_constants_and_gaps(case: Case) -> None:
    """With a nearly honest coin and plenty of users a small domain must be found right."""
    rng = np.random.default_rng(3)
    count, size = 6000, 64
    shapes = {
        "constant at the bottom": np.zeros(count, np.int64),
        "constant at the top": np.full(count, size - 1),
        "constant inside": np.full(count, 17),
        "two ties": np.where(rng.random(count) < 0.65, 5, 50),
        "gap at the quantile": np.where(rng.random(count) < 0.5, rng.integers(0, 4, count), 60),
        "uniform": rng.integers(0, size, count),
    }
    for name, values in shapes.items():
        sample = Sample(values, size)
        protocol = case.make(size, count, epsilon=6.0)
        run(protocol, Users(sample, np.random.default_rng(4)))
        value = protocol.estimate().value
        assert value is not None
        ok = bool(sample.success(np.array([int(value)]), 0.5, 0.1)[0])
        assert ok, f"{name}: answer {value} is further than 10 percentile points from the median"


def counts_are_the_whole_state(case: Case) -> None:
    """Only for protocols that say so: order does not matter, and counts tell the same as single reports."""
    protocol = case.make(500, 90)
    if not isinstance(protocol, ThresholdProtocol) or not protocol.count_table:
        return
    users = _users(_spread(90, 500), 500)
    log: list[Report] = []
    while queries := protocol.ask(4):
        reports = [r for r in users.answer(queries) if isinstance(r, Report)]
        protocol.tell(reports)
        log += reports
    permuted = protocol.fresh()
    permuted.tell([log[k] for k in np.random.default_rng(5).permutation(len(log))])
    assert permuted.state() == protocol.state(), "the state depends on the order of reports"
    counted = protocol.fresh()
    assert isinstance(counted, ThresholdProtocol)
    for query in sorted({r.query for r in log}, key=lambda q: (q.arm, q.threshold, q.phase)):
        bits = [r.bit for r in log if r.query == query]
        counted.tell_counts(query, len(bits), sum(bits))
    assert counted.state() == protocol.state(), "counts do not tell the same as single reports"


def whole_rounds_close_for_good(case: Case) -> None:
    """Only for protocols that say so: overfull, short and dropped rounds close, and stay closed folded again."""
    protocol = case.make(500, 400)
    if not isinstance(protocol, ThresholdProtocol) or not protocol.round_table:
        return
    told: list[tuple[Query, int, int]] = []
    for more in (10, -5, None, 0):  # than planned; None: dropped
        ((query, planned),) = protocol.ask_counts(protocol.batch_size())
        assert isinstance(query, Query)
        answered = 0 if more is None else planned + more
        told.append((query, answered, answered // 3))
        protocol.close_round(*told[-1])
        assert protocol.in_flight == 0
        assert _refuses(protocol.close_round, *told[-1]), "a round that is over was closed again"
    assert protocol.heard == sum(answered for _, answered, _ in told)
    again = protocol.fresh()
    assert isinstance(again, ThresholdProtocol)
    for part in told:
        again.close_round(*part)
    assert again.state() == protocol.state(), "rounds told again do not give the same state"
    assert from_state(json.loads(json.dumps(protocol.state()))).state() == protocol.state()
    assert again.ask_counts(10**6) == protocol.ask_counts(10**6), "a round that was over is asked again"


def asking_needs_no_chance(case: Case) -> None:
    """Two runs with the same answers ask the same questions: a protocol draws no random numbers."""

    def asked() -> list[AnyQuery]:
        protocol, users, seen = case.make(200, 50), _users(_spread(50, 200), 200, seed=9), list[AnyQuery]()
        while queries := protocol.ask(2):
            seen += queries
            protocol.tell(users.answer(queries))
        return seen

    assert asked() == asked()


CHECKS: tuple[Callable[[Case], None], ...] = (
    silent_before_any_report,
    nobody_is_asked_twice_nor_beyond_the_plan,
    reports_may_come_in_any_order,
    users_who_give_up_do_not_stop_the_run,
    late_reports_are_counted_once,
    state_round_trips_at_every_point,
    killed_and_rebuilt_from_its_reports,
    foreign_reports_change_nothing,
    every_size_of_domain_and_population,
    extreme_quantiles_and_coins,
    finds_ties_constants_and_gaps,
    counts_are_the_whole_state,
    whole_rounds_close_for_good,
    asking_needs_no_chance,
)
