"""What is left on disk, and when: pins that were used, and campaigns that were kept long enough."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from postgres_cluster import PostgresCluster
from scene import Scene
from sqlalchemy import insert, update
from test_erase import files_of, holding, path_of, sql

from privquant.aggregator.campaign.campaigns import Campaigns, Retention
from privquant.aggregator.campaign.mode import Draft
from privquant.aggregator.operators.accounts import read_audit
from privquant.aggregator.service import open_device_store
from privquant.aggregator.settings import Settings
from privquant.aggregator.store import schema
from privquant.aggregator.store.base import DeviceStore, Erasure, Pin, Spend
from privquant.aggregator.store.migrate import migrate, open_engine
from privquant.aggregator.store.operator_queries import DAY, writing
from privquant.domain import Integers
from privquant.errors import InvalidInput
from privquant.messages import Query
from privquant.server.keys import KeyFolder

PEOPLE = 400
ANSWERED = 300


async def pins_and_reports(
    settings: Settings, look: Callable[[], Any]
) -> tuple[list[bytes], list[bytes], Any, Any]:
    """Boxes of those who answered and of those who did not, and what `look` finds before and after the sweep."""
    ids = [os.urandom(16) for _ in range(PEOPLE)]
    boxes = [os.urandom(42) for _ in range(PEOPLE)]
    engine = open_engine(settings)
    await migrate(engine)
    async with writing(engine) as db:
        row = {"no": 1, "id": "0" * 64, "envelope": b"{}", "state": "open", "created": 0}
        await db.execute(insert(schema.campaign).values(row))
        await db.execute(insert(schema.token), [{"campaign": 1, "id": each} for each in ids])
    await engine.dispose()
    store = open_device_store(settings)
    await store.commit([Pin(1, each, box, 9) for each, box in zip(ids, boxes)])
    for start in range(0, ANSWERED, 50):
        await store.commit([Spend(1, each, Query(3, 5), 1) for each in ids[start : start + 50]])
    before = await asyncio.to_thread(look)
    await asyncio.sleep(1.5)  # PostgreSQL tells of what was deleted with a delay
    await store.sweep()
    after = await asyncio.to_thread(look)
    await store.close()
    return boxes[:ANSWERED], boxes[ANSWERED:], before, after


def test_used_pins_leave_no_byte_in_files_of_postgresql(
    tmp_path: Path, postgres: PostgresCluster, fresh_database: str
) -> None:
    """The twin: a plain VACUUM, which the sweep was before, leaves nearly all of them in the table."""

    def look() -> dict[str, bytes]:
        sql(fresh_database, "VACUUM pin", "SELECT 1")
        return files_of(postgres, fresh_database)

    settings = Settings(data=tmp_path / "data", database=fresh_database)
    used, unused, before, after = asyncio.run(pins_and_reports(settings, look))
    assert sum(any(box in data for data in before.values()) for box in used) > ANSWERED / 2
    assert holding(after, used) == set()
    assert path_of(fresh_database, "pin") in holding(after, unused)


def test_used_pins_leave_no_byte_in_files_of_sqlite(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data")

    def look() -> dict[str, bytes]:
        return {place.name: place.read_bytes() for place in settings.data.glob("store.sqlite3*")}

    used, unused, before, after = asyncio.run(pins_and_reports(settings, look))
    assert holding(before, used)  # in the write-ahead log
    assert holding(after, used) == set()
    assert holding(after, unused)


def test_a_sweep_that_would_have_to_wait_is_left_for_later(tmp_path: Path, fresh_database: str) -> None:
    settings = Settings(data=tmp_path / "data", database=fresh_database)

    async def run() -> float:
        engine = open_engine(settings)
        await migrate(engine)
        await engine.dispose()
        reader = await asyncpg.connect(fresh_database)
        await reader.execute("BEGIN")
        await reader.fetchval("SELECT count(*) FROM pin")  # holds a lock that a rewrite has to wait for
        store = open_device_store(settings)
        began = time.perf_counter()
        await store.sweep()
        took = time.perf_counter() - began
        await reader.close()
        await store.close()
        return took

    assert asyncio.run(run()) < 5


# -- campaigns that were kept long enough --------------------------------------------------------------------


async def with_campaigns(settings: Settings, work: Callable[[Campaigns, DeviceStore], Any]) -> Any:
    engine = open_engine(settings)
    await migrate(engine)
    store = open_device_store(settings)
    campaigns = Campaigns(engine, store, KeyFolder(settings.keys), "http://127.0.0.1:1")
    try:
        return await work(campaigns, store)
    finally:
        await store.close()
        await engine.dispose()


async def closed_ago(campaigns: Campaigns, seconds: int, keep_days: int | None) -> str:
    draft = Draft("m", "?", Integers(0, 99), epsilon=1.0, planned_users=10, keep_days=keep_days)
    identity = await campaigns.create(draft, "tester")
    await campaigns.close(identity, "tester")
    async with writing(campaigns.engine) as db:
        then = {"closed": int(time.time()) - seconds}
        await db.execute(update(schema.campaign).where(schema.campaign.c.id == identity).values(then))
    return identity


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_campaign_is_erased_when_its_days_are_over_and_not_before(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    database = request.getfixturevalue("fresh_database") if store == "postgresql" else ""

    async def work(campaigns: Campaigns, _store: DeviceStore) -> None:
        over = await closed_ago(campaigns, 90 * DAY + 1, 90)
        almost = await closed_ago(campaigns, 90 * DAY - 60, 90)
        for_good = await closed_ago(campaigns, 5_000 * DAY, None)
        draft = Draft("m", "?", Integers(0, 99), epsilon=1.0, planned_users=10, keep_days=1)
        running = await campaigns.create(draft, "tester")
        shown = await campaigns.show(almost)
        assert (shown["keep_days"], shown["closed"]) == (90, int(shown["closed"]))
        await Retention(campaigns).turn()
        left = {line["id"] for line in await campaigns.overview()}
        assert left == {almost, for_good, running}
        acts = [line for line in await read_audit(campaigns.engine) if line["act"] == "delete"]
        assert [(a["operator"], a["campaign"], a["detail"]) for a in acts] == [("server", over, "kept for 90 days")]

    asyncio.run(with_campaigns(Settings(data=tmp_path / "data", database=database), work))


def test_what_could_not_be_erased_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(campaigns: Campaigns, store: DeviceStore) -> list[int]:
        said = iter([Erasure(False, "in use"), Erasure(False, "in use"), Erasure(True, "")])
        tries = []

        async def erase(_patience: float) -> Erasure:
            tries.append(1)
            return next(said)

        monkeypatch.setattr(store, "erase", erase)
        await closed_ago(campaigns, 2 * DAY, 1)
        turns, counts = Retention(campaigns), []
        for _ in range(4):
            await turns.turn()
            counts.append(len(tries))
        return counts

    assert asyncio.run(with_campaigns(Settings(data=tmp_path / "data"), work)) == [2, 3, 3, 3]


def test_how_long_it_is_kept_is_shown_and_nonsense_is_refused(scene: Scene) -> None:
    campaign = scene.campaign(keep_days=90)
    shown = scene.call("GET", f"/v1/campaigns/{campaign}")
    assert (shown["keep_days"], shown["closed"]) == (90, None)
    scene.call("POST", f"/v1/campaigns/{campaign}/close")
    assert abs(scene.call("GET", f"/v1/campaigns/{campaign}")["closed"] - time.time()) < 60
    for wrong in (0, -1, 40_000):
        with pytest.raises(Exception, match="keep_days"):
            scene.campaign(keep_days=wrong)


IMPATIENT = """
from privquant.aggregator import server
from privquant.aggregator import service
service._RETENTION = 0.5
raise SystemExit(server.main())
"""


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("-c", IMPATIENT), id="looks-twice-a-second"),
        pytest.param(None, marks=pytest.mark.full, id="looks-once-a-minute"),
    ],
)
def test_a_running_server_erases_by_itself(command: tuple[str, ...] | None, tmp_path: Path) -> None:
    scene = Scene(tmp_path, command=command)
    scene.server.start()
    try:
        campaign, kept = scene.campaign(keep_days=1), scene.campaign(keep_days=1)
        for identity in (campaign, kept):
            scene.call("POST", f"/v1/campaigns/{identity}/close")
        with sqlite3.connect(scene.settings.sqlite_file) as db:
            db.execute("UPDATE campaign SET closed = closed - 86401 WHERE id = ?", (campaign,))
        give_up = time.monotonic() + (150 if command is None else 30)
        while campaign in (left := {line["id"] for line in scene.call("GET", "/v1/campaigns")}):
            assert time.monotonic() < give_up
            time.sleep(0.2)
    finally:
        scene.server.kill()
    assert left == {kept}
    assert "a campaign was kept long enough" in scene.log.read_text()


def test_days_as_they_are_typed() -> None:
    from privquant.cli.campaign import _days, _kept

    assert _days("90d") == 90
    for wrong in ("90", "d", "0d", "-1d", "1.5d", "90 d", "36501d"):
        with pytest.raises(InvalidInput, match="such as 90d"):
            _days(wrong)
    assert _kept({"keep_days": 90, "closed": None}) == "It is erased by itself 90 days after it is closed."
    assert _kept({"keep_days": 1, "closed": 0}) == "It is erased by itself after 1970-01-02 00:00 UTC."
