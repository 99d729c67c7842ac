"""The publisher: computes the next thresholds of every open campaign from its counts.

One process does it (on PostgreSQL the one that holds an advisory lock, which dies with its connection). Two at once
do no harm: both compute from the same counts, which only grow, and what either publishes is right to ask.
What is new is found by comparing counts, never by "rows after the last one seen": on PostgreSQL rows do not become
visible in the order of their numbers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from privquant.aggregator.campaign.local_protocol import CampaignProtocol
from privquant.aggregator.campaign.modes import mode_of
from privquant.aggregator.devices.admission_rules import at_a_time
from privquant.aggregator.store.base import CampaignRow, Counts, DeviceStore
from privquant.aggregator.store.operator_queries import manifest_of
from privquant.errors import ProtocolError
from privquant.messages import Query

_AHEAD = 8  # times as many as are in flight may come while the next queries are computed


@dataclass(eq=False)
class Publisher:
    """Keeps one protocol per open campaign; after a restart it is made again from the counts.

    pause: a publishing that took a second is followed by so many without one, unless devices wait for it.
    """

    _store: DeviceStore
    _on_publish: Callable[[str], Awaitable[None]]
    _on_counts: Callable[[int, list[Counts]], Awaitable[None]] | None = None
    pause: float = 20.0

    def __post_init__(self) -> None:
        self._protocols: dict[str, CampaignProtocol] = {}
        self._due: dict[str, int] = {}
        self._soonest: dict[str, float] = {}

    async def turn(self) -> bool:
        """Publish wherever enough was heard since the last time; whether this process is the one that does."""
        if not await self._store.try_lead():
            self._protocols.clear()
            self._due.clear()
            return False
        rows = await self._store.campaigns(live=True)
        for row in rows:
            await mode_of(manifest_of(row.envelope)).publish(row, self)
        for gone in set(self._protocols) - {row.id for row in rows}:
            del self._protocols[gone]
            self._due.pop(gone, None)
            self._soonest.pop(gone, None)
        return True

    async def publish_if_due(self, row: CampaignRow) -> None:
        """Publish the next queries of a campaign if enough was heard of it since the last time."""
        known = self._protocols[row.id].protocol.heard if row.id in self._protocols else 0
        due = row.heard >= self._due.get(row.id, 0) and await self._in_time(row, known)
        if due or row.heard < known:
            began = time.monotonic()
            await self._publish(row)
            ended = time.monotonic()
            self._soonest[row.id] = ended + self.pause * (ended - began)

    async def _in_time(self, row: CampaignRow, known: int) -> bool:
        """Not too soon after the last time, unless devices may wait for it.

        They may where half of the places are used up, and of the others there are no more than those in flight have
        used meanwhile: a few times as many as there are.
        """
        if time.monotonic() >= self._soonest.get(row.id, 0.0):
            return True
        most = at_a_time(row.pace, known)
        if row.pace == 0 or 2 * (row.heard - known) < most:
            return False
        in_flight = (await self._store.traffic(row.no)).in_flight
        return most - (row.heard - known) <= _AHEAD * in_flight

    async def _publish(self, row: CampaignRow) -> None:
        counts = await self._store.counts(row.no)

        def next_queries() -> tuple[list[tuple[Query, int]], int]:
            kept = self._protocols.get(row.id)
            if kept is None:
                kept = self._protocols[row.id] = CampaignProtocol(manifest_of(row.envelope))
            kept.update(counts)
            return kept.next_queries(), kept.next_due()

        try:
            queries, due = await asyncio.to_thread(next_queries)
        except ProtocolError:
            # Counts that went down: a store restored from a backup under a running server.
            self._protocols.pop(row.id, None)
            queries, due = await asyncio.to_thread(next_queries)
        await self._store.publish(row.no, queries, sum(count.answered for count in counts))
        self._due[row.id] = due
        await self._on_publish(row.id)  # first: somebody may be waiting for it
        if self._on_counts is not None:
            await self._on_counts(row.no, counts)
