"""The pace: how many are asked at a time, whose turn it is, and that both are the same for everybody."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from privquant.aggregator.pace import (
    LONGEST_PERIOD,
    TRIES,
    WINDOW,
    Crowd,
    Pace,
    at_a_time,
    check_share,
    period_of,
    turn_begun,
)
from privquant.device import Patience
from privquant.errors import InvalidInput


def test_eight_at_first_then_a_share_of_those_heard() -> None:
    assert [at_a_time(0.1, known) for known in (0, 80, 89, 90, 1_000)] == [8, 8, 8, 9, 100]
    assert Pace(0.1, 0).places(heard=0, in_flight=3) == 5
    # A report that the queries do not follow from yet takes its place as before.
    assert Pace(0.1, 0).places(heard=3, in_flight=5) == 0
    assert Pace(0.1, 3).places(heard=3, in_flight=5) == 3
    assert Pace(0.1, 1_000).places(heard=1_000, in_flight=100) == 0
    # A store that was restored has heard fewer than the queries follow from.
    assert Pace(0.1, 1_000).places(heard=10, in_flight=40) == 60
    assert Pace(0.1, 1_000, turn=False).places(heard=1_000, in_flight=0) == 0


def test_a_share_is_checked_in_words() -> None:
    assert [check_share(share) for share in (0, 0.01, 0.15, 1)] == [0, 0.01, 0.15, 1]
    for wrong in (-0.1, 0.001, 1.5, float("nan")):
        with pytest.raises(InvalidInput, match=r"pace must be 0 \(off\), or a share"):
            check_share(wrong)


def test_the_wait_grows_with_the_crowd_and_fits_the_patience_of_a_device() -> None:
    assert [period_of(crowd) for crowd in (0, TRIES, TRIES + 1, 2_500, 10**6)] == [1, 1, 2, 8, LONGEST_PERIOD]
    ships = Patience()
    # Told to wait at once for a whole period, a device still has its turn, and the answer's two requests after it.
    assert LONGEST_PERIOD + WINDOW + 2 * ships.request < ships.total
    # Told at the end of a second, it comes up to a second and its own jitter after its turn began.
    assert 1 + ships.first_pause < WINDOW


def test_a_turn_that_was_told_remains_one_when_the_crowd_gets_smaller() -> None:
    rng = random.Random(5)
    for _ in range(200):
        phase, now = rng.random() * LONGEST_PERIOD, rng.random() * 1e9
        begun = turn_begun(now, phase, LONGEST_PERIOD)
        for period in (1, 2, 4, 8, 16):
            assert turn_begun(begun + 1e-3, phase, period) == pytest.approx(begun, abs=1e-3)


Tokens = dict[bytes, tuple[float, float, float]]
"""phase, when it comes, impatience"""


def served(tokens: Tokens, seconds: float, each: float, fair: bool = True) -> set[bytes]:
    """Who is served within `seconds` when a place opens every `each` seconds.

    impatience: the part of the time it is told that it waits before it asks again. Not fair: whoever asks first
    after a place has opened gets it, as if there were no turns.
    """
    crowd, found, rng = Crowd(), set(), random.Random(7)
    asks = sorted((comes, token) for token, (_, comes, _) in tokens.items())
    opened = 0
    while asks and asks[0][0] < seconds:
        now, token = asks.pop(0)
        phase, _, impatience = tokens[token]
        turn = crowd.may_try(token, phase, now) or not fair
        if turn and opened < now / each:
            opened += 1
            found.add(token)
            crowd.leave(token, now)
        else:
            wait = (crowd.wait(token, phase, now, tried=turn) + 0.5 * rng.random()) * impatience
            again = (now + wait, token)
            place = next((k for k, other in enumerate(asks) if other > again), len(asks))
            asks.insert(place, again)
    return found


def crowd_of(count: int, early: Any, late: Any) -> Tokens:
    """Half of them as `early` says, half as `late` does: (when it comes, its impatience)."""
    rng = random.Random(11)
    return {
        bytes([k % 2]) + k.to_bytes(4, "big"): (rng.random() * LONGEST_PERIOD, *(late if k % 2 else early)())
        for k in range(count)
    }


def advantage(tokens: Tokens, fair: bool) -> tuple[int, int]:
    of = Counter(token[0] for token in served(tokens, 30.0, 0.05, fair))
    return of[0], of[1]


# Of some 600 served, 300 +- 12 are of each half; 4.5 standard deviations are 55 (false-alarm rate 7e-6).
APART = 110


def test_who_asks_a_hundred_times_a_second_is_served_like_everybody() -> None:
    rng = random.Random(3)
    tokens = crowd_of(2_000, lambda: (rng.random(), 0.02), lambda: (rng.random(), 1.0))
    eager, polite = advantage(tokens, fair=True)
    assert abs(eager - polite) < APART
    eager, polite = advantage(tokens, fair=False)  # the twin: without turns they are found out
    assert eager - polite > APART


def test_who_comes_first_is_served_like_who_comes_a_moment_later() -> None:
    rng = random.Random(4)
    tokens = crowd_of(2_000, lambda: (0.1 * rng.random(), 1.0), lambda: (1 + rng.random(), 1.0))
    first, later = advantage(tokens, fair=True)
    assert abs(first - later) < APART
    queue = sorted(tokens, key=lambda token: tokens[token][1])[: first + later]
    assert sum(token[0] == 0 for token in queue) > first + APART  # the twin: who stands in a queue is found out


def test_who_does_not_come_back_does_not_wait_any_more() -> None:
    crowd = Crowd()
    for k in range(50):
        crowd.wait(b"%d" % k, 0.0, 100.0, tried=True)
    assert len(crowd) == 50
    crowd.wait(b"50", 0.0, 120.0, tried=True)
    assert len(crowd) == 1
    assert crowd.leave(b"50", 123.0) == 3.0
    assert len(crowd) == 0
