"""What every store promises, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import insert

from privquant.aggregator.service import open_device_store
from privquant.aggregator.settings import Settings
from privquant.aggregator.store import schema
from privquant.aggregator.store.base import Admit, Ask, DeviceStore, Outcome, Pin, Published, Spend, Unavailable
from privquant.aggregator.store.migrate import HEAD, migrate, open_engine
from privquant.aggregator.store.operator_queries import writing
from privquant.messages import Query

C = 4961093570831980854
A, B = Query(10, C), Query(20, C, phase=1, arm=2)


class Bench:
    """A migrated store with one open campaign (number 1), tokens a, b, c and a link of two places."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def run(self, work: Callable[[DeviceStore], Awaitable[Any]]) -> Any:
        async def inside() -> Any:
            store = open_device_store(self.settings)
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(inside())

    def commit(self, *asks: Ask) -> list[Outcome]:
        return [result.outcome for result in self.run(lambda store: store.commit(list(asks)))]

    def set_state(self, state: str) -> None:
        async def inside() -> None:
            engine = open_engine(self.settings)
            async with writing(engine) as db:
                await db.execute(schema.campaign.update().values(state=state))
            await engine.dispose()

        asyncio.run(inside())

    async def prepare(self) -> None:
        engine = open_engine(self.settings)
        await migrate(engine)
        async with writing(engine) as db:
            row = {"no": 1, "id": "0" * 64, "envelope": b"{}", "state": "open", "created": int(time.time())}
            await db.execute(insert(schema.campaign).values(row))
            await db.execute(insert(schema.campaign).values(row | {"no": 2, "id": "1" * 64}))
            await db.execute(insert(schema.token), [{"campaign": 1, "id": t} for t in (b"a", b"b", b"c")])
            await db.execute(insert(schema.link).values(campaign=1, secret=b"s", places=2, taken=0))
        await engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    database = request.getfixturevalue("fresh_database") if request.param == "postgresql" else ""
    made = Bench(Settings(data=tmp_path / "data", database=database))
    asyncio.run(made.prepare())
    return made


def counts_of(bench: Bench) -> dict[Query, tuple[int, int]]:
    return {row.query: (row.answered, row.ones) for row in bench.run(lambda store: store.counts(1))}


def test_a_token_is_counted_once_however_often_it_comes(bench: Bench) -> None:
    first = bench.commit(Spend(1, b"a", A, 1), Spend(1, b"a", A, 0), Spend(1, b"b", A, 0))
    assert first == [Outcome.COUNTED, Outcome.SPENT, Outcome.COUNTED]
    assert bench.commit(Spend(1, b"a", B, 1)) == [Outcome.SPENT]
    assert counts_of(bench) == {A: (2, 1)}


def test_the_first_query_of_a_token_is_its_only_one(bench: Bench) -> None:
    async def work(store: DeviceStore) -> list[tuple[Outcome, bytes | None]]:
        asks: list[Ask] = [Pin(1, b"a", b"first", 9), Pin(1, b"a", b"second", 9)]
        asks += [Pin(1, b"x", b"box", 9), Pin(1, b"b", None, 9)]
        found = await store.commit(asks)
        found += await store.commit([Pin(1, b"a", b"third", 9), Pin(1, b"a", None, 9)])
        return [(result.outcome, result.box) for result in found]

    assert bench.run(work) == [
        (Outcome.PINNED, b"first"),
        (Outcome.HAS, b"first"),
        (Outcome.UNKNOWN, None),
        (Outcome.NONE, None),
        (Outcome.HAS, b"first"),
        (Outcome.HAS, b"first"),
    ]


def test_a_report_erases_the_query_its_token_was_given(bench: Bench) -> None:
    async def work(store: DeviceStore) -> list[int]:
        await store.commit([Pin(1, b"a", b"box", 50), Pin(1, b"b", b"box", 50)])
        before = [await store.taken(1, 50), await store.taken(1, 51)]
        await store.commit([Spend(1, b"a", A, 1)])
        return [*before, await store.taken(1, 50), await store.taken(1, 51)]

    assert bench.run(work) == [2, 0, 2, 1]
    assert bench.commit(Pin(1, b"a", b"again", 50)) == [Outcome.SPENT]


def test_sealing_changes_no_count(bench: Bench) -> None:
    bench.commit(Spend(1, b"a", A, 1), Spend(1, b"b", B, 0))
    before = counts_of(bench)
    assert [row.heard for row in bench.run(lambda store: store.campaigns())] == [2, 0]
    assert bench.run(lambda store: store.seal(3)) == 0  # too few to mix
    assert bench.run(lambda store: store.seal(2)) == 2
    assert bench.run(lambda store: store.seal(1)) == 0
    assert counts_of(bench) == before
    bench.commit(Spend(1, b"c", A, 0))
    assert bench.run(lambda store: store.seal(1)) == 1
    assert counts_of(bench) == {A: (2, 1), B: (1, 0)}
    assert bench.run(lambda store: store.campaigns())[0].heard == 3


