"""What a process knows about running campaigns, refreshed from the store.

A `CampaignView` has what the store has: manifest, state, the queries to hand out next, how many places are taken.
Only two things are its own: the tokens that wait for a query (see admission_rules), and the refusals it has not
told of yet. Losing it loses nothing.
"""

from __future__ import annotations

import asyncio
import re
import time
from secrets import SystemRandom

from privquant.aggregator import metrics
from privquant.aggregator.campaign.campaigns import mode_of
from privquant.aggregator.campaign.states import COUNTS_REPORTS
from privquant.aggregator.devices.admission_rules import WaitingTokens
from privquant.aggregator.devices.refusal_tally import RefusalTally
from privquant.aggregator.devices.tickets import Tickets
from privquant.aggregator.operators.forms import CAMPAIGN_ID, IN_WORDS
from privquant.aggregator.store.base import CampaignRow, DeviceStore, Published
from privquant.aggregator.store.operator_queries import manifest_of
from privquant.messages import Query
from privquant.server.keys import KeyRing
from privquant.server.replies import RequestRefused
from privquant.wire import Route

_LONGEST_LIST = 4_096
_FULL_FOR = 1.0  # seconds for which a campaign that was found full is not counted again


class CampaignView:
    """One campaign as this process sees it."""

    def __init__(self, row: CampaignRow, keys: KeyRing) -> None:
        self.no = row.no
        self.id = row.id
        self.envelope = row.envelope
        self.manifest = manifest_of(row.envelope)
        self.mode = mode_of(self.manifest)
        self.tickets = Tickets(keys.campaign_secret(self.manifest.issuer, row.id), self.manifest.flip_threshold)
        self.state = row.state
        self.share = row.pace
        self.waiting = WaitingTokens()
        self.refusals = RefusalTally(row.id)
        self.known = 0
        self.taken = row.heard  # may run ahead of the store by what was being counted; see `CampaignCache.is_full`
        self.full_until = 0.0
        self.counting = asyncio.Lock()
        self._queries: list[tuple[Query, int]] = []
        self._in_order: list[Query] = []
        self._next = 0

    def set_queries(self, published: Published, random: SystemRandom) -> None:
        """Hand out each query in proportion to its users, in random order, over and over until told otherwise."""
        queries = published.queries
        self.known = published.known
        if queries == self._queries:
            return
        total = sum(users for _, users in queries)
        shrink = max(1.0, total / _LONGEST_LIST)
        in_order = [query for query, users in queries for _ in range(max(1, round(users / shrink)))]
        random.shuffle(in_order)
        self._queries, self._in_order, self._next = queries, in_order, 0

    def next_query(self) -> Query | None:
        if not self._in_order:
            return None
        self._next = (self._next + 1) % len(self._in_order)
        return self._in_order[self._next]


class CampaignCache:
    """The views of one process."""

    def __init__(self, store: DeviceStore, keys: KeyRing) -> None:
        self._store = store
        self._keys = keys
        self._views: dict[str, CampaignView] = {}
        self._random = SystemRandom()

    async def view(self, identity: str) -> CampaignView | None:
        """The campaign with this id, or None."""
        found = self._views.get(identity)
        if found is not None:
            return found
        rows = await self._store.campaigns(identity)
        if not rows:
            return None
        # Known to others only when it has its queries; another request may have made it meanwhile.
        view = CampaignView(rows[0], self._keys)
        await self._refresh(view, rows[0])
        view.taken = max(view.taken, await self._store.taken(view.no, int(time.time() // 60)))
        return self._views.setdefault(identity, view)

    async def served(self, identity: str, route: Route) -> CampaignView:
        """The campaign of a request; RequestRefused where there is none, or it is not served by this route here."""
        if not re.fullmatch(CAMPAIGN_ID, identity):
            raise RequestRefused("invalid", f"id {IN_WORDS[CAMPAIGN_ID]}")
        view = await self.view(identity)
        if view is None:
            raise RequestRefused("unknown-campaign")
        view.mode.check_route(route)
        return view

    def refused(self, identity: str, reason: str) -> None:
        """Note a refusal, of a campaign that devices have come for."""
        view = self._views.get(identity)
        if view is not None:
            view.refusals.refused(reason)

    def waiting(self, identity: str) -> tuple[int, float]:
        """How many tokens wait here for a query, and how many seconds those served lately had waited."""
        view = self._views.get(identity)
        return (0, 0.0) if view is None else (len(view.waiting), view.waiting.wait_seconds)

    async def refresh(self) -> None:
        """Look at the store again, for all campaigns devices have come for."""
        if not self._views:
            return
        for view in self._views.values():
            view.waiting.forget(time.time())
        metrics.waiting_devices.set(sum(len(view.waiting) for view in self._views.values()))
        rows = {row.id: row for row in await self._store.campaigns()}
        for identity, view in list(self._views.items()):
            row = rows.get(identity)
            if row is None or row.no != view.no:
                del self._views[identity]
            else:
                await self._refresh(view, row)

    async def refresh_one(self, identity: str) -> None:
        view = self._views.get(identity)
        if view is not None:
            for row in await self._store.campaigns(identity):
                await self._refresh(view, row)

    async def is_full(self, view: CampaignView) -> bool:
        """Whether as many as planned have answered or are about to; said on the store's word only."""
        planned = view.manifest.planned_users
        if view.taken < planned:
            return False
        async with view.counting:
            if time.monotonic() >= view.full_until:
                view.taken = await self._store.taken(view.no, int(time.time() // 60))
                if view.taken >= planned:
                    view.full_until = time.monotonic() + _FULL_FOR
            return view.taken >= planned

    async def is_complete(self, view: CampaignView) -> bool:
        """Whether as many as planned have answered, by the store."""
        rows = await self._store.campaigns(view.id)
        return bool(rows) and rows[0].heard >= view.manifest.planned_users

    async def _refresh(self, view: CampaignView, row: CampaignRow) -> None:
        view.state = row.state
        view.taken = max(view.taken, row.heard)  # other processes hand out queries too
        if row.state in COUNTS_REPORTS:
            view.set_queries(await self._store.published(view.no), self._random)
        else:
            view.refusals.tell()
