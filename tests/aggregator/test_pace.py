"""The pace: how many are asked at a time, whose turn it is, and that both are the same for everybody."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from typing import Any

import pytest

from privquant.aggregator.devices import waiting_room
from privquant.aggregator.devices.admission_rules import (
    HOLD,
    LONGEST_PERIOD,
    MOST_HELD,
    WINDOW,
    Crowd,
    Pace,
    at_a_time,
    check_share,
    period_of,
    turn_begun,
)
from privquant.aggregator.devices.waiting_room import REST, Seat, WaitingRoom
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
    assert [period_of(crowd) for crowd in (0, MOST_HELD, MOST_HELD + 1, 10**6)] == [HOLD, HOLD, 8, LONGEST_PERIOD]
    ships = Patience()
    # Told to wait at once for a whole period, a device still has its turn, and the answer's two requests after it.
    assert LONGEST_PERIOD + HOLD + 2 * ships.request < ships.total
    assert ships.request > HOLD  # it does not give up while its request is held
    # Told at the end of a second, it comes up to a second and its own jitter after its turn began.
    assert 1 + ships.first_pause < WINDOW


def test_a_turn_that_was_told_remains_one_when_the_crowd_gets_smaller() -> None:
    rng = random.Random(5)
    for _ in range(200):
        phase, now = rng.random() * LONGEST_PERIOD, rng.random() * 1e9
        begun = turn_begun(now, phase, LONGEST_PERIOD)
        for period in (4, 8, 16):
            assert turn_begun(begun + 1e-3, phase, period) == pytest.approx(begun, abs=1e-3)


Tokens = dict[bytes, tuple[float, float, float]]
"""phase, when it comes, impatience"""


class Simulated:
    """Who is served when a place opens every so many seconds.

    impatience: the part of the time it is told that a device waits before it asks again. Not fair: whoever asks
    first after a place has opened gets it, as if there were no turns and nobody were held.
    """

    def __init__(self, tokens: Tokens, each: float, fair: bool, most: int = MOST_HELD) -> None:
        self.tokens, self.fair = tokens, fair
        self.crowd, self.rng = Crowd(), random.Random(7)
        self.room = WaitingRoom(most)
        self.seats: dict[bytes, Seat] = {}
        self.held: dict[Seat, bytes] = {}
        self.found: set[bytes] = set()
        self.free = 0
        self.each = each
        self.events = [(comes, "ask", token) for token, (_, comes, _) in tokens.items()]
        self.events.append((each, "open", b""))
        heapq.heapify(self.events)

    def run(self, seconds: float) -> set[bytes]:
        while self.events[0][0] < seconds:
            now, what, token = heapq.heappop(self.events)
            getattr(self, what)(now, token)
        return self.found

    def open(self, now: float, _token: bytes) -> None:
        self.free += 1
        for seat in self.room.call(1, self.free, now):
            self.room.answered(seat)
            token = self.held[seat]
            del self.seats[token]
            self.serve(now, token)
        heapq.heappush(self.events, (now + self.each, "open", b""))

    def serve(self, now: float, token: bytes) -> None:
        self.free -= 1
        self.found.add(token)
        self.crowd.leave(token, now)

    def ask(self, now: float, token: bytes) -> None:
        phase = self.tokens[token][0]
        turn = self.crowd.may_try(token, phase, now)
        if self.free and ((turn and not self.seats) or not self.fair):
            self.serve(now, token)
        elif turn and self.fair:
            self.crowd.wait(token, phase, now, tried=True)
            seat = self.seats[token] = Seat(1, self.crowd.turn(phase, now), self.rng.getrandbits(64))
            self.held[seat] = token
            heapq.heappush(self.events, (seat.until, "stand", token))
            goes = self.room.sit(seat)
            if goes is not None:
                self.tell(now, self.held[goes])
        else:
            self.tell(now, token)

    def stand(self, now: float, token: bytes) -> None:
        if token in self.seats and self.seats[token].until <= now:
            self.room.leave(self.seats[token])
            self.tell(now, token)

    def tell(self, now: float, token: bytes) -> None:
        self.seats.pop(token, None)
        phase, _, impatience = self.tokens[token]
        told = self.crowd.wait(token, phase, now, tried=False)
        heapq.heappush(self.events, (now + (told + 0.5 * self.rng.random()) * impatience, "ask", token))


def crowd_of(count: int, early: Any, late: Any) -> Tokens:
    """Half of them as `early` says, half as `late` does: (when it comes, its impatience)."""
    rng = random.Random(11)
    return {
        bytes([k % 2]) + k.to_bytes(4, "big"): (rng.random() * LONGEST_PERIOD, *(late if k % 2 else early)())
        for k in range(count)
    }


def advantage(tokens: Tokens, fair: bool = True, most: int = MOST_HELD) -> tuple[int, int]:
    of = Counter(token[0] for token in Simulated(tokens, 0.05, fair, most).run(30.0))
    return of[0], of[1]


# Of some 600 served, 300 +- 12 are of each half; 4.5 standard deviations are 55 (false-alarm rate 7e-6).
APART = 110


def test_who_asks_a_hundred_times_a_second_is_served_like_everybody() -> None:
    rng = random.Random(3)
    tokens = crowd_of(2_000, lambda: (rng.random(), 0.02), lambda: (rng.random(), 1.0))
    for most in (MOST_HELD, 300):
        eager, polite = advantage(tokens, most=most)
        assert eager + polite > 590
        assert abs(eager - polite) < APART
    eager, polite = advantage(tokens, fair=False)  # the twin: without turns they are found out
    assert eager - polite > APART


def test_who_comes_back_at_once_gains_nothing_by_being_held_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(6)
    tokens = crowd_of(2_000, lambda: (rng.random(), 0.02), lambda: (rng.random(), 1.0))

    def gain() -> int:
        of = Counter(token[0] for token in Simulated(tokens, 0.005, True).run(6.0))
        return of[0] - of[1]

    # 1,200 of 2,000 are served: the difference of the halves is 0 +- 22 (4.5 standard deviations, 7e-6).
    assert abs(gain()) < 99
    monkeypatch.setattr(waiting_room, "WINDOW", 0.0)  # the twin: nobody is waited for
    assert gain() > 99


def test_who_comes_first_is_served_like_who_comes_a_moment_later() -> None:
    rng = random.Random(4)
    tokens = crowd_of(2_000, lambda: (0.1 * rng.random(), 1.0), lambda: (1 + rng.random(), 1.0))
    first, later = advantage(tokens)
    assert abs(first - later) < APART
    assert abs(sum(advantage(tokens, most=300)) - (first + later)) < 10
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


def test_of_one_too_many_the_largest_lot_has_to_go_whoever_came_first() -> None:
    rng = random.Random(2)
    seats = [Seat(k % 2, 100.0, rng.getrandbits(64)) for k in range(40)]
    for order in (seats, seats[::-1]):
        room = WaitingRoom(3)
        gone = [room.sit(seat) for seat in order]
        assert gone[:3] == [None] * 3
        assert len(room) == 3
        left = set(seats) - set(gone)
        assert left == set(sorted(seats, key=lambda seat: seat.lot)[:3])
        for seat in left:
            assert (room.leave(seat), room.leave(seat)) == (True, False)
        assert (len(room), room.campaigns) == (0, [])


def test_who_has_left_is_forgotten() -> None:
    room = WaitingRoom(10)
    for k in range(1_000):
        seat = Seat(1, 100.0, k)
        assert room.sit(seat) is None
        room.leave(seat)
    assert len(room._largest) < 30


def test_the_smallest_lots_are_called_and_those_who_may_be_waited_for_last() -> None:
    room, rng = WaitingRoom(), random.Random(3)
    ripe = [Seat(1, 100.0, rng.getrandbits(64)) for _ in range(10)]
    fresh = [Seat(1, 101.5, rng.getrandbits(64)) for _ in range(10)]
    for seat in (*fresh, *ripe, Seat(2, 100.0, 0)):
        room.sit(seat)
    assert room.call(1, 0, 102.0) == []
    called = room.call(1, 4, 102.0)
    assert called == sorted(ripe, key=lambda seat: seat.lot)[:4]
    # Those who were called and have not asked yet take their places.
    assert room.call(1, 4, 102.0) == []
    for seat in called:
        room.answered(seat)
    called = room.call(1, 8, 102.0)
    assert len(called) == 8
    assert set(called[:6]) < set(ripe)
    assert set(called[6:]) < set(fresh)


def test_who_was_called_in_vain_is_not_called_again_at_once() -> None:
    room = WaitingRoom()
    seat = Seat(1, 100.0, 7)
    room.sit(seat)
    assert room.call(1, 1, 101.0) == [seat]
    assert len(room) == 0
    room.answered(seat)
    seat.rests = 101.0 + REST
    room.sit(seat)
    assert room.call(1, 1, 101.1) == []
    assert room.call(1, 1, 101.0 + REST) == [seat]


@pytest.mark.parametrize("crowd_size", [0, MOST_HELD - 1, MOST_HELD + 1])
def test_who_is_new_may_try_whatever_its_phase(crowd_size: int) -> None:
    """What is said without the phase is what `may_try` says with any; in a larger crowd it is not said."""
    crowd = Crowd()
    for who in range(crowd_size):
        crowd.wait(b"%d" % who, 0.0, 101.0, tried=True)
    phases = [k * LONGEST_PERIOD / 64 for k in range(64)]
    assert crowd.is_new(b"new") == all(crowd.may_try(b"new", phase, 101.5) for phase in phases)
    assert crowd.is_new(b"new") == (crowd_size <= MOST_HELD)
    assert not crowd.is_new(b"0") or crowd_size == 0


def test_who_was_held_for_its_whole_turn_is_told_to_come_in_the_next() -> None:
    crowd = Crowd()
    assert crowd.may_try(b"a", 0.0, 101.0)
    crowd.wait(b"a", 0.0, 101.0, tried=True)
    assert not crowd.may_try(b"a", 0.0, 103.9)
    assert crowd.wait(b"a", 0.0, 104.01, tried=False) == 1  # its turn has begun, and it may try in it
    assert crowd.may_try(b"a", 0.0, 105.2)
    assert crowd.wait(b"b", 3.0, 101.0, tried=False) == 2  # who has not tried, late in its turn: the next one
