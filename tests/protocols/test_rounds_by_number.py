"""Rounds close by number: overfull, short and dropped ones stay closed and take nothing from the others."""

from __future__ import annotations

import json

import pytest

from privquant.domain import Integers
from privquant.errors import ProtocolError
from privquant.messages import Report
from privquant.privacy.coin import Coin
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.naive.search import NaiveSearch
from privquant.protocols.registry import from_state
from privquant.testing import whole_rounds_close_for_good

COIN = Coin.of(3.0).threshold
SIZES = (40, 40, 50, 60, 80)


def rounds_of_isotonic(sizes=SIZES, **settings):
    pairs = [(size, COIN) for size in sizes]
    return Isotonic(Integers(0, 999), users=sum(sizes), epsilon=3.0, rounds=pairs, **settings)


def naive(users=400, **settings):
    return NaiveSearch(Integers(0, 99), users=users, epsilon=3.0, **settings)


def walk(protocol, more):
    """Close round after round with so many reports more or fewer than planned; (query, answered, ones) of each."""
    told = []
    for extra in more:
        ((query, planned),) = protocol.ask_counts(10**6)
        answered = 0 if extra is None else planned + extra
        told.append((query, answered, answered // 4))
        protocol.close_round(*told[-1])
    return told


def test_a_round_told_more_than_it_asked_takes_nothing_from_the_next():
    protocol = rounds_of_isotonic()
    asked = []
    while pairs := protocol.ask_counts(1000):
        ((query, planned),) = pairs
        asked.append(planned)
        protocol.tell([Report(query, 0)] * (planned + 10 * (query.phase == 1)))
    assert tuple(asked) == SIZES
    assert protocol.finished
    assert protocol.heard == sum(SIZES) + 10


@pytest.mark.parametrize("make", [rounds_of_isotonic, naive])
def test_rounds_folded_again_give_the_same_questions_and_answers(make):
    protocol = make()
    told = walk(protocol, (10, -7, None, 0))
    again = make()
    for part in told:
        again.close_round(*part)
    assert again.state() == protocol.state()
    assert again.estimate() == protocol.estimate()
    assert again.ask_counts(10**6) == protocol.ask_counts(10**6)
    stored = from_state(json.loads(json.dumps(protocol.state())))
    assert stored.state() == protocol.state()


@pytest.mark.parametrize("make", [rounds_of_isotonic, naive])
def test_a_dropped_round_does_not_reopen(make):
    protocol = make()
    ((first, planned),) = protocol.ask_counts(10**6)
    protocol.close_round(first, 0, 0)
    assert (protocol.heard, protocol.given_up, protocol.in_flight) == (0, planned, 0)
    ((second, _),) = protocol.ask_counts(10**6)
    assert second.phase == first.phase + 1
    assert second.threshold == first.threshold  # nothing was learned
    # The twin: told as counts, which is all a fold had, nothing says that the round is over.
    reopened = make()
    reopened.tell([])
    assert reopened.ask_counts(10**6)[0][0] == first


@pytest.mark.parametrize("make", [rounds_of_isotonic, naive])
def test_a_round_is_told_whole_and_once(make):
    protocol = make()
    ((query, planned),) = protocol.ask_counts(10**6)
    protocol.close_round(query, planned, 3)
    with pytest.raises(ProtocolError):
        protocol.close_round(query, planned, 3)
    part = make()
    ((query, planned),) = part.ask_counts(10**6)
    part.tell([Report(query, 1)])
    with pytest.raises(ProtocolError, match="whole"):
        part.close_round(query, planned, 3)


def test_an_overfull_round_of_the_naive_search_is_used_whole():
    """20 ones of 50 at a target of one half go right; the first 40, were they the ones, would have gone left."""
    protocol = naive()
    ((query, planned),) = protocol.ask_counts(10**6)
    protocol.close_round(query, planned + 20, planned // 2 + 2)
    ((following, _),) = protocol.ask_counts(10**6)
    assert following.threshold > query.threshold


def test_protocols_without_rounds_say_so():
    protocol = Isotonic(Integers(0, 9), users=10, epsilon=1.0)
    assert not protocol.round_table
    with pytest.raises(ProtocolError, match="no rounds"):
        protocol.close_round(protocol.ask(1)[0], 1, 0)


def test_the_suite_finds_a_protocol_whose_dropped_rounds_reopen():
    class Forgetful(NaiveSearch):
        def _close_round(self, query, answered, ones):
            return super()._close_round(query, answered, ones) if answered else 0

    class Case:
        def make(self, size, users):
            return Forgetful(Integers(0, size - 1), users=users, epsilon=2.0)

    with pytest.raises(AssertionError):
        whole_rounds_close_for_good(Case())


def test_merged_rounds_are_over_where_either_was():
    one, other = rounds_of_isotonic(), rounds_of_isotonic()
    walk(one, (0,))
    walk(other, (None, 5))
    one.merge(other)
    assert one.ask_counts(1000)[0][0].phase == 3
