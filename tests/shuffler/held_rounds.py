"""The shuffler's own store and batching without servers: rounds opened, filled and mixed in one process."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from privquant.shuffler import rounds
from privquant.shuffler.rounds import Event
from privquant.shuffler.store import AskResult, Outcome, Store, prepare, transaction
from privquant.wire import SEALED_BYTES, Announcement

T = TypeVar("T")
IDENTITY = "ab" * 32
FOR_EVER = 2**40


def bytes_of(number: int, label: str = "sealed") -> bytes:
    """Sealed bytes as random as any, and the same every time."""
    return hashlib.shake_256(f"{label} {number}".encode()).digest(SEALED_BYTES)


def token(number: int) -> bytes:
    return bytes_of(number, "token")[:16]


class Rounds:
    """A store with one campaign whose rounds have these numbers."""

    def __init__(self, folder: Path, *batches: int) -> None:
        self.batches = batches
        prepare(folder / "shuffler.sqlite3")
        self.store = Store(folder / "shuffler.sqlite3")
        self.db = self.store.db
        with transaction(self.db):
            self.db.execute(
                "INSERT INTO campaign (no, id, envelope, aggregator, round_seconds, state, joined)"
                " VALUES (1, ?, x'', '', 600, 'open', 0)",
                (IDENTITY,),
            )

    def tokens(self, *numbers: int) -> None:
        with transaction(self.db):
            self.db.executemany("INSERT INTO token VALUES (1, ?)", [(token(number),) for number in numbers])

    def open(self, number: int, closes: int = FOR_EVER) -> None:
        with transaction(self.db):
            rounds.announce(self.db, 1, b"{}", Announcement(IDENTITY, number, 5, "cd" * 32), closes)

    async def answer(self, round: int, *numbers: int, group: int = 1_000) -> list[AskResult]:
        """These devices ask for a place and report, a group of them at a time."""
        found: list[AskResult] = []
        for start in range(0, len(numbers), group):
            some = numbers[start : start + group]
            placed = await self.store.commit(
                [partial(self.store.place, 1, token(n), self.batches, FOR_EVER) for n in some]
            )
            assert {each.outcome for each in placed} <= {Outcome.PLACED, Outcome.HAS}, placed
            found += await self.store.commit(
                [partial(self.store.keep, 1, token(n), round, bytes_of(n)) for n in some]
            )
        return found

    def settle(self, round: int, now: float = 0.0, order: Callable[[list[bytes]], None] = rounds.permute) -> str:
        """What the server's loop does with a round, if anything."""
        found = rounds.open_round(self.db, 1)
        event = None if found is None else rounds.event_due(found, self.batches[round], now, FOR_EVER)
        with transaction(self.db):
            if found is not None and event is not None:
                rounds.act(self.db, 1, event, found, self.batches[round], int(now) + 600)
            if event is Event.CLOSE:
                rounds.mix(self.db, 1, IDENTITY, round, order)
        return event or ""

    def batch(self, round: int) -> list[bytes]:
        rows = self.db.execute("SELECT sealed FROM outbox WHERE campaign = 1 AND round = ? ORDER BY part", (round,))
        return [each for (blob,) in rows for each in rounds.split(blob)]

    def state(self, round: int) -> str:
        return str(self.db.execute("SELECT state FROM round WHERE round = ?", (round,)).fetchone()[0])

    def sizes(self) -> dict[str, int]:
        names = ("held", "outbox", "place", "spent", "notice")
        return {name: self.db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}


def run(work: Callable[[], object]) -> None:
    async def inside() -> None:
        found = work()
        if asyncio.iscoroutine(found):
            await found

    asyncio.run(inside())
