"""Admission: how many are asked at a time, who is next, and that both are the same for everybody."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from privquant.aggregator.devices.admission import Admission
from privquant.aggregator.devices.admission_rules import (
    HOLD,
    LONGEST_RETRY,
    MOST_HELD,
    HeldRequest,
    HeldRequests,
    InFlightLimit,
    WaitingTokens,
    at_a_time,
    check_share,
    retry_after,
)
from privquant.aggregator.store.base import AskResult, Outcome, Pin, Traffic
from privquant.device import Patience
from privquant.errors import InvalidInput


def test_eight_at_first_then_a_share_of_those_heard() -> None:
    assert [at_a_time(0.1, known) for known in (0, 80, 89, 90, 1_000)] == [8, 8, 8, 9, 100]
    assert InFlightLimit(0.1, 0).slots(heard=0, in_flight=3) == 5
    # A report that the queries do not follow from yet takes its slot as before.
    assert InFlightLimit(0.1, 0).slots(heard=3, in_flight=5) == 0
    assert InFlightLimit(0.1, 3).slots(heard=3, in_flight=5) == 3
    assert InFlightLimit(0.1, 1_000).slots(heard=1_000, in_flight=100) == 0
    # A store that was restored has heard fewer than the queries follow from.
    assert InFlightLimit(0.1, 1_000).slots(heard=10, in_flight=40) == 60
    assert InFlightLimit(0.1, 1_000, take=False).slots(heard=1_000, in_flight=0) == 0


def test_a_share_is_checked_in_words() -> None:
    assert [check_share(share) for share in (0, 0.01, 0.15, 1)] == [0, 0.01, 0.15, 1]
    for wrong in (-0.1, 0.001, 1.5, float("nan")):
        with pytest.raises(InvalidInput, match=r"pace must be 0 \(off\), or a share"):
            check_share(wrong)


def test_retry_after_grows_with_those_who_wait_and_fits_the_patience_of_a_device() -> None:
    assert [retry_after(waiting) for waiting in (0, MOST_HELD, 2 * MOST_HELD, 10**6)] == [1, 1, 4, LONGEST_RETRY]
    ships = Patience()
    # Told to wait for the longest time, a device is still held once more, and sends the answer's two requests.
    assert LONGEST_RETRY + HOLD + 2 * ships.request < ships.total
    assert ships.request > HOLD  # it does not give up while its request is held


Tokens = dict[bytes, tuple[float, float]]
"""when it comes, impatience"""


@dataclass(eq=False)
class Held(HeldRequest):
    token: bytes


class Simulated:
    """Who is served when a slot opens every so many seconds.

    impatience: the part of the time it is told that a device waits before it asks again.
    rule: "rank" is the one in use. The twins: "first" gives a free slot to whoever asks first, and nobody is held;
    "redraw" draws a new rank at each request.
    """

    def __init__(self, tokens: Tokens, each: float, rule: str, most: int = MOST_HELD) -> None:
        self.tokens, self.rule, self.each = tokens, rule, each
        self.waiting, self.rng = WaitingTokens(), random.Random(7)
        self.ranks = {token: self.rng.randbytes(16) for token in tokens}
        self.held: HeldRequests[Held] = HeldRequests(most)
        self.found: set[bytes] = set()
        self.free, self.order = 0, 0
        self.events: list[tuple[float, int, str, Any]] = []
        for token, (comes, _) in tokens.items():
            self.at(comes, "ask", token)
        self.at(each, "open")

    def at(self, when: float, what: str, whom: Any = b"") -> None:
        self.order += 1
        heapq.heappush(self.events, (when, self.order, what, whom))

    def run(self, seconds: float) -> set[bytes]:
        while self.events[0][0] < seconds:
            now, _, what, whom = heapq.heappop(self.events)
            getattr(self, what)(now, whom)
        return self.found

    def open(self, now: float, _token: bytes) -> None:
        self.free += 1
        for request in self.held.take(1, self.free):
            self.serve(now, request.token)
        self.at(now + self.each, "open")

    def serve(self, now: float, token: bytes) -> None:
        self.free -= 1
        self.found.add(token)
        self.waiting.leave(token, now)

    def ask(self, now: float, token: bytes) -> None:
        if self.free and not self.held:
            self.serve(now, token)
        elif self.rule == "first":
            self.tell(now, token)
        else:
            self.waiting.wait(token, now)
            request = Held(1, self.rng.randbytes(16) if self.rule == "redraw" else self.ranks[token], token)
            self.at(now + HOLD, "end_hold", request)
            not_held = self.held.add(request)
            if not_held is not None:
                self.tell(now, not_held.token)

    def end_hold(self, now: float, request: Held) -> None:
        if self.held.remove(request):
            self.tell(now, request.token)

    def tell(self, now: float, token: bytes) -> None:
        told = self.waiting.wait(token, now)
        self.at(now + (told + 0.5 * self.rng.random()) * self.tokens[token][1], "ask", token)


def crowd_of(count: int, early: Any, late: Any) -> Tokens:
    """Half of them as `early` says, half as `late` does: (when it comes, its impatience)."""
    return {bytes([k % 2]) + k.to_bytes(4, "big"): (late if k % 2 else early)() for k in range(count)}


def served(tokens: Tokens, rule: str = "rank", most: int = MOST_HELD) -> tuple[int, int]:
    """How many of each half are served, of some 600 in half a minute."""
    of = Counter(token[0] for token in Simulated(tokens, 0.05, rule, most).run(30.0))
    return of[0], of[1]


# Of some 600 served, 300 +- 12 are of each half; 4.5 standard deviations are 55 (false-alarm rate 7e-6).
APART = 110


def test_who_asks_a_hundred_times_a_second_is_served_like_everybody() -> None:
    rng = random.Random(3)
    tokens = crowd_of(2_000, lambda: (rng.random(), 0.02), lambda: (rng.random(), 1.0))
    eager, polite = served(tokens)
    assert eager + polite > 590
    assert abs(eager - polite) < APART
    eager, polite = served(tokens, "first")  # the twin: if nobody is held they are found out
    assert eager - polite > APART


def test_who_comes_back_at_once_gains_nothing_when_few_can_be_held() -> None:
    rng = random.Random(6)
    tokens = crowd_of(2_000, lambda: (rng.random(), 0.01), lambda: (rng.random(), 1.0))

    def gain(rule: str) -> int:
        of = Counter(token[0] for token in Simulated(tokens, 0.005, rule, most=300).run(6.0))
        return of[0] - of[1]

    # 1,200 of 2,000 are served: the difference of the halves is 0 +- 22 (4.5 standard deviations, 7e-6).
    assert abs(gain("rank")) < 99
    assert gain("redraw") > 99  # the twin: who asks more often draws more often


def test_who_comes_first_is_served_like_who_comes_a_moment_later() -> None:
    rng = random.Random(4)
    tokens = crowd_of(2_000, lambda: (0.1 * rng.random(), 1.0), lambda: (1 + rng.random(), 1.0))
    first, later = served(tokens)
    assert abs(first - later) < APART
    assert abs(sum(served(tokens, most=300)) - (first + later)) < 10
    queue = sorted(tokens, key=lambda token: tokens[token][0])[: first + later]
    assert sum(token[0] == 0 for token in queue) > first + APART  # the twin: who stands in a queue is found out


def test_who_does_not_come_back_does_not_wait_any_more() -> None:
    waiting = WaitingTokens()
    for k in range(50):
        waiting.wait(b"%d" % k, 100.0)
    assert len(waiting) == 50
    waiting.wait(b"50", 120.0)
    assert len(waiting) == 1
    assert waiting.leave(b"50", 123.0) == 3.0
    assert len(waiting) == 0


def test_of_one_too_many_the_largest_rank_is_not_held_whoever_came_first() -> None:
    rng = random.Random(2)
    requests = [HeldRequest(k % 2, rng.randbytes(16)) for k in range(40)]
    for order in (requests, requests[::-1]):
        held: HeldRequests[HeldRequest] = HeldRequests(3)
        not_held = [held.add(request) for request in order]
        assert not_held[:3] == [None] * 3
        assert len(held) == 3
        left = set(requests) - set(not_held)
        assert list(held) == sorted(left, key=lambda request: request.rank)
        assert left == set(sorted(requests, key=lambda request: request.rank)[:3])
        for request in left:
            assert (held.remove(request), held.remove(request)) == (True, False)
        assert (len(held), held.campaigns) == (0, [])


def test_a_token_is_held_once() -> None:
    held: HeldRequests[HeldRequest] = HeldRequests()
    first, second = HeldRequest(1, b"rank"), HeldRequest(1, b"rank")
    assert held.add(first) is None
    assert held.add(second) is second
    assert not held.remove(second)
    assert held.take(1, 5) == [first]
    assert held.add(second) is None


def test_the_smallest_ranks_of_a_campaign_get_its_slots() -> None:
    rng = random.Random(3)
    held: HeldRequests[HeldRequest] = HeldRequests()
    requests = [HeldRequest(1, rng.randbytes(16)) for _ in range(10)]
    for request in (*requests, HeldRequest(2, bytes(16))):
        held.add(request)
    in_order = sorted(requests, key=lambda request: request.rank)
    assert (held.take(1, 0), held.take(1, -3), held.take(3, 5)) == ([], [], [])
    assert held.take(1, 4) == in_order[:4]
    assert held.take(1, 100) == in_order[4:]
    assert (held.waits(1), held.campaigns) == (False, [2])


class Scripted:
    """Campaign, cache, group and store of one admission, whose asks have these outcomes one after the other."""

    no, id, state, share, known, taken = 1, "campaign", "open", 0.1, 0, 0
    planned_users = 100

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.manifest = self.tickets = self
        self.waiting = WaitingTokens()

    def rank(self, hashed: bytes) -> bytes:
        return hashed

    async def traffic(self, _campaign: int) -> Traffic:
        return Traffic(0, 0, 0)

    async def put(self, _ask: Pin) -> AskResult:
        return AskResult(self.outcomes.pop(0))

    async def ask(self, limit: InFlightLimit | None) -> Pin:
        return Pin(1, b"token", b"box", 0, limit)

    async def play(self) -> tuple[Outcome, float]:
        scripted: Any = self
        admission = Admission(scripted, scripted, scripted)
        began = asyncio.get_running_loop().time()
        held = asyncio.ensure_future(admission.result(scripted, b"token", b"hash", self.ask, asyncio.Event().wait))
        while not held.done():
            await admission.look()
            await asyncio.sleep(0.005)
        return held.result().outcome, asyncio.get_running_loop().time() - began


def test_who_was_chosen_in_vain_is_held_again_and_not_chosen_at_once() -> None:
    waits = Outcome.WAIT
    assert asyncio.run(Scripted(waits, Outcome.PINNED).play())[0] is Outcome.PINNED
    found, seconds = asyncio.run(Scripted(waits, waits, waits, Outcome.PINNED).play())
    assert found is Outcome.PINNED
    assert seconds >= 0.4
