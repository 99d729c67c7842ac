"""What a thief of database, write-ahead log and logs finds: no token, no address, no link from a bit to a token.

The attacks below are given more than any thief has: all tokens, the key folder, and who was given which threshold.
Each has a twin that shows it would succeed if there were something to find.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

import asyncpg
import pytest
from fleet import Fleet
from scene import Scene

from privquant import wire
from privquant.aggregator.devices.campaign_cache import Tickets, Unreadable
from privquant.aggregator.service import open_device_store
from privquant.aggregator.settings import Settings
from privquant.aggregator.store import schema
from privquant.aggregator.store.base import Pin, Spend
from privquant.aggregator.store.migrate import migrate, open_engine
from privquant.aggregator.store.operator_queries import writing
from privquant.messages import Query

AGENT, ADDRESS = "PrivquantTestAgent/7.7", "203.0.113.77"
BOX = 12 + 14 + 16  # nonce, packed query, tag


def raw_files(scene: Scene) -> dict[str, bytes]:
    places = [*scene.settings.data.glob("store.sqlite3*"), scene.log]
    return {place.name: place.read_bytes() for place in places}


def spellings(token: str) -> list[bytes]:
    """Every form in which a token or its hash might have been left lying about."""
    secret = wire.token_hash(token)
    plain = wire.form.from_base64(token, 16, "token")
    return [token.encode(), plain, plain.hex().encode(), secret.encode(), bytes.fromhex(secret)]


def found_in(files: dict[str, bytes], needles: list[bytes]) -> list[tuple[str, bytes]]:
    return [(name, needle) for name, data in files.items() for needle in needles if needle in data]


def thresholds_read_back(data: bytes, tickets: Tickets, tokens: list[str]) -> dict[str, int]:
    """The attack: look for a token's id and try to open what stands behind it as the box of its query."""
    linked = {}
    for token in tokens:
        hashed = bytes.fromhex(wire.token_hash(token))
        identity, place = tickets.id(hashed), -1
        while (place := data.find(identity, place + 1)) >= 0:
            start = place + len(identity)
            try:
                linked[token] = tickets.unseal(hashed, data[start : start + BOX]).threshold
            except Unreadable:
                continue
    return linked


def scan_after(folder: Path, reports: int) -> None:
    scene = Scene(folder)
    scene.server.start()
    try:
        campaign = scene.campaign()
        tokens = scene.tokens(campaign, reports + 100)
        headers = f"user-agent: {AGENT}\r\nx-forwarded-for: {ADDRESS}\r\n"
        fleet = Fleet("127.0.0.1", scene.settings.port, campaign, tokens[:reports], headers=headers)
        tickets = scene.tickets(campaign)
        during = {}

        async def run() -> None:
            running = asyncio.create_task(fleet.run(16))
            while not running.done():
                await asyncio.sleep(0.1)
                if len(fleet.tally.acknowledged) > reports // 2 and not during:
                    during.update(raw_files(scene))
            await running

        asyncio.run(run())
        some = list(fleet.tally.acknowledged)[:reports:7]
        # The twin: in the middle of it the write-ahead log still has what was given to whom.
        early = thresholds_read_back(b"".join(during.values()), tickets, list(fleet.tally.acknowledged))
        assert len(early) > 10
        assert all(fleet.tally.acknowledged[token][0] == threshold for token, threshold in early.items())
        deadline = time.monotonic() + 40
        while (scene.settings.data / "store.sqlite3-wal").stat().st_size and time.monotonic() < deadline:
            time.sleep(0.2)
        files = raw_files(scene)
        assert thresholds_read_back(b"".join(files.values()), tickets, list(fleet.tally.acknowledged)) == {}
        assert scene.stored(campaign).pinned == set()
        assert files["store.sqlite3-wal"] == b""
        needles = [AGENT.encode(), ADDRESS.encode(), *[form for token in some for form in spellings(token)]]
        assert found_in(files, needles) == []
        assert found_in({"server.log": files["server.log"]}, [b"127.0.0.1"]) == []
        # The twin: the scan does find what is there, a token's id at rest.
        assert found_in(files, [tickets.id(bytes.fromhex(wire.token_hash(some[0])))])
    finally:
        scene.server.stop()


