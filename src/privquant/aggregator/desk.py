"""The desk devices come to: what a process knows about running campaigns, refreshed from the store.

A `View` is a cache of what the store has, never more: manifest, state, the queries to hand out next, how many have
answered. Losing it loses nothing.
"""

from __future__ import annotations

import time
from secrets import SystemRandom

from privquant.aggregator.keys import KeyRing
from privquant.aggregator.store.base import CampaignRow, Hot
from privquant.aggregator.store.cold import manifest_of
from privquant.aggregator.tickets import TicketOffice
from privquant.messages import Query

_LONGEST_LIST = 4_096
_RECOUNT = 5.0  # seconds between two exact counts of devices in flight


class View:
    """One campaign as this process sees it."""

    def __init__(self, row: CampaignRow, keys: KeyRing) -> None:
        self.no = row.no
        self.id = row.id
        self.envelope = row.envelope
        self.manifest = manifest_of(row.envelope)
        self.office = TicketOffice(keys.campaign_secret(self.manifest.issuer, row.id), self.manifest.flip_threshold)
        self.state = row.state
        self.heard = row.heard
        self.in_flight = 0
        self.counted_at = 0.0
        self._queries: list[tuple[Query, int]] = []
        self._hand: list[Query] = []
        self._next = 0

    def set_queries(self, queries: list[tuple[Query, int]], random: SystemRandom) -> None:
        """Hand out each query in proportion to its users, in random order, over and over until told otherwise."""
        if queries == self._queries:
            return
        total = sum(users for _, users in queries)
        shrink = max(1.0, total / _LONGEST_LIST)
        hand = [query for query, users in queries for _ in range(max(1, round(users / shrink)))]
        random.shuffle(hand)
        self._queries, self._hand, self._next = queries, hand, 0

    def next_query(self) -> Query | None:
        if not self._hand:
            return None
        self._next = (self._next + 1) % len(self._hand)
        return self._hand[self._next]

    @property
    def full(self) -> bool:
        """As many as planned have answered or are about to."""
        return self.heard + self.in_flight >= self.manifest.planned_users


class Desk:
    """The views of one process."""

    def __init__(self, hot: Hot, keys: KeyRing) -> None:
        self._hot = hot
        self._keys = keys
        self._views: dict[str, View] = {}
        self._random = SystemRandom()

    async def view(self, identity: str) -> View | None:
        """The campaign with this id, or None."""
        found = self._views.get(identity)
        if found is not None:
            return found
        rows = await self._hot.campaigns(identity)
        if not rows:
            return None
        # Another request may have made it meanwhile.
        view = self._views.setdefault(identity, View(rows[0], self._keys))
        await self._refresh(view, rows[0])
        return view

    async def refresh(self) -> None:
        """Look at the store again, for all campaigns devices have come for."""
        if not self._views:
            return
        rows = {row.id: row for row in await self._hot.campaigns()}
        for identity, view in list(self._views.items()):
            row = rows.get(identity)
            if row is None or row.no != view.no:
                del self._views[identity]
            else:
                await self._refresh(view, row)

    async def refresh_one(self, identity: str) -> None:
        view = self._views.get(identity)
        if view is not None:
            for row in await self._hot.campaigns(identity):
                await self._refresh(view, row)

    async def recount(self, view: View) -> int:
        """How many have answered, by the store; those in flight are counted anew too."""
        heard = view.heard
        for row in await self._hot.campaigns(view.id):
            heard = row.heard
            view.counted_at = 0.0
            await self._refresh(view, row)
        return heard

    async def _refresh(self, view: View, row: CampaignRow) -> None:
        view.state, view.heard = row.state, row.heard
        if row.state != "closed":
            view.set_queries(await self._hot.published(view.no), self._random)
        now = time.monotonic()
        if now - view.counted_at > _RECOUNT:
            view.counted_at = now
            view.in_flight = await self._hot.in_flight(view.no, int(time.time() // 60))
