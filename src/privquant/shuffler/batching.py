"""From a full round to a batch: taken out of the table, permuted, laid in the outbox, erased where it was.

Three steps, each of which may be the last before a kill; the next start goes on from there:

    close     the round takes no report any more                                   open -> closing
    mix       its reports, in one permutation drawn from the operating system's generator, become the parts of its
              batch, and leave the table they were held in, in one transaction     closing -> closed
    erase     after the aggregator has counted the batch                           closed -> forwarded

A round below its number never comes this far.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from secrets import SystemRandom

from privquant.shuffler.database import CLOSED, CLOSING, DROPPED, FORWARDED, OPEN
from privquant.wire import DROPPED as DROPPED_NOTICE
from privquant.wire import PART_LIMIT, SEALED_BYTES, batch_id

Permute = Callable[[list[bytes]], None]


def permute(sealed: list[bytes]) -> None:
    """Every order is equally likely; the draws come from the operating system."""
    SystemRandom().shuffle(sealed)


def close(db: sqlite3.Connection, campaign: int, number: int, batch: int) -> bool:
    """Take no more reports for a round that has its number; False if it does not have it."""
    done = db.execute(
        "UPDATE round SET state = ? WHERE campaign = ? AND round = ? AND state = ? AND held >= ?",
        (CLOSING, campaign, number, OPEN, batch),
    )
    return done.rowcount == 1


def mix(db: sqlite3.Connection, campaign: int, identity: str, number: int, order: Permute = permute) -> None:
    """Make the batch of a round that is closing."""
    key = (campaign, number)
    rows = db.execute("SELECT sealed FROM held WHERE campaign = ? AND round = ?", key).fetchall()
    sealed = [bytes(row[0]) for row in rows]
    order(sealed)
    for part, blob in enumerate(parts(sealed)):
        db.execute(
            "INSERT INTO outbox (campaign, round, part, sealed) VALUES (?, ?, ?, ?)", (campaign, number, part, blob)
        )
    db.execute("DELETE FROM held WHERE campaign = ? AND round = ?", key)
    db.execute(
        "UPDATE round SET state = ?, batch = ? WHERE campaign = ? AND round = ? AND state = ?",
        (CLOSED, batch_id(identity, number, sealed), *key, CLOSING),
    )


def parts(sealed: Sequence[bytes]) -> list[bytes]:
    """The reports of each part, end to end."""
    return [b"".join(sealed[start : start + PART_LIMIT]) for start in range(0, len(sealed), PART_LIMIT)]


def split(blob: bytes) -> list[bytes]:
    """The reports of a part, in their order."""
    return [blob[start : start + SEALED_BYTES] for start in range(0, len(blob), SEALED_BYTES)]


def erase(db: sqlite3.Connection, campaign: int, number: int) -> None:
    """The batch is counted: forget it."""
    db.execute("DELETE FROM outbox WHERE campaign = ? AND round = ?", (campaign, number))
    db.execute(
        "UPDATE round SET state = ? WHERE campaign = ? AND round = ? AND state = ?",
        (FORWARDED, campaign, number, CLOSED),
    )


def drop(db: sqlite3.Connection, campaign: int, number: int) -> None:
    """Erase a round for good, and note that the aggregator is to be told so."""
    key = (campaign, number)
    done = db.execute(
        "UPDATE round SET state = ? WHERE campaign = ? AND round = ? AND state IN (?, ?) RETURNING held",
        (DROPPED, *key, OPEN, CLOSED),
    ).fetchone()
    if done is None:
        return
    for table in ("held", "outbox", "notice"):
        db.execute(f"DELETE FROM {table} WHERE campaign = ? AND round = ?", key)
    db.execute(
        "INSERT INTO notice (campaign, round, status, reports) VALUES (?, ?, ?, ?)", (*key, DROPPED_NOTICE, done[0])
    )