def test_nothing_is_left_after_1500_reports(tmp_path: Path) -> None:
    scan_after(tmp_path, 1_500)


@pytest.mark.full
def test_nothing_is_left_after_ten_thousand_reports(tmp_path: Path) -> None:
    scan_after(tmp_path, 10_000)


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_the_log_forgets_the_order_of_reports(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """300 reports one by one, with thresholds in rising order: the tail keeps it, the log does not.

    Rank correlation of 300 shuffled places has standard deviation 1/sqrt(299); |rho| > 0.31 is a false alarm of
    less than 1e-7.
    """
    database = request.getfixturevalue("fresh_database") if store == "postgresql" else ""
    settings = Settings(data=tmp_path / "data", database=database)
    count = 300

    async def rows(table: str) -> list[int]:
        engine = open_engine(settings)
        async with engine.connect() as db:
            found = await db.exec_driver_sql(f"SELECT threshold FROM {table} ORDER BY no")
            values = [row[0] for row in found]
        await engine.dispose()
        return values

    async def run() -> tuple[list[int], list[int]]:
        engine = open_engine(settings)
        await migrate(engine)
        async with writing(engine) as db:
            row = {"no": 1, "id": "0" * 64, "envelope": b"{}", "state": "open", "created": 0}
            await db.execute(schema.campaign.insert().values(row))
        await engine.dispose()
        store = open_device_store(settings)
        for k in range(count):
            await store.commit([Pin(1, b"%d" % k, b"box", 1), Spend(1, b"%d" % k, Query(k, 5), k % 2)])
        tail = await rows("tail")
        await store.seal(1)
        await store.close()
        return tail, await rows("log")

    tail, log = asyncio.run(run())
    assert tail == list(range(count))
    assert sorted(log) == tail
    assert abs(rank_correlation(log)) < 0.31


def rank_correlation(places: list[int]) -> float:
    n = len(places)
    return 1 - 6 * sum((k - place) ** 2 for k, place in enumerate(places)) / (n * (n * n - 1))


def test_postgresql_keeps_no_transaction_number_that_joins_tokens_and_reports(
    tmp_path: Path, fresh_database: str
) -> None:
    """A row remembers its transaction (xmin): before sealing it joins token and report, then nothing does."""
    settings = Settings(data=tmp_path / "data", database=fresh_database)
    join = "SELECT count(*) FROM {} r JOIN spent s ON r.xmin = s.xmin"

    async def run() -> list[int]:
        engine = open_engine(settings)
        await migrate(engine)
        async with writing(engine) as db:
            row = {"no": 1, "id": "0" * 64, "envelope": b"{}", "state": "open", "created": 0}
            await db.execute(schema.campaign.insert().values(row))
        await engine.dispose()
        store = open_device_store(settings)
        db = await asyncpg.connect(fresh_database)
        for k in range(20):
            await store.commit([Spend(1, b"%d" % k, Query(k, 5), k % 2)])
        found = [await db.fetchval(join.format("tail"))]
        await store.seal(1)
        for table in ("tail", "log", "count"):
            found.append(await db.fetchval(join.format(table)))
        found.append(await db.fetchval("SELECT count(DISTINCT xmin::text) FROM log"))
        await db.close()
        await store.close()
        return found

    assert asyncio.run(run()) == [20, 0, 0, 0, 1]


def test_the_scan_is_not_fooled_by_a_copy(tmp_path: Path) -> None:
    """The twin of the whole scan: a file with a token, its hash and an agent in it is found out."""
    token = wire.new_token()
    place = tmp_path / "dump"
    place.write_bytes(b"x" * 100 + spellings(token)[4] + AGENT.encode())
    shutil.copy(place, tmp_path / "copy")
    assert len(found_in({"copy": (tmp_path / "copy").read_bytes()}, [*spellings(token), AGENT.encode()])) == 2
