"""What is shown of a campaign that runs: snapshots of its counts that tell nothing about a single device.

Who reads exact counts before and after one device answers has read its threshold and its bit. So while a campaign
runs, whatever leaves the server (list, show, export, estimates, alarms, metrics) comes from its last snapshot:

- from one snapshot to the next there are at least `step` reports;
- the last one is at least `step` reports behind what is counted, so closing, after which the exact counts are
  shown, is as large a step as any.

There are two of them at rest: the one that is shown, and the one that is shown when `step` more are counted. They
are in the database and turn in one statement, so every process and host shows the same one, before and after a
restart, and two that turn at once do no harm. `verify` compares exact counts and says only whether they agree.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from sqlalchemy import literal, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from privquant.aggregator.store import schema
from privquant.aggregator.store.base import Counts, counts_of
from privquant.aggregator.store.operator_queries import read_counts, writing

STEP = 32
"""Reports between two snapshots, at least, unless told otherwise."""

_NOTHING = b"[]"


class Snapshots:
    """Turns the snapshots of the campaigns of one store."""

    def __init__(self, engine: AsyncEngine, step: int = STEP, pause: float = 0.0) -> None:
        """pause: the least seconds between two snapshots of a campaign."""
        self._engine = engine
        self._step = step
        self._pause = pause
        self._coming: dict[int, int] = {}  # reports in the snapshot to be shown next, as far as is known here
        self._soonest: dict[int, float] = {}
        self._late: dict[int, Sequence[Counts]] = {}  # what came too soon after a snapshot

    async def catch_up(self) -> None:
        """Take note of what came too soon."""
        for number, counts in list(self._late.items()):
            await self.advance(number, counts)

    async def advance(self, number: int, counts: Sequence[Counts]) -> None:
        """Take note of the exact counts of a campaign that runs."""
        heard = sum(row.answered for row in counts)
        known = self._coming.get(number, 0)
        if time.monotonic() < self._soonest.get(number, 0.0):
            self._late[number] = counts
            return
        self._late.pop(number, None)
        if known <= heard < known + self._step:  # below it: a backup was restored, or the number was used before
            return
        self._soonest[number] = time.monotonic() + self._pause
        table = schema.snapshot
        async with writing(self._engine) as db:
            await self._begin(db, number)
            turned = {"shown_heard": table.c.coming_heard, "shown": table.c.coming}
            await db.execute(
                update(table)
                .where(table.c.campaign == number, table.c.coming_heard + self._step <= heard)
                .values(coming_heard=heard, coming=packed(counts), **turned)
            )
            kept = await db.execute(select(table.c.coming_heard).where(table.c.campaign == number))
            self._coming[number] = int(kept.scalar() or 0)

    async def _begin(self, db: AsyncConnection, number: int) -> None:
        """Two empty snapshots, unless there are some, or the campaign has been closed meanwhile."""
        table, campaign = schema.snapshot, schema.campaign.c
        inserting = (postgresql if self._engine.dialect.name == "postgresql" else sqlite).insert(table)
        empty = select(campaign.no, literal(0), literal(_NOTHING), literal(0), literal(_NOTHING)).where(
            campaign.no == number, campaign.state != "closed"
        )
        columns = ["campaign", "shown_heard", "shown", "coming_heard", "coming"]
        await db.execute(inserting.from_select(columns, empty).on_conflict_do_nothing())


async def shown_counts(db: AsyncConnection, number: int, state: str) -> list[Counts]:
    """The counts an operator sees: of the last snapshot; the exact ones once the campaign is closed."""
    if state == "closed":
        return await read_counts(db, number)
    table = schema.snapshot.c
    found = (await db.execute(select(table.shown).where(table.campaign == number))).scalar()
    return [] if found is None else unpacked(bytes(found))


async def shown_heard(db: AsyncConnection) -> dict[int, int]:
    """Reports in the last snapshot, of the campaigns that have one."""
    table = schema.snapshot.c
    return {row.campaign: row.shown_heard for row in await db.execute(select(table.campaign, table.shown_heard))}


def packed(counts: Sequence[Counts]) -> bytes:
    rows = [
        [row.query.phase, row.query.arm, row.query.coin, row.query.threshold, row.answered, row.ones]
        for row in counts
    ]
    return json.dumps(rows, separators=(",", ":")).encode("ascii")


def unpacked(data: bytes) -> list[Counts]:
    return counts_of(json.loads(data))
