"""The waiting room: requests in their turn that found no place, held for seconds, and whose lot is called next.

Lots decide: a token has one for each of its turns, a keyed hash, the same in every process, so that a token that is
held in several has no more than one. Those held are bounded in number; when one too many comes, who has the largest
lot has to go, whoever came first, and is told when to come back, like everybody whose hold is over. When places
open, the smallest lots are called.

Whoever's turn began less than `WINDOW` seconds ago is called after the others: a device that came back as it was
told may still be on its way, and one that came at once gains nothing by it. Who was called and found that another
process had been quicker sits down again, and is not called for a moment.

No clock and no event loop: `turns` has them, and the simulation of the pace has its own.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, nsmallest

from privquant.aggregator.devices.admission_rules import HOLD, MOST_HELD, WINDOW

REST = 0.2
"""Seconds for which who was called in vain is not called again."""


@dataclass(eq=False, slots=True)
class Seat:
    """One held request. turn: when its token's turn began; lot: what it has drawn for this turn."""

    campaign: int
    turn: float
    lot: int
    asking: bool = False
    rests: float = 0.0

    @property
    def until(self) -> float:
        """When it has to go."""
        return self.turn + HOLD


class WaitingRoom:
    """Those whose requests one process holds."""

    def __init__(self, most: int = MOST_HELD) -> None:
        self._most = most
        self._seats: dict[int, dict[Seat, None]] = {}
        self._held = 0
        self._largest: list[tuple[int, int, Seat]] = []  # a heap, in which some have left already
        self._order = itertools.count()
        self._asking: Counter[int] = Counter()

    def __len__(self) -> int:
        return self._held

    def __contains__(self, campaign: int) -> bool:
        """Whether anybody waits for it."""
        return campaign in self._seats

    @property
    def campaigns(self) -> list[int]:
        """Those for which somebody waits."""
        return list(self._seats)

    def sit(self, seat: Seat) -> Seat | None:
        """Take it in; who has to go for it, which may be itself."""
        self._seats.setdefault(seat.campaign, {})[seat] = None
        self._held += 1
        heappush(self._largest, (-seat.lot, next(self._order), seat))
        if self._held > self._most:
            while not self.leave(goes := heappop(self._largest)[2]):
                pass
            return goes
        if len(self._largest) > 2 * self._held + self._most:
            self._largest = [each for each in self._largest if each[2] in self._seats.get(each[2].campaign, ())]
            heapify(self._largest)
        return None

    def call(self, campaign: int, places: int, now: float) -> list[Seat]:
        """Whose requests may ask for these places now."""
        places -= self._asking[campaign]
        if places < 1:
            return []
        waiting = [seat for seat in self._seats.get(campaign, ()) if seat.rests <= now]
        if len(waiting) > places:
            waiting = nsmallest(places, waiting, key=lambda seat: (now - seat.turn < WINDOW, seat.lot))
        for seat in waiting:
            self.leave(seat)
            seat.asking = True
        self._asking[campaign] += len(waiting)
        return waiting

    def answered(self, seat: Seat) -> None:
        """Who was called has asked."""
        seat.asking = False
        self._asking[seat.campaign] -= 1
        if not self._asking[seat.campaign]:
            del self._asking[seat.campaign]

    def leave(self, seat: Seat) -> bool:
        """It does not wait any more; whether it did."""
        seats = self._seats.get(seat.campaign, {})
        if seat not in seats:
            return False
        del seats[seat]
        self._held -= 1
        if not seats:
            del self._seats[seat.campaign]
        return True
