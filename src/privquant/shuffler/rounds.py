"""When a round is closed, extended or dropped: a function of what it holds and of the time.

A round that has its number is closed at once. One that has not when its time is up is extended once by the same
time, and then dropped for good, with the reports it has; at the end of the campaign there is no extension.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from privquant.shuffler import batching
from privquant.shuffler.database import OPEN
from privquant.wire import EXTENDED, Announcement, Manifest

LONGEST_ROUND = 366 * 86_400


@dataclass(frozen=True, slots=True)
class OpenRound:
    """A round that takes reports. closes: the second its time is up."""

    number: int
    held: int
    closes: int
    extended: bool


def open_round(db: sqlite3.Connection, campaign: int) -> OpenRound | None:
    row = db.execute(
        "SELECT round, held, closes, extended FROM round WHERE campaign = ? AND state = ?", (campaign, OPEN)
    ).fetchone()
    return None if row is None else OpenRound(row[0], row[1], row[2], bool(row[3]))


def verdict(found: OpenRound, batch: int, now: float, over: float) -> str:
    """What is to be done with a round: "close", "extend", "drop", or "" for nothing. over: the campaign's end."""
    if found.held >= batch:
        return "close"
    if now >= over:
        return "drop"
    if now < found.closes:
        return ""
    return "drop" if found.extended else "extend"


def act(db: sqlite3.Connection, campaign: int, what: str, found: OpenRound, batch: int, until: int) -> None:
    """Do it, in the transaction of the caller. until: when an extended round's time is up."""
    if what == "close":
        batching.close(db, campaign, found.number, batch)
    elif what == "drop":
        batching.drop(db, campaign, found.number)
    elif what == "extend":
        db.execute(
            "UPDATE round SET extended = 1, closes = ? WHERE campaign = ? AND round = ?",
            (until, campaign, found.number),
        )
        db.execute(
            "INSERT INTO notice (campaign, round, status, reports) VALUES (?, ?, ?, ?)",
            (campaign, found.number, EXTENDED, found.held),
        )


def announce(db: sqlite3.Connection, campaign: int, envelope: bytes, found: Announcement, closes: int) -> None:
    """Open a round."""
    db.execute(
        "INSERT INTO round (campaign, round, envelope, threshold, state, closes, extended, held)"
        " VALUES (?, ?, ?, ?, ?, ?, 0, 0)",
        (campaign, found.round, envelope, found.threshold, OPEN, closes),
    )


def share_of(manifest: Manifest) -> int:
    """The seconds a round has unless an operator says otherwise: half an even share of the campaign's time.

    With every round extended they fill it.
    """
    share = (manifest.deadline - manifest.opens) // (2 * len(manifest.rounds))
    return max(1, min(share, LONGEST_ROUND))
