"""Who is given a query when: the rules, without a clock, an event loop or a store.

What is asked next follows from what was heard, so devices that are all asked at once are asked badly. At most
`at_a_time` queries are in flight: 8 at first, then a share of the reports that the published queries follow from
(`known`). A report that arrived after these queries were computed still takes its slot:

    free slots = at_a_time(share, known) - (heard - known) - in flight

The store checks this inside the transaction that gives a query to a token, so it holds for any number of processes.
`known` comes with the query: a process that has not seen the newest queries only gives fewer of the old ones.

A request that finds no free slot is held. When slots open, the held requests with the smallest ranks get them.
A rank is a keyed hash of the token: the same at every request, in every process and after every restart. A request
that was held for `HOLD` seconds is answered "not yet" with Retry-After.

What each part is for, in simulated campaigns of 2,500 devices at the default share (benchmarks/service/pace.py,
with --eager). Half of the devices come first and ask again at once, a hundred times a second. "Eager" is their part
of the first 60 % of the queries; 0.5 is fair:

    the limit         without it the mean rank error is 0.025 +- 0.002; with it 0.020, and one by one 0.019
    holding           by Retry-After alone: eager 0.83, 160 requests a device
    one rank a token  with a new random rank at each request: eager 0.58; as it is 0.51. A device that was away when
                      its rank came up is served when it returns: it loses the seconds of its pause and no more.

So all have answered after 6.3 s, with 1.2 requests a device.
"""

import math
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from privquant.errors import InvalidInput

FLOOR = 8
"""So many may always be asked at a time."""
DEFAULT_SHARE = 0.15
LEAST_SHARE = 0.01

HOLD = 4.0
"""Seconds for which a request is held; the wire format promises no more (docs/wire.md)."""
MOST_HELD = 4_096
"""Requests that one process holds."""
RETRIES = 1_024
"""Requests a second, about, that may come from tokens which wait and cannot be held."""
LONGEST_RETRY = 32
"""Seconds of the longest Retry-After: within a device's default patience, 60 s, it is held at least once more."""

_MOST_WAITING = 100_000
_LATE = 5.0  # seconds after its Retry-After for which a token is still expected


def check_share(share: float) -> float:
    """A share of those heard, or 0 for no limit."""
    if share != 0 and not LEAST_SHARE <= share <= 1:
        raise InvalidInput(
            f"pace must be 0 (off), or a share of those heard from {LEAST_SHARE} to 1, got {share:g}; "
            f"{DEFAULT_SHARE} is the default"
        )
    return float(share)


def at_a_time(share: float, known: int) -> int:
    """How many queries may be in flight when they follow from `known` reports."""
    return max(FLOOR, int(share * known))


@dataclass(frozen=True, slots=True)
class InFlightLimit:
    """The limit under which a request asks for a query. take: whether it may take a free slot."""

    share: float
    known: int
    take: bool = True

    def slots(self, heard: int, in_flight: int) -> int:
        """Free slots; below 1 there is none."""
        if not self.take:
            return 0
        return at_a_time(self.share, self.known) - max(0, heard - self.known) - in_flight


def retry_after(waiting: int) -> int:
    """Seconds after which a token asks again when so many wait at this process."""
    return min(LONGEST_RETRY, max(1, math.ceil((waiting - MOST_HELD) / RETRIES)))


@dataclass(eq=False)
class HeldRequest:
    """A request that waits for a slot. rank: decides who is served first, and is the same for all of a token."""

    campaign: Any
    rank: bytes


R = TypeVar("R", bound=HeldRequest)


class HeldRequests(Generic[R]):
    """The requests that one process holds, at most one for each token, in the order of their ranks."""

    def __init__(self, most: int = MOST_HELD) -> None:
        self._most = most
        self._by_rank: list[R] = []
        self._campaigns: Counter[Any] = Counter()

    def __len__(self) -> int:
        return len(self._by_rank)

    def __iter__(self) -> Iterator[R]:
        return iter(list(self._by_rank))

    @property
    def campaigns(self) -> list[Any]:
        return list(self._campaigns)

    def waits(self, campaign: Any) -> bool:
        return campaign in self._campaigns

    def add(self, request: R) -> R | None:
        """Hold a request; the one that cannot be held any more, if there is one.

        This is the request itself if its token has one here already, else the largest rank of too many.
        """
        place = self._place(request)
        if place < len(self._by_rank) and self._by_rank[place].rank == request.rank:
            return request
        self._by_rank.insert(place, request)
        self._campaigns[request.campaign] += 1
        if len(self._by_rank) <= self._most:
            return None
        last = self._by_rank[-1]
        self.remove(last)
        return last

    def take(self, campaign: Any, slots: int) -> list[R]:
        """The requests that get these slots; they are not held any more."""
        chosen = [request for request in self._by_rank if request.campaign == campaign][: max(0, slots)]
        for request in chosen:
            self.remove(request)
        return chosen

    def remove(self, request: R) -> bool:
        """Hold it no longer; whether it was held."""
        place = self._place(request)
        if place == len(self._by_rank) or self._by_rank[place] is not request:
            return False
        del self._by_rank[place]
        self._campaigns[request.campaign] -= 1
        if not self._campaigns[request.campaign]:
            del self._campaigns[request.campaign]
        return True

    def _place(self, request: R) -> int:
        return bisect_left(self._by_rank, request.rank, key=lambda held: held.rank)


class WaitingTokens:
    """The tokens that wait for a query of one campaign, held or told to come back, as one process has seen them."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[bytes, tuple[float, float]] = OrderedDict()  # since when, and when seen last
        self.wait_seconds = 0.0
        """How long those served lately had waited, on average."""

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, token: bytes, now: float) -> int:
        """The token has no slot; its Retry-After in seconds."""
        since, _ = self._waiting.pop(token, (now, now))
        self._waiting[token] = (since, now)
        self.forget(now)
        return retry_after(len(self))

    def leave(self, token: bytes, now: float) -> float:
        """The token got a query, or needs none any more; how long it had waited."""
        since, _ = self._waiting.pop(token, (now, now))
        waited = max(0.0, now - since)
        self.wait_seconds += (waited - self.wait_seconds) / 32
        return waited

    def forget(self, now: float) -> None:
        """Tokens that did not come back wait no longer."""
        oldest = now - HOLD - retry_after(len(self)) - _LATE
        while self._waiting:
            token, (_, seen) = next(iter(self._waiting.items()))
            if seen >= oldest and len(self._waiting) <= _MOST_WAITING:
                return
            del self._waiting[token]
