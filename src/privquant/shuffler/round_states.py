"""The life of a round, as a table.

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
4. EXTEND gives an open round more time. It does so once; the time after that ends in DROP.
5. DROP gives up an open round whose time is over, or a closed one whose batch the aggregator refuses for good. A
   round that is being mixed is mixed first.
6. SETTLE gives up, in the copy that a backup makes, what could go on a second time after a restore.
7. FORWARDED and DROPPED are the end. Only then is the next round of the campaign opened.

Every transition is one transaction together with what it moves or erases. A kill falls between two of them, and the
next start goes on from there.
"""

from __future__ import annotations

import sqlite3
from enum import StrEnum


class State(StrEnum):
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"
    FORWARDED = "forwarded"
    DROPPED = "dropped"


class Event(StrEnum):
    EXTEND = "extend"
    CLOSE = "close"
    MIX = "mix"
    FORWARD = "forward"
    DROP = "drop"
    SETTLE = "settle"


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
            "UPDATE round SET state = ? WHERE campaign = ? AND round = ? AND state = ?",
            (TRANSITIONS[before][event], campaign, number, before),
        )
        if done.rowcount:
            return True
    return False
