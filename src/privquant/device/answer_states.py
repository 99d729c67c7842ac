"""The life of one answer, as a table.

    UNDRAWN    nothing about the value has been drawn or written; forgetting everything is harmless
    PREPARED   the coin has been thrown, the bit is written down, and no byte of it has left
    SENT       a byte of it may have left, perhaps once, perhaps often; the receiver may or may not have it
    ACKED      the receiver said that it has it

The rules the table has to keep:

1. There is one way to a bit, DRAW, and it leads out of UNDRAWN, to which nothing leads back: a bit is drawn
   once and never again, whatever crashes, times out or is refused afterwards.
2. A bit may leave in SENT only. SENT is on disk, and with it the bit, before the first byte leaves.
3. SEND in SENT is the resend of the same bit. It needs no record: the ledger says already that it may be out.
4. ACKED is the end: nothing is sent any more. Two processes that finish the same answer at the same time both
   see ACK or SEND in ACKED, and nothing happens.
5. The epsilon of an answer is spent from PREPARED on, and is never given back.

A transition that is not in the table is a fault of the caller, or, when a ledger is read, of the ledger.
"""

from enum import StrEnum


class State(StrEnum):
    UNDRAWN = "undrawn"
    PREPARED = "prepared"
    SENT = "sent"
    ACKED = "acked"


class Event(StrEnum):
    DRAW = "draw"
    SEND = "send"
    ACK = "ack"


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.UNDRAWN: {Event.DRAW: State.PREPARED},
    State.PREPARED: {Event.SEND: State.SENT},
    State.SENT: {Event.SEND: State.SENT, Event.ACK: State.ACKED},
    State.ACKED: {Event.SEND: State.ACKED, Event.ACK: State.ACKED},
}


class IllegalStep(Exception):
    """An event that the table does not have in this state."""


def step(state: State, event: Event) -> State:
    """The state after `event`."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise IllegalStep(f"{event.value!r} is not possible in state {state.value!r}") from None
