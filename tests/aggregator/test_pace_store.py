"""The pace inside the transaction, on SQLite and PostgreSQL alike, and for however many processes."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, func, insert, select, text

from privquant.aggregator.devices.admission_rules import FLOOR, InFlightLimit
from privquant.aggregator.service import open_device_store
from privquant.aggregator.settings import Settings
from privquant.aggregator.store import schema
from privquant.aggregator.store.base import Admit, Ask, DeviceStore, Outcome, Pin, Spend
from privquant.aggregator.store.migrate import migrate, open_engine
from privquant.aggregator.store.operator_queries import writing
from privquant.messages import Query

ASKED = Query(10, 4961093570831980854)
AT_FIRST = InFlightLimit(0.1, 0)
P, H, W = Outcome.PINNED, Outcome.HAS, Outcome.WAIT


class Bench:
    """A migrated store with one open campaign (number 1), tokens 0 .. 999 and a link of 12 places."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        asyncio.run(self._prepare())

    async def _prepare(self) -> None:
        engine = open_engine(self.settings)
        await migrate(engine)
        async with writing(engine) as db:
            row = {"no": 1, "id": "0" * 64, "envelope": b"{}", "state": "open", "created": int(time.time())}
            await db.execute(insert(schema.campaign).values(row))
            await db.execute(insert(schema.token), [{"campaign": 1, "id": name(k)} for k in range(1_000)])
            await db.execute(insert(schema.link).values(campaign=1, secret=b"s", places=12, taken=0))
        await engine.dispose()

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

    def tick(self, minute: int = 0) -> None:
        self.run(lambda store: store.tick(minute))

    def link_taken(self) -> int:
        async def inside() -> int:
            engine = open_engine(self.settings)
            async with engine.connect() as db:
                found = (await db.execute(select(func.sum(schema.link.c.taken)))).scalar_one()
            await engine.dispose()
            return int(found)

        return asyncio.run(inside())


def name(k: int) -> bytes:
    return b"t%d" % k


def pin(k: int, limit: InFlightLimit | None = AT_FIRST) -> Pin:
    return Pin(1, name(k), b"box%d" % k, 99, limit)


