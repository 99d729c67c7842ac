"""Batches and notices to the aggregator, sent until they are acknowledged.

The same batch has the same id and the same bytes however often it is sent, and the aggregator counts it once; so a
kill between sending and hearing does no harm. A batch that the aggregator refuses for good (its campaign is closed,
say) is dropped, said so, and erased like any other.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import Counter

from privquant import wire
from privquant.server.http_client import PeerRefused, PeerSilent, post
from privquant.server.logs import say
from privquant.server.sqlite_writer import connect
from privquant.shuffler import rounds
from privquant.shuffler.campaigns import Joined
from privquant.shuffler.store import Store

# What no repetition changes. Any other refusal may be a proxy's, and is tried again.
_FOR_GOOD = frozenset(("campaign-closed", "second-batch", "short-batch", "unknown-campaign", "forged-signature"))

_BATCHES = "SELECT round, batch, held FROM round WHERE campaign = ? AND state = ? ORDER BY round"
_NOTICES = "SELECT round, status, reports FROM notice WHERE campaign = ? ORDER BY round, rowid"
_batches = Counter("privquant_shuffler_batches", "Batches that the aggregator counted or refused", ["outcome"])


@dataclass(frozen=True, slots=True)
class Peer:
    """A campaign's aggregator. key: this shuffler's; file: its database."""

    campaign: Joined
    key: Ed25519PrivateKey
    file: Path

    def send_notice(self, number: int, status: str, reports: int) -> None:
        notice = wire.RoundNotice(self.campaign.id, number, status, reports)
        self._send(wire.NOTICES, wire.sign_notice(notice, self.campaign.manifest, self.key), wire.NOTED)

    def send_batch(self, number: int, batch: str, reports: int) -> str:
        """Send all parts of a batch, or as many as the aggregator lacks; what it said to the last."""
        of_round, key = "FROM outbox WHERE campaign = ? AND round = ?", (self.campaign.no, number)
        status = wire.KEPT
        with closing(connect(self.file)) as db:
            (parts,) = db.execute(f"SELECT count(*) {of_round}", key).fetchone()
            for part in range(parts):
                ((blob,),) = db.execute(f"SELECT sealed {of_round} AND part = ?", (*key, part)).fetchall()
                sealed = tuple(rounds.split(blob))
                sent = wire.BatchPart(self.campaign.id, number, batch, reports, part, parts, sealed)
                body = wire.sign_part(sent, self.campaign.manifest, self.key)
                status = self._send(wire.BATCHES, body, wire.KEPT, wire.BATCH_COUNTED, wire.BATCH_ALREADY_COUNTED)
                if status != wire.KEPT:
                    break
        return status

    def _send(self, route: wire.Route, body: bytes, *allowed: str) -> str:
        """The status that the aggregator answers with; `PeerRefused` if there is none of these."""
        answer = post(self.campaign.aggregator + wire.path_of(self.campaign.id, route.name), body)
        try:
            return wire.parse_status(answer, allowed)
        except wire.WireError as error:
            raise PeerRefused(f"the aggregator's answer cannot be read: {error}") from error


def is_waiting(store: Store, campaign: Joined) -> bool:
    """Whether anything is still to be sent."""
    return bool(store.read(_BATCHES, campaign.no, rounds.State.CLOSED) or store.read(_NOTICES, campaign.no))


async def send_all(store: Store, peer: Peer) -> None:
    """Send what waits, and write down what was acknowledged."""
    campaign, db = peer.campaign.no, store.db
    for notice in store.read(_NOTICES, campaign):
        try:
            await asyncio.to_thread(peer.send_notice, *notice)
        except PeerRefused as error:
            if error.code not in _FOR_GOOD:
                raise
        await store.write(partial(rounds.told, db, campaign, *notice[:2]))
    for number, batch, reports in store.read(_BATCHES, campaign, rounds.State.CLOSED):
        facts = {"campaign": peer.campaign.id[:16], "round": number}
        try:
            status = await asyncio.to_thread(peer.send_batch, number, batch, reports)
        except PeerRefused as error:
            if error.code not in _FOR_GOOD:
                raise
            await store.write(partial(rounds.refused, db, campaign, number, error.code or str(error)))
            _batches.labels("refused").inc()
            say("batch refused", **facts, why=error.code)
            continue
        if status == wire.KEPT:
            raise PeerSilent("the aggregator has all parts of a batch and did not count it")
        await store.write(partial(rounds.forwarded, db, campaign, number), aside=True)
        await store.sweep()
        _batches.labels("forwarded").inc()
        say("round forwarded", **facts, reports=reports)
