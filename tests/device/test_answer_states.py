"""The table of steps keeps the rules that stand above it."""

import pytest

from privquant.device.answer_states import TRANSITIONS, Event, IllegalStep, State, step

ALLOWED = {
    (State.UNDRAWN, Event.DRAW): State.PREPARED,
    (State.PREPARED, Event.SEND): State.SENT,
    (State.SENT, Event.SEND): State.SENT,
    (State.SENT, Event.ACK): State.ACKED,
    (State.ACKED, Event.SEND): State.ACKED,
    (State.ACKED, Event.ACK): State.ACKED,
}


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", State)
def test_every_combination_is_either_in_the_table_or_refused(state, event):
    if (state, event) in ALLOWED:
        assert step(state, event) is ALLOWED[state, event]
    else:
        with pytest.raises(IllegalStep, match=event.value):
            step(state, event)


def test_a_bit_is_drawn_once_on_every_path():
    assert set(TRANSITIONS) == set(State)
    assert [state for state, out in TRANSITIONS.items() if Event.DRAW in out] == [State.UNDRAWN]
    assert all(State.UNDRAWN not in out.values() for out in TRANSITIONS.values())


def test_nothing_is_acknowledged_that_was_not_sent():
    into = {after for after in State for out in TRANSITIONS.values() if out.get(Event.ACK) is after}
    assert into == {State.ACKED}
    assert Event.ACK not in TRANSITIONS[State.PREPARED]
