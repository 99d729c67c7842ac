"""Pace: how many devices are asked at a time, and whose turn it is.

What is asked next follows from what was heard, so a crowd that is asked all at once is asked badly. No more queries
are on their way than `at_a_time`: 8 at first, then a share of the reports that the published queries follow from
(`known`). A report that came after these queries were computed is not understood yet and still takes its place:

    places left = at_a_time(share, known) - (heard - known) - in flight

The store looks at this inside the transaction that gives a query to a token, so that it holds however many
processes serve; `known` comes with the query, so a process that has not seen the newest queries only gives fewer of
the old.

Whom to serve is drawn, not queued. Each token has turns, a period apart, which begin at a phase that is a keyed
hash of the token, the same in every process and after every restart. In each turn it may try once: it is given a
query if a place is free, or its request is held for the rest of the first `HOLD` seconds of the turn, and among
those held a lot decides whenever places open (see waiting_room). Who comes first, comes back sooner than told, or
asks a hundred times a second, has the turns everybody has. The period grows with the crowd and is a power of two,
so that a turn that was told remains one when the crowd gets smaller.

Who waits is known to the process's memory only.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

from privquant.errors import InvalidInput

FLOOR = 8
"""So many may always be asked at a time."""
DEFAULT_SHARE = 0.15
LEAST_SHARE = 0.01

HOLD = 4
"""Seconds of a turn for which a request that finds no place is held; also the shortest period."""
MOST_HELD = 4_096
"""Requests that one process holds; a larger crowd is told to come back later."""
LONGEST_PERIOD = 32
"""Seconds between two turns of a token in the largest crowd: within a device's default patience, 60 s."""
WINDOW = 2.0
"""Seconds within which everybody has come who was told when its turn begins: Retry-After is whole seconds, and a
device adds up to half of one."""

_MOST_WAITING = 100_000
_SLACK = 0.5  # of WINDOW, what is left when a device was told a second
_SLOW = 5.0  # seconds after its turn until which a token that was told to come back is believed to do so


def check_share(share: float) -> float:
    """A share of those heard, or 0 for no pace."""
    if share != 0 and not LEAST_SHARE <= share <= 1:
        raise InvalidInput(
            f"pace must be 0 (off), or a share of those heard from {LEAST_SHARE} to 1, got {share:g}; "
            f"{DEFAULT_SHARE} is the default"
        )
    return float(share)


def at_a_time(share: float, known: int) -> int:
    """How many may be on their way when the queries follow from `known` reports."""
    return max(FLOOR, int(share * known))


@dataclass(frozen=True, slots=True)
class Pace:
    """What an ask for a new query carries. turn: whether a place that is free may be taken, not only one held."""

    share: float
    known: int
    turn: bool = True

    def places(self, heard: int, in_flight: int) -> int:
        """Places left; below 1 there is none."""
        if not self.turn:
            return 0
        return at_a_time(self.share, self.known) - max(0, heard - self.known) - in_flight


def period_of(crowd: int) -> int:
    """Seconds between two turns of a token when so many wait."""
    period = HOLD
    while crowd * HOLD > MOST_HELD * period and period < LONGEST_PERIOD:
        period *= 2
    return period


def turn_begun(now: float, phase: float, period: int) -> float:
    """When the latest turn of a token began."""
    return now - (now - phase) % period


@dataclass(slots=True)
class _Waiter:
    since: float
    seen: float
    tried: float


class Crowd:
    """The tokens that wait for a campaign's next places, as one process has seen them."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[bytes, _Waiter] = OrderedDict()
        self.wait_seconds = 0.0
        """How long those served lately had waited, on average."""

    def __len__(self) -> int:
        return len(self._waiting)

    def is_new(self, token: bytes) -> bool:
        """Whether this is its turn whatever its phase: it has not tried, and turns are as long as their period."""
        return token not in self._waiting and period_of(len(self)) == HOLD

    def may_try(self, token: bytes, phase: float, now: float) -> bool:
        """Whether this is the token's turn, and it has not tried in it."""
        begun = self.turn(phase, now)
        waiter = self._waiting.get(token)
        return now - begun < HOLD and (waiter is None or waiter.tried < begun)

    def turn(self, phase: float, now: float) -> float:
        """When the latest turn of a token with this phase began."""
        return turn_begun(now, phase, period_of(len(self)))

    def wait(self, token: bytes, phase: float, now: float, *, tried: bool) -> int:
        """The token has no place; in how many whole seconds to come for the next turn in which it may try."""
        waiter = self._waiting.setdefault(token, _Waiter(now, now, 0.0))
        waiter.seen = now
        if tried:
            waiter.tried = now
        self._waiting.move_to_end(token)
        self.forget(now)
        begun = self.turn(phase, now)
        if waiter.tried < begun and now - begun < _SLACK:  # the next turn has just begun
            return 1
        return max(1, math.ceil(begun + period_of(len(self)) - now))

    def leave(self, token: bytes, now: float) -> float:
        """The token got its place, or has no use for one any more; how long it had waited."""
        waiter = self._waiting.pop(token, None)
        waited = 0.0 if waiter is None else max(0.0, now - waiter.since)
        self.wait_seconds += (waited - self.wait_seconds) / 32
        return waited

    def forget(self, now: float) -> None:
        """Who did not come back in its turn does not wait any more."""
        gone = now - period_of(len(self)) - WINDOW - _SLOW
        while self._waiting:
            token, first = next(iter(self._waiting.items()))
            if first.seen >= gone and len(self._waiting) <= _MOST_WAITING:
                return
            del self._waiting[token]
