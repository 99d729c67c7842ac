"""The life of a campaign, as a table.

    OPEN     devices get queries, and their reports are counted
    PAUSED   no device gets a query; reports to queries that were handed out before are still counted
    CLOSED   nothing is counted any more, and the exact counts are shown

A deleted campaign has no state: its row and all that belongs to it are erased, and only the audit remembers it.
"Over" is not stored either: it is what an operator sees of an open or paused campaign whose deadline has passed.
Such a campaign hands out no new queries, and counts reports until the server closes it after a time of grace.

The rules the tables have to keep:

1. CLOSED leads nowhere but to deletion. What was counted when a campaign closed is its result and never changes.
2. PAUSE can be taken back, CLOSE cannot.
3. Reports count in every state in which a device may hold a query that it was given in time.
4. While reports count, what is shown comes from snapshots, which tell nothing about a single report (see
   `snapshots`). In CLOSED it comes from the exact counts.
5. Closing changes the state and forgets what was given to tokens (pins, flights), the published queries and the
   snapshots in one transaction.
6. Only CLOSED can be erased: a campaign that counts would lose reports that were acknowledged.

The store keeps a state by its value. A `State` equals its value, so a text out of the database can be compared with
one and looked up in the tables.
"""

import time
from enum import StrEnum

from privquant.errors import PrivquantError


class State(StrEnum):
    OPEN = "open"
    PAUSED = "paused"
    CLOSED = "closed"


class Act(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    CLOSE = "close"


OVER = "over"
"""What an operator sees of a campaign past its deadline that is not closed."""
SHOWN = (State.OPEN, State.PAUSED, OVER, State.CLOSED)

TRANSITIONS: dict[str, dict[Act, State]] = {
    State.OPEN: {Act.PAUSE: State.PAUSED, Act.CLOSE: State.CLOSED},
    State.PAUSED: {Act.RESUME: State.OPEN, Act.CLOSE: State.CLOSED},
    State.CLOSED: {},
}

GIVES_QUERIES = frozenset({State.OPEN})
"""Also: takes claims of the open link, and announces the rounds of a shuffled campaign."""
COUNTS_REPORTS = frozenset({State.OPEN, State.PAUSED})
TAKES_INVITES = frozenset({State.OPEN, State.PAUSED})
SHOWS_SNAPSHOTS = frozenset({State.OPEN, State.PAUSED})
CAN_BE_ERASED = frozenset({State.CLOSED})


class WrongState(PrivquantError):
    """The campaign's state does not allow the act."""


def step(state: str, act: Act) -> State:
    """The state after `act`; WrongState where the table has none."""
    after = TRANSITIONS[state].get(act)
    if after is None:
        raise WrongState(f"a campaign that is {state} cannot {act}")
    return after


def shown_state(state: str, deadline: int) -> str:
    """The state as an operator sees it."""
    return OVER if state in COUNTS_REPORTS and time.time() >= deadline else state
