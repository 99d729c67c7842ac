"""What is asked next: the publisher computes the thresholds of local campaigns from their counts, and the announcer
signs the question of a shuffled campaign's next round as soon as the round before it is over, and sends it.

One process does both (on PostgreSQL the one that holds an advisory lock, which dies with its connection). Two at
once do no harm. Two publishers compute from the same counts, which only grow, and what either publishes is right to
ask. What an announcer signed is written down first and sent until the shuffler has noted it; a second process, or
this one after a kill, finds it and sends the same bytes.

A publisher finds what is new by comparing counts, never by "rows after the last one seen": on PostgreSQL rows do
not become visible in the order of their numbers.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from privquant import wire
from privquant.aggregator.campaign.campaigns import mode_of
from privquant.aggregator.campaign.protocol import CampaignProtocol, RoundFold, folded
from privquant.aggregator.campaign.states import GIVES_QUERIES
from privquant.aggregator.devices.admission_rules import at_a_time
from privquant.aggregator.store import rounds as shuffled_rounds
from privquant.aggregator.store.base import CampaignRow, Counts, DeviceStore
from privquant.aggregator.store.operator_queries import Engine, manifest_of
from privquant.aggregator.store.rounds import RoundRow
from privquant.errors import ProtocolError
from privquant.messages import Query
from privquant.server.health import Health
from privquant.server.http_client import PeerRefused, PeerSilent, exchange
from privquant.server.keys import KeyRing
from privquant.server.logs import say

_AHEAD = 8  # times as many as are in flight may come while the next queries are computed
_SOONEST, _LATEST = 0.2, 10.0  # seconds between two tries at a shuffler that did not take an announcement


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
            if not mode_of(manifest_of(row.envelope)).announces_rounds:
                await self._publish_if_due(row)
        for gone in set(self._protocols) - {row.id for row in rows}:
            for kept in (self._protocols, self._due, self._soonest):
                kept.pop(gone, None)
        return True

    async def _publish_if_due(self, row: CampaignRow) -> None:
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


class Announcer:
    """Keeps one fold per shuffled campaign; after a restart it is made again from the rounds."""

    def __init__(self, engine: Engine, keys: KeyRing, health: Health) -> None:
        self._engine = engine
        self._keys = keys
        self._health = health
        self._folds: dict[str, RoundFold] = {}
        self._wait: dict[str, tuple[float, float]] = {}  # campaign: (not before, pause)
        self._sending: dict[str, asyncio.Task[None]] = {}

    async def turn(self, live: Iterable[tuple[CampaignRow, wire.Manifest]]) -> None:
        """Announce wherever a round is due, and send what was not noted."""
        campaigns = [(row, manifest) for row, manifest in live if mode_of(manifest).announces_rounds]
        for gone in set(self._folds) - {row.id for row, _ in campaigns}:
            del self._folds[gone]
        for row, manifest in campaigns:
            await self._announce(row, manifest)

    async def stop(self) -> None:
        for task in self._sending.values():
            task.cancel()
        await asyncio.gather(*self._sending.values(), return_exceptions=True)

    async def _announce(self, row: CampaignRow, manifest: wire.Manifest) -> None:
        """Announce the next round of a shuffled campaign if it is due, and send what was not noted."""
        rounds = await shuffled_rounds.read_rounds(self._engine, row.no)
        if rounds and not rounds[-1].over:
            if not rounds[-1].noted:
                self._send(row, manifest, rounds[-1])
            return
        running = row.state in GIVES_QUERIES and manifest.opens <= time.time() < manifest.deadline
        if len(rounds) == len(wire.terms_of(manifest).rounds) or not running:
            return
        threshold = await asyncio.to_thread(self._next, row.id, manifest, rounds)
        if threshold is None:
            return
        announcement = wire.next_announcement(row.id, [each.threshold for each in rounds], threshold)
        envelope = wire.sign_announcement(
            announcement, manifest, self._keys.by_fingerprint(wire.fingerprint(manifest.issuer))
        )
        await shuffled_rounds.announce(self._engine, row.no, announcement.round, threshold, envelope)
        self._send(row, manifest, (await shuffled_rounds.read_rounds(self._engine, row.no))[-1])

    def _next(self, identity: str, manifest: wire.Manifest, rounds: list[RoundRow]) -> int | None:
        fold = self._folds.get(identity) or RoundFold(manifest)
        try:
            fold.update(rounds)
        except ProtocolError:  # a store restored from a backup under a running server
            fold = folded(manifest, rounds)
        self._folds[identity] = fold
        return fold.next_threshold()

    def _send(self, row: CampaignRow, manifest: wire.Manifest, last: RoundRow) -> None:
        """Send beside the other campaigns: a shuffler that does not answer holds up its own only."""
        running = self._sending.get(row.id)
        if (running is None or running.done()) and time.monotonic() >= self._wait.get(row.id, (0.0, 0.0))[0]:
            self._sending[row.id] = asyncio.create_task(self._try(row, manifest, last), name="announce")

    async def _try(self, row: CampaignRow, manifest: wire.Manifest, last: RoundRow) -> None:
        url = wire.terms_of(manifest).address + wire.path_of(row.id, wire.ANNOUNCEMENTS.name)
        try:
            wire.parse_status(await asyncio.to_thread(exchange, url, last.envelope), (wire.NOTED,))
            await shuffled_rounds.mark(self._engine, row.no, last.round, noted=True)
        except (PeerSilent, PeerRefused, wire.WireError) as error:
            pause = min(_LATEST, 2 * self._wait.get(row.id, (0.0, _SOONEST / 2))[1])
            self._wait[row.id] = (time.monotonic() + pause, pause)
            self._health.failed("shuffler", error)
            return
        self._wait.pop(row.id, None)
        self._health.well("shuffler")
        say("round announced", campaign=row.id[:16], round=last.round)
