"""Batches and notices to the aggregator, sent until they are acknowledged.

The same batch has the same id and the same bytes however often it is sent, and the aggregator counts it once; so a
kill between sending and hearing does no harm. A batch that the aggregator refuses for good (its campaign is closed,
say) is dropped, said so, and erased like any other.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privquant import wire
from privquant.server.peer import PeerRefused, post
from privquant.server.sqlite_writer import connect
from privquant.shuffler import rounds
from privquant.shuffler.round_states import State


@dataclass(frozen=True, slots=True)
class Peer:
    """A campaign's aggregator. address: its base; key: this shuffler's."""

    address: str
    manifest: wire.Manifest
    key: Ed25519PrivateKey

    def send(self, route: wire.Route, body: bytes, *allowed: str) -> str:
        """The status that the aggregator answers with; `PeerRefused` if there is none of these."""
        answer = post(self.address + wire.path_of(self.manifest.id, route.name), body)
        try:
            return wire.parse_status(answer, allowed)
        except wire.WireError as error:
            raise PeerRefused(f"the aggregator's answer cannot be read: {error}") from error


def pending_batches(db: sqlite3.Connection, campaign: int) -> list[tuple[int, str, int]]:
    """(round, batch id, reports) of every batch that is not known to be counted."""
    return db.execute(
        "SELECT round, batch, held FROM round WHERE campaign = ? AND state = ? ORDER BY round",
        (campaign, State.CLOSED),
    ).fetchall()


def part_of(
    db: sqlite3.Connection, campaign: int, identity: str, row: tuple[int, str, int], part: int
) -> wire.BatchPart:
    number, batch, reports = row
    of_round = "FROM outbox WHERE campaign = ? AND round = ?"
    ((blob,),) = db.execute(f"SELECT sealed {of_round} AND part = ?", (campaign, number, part)).fetchall()
    (parts,) = db.execute(f"SELECT count(*) {of_round}", (campaign, number)).fetchone()
    return wire.BatchPart(identity, number, batch, reports, part, parts, tuple(rounds.split(blob)))


def send_batch(file: Path, campaign: int, row: tuple[int, str, int], peer: Peer) -> str:
    """Send all parts of a batch; what the aggregator said to the last."""
    part, parts, status = 0, 1, wire.KEPT
    with closing(connect(file)) as db:
        while part < parts and status == wire.KEPT:
            sent = part_of(db, campaign, peer.manifest.id, row, part)
            parts = sent.parts
            body = wire.sign_part(sent, peer.manifest, peer.key)
            status = peer.send(wire.BATCHES, body, wire.KEPT, wire.BATCH_COUNTED, wire.BATCH_ALREADY_COUNTED)
            part += 1
    return status


def send_notice(row: tuple[int, str, int], peer: Peer) -> None:
    number, status, reports = row
    notice = wire.RoundNotice(peer.manifest.id, number, status, reports)
    peer.send(wire.NOTICES, wire.sign_notice(notice, peer.manifest, peer.key), wire.NOTED)


def pending_notices(db: sqlite3.Connection, campaign: int) -> list[tuple[int, str, int]]:
    return db.execute(
        "SELECT round, status, reports FROM notice WHERE campaign = ? ORDER BY round, rowid", (campaign,)
    ).fetchall()


def told(db: sqlite3.Connection, campaign: int, row: tuple[int, str, int]) -> None:
    db.execute("DELETE FROM notice WHERE campaign = ? AND round = ? AND status = ?", (campaign, row[0], row[1]))


def refused(db: sqlite3.Connection, campaign: int, number: int, why: PeerRefused) -> None:
    """The aggregator will never take this batch: drop it, and remember why."""
    rounds.drop(db, campaign, number)
    note(db, campaign, number, f"the aggregator refused the batch: {why.code or why}")


def note(db: sqlite3.Connection, campaign: int, number: int, what: str, *evidence: bytes) -> None:
    """Remember an incident once."""
    kept = json.dumps([json.loads(each) for each in evidence]).encode() if evidence else None
    known = db.execute(
        "SELECT 1 FROM incident WHERE campaign = ? AND round = ? AND what = ? AND evidence IS ?",
        (campaign, number, what, kept),
    ).fetchone()
    if known is None:
        db.execute(
            "INSERT INTO incident (campaign, round, what, evidence) VALUES (?, ?, ?, ?)",
            (campaign, number, what, kept),
        )
