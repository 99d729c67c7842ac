"""The states of a campaign: the table, closing in one transaction, and what an earlier version may have left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select, update

from privquant.aggregator.campaign.campaigns import Campaigns, Retention
from privquant.aggregator.campaign.mode import Draft
from privquant.aggregator.campaign.states import (
    CAN_BE_ERASED,
    COUNTS_REPORTS,
    GIVES_QUERIES,
    SHOWS_SNAPSHOTS,
    TRANSITIONS,
    Act,
    State,
    WrongState,
    shown_state,
    step,
)
from privquant.aggregator.service import open_device_store
from privquant.aggregator.settings import Settings
from privquant.aggregator.store import operator_queries, schema
from privquant.aggregator.store.base import Pin
from privquant.aggregator.store.migrate import migrate, open_engine
from privquant.aggregator.store.operator_queries import find_campaign, reading, turn_snapshot, writing
from privquant.domain import Integers
from privquant.messages import Query
from privquant.server.keys import KeyFolder

GIVEN = (schema.pin, schema.flight, schema.published, schema.snapshot)


def test_every_state_and_act_has_an_answer() -> None:
    assert set(TRANSITIONS) == set(State)
    for state in State:
        for act in Act:
            if act in TRANSITIONS[state]:
                assert step(state.value, act) in State
            else:
                with pytest.raises(WrongState, match=f"that is {state} cannot {act}"):
                    step(state.value, act)


def test_what_is_counted_when_a_campaign_closes_never_changes() -> None:
    assert TRANSITIONS[State.CLOSED] == {}
    assert State.CLOSED not in COUNTS_REPORTS | GIVES_QUERIES | SHOWS_SNAPSHOTS
    assert CAN_BE_ERASED.isdisjoint(COUNTS_REPORTS)
    assert GIVES_QUERIES <= COUNTS_REPORTS  # a device that gets a query can also answer it


def test_a_campaign_past_its_deadline_is_over_unless_it_is_closed() -> None:
    assert [shown_state(state.value, 0) for state in State] == ["over", "over", "closed"]
    assert [shown_state(state.value, 2**40) for state in State] == ["open", "paused", "closed"]


class Story:
    """A campaign that handed out a query and has snapshots, on either database."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.settings = Settings(data=folder / "data", database=dsn)
        self.engine = open_engine(self.settings)

    async def begin(self) -> str:
        await migrate(self.engine)
        self.store = open_device_store(self.settings)
        self.campaigns = Campaigns(self.engine, self.store, KeyFolder(self.settings.data / "keys"), "http://here")
        identity = await self.campaigns.create(Draft("m", "How much?", Integers(0, 99), 1.0, 100), "op")
        async with writing(self.engine) as db:
            row, _ = await find_campaign(db, identity)
            await db.execute(insert(schema.token).values(campaign=row.no, id=b"t" * 16))
            await db.execute(insert(schema.flight).values(campaign=row.no, id=b"t" * 16, age=2))
            await turn_snapshot(db, row.no, 40, b"[]", 32)
        await self.store.commit([Pin(row.no, b"t" * 16, b"box", 9)])
        await self.store.publish(row.no, [(Query(3, 5), 1)], 0)
        assert await self.given() == [1, 1, 1, 1]
        return identity

    async def given(self) -> list[int]:
        async with reading(self.engine) as db:
            return [(await db.execute(select(func.count()).select_from(table))).scalar_one() for table in GIVEN]

    async def state(self, identity: str) -> str:
        async with reading(self.engine) as db:
            return str((await find_campaign(db, identity))[0].state)

    async def end(self) -> None:
        await self.store.close()
        await self.engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def story(tmp_path: Path, request: pytest.FixtureRequest) -> Story:
    dsn = request.getfixturevalue("fresh_database") if request.param == "postgresql" else ""
    return Story(tmp_path, dsn)


def test_closing_is_one_transaction(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """A death before what was given is forgotten takes the change of state with it."""
    forget = operator_queries.forget_what_was_given

    class Killed(BaseException):
        pass

    async def dies(db: operator_queries.Transaction) -> None:
        await forget(db)
        raise Killed

    async def run() -> None:
        identity = await story.begin()
        monkeypatch.setattr(operator_queries, "forget_what_was_given", dies)
        with pytest.raises(Killed):
            await story.campaigns.close(identity, "op")
        assert (await story.state(identity), await story.given()) == ("open", [1, 1, 1, 1])
        monkeypatch.setattr(operator_queries, "forget_what_was_given", forget)
        await story.campaigns.close(identity, "op")
        assert (await story.state(identity), await story.given()) == ("closed", [0, 0, 0, 0])
        await story.end()

    asyncio.run(run())


def test_what_a_death_between_two_transactions_left_is_forgotten_later(story: Story) -> None:
    """Earlier versions closed first and forgot afterwards; a publisher may also publish what is being closed."""

    async def run() -> None:
        identity = await story.begin()
        other = await story.campaigns.create(Draft("m", "And here?", Integers(0, 99), 1.0, 100), "op")
        async with writing(story.engine) as db:
            closed = {"state": "closed", "closed": 1}
            await db.execute(update(schema.campaign).where(schema.campaign.c.id == identity).values(closed))
        await Retention(story.campaigns).turn()
        async with reading(story.engine) as db:
            row, _ = await find_campaign(db, other)
            published = (await db.execute(select(schema.published.c.campaign))).scalars().all()
        assert set(published) == {row.no}  # what is handed out in a campaign that runs stays
        assert (await story.given())[0] == 0
        await story.end()

    asyncio.run(run())
