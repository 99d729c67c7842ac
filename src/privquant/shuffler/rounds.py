"""The life of a round, as a table, and what is done to it: opened, extended, closed, mixed, forwarded, dropped.

    OPEN       it takes reports
    CLOSING    it has its number of reports and takes no more; its batch is not made yet
    CLOSED     its batch lies in the outbox, in its final order
    FORWARDED  the aggregator has counted the batch, and it is erased here
    DROPPED    it was given up, its reports are erased, and the aggregator is told so

The rules the table has to keep:

1. A round is closed only when it has its number of reports, and only a closed round is forwarded. So no batch with
   fewer reports than its number ever leaves.
2. There is one way to a batch, MIX, and nothing leads back to CLOSING: a round is permuted once. Its batch has the
   same id and the same bytes however often it is sent.
3. FORWARD follows when the aggregator has said that it counted the batch. Until then the round stays CLOSED, also
   over a kill, and the batch is sent again.
4. EXTEND gives an open round that lacks reports when its time is up the same time again. It does so once, and not
   at the end of the campaign; the time after that ends in DROP.
5. DROP gives up an open round whose time is over, or a closed one whose batch the aggregator refuses for good. A
   round that is being mixed is mixed first.
6. SETTLE gives up, in the copy that a backup makes, what could go on a second time after a restore.
7. FORWARDED and DROPPED are the end. Only then is the next round of the campaign opened.

Every function here runs in the transaction of its caller, so a transition is durable together with what it moves or
erases. A kill falls between two of them, and the next start goes on from there.
"""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from secrets import SystemRandom

from privquant.wire import DROPPED, EXTENDED, PART_LIMIT, SEALED_BYTES, Announcement, Manifest, batch_id

LONGEST_ROUND = 366 * 86_400
Permute = Callable[[list[bytes]], None]
_OF_ROUND = "WHERE campaign = ? AND round = ?"


State = StrEnum("State", "OPEN CLOSING CLOSED FORWARDED DROPPED")
Event = StrEnum("Event", "EXTEND CLOSE MIX FORWARD DROP SETTLE")

TRANSITIONS: dict[State, dict[Event, State]] = {
    State.OPEN: {
        Event.EXTEND: State.OPEN,
        Event.CLOSE: State.CLOSING,
        Event.DROP: State.DROPPED,
        Event.SETTLE: State.DROPPED,
    },
    State.CLOSING: {Event.MIX: State.CLOSED, Event.SETTLE: State.DROPPED},
    State.CLOSED: {Event.FORWARD: State.FORWARDED, Event.DROP: State.DROPPED},
    State.FORWARDED: {},
    State.DROPPED: {},
}

OVER = tuple(state for state, events in TRANSITIONS.items() if not events)
"""The states that a round does not leave."""


def states_before(event: Event) -> list[State]:
    """The states in which this event is possible."""
    return [state for state, events in TRANSITIONS.items() if event in events]


def step(db: sqlite3.Connection, campaign: int, number: int, event: Event) -> bool:
    """Take a stored round to its state after `event`; False, and nothing is done, if it has no such transition."""
    for before in states_before(event):
        done = db.execute(
            f"UPDATE round SET state = ? {_OF_ROUND} AND state = ?",
            (TRANSITIONS[before][event], campaign, number, before),
        )
        if done.rowcount:
            return True
    return False


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
        db.execute(f"UPDATE round SET extended = 1, closes = ? {_OF_ROUND}", (until, campaign, found.number))
        _notify(db, campaign, found.number, EXTENDED)


def close(db: sqlite3.Connection, campaign: int, number: int, batch: int) -> bool:
    """Take no more reports for a round that has its number; False if it does not have it."""
    (held,) = db.execute(f"SELECT held FROM round {_OF_ROUND}", (campaign, number)).fetchone()
    return held >= batch and step(db, campaign, number, Event.CLOSE)


def permute(sealed: list[bytes]) -> None:
    """Every order is equally likely; the draws come from the operating system."""
    SystemRandom().shuffle(sealed)


def mix(db: sqlite3.Connection, campaign: int, identity: str, number: int, order: Permute = permute) -> None:
    """Permute the reports of a round that is closing, and move them to the outbox as the parts of its batch."""
    if not step(db, campaign, number, Event.MIX):
        return
    key = (campaign, number)
    sealed = [bytes(row[0]) for row in db.execute(f"SELECT sealed FROM held {_OF_ROUND}", key)]
    order(sealed)
    parts = [b"".join(sealed[start : start + PART_LIMIT]) for start in range(0, len(sealed), PART_LIMIT)]
    db.executemany("INSERT INTO outbox VALUES (?, ?, ?, ?)", [(*key, *each) for each in enumerate(parts)])
    db.execute(f"DELETE FROM held {_OF_ROUND}", key)
    db.execute(f"UPDATE round SET batch = ? {_OF_ROUND}", (batch_id(identity, number, sealed), *key))


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


def refused(db: sqlite3.Connection, campaign: int, number: int, why: str) -> None:
    """The aggregator will never take this batch: drop it, and remember why."""
    drop(db, campaign, number)
    note(db, campaign, number, f"the aggregator refused the batch: {why}")


def note(db: sqlite3.Connection, campaign: int, number: int, what: str, *evidence: bytes) -> None:
    """Remember an incident once."""
    kept = json.dumps([json.loads(each) for each in evidence]).encode() if evidence else None
    incident = (campaign, number, what, kept)
    known = db.execute(f"SELECT 1 FROM incident {_OF_ROUND} AND what = ? AND evidence IS ?", incident).fetchone()
    if known is None:
        db.execute("INSERT INTO incident (campaign, round, what, evidence) VALUES (?, ?, ?, ?)", incident)


def _erase(db: sqlite3.Connection, campaign: int, number: int) -> None:
    for table in ("held", "outbox"):
        db.execute(f"DELETE FROM {table} {_OF_ROUND}", (campaign, number))


def _notify(db: sqlite3.Connection, campaign: int, number: int, status: str) -> None:
    """Note what the aggregator is to be told about a round, in place of what it was not told yet."""
    db.execute(f"DELETE FROM notice {_OF_ROUND}", (campaign, number))
    db.execute(
        f"INSERT INTO notice SELECT campaign, round, ?, held FROM round {_OF_ROUND}", (status, campaign, number)
    )


def share_of(manifest: Manifest) -> int:
    """The seconds of a round by default: half an even share of the campaign's time, all of it with extensions."""
    share = (manifest.deadline - manifest.opens) // (2 * len(manifest.rounds))
    return max(1, min(share, LONGEST_ROUND))
