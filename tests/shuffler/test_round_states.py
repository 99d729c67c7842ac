"""The table of a round's states keeps the rules that stand above it."""

from __future__ import annotations

from pathlib import Path

import pytest
from held_rounds import Rounds, run

from privquant.shuffler import rounds
from privquant.shuffler.rounds import OVER, TRANSITIONS, Event, State, states_before, step
from privquant.shuffler.store import transaction


def ways_to(state: State) -> list[tuple[State, Event]]:
    return [(before, event) for before in State for event, after in TRANSITIONS[before].items() if after is state]


def test_there_is_one_way_to_a_batch_and_none_back() -> None:
    assert ways_to(State.CLOSED) == [(State.CLOSING, Event.MIX)]
    assert ways_to(State.CLOSING) == [(State.OPEN, Event.CLOSE)]
    assert ways_to(State.FORWARDED) == [(State.CLOSED, Event.FORWARD)]
    assert ways_to(State.OPEN) == [(State.OPEN, Event.EXTEND)]


def test_what_is_over_stays_over() -> None:
    assert OVER == (State.FORWARDED, State.DROPPED)
    assert states_before(Event.DROP) == [State.OPEN, State.CLOSED]
    assert states_before(Event.SETTLE) == [State.OPEN, State.CLOSING]


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_a_stored_round_follows_the_table(state: State, event: Event, tmp_path: Path) -> None:
    def work() -> None:
        held = Rounds(tmp_path, 2)
        held.open(0)
        with transaction(held.db):
            held.db.execute("UPDATE round SET state = ?", (state,))
            assert step(held.db, 1, 0, event) == (event in TRANSITIONS[state])
        assert held.state(0) == TRANSITIONS[state].get(event, state)

    run(work)


def test_a_step_that_the_table_has_not_moves_and_erases_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        held = Rounds(tmp_path, 2)
        held.tokens(1, 2)
        held.open(0)
        await held.answer(0, 1, 2)
        before = held.sizes()
        with transaction(held.db):
            rounds.mix(held.db, 1, "ab" * 32, 0)
            rounds.forwarded(held.db, 1, 0)
        assert held.sizes() == before
        assert held.state(0) == State.OPEN
        assert held.settle(0) == Event.CLOSE
        batch = held.batch(0)
        with transaction(held.db):
            rounds.mix(held.db, 1, "ab" * 32, 0)  # once more
        assert held.batch(0) == batch

    run(work)
