"""What a process knows about running campaigns, refreshed from the store.

A `CampaignView` has what the store has: manifest, state, the queries to hand out next, how many places are taken.
Only two things are its own: the tokens that wait for a query (see admission_rules), and the refusals it has not
told of yet. Losing it loses nothing.

`Tickets` binds a token to the threshold it was given, without leaving a trail. From the token hash h a device
sends, and a secret only the key folder has, one campaign derives, beside the id and the wave of `token_ids`:

    box     the query given to the token, encrypted under a key derived from secret and h. It is what is stored
            between query and report; only the token's holder coming back can have it opened.
    ticket  the query and a MAC over (h, query). A ticket is only ever made for the box that was committed first,
            so a valid ticket is the token's one and only ticket and a report needs no lookup.
    rank    as a wave, for who of those that wait is given a query first (see admission_rules). It is a hash of
            its own: from the ids in the database nobody can tell who was asked first.
"""

import asyncio
import base64
import binascii
import hmac
import os
import re
import struct
import time
from collections.abc import Iterator
from itertools import cycle
from secrets import SystemRandom

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from privquant.aggregator import metrics
from privquant.aggregator.campaign.campaigns import mode_of
from privquant.aggregator.campaign.states import COUNTS_REPORTS
from privquant.aggregator.devices.admission_rules import WaitingTokens
from privquant.aggregator.operators.forms import CAMPAIGN_ID, PATTERNS
from privquant.aggregator.store.base import CampaignRow, DeviceStore, Published
from privquant.aggregator.store.operator_queries import manifest_of
from privquant.errors import PrivquantError
from privquant.messages import Query
from privquant.server.keys import KeyRing
from privquant.server.replies import RequestRefused
from privquant.server.token_ids import TokenIds
from privquant.wire import Route

_LONGEST_LIST = 4_096
_FULL_FOR = 1.0  # seconds for which a campaign that was found full is not counted again
_QUERY = struct.Struct(">IHQ")  # phase, arm, threshold
_MAC = 16


class Unreadable(PrivquantError):
    """A stored box that this campaign's secret does not open: the key folder is not the one that wrote it."""


class Tickets(TokenIds):
    """The tickets of one campaign. `coin` is the manifest's, the only one its queries may carry."""

    def __init__(self, secret: bytes, coin: int) -> None:
        super().__init__(secret)
        self.coin = coin

    def rank(self, token_hash: bytes) -> bytes:
        """The place of the token among those that wait: the smallest is first."""
        return self.digest(b"rank" + token_hash)

    def ticket(self, token_hash: bytes, query: Query) -> str:
        packed = _packed(query)
        return base64.urlsafe_b64encode(packed + self._mac(token_hash, packed)).rstrip(b"=").decode("ascii")

    def read(self, token_hash: bytes, ticket: str) -> Query | None:
        """The query of a ticket, or None if this campaign never gave it to this token."""
        try:
            data = base64.urlsafe_b64decode(ticket + "=" * (-len(ticket) % 4))
        except binascii.Error:
            return None
        packed, mac = data[: _QUERY.size], data[_QUERY.size :]
        if len(mac) != _MAC or not hmac.compare_digest(mac, self._mac(token_hash, packed)):
            return None
        return self._query(packed)

    def seal(self, token_hash: bytes, query: Query) -> bytes:
        nonce = os.urandom(12)
        return nonce + self._box(token_hash).encrypt(nonce, _packed(query), None)

    def unseal(self, token_hash: bytes, box: bytes) -> Query:
        try:
            return self._query(self._box(token_hash).decrypt(box[:12], box[12:], None))
        except (InvalidTag, ValueError) as error:
            raise Unreadable("a stored query does not open with this key folder's secret") from error

    def _mac(self, token_hash: bytes, packed: bytes) -> bytes:
        return self.digest(b"ticket" + token_hash + packed)[:_MAC]

    def _box(self, token_hash: bytes) -> ChaCha20Poly1305:
        return ChaCha20Poly1305(self.digest(b"box" + token_hash))

    def _query(self, packed: bytes) -> Query:
        phase, arm, threshold = _QUERY.unpack(packed)
        return Query(threshold, self.coin, phase, arm)


def _packed(query: Query) -> bytes:
    return _QUERY.pack(query.phase, query.arm, query.threshold)


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
        self.refusals = metrics.RefusalTally(row.id)
        self.known = 0
        self.taken = row.heard  # may run ahead of the store by what was being counted; see `CampaignCache.is_full`
        self.full_until = 0.0
        self.counting = asyncio.Lock()
        self._queries: list[tuple[Query, int]] = []
        self._in_turn: Iterator[Query] = iter(())

    def set_queries(self, published: Published, random: SystemRandom) -> None:
        """Hand out each query in proportion to its users, in random order, over and over until told otherwise."""
        queries = published.queries
        self.known = published.known
        if queries == self._queries:
            return
        shrink = max(1.0, sum(users for _, users in queries) / _LONGEST_LIST)
        in_order = [query for query, users in queries for _ in range(max(1, round(users / shrink)))]
        random.shuffle(in_order)
        self._queries, self._in_turn = queries, cycle(in_order)

    def next_query(self) -> Query | None:
        return next(self._in_turn, None)


class CampaignCache:
    """The views of one process."""

    def __init__(self, store: DeviceStore, keys: KeyRing) -> None:
        self._store = store
        self._keys = keys
        self._views: dict[str, CampaignView] = {}
        self._random = SystemRandom()

    async def view(self, identity: str) -> CampaignView | None:
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
            raise RequestRefused("invalid", f"id {PATTERNS[CAMPAIGN_ID]}")
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
