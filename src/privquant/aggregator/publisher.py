"""The publisher: computes the next thresholds of every open campaign from its counts.

One process does it (on PostgreSQL the one that holds an advisory lock, which dies with its connection). Two at once
do no harm: both compute from the same counts, which only grow, and what either publishes is right to ask.
What is new is told by comparing counts, never by "rows after the last one seen": on PostgreSQL rows do not become
visible in the order of their numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from privquant.aggregator.campaign_protocol import Fold
from privquant.aggregator.store.base import CampaignRow, DeviceStore
from privquant.aggregator.store.operator_queries import manifest_of
from privquant.errors import ProtocolError
from privquant.messages import Query


class Publisher:
    """Keeps one fold per open campaign; after a restart it is made again from the counts."""

    def __init__(self, hot: DeviceStore, on_publish: Callable[[str], Awaitable[None]]) -> None:
        self._hot = hot
        self._on_publish = on_publish
        self._folds: dict[str, Fold] = {}
        self._due: dict[str, int] = {}

    async def turn(self) -> bool:
        """Publish wherever enough was heard since the last time; whether this process is the one that does."""
        if not await self._hot.try_lead():
            self._folds.clear()
            self._due.clear()
            return False
        rows = await self._hot.campaigns(live=True)
        for row in rows:
            folded = self._folds[row.id].protocol.heard if row.id in self._folds else 0
            if row.heard >= self._due.get(row.id, 0) or row.heard < folded:
                await self._publish(row)
        for gone in set(self._folds) - {row.id for row in rows}:
            del self._folds[gone]
            self._due.pop(gone, None)
        return True

    async def _publish(self, row: CampaignRow) -> None:
        counts = await self._hot.counts(row.no)

        def fold() -> tuple[list[tuple[Query, int]], int]:
            kept = self._folds.get(row.id)
            if kept is None:
                kept = self._folds[row.id] = Fold(manifest_of(row.envelope))
            kept.update(counts)
            return kept.next_queries(), kept.next_due()

        try:
            queries, due = await asyncio.to_thread(fold)
        except ProtocolError:
            # Counts that went down: a store restored from a backup under a running server.
            self._folds.pop(row.id, None)
            queries, due = await asyncio.to_thread(fold)
        await self._hot.publish(row.no, queries)
        self._due[row.id] = due
        await self._on_publish(row.id)
