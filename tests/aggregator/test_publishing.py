"""The publisher: what is handed out next follows from the counts alone, whoever computes it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from privquant.aggregator.campaign.campaigns import Campaigns
from privquant.aggregator.campaign.mode import Draft
from privquant.aggregator.campaign.protocol import CampaignProtocol
from privquant.aggregator.campaign.publisher import Publisher
from privquant.aggregator.service import open_device_store
from privquant.aggregator.settings import Settings
from privquant.aggregator.store.base import Ask, DeviceStore, Published, Spend
from privquant.aggregator.store.migrate import migrate, open_engine
from privquant.aggregator.store.operator_queries import manifest_of
from privquant.domain import Integers
from privquant.server.keys import KeyFolder


async def nothing(_campaign: str) -> None:
    """No cache listens."""


async def report(store: DeviceStore, number: int, start: int, count: int) -> None:
    """`count` reports to what is published, a third of them ones."""
    queries = [query for query, _ in (await store.published(number)).queries]
    asks: list[Ask] = [
        Spend(number, b"%d" % k, queries[k % len(queries)], int(k % 3 == 0)) for k in range(start, start + count)
    ]
    await store.commit(asks)


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_two_publishers_do_no_harm(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    database = request.getfixturevalue("fresh_database") if store == "postgresql" else ""
    settings = Settings(data=tmp_path / "data", database=database)

    async def run() -> None:
        engine = open_engine(settings)
        await migrate(engine)
        stores = [open_device_store(settings), open_device_store(settings)]

        async def lead() -> bool:
            return True

        for store in stores:
            store.try_lead = lead  # type: ignore[method-assign]  # both believe to be the one
        campaigns = Campaigns(engine, stores[0], KeyFolder(settings.keys), "http://127.0.0.1:1")
        draft = Draft("m", "?", Integers(0, 999), epsilon=1.0, planned_users=1_000)
        await campaigns.create(draft, "tester")
        publishers = [Publisher(store, nothing) for store in stores]
        for turn in range(6):
            await report(stores[turn % 2], 1, 40 * turn, 40)
            await asyncio.gather(*[publisher.turn() for publisher in publishers])
            (row,) = await stores[0].campaigns()
            fresh = CampaignProtocol(manifest_of(row.envelope))
            fresh.update(await stores[0].counts(1))
            # Each kept its own protocol over all turns; both published what one from nothing publishes.
            assert await stores[1].published(1) == Published(fresh.next_queries(), 40 * (turn + 1))
            assert row.heard == 40 * (turn + 1)
        for store in stores:
            await store.close()
        await engine.dispose()

    asyncio.run(run())


def test_the_publisher_waits_for_a_batch_and_starts_anew_when_counts_went_down(tmp_path: Path) -> None:
    """Counts go down when a backup is restored under a running server."""
    settings = Settings(data=tmp_path / "data")

    async def run() -> list[int]:
        engine = open_engine(settings)
        await migrate(engine)
        store = open_device_store(settings)
        campaigns = Campaigns(engine, store, KeyFolder(settings.keys), "http://127.0.0.1:1")
        await campaigns.create(Draft("m", "?", Integers(0, 999), epsilon=1.0, planned_users=10_000), "tester")
        published: list[str] = []

        async def heard(campaign: str) -> None:
            published.append(campaign)

        publisher = Publisher(store, heard, pause=0.0)
        seen = []
        for start, count in ((0, 1_000), (1_000, 5), (1_005, 30)):
            await report(store, 1, start, count)
            await publisher.turn()
            seen.append(len(published))
        async with engine.execution_options(writes=True).begin() as db:
            await db.exec_driver_sql("DELETE FROM tail WHERE no % 2 = 0")
        await publisher.turn()
        seen.append(len(published))
        await store.close()
        await engine.dispose()
        return seen

    assert asyncio.run(run()) == [1, 1, 2, 3]


@pytest.mark.parametrize(
    ("share", "in_flight", "found"),
    [(0.1, 7, [1, 1, 2, 2]), (0.1, 6, [1, 1, 1, 2]), (0.1, 0, [1, 1, 1, 1]), (0.0, 13, [1, 1, 1, 1])],
)
def test_the_publisher_takes_a_rest_unless_devices_may_soon_wait_for_it(
    tmp_path: Path, share: float, in_flight: int, found: list[int]
) -> None:
    """Of 100 places 50, then 52, are used up; those in flight are an eighth of the others, or fewer."""
    settings = Settings(data=tmp_path / "data")

    async def run() -> list[int]:
        engine = open_engine(settings)
        await migrate(engine)
        store = open_device_store(settings)
        campaigns = Campaigns(engine, store, KeyFolder(settings.keys), "http://127.0.0.1:1")
        draft = Draft("m", "?", Integers(0, 999), epsilon=1.0, planned_users=10_000, pace=share)
        await campaigns.create(draft, "tester")
        published: list[str] = []

        async def heard(campaign: str) -> None:
            published.append(campaign)

        publisher = Publisher(store, heard, pause=1e6)
        async with engine.execution_options(writes=True).begin() as db:
            for who in range(in_flight):
                await db.exec_driver_sql("INSERT INTO flight (campaign, id, age) VALUES (1, ?, 2)", (b"f%d" % who,))
        seen = []
        for start, count in ((0, 1_000), (1_000, 49), (1_049, 1), (1_050, 2)):  # 2 % more is a batch
            await report(store, 1, start, count)
            await publisher.turn()
            seen.append(len(published))
        await store.close()
        await engine.dispose()
        return seen

    assert asyncio.run(run()) == found