@pytest.fixture(params=["sqlite", "postgresql"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    database = request.getfixturevalue("fresh_database") if request.param == "postgresql" else ""
    return Bench(Settings(data=tmp_path / "data", database=database))


def test_no_more_than_the_pace_are_given_a_query_in_one_group_or_in_many(bench: Bench) -> None:
    assert bench.commit(*[pin(k) for k in range(5)]) == [P] * 5
    assert bench.commit(*[pin(k) for k in range(3, 12)]) == [H, H, P, P, P, W, W, W, W]
    assert bench.commit(pin(11), pin(0), pin(2_000)) == [W, H, Outcome.UNKNOWN]
    assert bench.commit(pin(11, None)) == [P]  # a campaign without a pace
    assert bench.commit(pin(12)) == [W]


def test_a_report_frees_its_place_when_the_queries_follow_from_it(bench: Bench) -> None:
    bench.commit(*[pin(k) for k in range(FLOOR)])
    spends = [Spend(1, name(k), ASKED, 1) for k in range(3)]
    assert bench.commit(*spends, pin(10)) == [Outcome.COUNTED] * 3 + [W]
    assert bench.commit(pin(10)) == [W]
    follows = InFlightLimit(0.1, 3)
    assert bench.commit(*[pin(k, follows) for k in (10, 11, 12, 13)]) == [P, P, P, W]
    assert bench.commit(pin(14, InFlightLimit(0.1, 2))) == [W]  # of a process that has not seen the newest queries
    assert bench.commit(*[pin(k, InFlightLimit(1.0, 40)) for k in range(20, 70)]).count(P) == 40 - FLOOR


def test_who_stays_away_frees_its_place_at_the_second_tick_and_may_still_report(bench: Bench) -> None:
    bench.commit(*[pin(k) for k in range(FLOOR)])
    bench.tick()
    assert bench.commit(pin(10)) == [W]
    bench.tick()
    assert bench.commit(*[pin(k) for k in range(10, 20)]) == [P] * FLOOR + [W, W]
    assert bench.commit(pin(0), Spend(1, name(0), ASKED, 1)) == [H, Outcome.COUNTED]
    assert bench.commit(pin(0)) == [Outcome.SPENT]


def test_who_has_no_turn_gets_its_ticket_again_and_no_other(bench: Bench) -> None:
    bench.commit(pin(0))
    waits = InFlightLimit(0.1, 0, take=False)
    assert bench.commit(pin(0, waits), pin(1, waits)) == [H, W]


def test_claims_take_places_of_the_pace_and_their_queries_no_second_one(bench: Bench) -> None:
    claims = [Admit(1, b"c%d" % k, 50, AT_FIRST) for k in range(10)]
    assert bench.commit(*claims) == [Outcome.COUNTED] * FLOOR + [W, W]
    assert bench.commit(pin(0)) == [W]
    without_turn = InFlightLimit(0.1, 0, take=False)
    assert bench.commit(*[Pin(1, b"c%d" % k, b"box", 99, without_turn) for k in range(FLOOR)]) == [P] * FLOOR
    assert bench.commit(pin(0)) == [W]
    assert bench.link_taken() == FLOOR


def test_a_claim_without_a_query_expires_and_may_be_made_again(bench: Bench) -> None:
    claims = [Admit(1, b"c%d" % k, 50) for k in range(13)]
    assert bench.commit(*claims) == [Outcome.COUNTED] * 12 + [W]
    assert bench.commit(Pin(1, b"c0", b"box", 99)) == [P]
    bench.tick(50)
    assert bench.link_taken() == 12
    bench.tick(51)
    assert bench.link_taken() == 1
    asks = [Pin(1, b"c%d" % k, b"box", 99) for k in range(3)]
    assert bench.commit(*asks) == [H, Outcome.EXPIRED, Outcome.EXPIRED]
    assert bench.commit(Admit(1, b"c1", 60), Admit(1, b"c0", 60), asks[1]) == [Outcome.COUNTED, H, P]
    assert bench.link_taken() == 2


def test_a_link_is_full_for_good_when_all_its_places_have_queries(bench: Bench) -> None:
    bench.commit(*[Admit(1, b"c%d" % k, 50) for k in range(12)])
    assert bench.commit(Admit(1, b"late", 50)) == [W]
    bench.commit(*[Pin(1, b"c%d" % k, b"box", 99) for k in range(12)])
    bench.tick(51)
    assert bench.commit(Admit(1, b"late", 52)) == [Outcome.FULL]


FIRST_RELEASE = (
    "INSERT INTO campaign (no, id, envelope, state, created) VALUES (1, 'x', :envelope, 'open', 0)",
    "INSERT INTO token (campaign, id) VALUES (1, :a), (1, :b), (1, :claimed)",
    "INSERT INTO pin (campaign, id, box, lease) VALUES (1, :a, :box, 0)",
    "INSERT INTO link (campaign, secret, places, taken) VALUES (1, :s, 2, 1)",
    "INSERT INTO published (campaign, place, threshold, coin, phase, arm, users) VALUES (1, 0, 5, 7, 0, 0, 64)",
)


def test_a_campaign_that_ran_before_there_was_a_pace_runs_on_without_one(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Tables as the first release made them, with tokens, a query that is out, and a link half taken."""

    def first_release(connection: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(files("privquant.aggregator.store") / "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")

    async def run(settings: Settings) -> tuple[float, list[Outcome]]:
        engine = open_engine(settings)
        async with writing(engine) as db:
            await db.run_sync(first_release)
            for statement in FIRST_RELEASE:
                await db.execute(
                    text(statement), {word: word.encode() for word in re.findall(r":(\w+)", statement)}
                )
        await migrate(engine)
        await engine.dispose()
        store = open_device_store(settings)
        try:
            (row,) = await store.campaigns()
            assert (await store.published(1)).known == 0
            asks: list[Ask] = [Pin(1, name, b"new", 99) for name in (b"a", b"b", b"claimed")]
            asks += [Spend(1, b"a", ASKED, 1), Admit(1, b"c", 9), Admit(1, b"d", 9)]
            await store.tick(10**9)  # what the first release let in is let in for good
            found = await store.commit(asks)
        finally:
            await store.close()
        return row.pace, [result.outcome for result in found]

    for number, database in enumerate(("", request.getfixturevalue("fresh_database"))):
        pace, found = asyncio.run(run(Settings(data=tmp_path / str(number), database=database)))
        assert pace == 0
        assert found == [H, P, P, Outcome.COUNTED, Outcome.COUNTED, W]


RACER = """
import asyncio, sys
from pathlib import Path
from privquant.aggregator.devices.admission_rules import InFlightLimit
from privquant.aggregator.service import open_device_store
from privquant.aggregator.settings import Settings
from privquant.aggregator.store import postgres, sqlite
from privquant.aggregator.store.base import Pin, Outcome

data, database, racer, twin = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4] == "twin"

async def main():
    store = open_device_store(Settings(data=data, database=database))
    await store.counts(1)
    print(".", flush=True)
    sys.stdin.readline()
    given = 0
    if twin:  # looks first, outside of the transaction that gives
        heard, flying = (await store._read(postgres.sql.IN_FLIGHT, 1))[0]
        left = InFlightLimit(0.1, 0).slots(heard, flying)
        await asyncio.sleep(0.2)
        asks = [Pin(1, b"t%d" % (4 * k + racer), b"box", 99) for k in range(left)]
        given = [result.outcome for result in await store.commit(asks)].count(Outcome.PINNED)
    for k in range(0 if twin else 60):
        asks = [Pin(1, b"t%d" % (4 * (k + j) + racer), b"box", 99, InFlightLimit(0.1, 0)) for j in range(3)]
        given += [result.outcome for result in await store.commit(asks)].count(Outcome.PINNED)
    print(given, flush=True)
    await store.close()

asyncio.run(main())
"""


def race(bench: Bench, kind: str) -> int:
    """Four processes give queries to tokens of their own, as fast as they can; how many were given in all."""
    command = [sys.executable, "-c", RACER, str(bench.settings.data), bench.settings.database]
    racers = [
        subprocess.Popen([*command, str(k), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for k in range(4)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == ".\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return sum(int(racer.communicate(timeout=120)[0]) for racer in racers)


def test_four_processes_together_keep_to_the_pace(bench: Bench) -> None:
    assert race(bench, "real") == FLOOR


def test_four_processes_that_look_before_the_transaction_are_found_out(bench: Bench) -> None:
    """The twin: what is in flight is counted before the transaction that adds to it."""
    assert race(bench, "twin") > FLOOR
