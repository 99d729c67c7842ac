"""The announcer: signs the question of the next round as soon as the round before it is over, and sends it.

One process does it, the one that publishes. What is signed is written down first and sent until the shuffler has
noted it; a second process, or this one after a kill, finds it and sends the same bytes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from privquant import wire
from privquant.aggregator.campaign.modes import mode_of
from privquant.aggregator.campaign.shuffled_protocol import RoundFold, folded
from privquant.aggregator.campaign.states import GIVES_QUERIES
from privquant.aggregator.store import rounds as shuffled_rounds
from privquant.aggregator.store.base import CampaignRow
from privquant.aggregator.store.operator_queries import Engine
from privquant.aggregator.store.rounds import RoundRow
from privquant.errors import ProtocolError
from privquant.server.health import Health
from privquant.server.http_client import PeerRefused, PeerSilent, exchange
from privquant.server.keys import KeyRing
from privquant.server.logs import say

_SOONEST, _LATEST = 0.2, 10.0  # seconds between two tries at a shuffler that did not take an announcement


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
        campaigns = list(live)
        for gone in set(self._folds) - {row.id for row, _ in campaigns}:
            del self._folds[gone]
        for row, manifest in campaigns:
            await mode_of(manifest).announce(row, self)

    async def stop(self) -> None:
        for task in self._sending.values():
            task.cancel()
        await asyncio.gather(*self._sending.values(), return_exceptions=True)

    async def announce(self, row: CampaignRow, manifest: wire.Manifest) -> None:
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
