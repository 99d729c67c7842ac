"""What is done to a round: opened, extended, closed, mixed into a batch, forwarded, dropped (see `round_states`).

Every function here runs in the transaction of its caller. When a round is closed, extended or dropped is a function
of what it holds and of the time: one that has its number is closed at once; one that has not when its time is up is
extended once by the same time, and then dropped for good with the reports it has. At the end of the campaign there
is no extension.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from secrets import SystemRandom

from privquant.shuffler.round_states import Event, State, step
from privquant.wire import DROPPED, EXTENDED, PART_LIMIT, SEALED_BYTES, Announcement, Manifest, batch_id

LONGEST_ROUND = 366 * 86_400

Permute = Callable[[list[bytes]], None]


@dataclass(frozen=True, slots=True)
class OpenRound:
    """A round that takes reports. closes: the second its time is up."""

    number: int
    held: int
    closes: int
    extended: bool


def announce(db: sqlite3.Connection, campaign: int, envelope: bytes, found: Announcement, closes: int) -> None:
    """Open a round."""
    db.execute(
        "INSERT INTO round (campaign, round, envelope, threshold, state, closes, extended, held)"
        " VALUES (?, ?, ?, ?, ?, ?, 0, 0)",
        (campaign, found.round, envelope, found.threshold, State.OPEN, closes),
    )


def open_round(db: sqlite3.Connection, campaign: int) -> OpenRound | None:
    row = db.execute(
        "SELECT round, held, closes, extended FROM round WHERE campaign = ? AND state = ?", (campaign, State.OPEN)
    ).fetchone()
    return None if row is None else OpenRound(row[0], row[1], row[2], bool(row[3]))


def event_due(found: OpenRound, batch: int, now: float, over: float) -> Event | None:
    """What is to be done with an open round now, if anything. over: the second at which the campaign ends."""
    if found.held >= batch:
        return Event.CLOSE
    if now >= over:
        return Event.DROP
    if now < found.closes:
        return None
    return Event.DROP if found.extended else Event.EXTEND


def act(db: sqlite3.Connection, campaign: int, event: Event, found: OpenRound, batch: int, until: int) -> None:
    """Do what is due. batch: the round's number. until: when an extended round's time is up."""
    if event is Event.CLOSE:
        close(db, campaign, found.number, batch)
    elif event is Event.DROP:
        drop(db, campaign, found.number)
    elif step(db, campaign, found.number, event):
        db.execute(
            "UPDATE round SET extended = 1, closes = ? WHERE campaign = ? AND round = ?",
            (until, campaign, found.number),
        )
        _notify(db, campaign, found.number, EXTENDED)


def close(db: sqlite3.Connection, campaign: int, number: int, batch: int) -> bool:
    """Take no more reports for a round that has its number; False if it does not have it."""
    (held,) = db.execute("SELECT held FROM round WHERE campaign = ? AND round = ?", (campaign, number)).fetchone()
    return held >= batch and step(db, campaign, number, Event.CLOSE)


def permute(sealed: list[bytes]) -> None:
    """Every order is equally likely; the draws come from the operating system."""
    SystemRandom().shuffle(sealed)


def mix(db: sqlite3.Connection, campaign: int, identity: str, number: int, order: Permute = permute) -> None:
    """Permute the reports of a round that is closing, and move them to the outbox as the parts of its batch."""
    if not step(db, campaign, number, Event.MIX):
        return
    key = (campaign, number)
    rows = db.execute("SELECT sealed FROM held WHERE campaign = ? AND round = ?", key).fetchall()
    sealed = [bytes(row[0]) for row in rows]
    order(sealed)
    db.executemany(
        "INSERT INTO outbox (campaign, round, part, sealed) VALUES (?, ?, ?, ?)",
        [(*key, part, blob) for part, blob in enumerate(parts(sealed))],
    )
    db.execute("DELETE FROM held WHERE campaign = ? AND round = ?", key)
    db.execute(
        "UPDATE round SET batch = ? WHERE campaign = ? AND round = ?", (batch_id(identity, number, sealed), *key)
    )


def parts(sealed: Sequence[bytes]) -> list[bytes]:
    """The reports of each part, end to end."""
    return [b"".join(sealed[start : start + PART_LIMIT]) for start in range(0, len(sealed), PART_LIMIT)]


def split(blob: bytes) -> list[bytes]:
    """The reports of a part, in their order."""
    return [blob[start : start + SEALED_BYTES] for start in range(0, len(blob), SEALED_BYTES)]


def forwarded(db: sqlite3.Connection, campaign: int, number: int) -> None:
    """The aggregator has counted the batch: erase it."""
    if step(db, campaign, number, Event.FORWARD):
        _erase(db, campaign, number)


def drop(db: sqlite3.Connection, campaign: int, number: int, event: Event = Event.DROP) -> None:
    """Erase a round for good, and note that the aggregator is to be told so."""
    if step(db, campaign, number, event):
        _erase(db, campaign, number)
        _notify(db, campaign, number, DROPPED)


def _erase(db: sqlite3.Connection, campaign: int, number: int) -> None:
    for table in ("held", "outbox"):
        db.execute(f"DELETE FROM {table} WHERE campaign = ? AND round = ?", (campaign, number))


def _notify(db: sqlite3.Connection, campaign: int, number: int, status: str) -> None:
    """Note what the aggregator is to be told about a round, in place of what it was not told yet."""
    db.execute("DELETE FROM notice WHERE campaign = ? AND round = ?", (campaign, number))
    db.execute(
        "INSERT INTO notice (campaign, round, status, reports)"
        " SELECT campaign, round, ?, held FROM round WHERE campaign = ? AND round = ?",
        (status, campaign, number),
    )


def share_of(manifest: Manifest) -> int:
    """The seconds a round has unless an operator says otherwise: half an even share of the campaign's time.

    With every round extended they fill it.
    """
    share = (manifest.deadline - manifest.opens) // (2 * len(manifest.rounds))
    return max(1, min(share, LONGEST_ROUND))