def test_what_a_closed_campaign_left_is_sealed_however_little(bench: Bench) -> None:
    bench.commit(Spend(1, b"a", A, 1))
    assert bench.run(lambda store: store.seal(1_000)) == 0
    bench.set_state("closed")
    assert bench.run(lambda store: store.seal(1_000)) == 1


def test_a_closed_campaign_counts_nothing_but_knows_what_it_counted(bench: Bench) -> None:
    bench.commit(Spend(1, b"a", A, 1))
    bench.set_state("paused")
    assert bench.commit(Spend(1, b"b", A, 1)) == [Outcome.COUNTED]  # asked before the pause
    bench.set_state("closed")
    assert bench.commit(Spend(1, b"a", A, 1), Spend(1, b"c", A, 1)) == [Outcome.SPENT, Outcome.CLOSED]
    assert bench.commit(Admit(1, b"new")) == [Outcome.CLOSED]
    assert bench.run(lambda store: store.campaigns(live=True)) == []


def test_an_open_link_has_so_many_places(bench: Bench) -> None:
    assert bench.commit(Admit(1, b"d"), Admit(1, b"d"), Admit(1, b"e"), Admit(1, b"f")) == [
        Outcome.COUNTED,
        Outcome.HAS,
        Outcome.COUNTED,
        Outcome.FULL,
    ]
    assert bench.commit(Pin(1, b"d", b"box", 9), Pin(1, b"f", b"box", 9)) == [Outcome.PINNED, Outcome.UNKNOWN]
    assert bench.run(lambda store: store.link_secret(1)) == b"s"


def test_published_queries_are_replaced_whole(bench: Bench) -> None:
    async def work(store: DeviceStore) -> Any:
        await store.publish(1, [(A, 5), (B, 2)], 0)
        await store.publish(1, [(B, 3)], 7)
        return await store.published(1)

    assert bench.run(work) == Published([(B, 3)], 7)


def test_groups_of_several_processes_do_not_lock_each_other_out(bench: Bench) -> None:
    """The same tokens, in opposite orders, from four connections at once: each is counted once."""

    async def work(_store: DeviceStore) -> list[Outcome]:
        stores = [open_device_store(bench.settings) for _ in range(4)]
        asks: list[Ask] = [Spend(1, bytes([k]), A, k % 2) for k in range(100)]
        try:
            found = await asyncio.gather(
                *[store.commit(asks if place % 2 else asks[::-1]) for place, store in enumerate(stores)]
            )
        finally:
            for store in stores:
                await store.close()
        return [result.outcome for results in found for result in results]

    found = bench.run(work)
    assert (found.count(Outcome.COUNTED), found.count(Outcome.SPENT)) == (100, 300)
    assert counts_of(bench) == {A: (100, 50)}


def test_one_process_leads(bench: Bench) -> None:
    async def work(store: DeviceStore) -> list[bool]:
        other = open_device_store(bench.settings)
        first = [await store.try_lead(), await other.try_lead(), await store.try_lead()]
        await store.close()
        then = await other.try_lead()
        await other.close()
        return [*first, then]

    if bench.settings.database:
        store = asyncio.run(_opened(bench.settings, work))
        assert store == [True, False, True, True]
    else:
        assert bench.run(lambda store: store.try_lead())


@pytest.mark.parametrize("thorough", [False, True])
def test_a_probe_writes_and_changes_nothing(bench: Bench, thorough: bool) -> None:
    bench.commit(Spend(1, b"a", A, 1))
    before = counts_of(bench)
    bench.run(lambda store: store.probe(thorough=thorough))
    assert counts_of(bench) == before


async def _opened(settings: Settings, work: Callable[[DeviceStore], Awaitable[Any]]) -> Any:
    return await work(open_device_store(settings))


def test_a_database_that_is_not_there_is_unavailable_not_a_crash(tmp_path: Path) -> None:
    store = open_device_store(Settings(data=tmp_path, database="postgresql://nobody@127.0.0.1:1/none"))

    async def work() -> None:
        for attempt in (store.commit([Spend(1, b"a", A, 1)]), store.counts(1), store.seal(1), store.try_lead()):
            with pytest.raises(Unavailable):
                await attempt
        await store.close()

    asyncio.run(work())


def test_migrations_make_the_tables_the_code_uses(bench: Bench) -> None:
    async def differences() -> Any:
        engine = open_engine(bench.settings)
        async with engine.connect() as db:
            found = await db.run_sync(lambda c: compare_metadata(MigrationContext.configure(c), schema.metadata))
        await engine.dispose()
        return found

    assert asyncio.run(differences()) == []
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD
