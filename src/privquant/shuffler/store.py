"""What device requests need of the database: all asks of a group in ONE transaction, durable when it returns.

    Place   give this token a place in the open round, unless it has one.
            -> PLACED or HAS with the round, or SPENT, UNKNOWN, OVER (its round has closed), NONE (no place now)
    Keep    hold this sealed report for its round and spend the token.
            -> KEPT, or SPENT (kept before), UNKNOWN, OVER, STRAY (the token has no place in that round),
               COPY (the same sealed bytes are held already: somebody else's)
    Admit   take a place of the open link for this token.
            -> KEPT, or HAS (it has one), or FULL, CLOSED

`commit` raises Unavailable when the outcome is not known; asking again is always right. No more places are given
out than the open round still needs; a lease that ran out gives its place to another, and a report that comes after
all is kept as long as its round is open.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeVar

from privquant.server.sqlite_writer import OneWriter
from privquant.shuffler.database import OPEN
from privquant.shuffler.round_states import State

T = TypeVar("T")

_RECOUNT = 1.0  # seconds between two counts of the leases that still run

_IS_TOKEN = "SELECT 1 FROM token WHERE campaign = ? AND id = ?"
_IS_SPENT = "SELECT 1 FROM spent WHERE campaign = ? AND id = ?"
_PLACE_OF = "SELECT round FROM place WHERE campaign = ? AND id = ?"
_OPEN_ROUND = f"SELECT round, held FROM round WHERE campaign = ? AND state = '{State.OPEN}'"
_IN_FLIGHT = "SELECT count(*) FROM place WHERE campaign = ? AND round = ? AND until > ?"
_TAKE = "UPDATE link SET taken = taken + 1 WHERE campaign = ? AND taken < places RETURNING 1"


class Outcome(Enum):
    PLACED = auto()
    HAS = auto()
    SPENT = auto()
    UNKNOWN = auto()
    OVER = auto()
    NONE = auto()
    KEPT = auto()
    STRAY = auto()
    COPY = auto()
    FULL = auto()
    CLOSED = auto()


@dataclass(slots=True)
class Place:
    """batches: the number each round of the campaign is forwarded with. until: the second the lease runs out."""

    campaign: int
    id: bytes
    batches: tuple[int, ...]
    until: int


@dataclass(slots=True)
class Keep:
    campaign: int
    id: bytes
    round: int
    sealed: bytes


@dataclass(slots=True)
class Admit:
    campaign: int
    id: bytes


Ask = Place | Keep | Admit


@dataclass(slots=True)
class AskResult:
    outcome: Outcome
    round: int = -1


class Store(OneWriter):
    """The file is prepared already."""

    _NAME = "the shuffler's database"

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._in_flight: dict[int, tuple[int, int, float]] = {}  # campaign: (round, leases, counted at)

    async def commit(self, asks: list[Ask]) -> list[AskResult]:
        return await self.write(lambda: self._apply(asks))

    async def write(self, work: Callable[[], T], *, aside: bool = False) -> T:
        """`work` in one transaction; aside: it takes long, so the event loop goes on meanwhile."""
        async with self._transaction("take the transaction"):
            return await self._on_writer(work) if aside else work()  # after the commit, which ends the block

    def _forget(self) -> None:
        self._in_flight.clear()

    # -- one group ---------------------------------------------------------------------------------------------

    def _apply(self, asks: list[Ask]) -> list[AskResult]:
        answer: dict[type, Callable[[Any], AskResult]]
        answer = {Keep: self._keep, Place: self._place, Admit: self._admit}
        return [answer[type(ask)](ask) for ask in asks]

    def _place(self, ask: Place) -> AskResult:
        run, key = self.db.execute, (ask.campaign, ask.id)
        found = run(_PLACE_OF, key).fetchone()
        if found is not None:
            opened = run(_OPEN_ROUND, (ask.campaign,)).fetchone()
            still_open = opened is not None and opened[0] == found[0]
            return AskResult(Outcome.HAS if still_open else Outcome.OVER, found[0])
        if run(_IS_SPENT, key).fetchone() is not None:
            return AskResult(Outcome.SPENT)
        if run(_IS_TOKEN, key).fetchone() is None:
            return AskResult(Outcome.UNKNOWN)
        opened = run(_OPEN_ROUND, (ask.campaign,)).fetchone()
        if opened is None:
            return AskResult(Outcome.NONE)
        number, held = opened
        if held + self._leases(ask.campaign, number) >= ask.batches[number]:
            return AskResult(Outcome.NONE)
        run("INSERT INTO place (campaign, id, round, until) VALUES (?, ?, ?, ?)", (*key, number, ask.until))
        self._count_lease(ask.campaign, 1)
        return AskResult(Outcome.PLACED, number)

    def _keep(self, ask: Keep) -> AskResult:
        run, key = self.db.execute, (ask.campaign, ask.id)
        found = run(_PLACE_OF, key).fetchone()
        if found is None or found[0] != ask.round:
            if run(_IS_SPENT, key).fetchone() is not None:
                return AskResult(Outcome.SPENT)
            return AskResult(Outcome.UNKNOWN if run(_IS_TOKEN, key).fetchone() is None else Outcome.STRAY)
        opened = run(_OPEN_ROUND, (ask.campaign,)).fetchone()
        if opened is None or opened[0] != ask.round:
            return AskResult(Outcome.OVER)
        new = run(
            "INSERT INTO held (campaign, round, sealed) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING 1",
            (ask.campaign, ask.round, ask.sealed),
        ).fetchone()
        if new is None:
            return AskResult(Outcome.COPY)
        run("INSERT INTO spent (campaign, id) VALUES (?, ?)", key)
        run("DELETE FROM place WHERE campaign = ? AND id = ?", key)
        run("UPDATE round SET held = held + 1 WHERE campaign = ? AND round = ?", (ask.campaign, ask.round))
        self._count_lease(ask.campaign, -1)
        return AskResult(Outcome.KEPT, ask.round)

    def _admit(self, ask: Admit) -> AskResult:
        run, key = self.db.execute, (ask.campaign, ask.id)
        if run(_IS_TOKEN, key).fetchone() is not None:
            return AskResult(Outcome.HAS)
        if run("SELECT state FROM campaign WHERE no = ?", (ask.campaign,)).fetchone() != (OPEN,):
            return AskResult(Outcome.CLOSED)
        if run(_TAKE, (ask.campaign,)).fetchone() is None:
            return AskResult(Outcome.FULL)
        run("INSERT INTO token (campaign, id) VALUES (?, ?)", key)
        return AskResult(Outcome.KEPT)

    def _leases(self, campaign: int, number: int) -> int:
        """Places of a round that are given out and run still; counted anew every second, because they run out."""
        known = self._in_flight.get(campaign)
        if known is None or known[0] != number or time.monotonic() - known[2] > _RECOUNT:
            (count,) = self.db.execute(_IN_FLIGHT, (campaign, number, int(time.time()))).fetchone()
            known = self._in_flight[campaign] = (number, count, time.monotonic())
        return known[1]

    def _count_lease(self, campaign: int, change: int) -> None:
        known = self._in_flight.get(campaign)
        if known is not None:
            self._in_flight[campaign] = (known[0], max(0, known[1] + change), known[2])
