"""A viewer who polls around one device reads nothing: what is shown of a running campaign are snapshots.

The attack is the plain one: read before, let one device answer, read again, subtract. Its twin runs on the exact
counts, as they were shown before there were snapshots, and reads every device.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fleet import Connection, Fleet
from scene import Scene

from privquant import wire
from privquant.aggregator import metrics
from privquant.aggregator.campaign.campaigns import Campaigns
from privquant.aggregator.campaign.mode import Draft
from privquant.aggregator.campaign.publisher import Publisher
from privquant.aggregator.campaign.snapshots import STEP, Snapshots, packed, unpacked
from privquant.aggregator.service import open_device_store
from privquant.aggregator.settings import Settings
from privquant.aggregator.store import schema
from privquant.aggregator.store.base import Counts, Pin, Spend
from privquant.aggregator.store.migrate import migrate, open_engine
from privquant.aggregator.store.operator_queries import writing
from privquant.domain import Integers
from privquant.messages import Query
from privquant.server.keys import KeyFolder

Answers = Counter[tuple[int, int]]
"""How many reports there are per (threshold, bit)."""


def answers_of(exported: dict[str, Any]) -> Answers:
    found: Answers = Counter()
    for row in exported["counts"]:
        found[int(row["threshold"]), 1] += row["ones"]
        found[int(row["threshold"]), 0] += row["answered"] - row["ones"]
    return +found


def read_off(before: Answers, after: Answers) -> tuple[int, int] | None:
    """What the viewer learns about the one device that answered in between."""
    new = after - before
    return next(iter(new)) if sum(new.values()) == 1 else None


def steps(seen: list[Answers]) -> list[int]:
    """How many reports lie between each reading and the next, where there are any; none may disappear."""
    for before, after in zip(seen, seen[1:]):
        assert not before - after
    found = [sum((after - before).values()) for before, after in zip(seen, seen[1:])]
    return [step for step in found if step]


# -- over HTTP: the attack, and its twin ---------------------------------------------------------------------


def around_one_device(scene: Scene, campaign: str, tokens: list[str], look: Callable[[], Answers]) -> int:
    """How many of these devices a viewer reads who looks before and after each."""
    right = 0
    for token in tokens:
        fleet = Fleet("127.0.0.1", scene.settings.port, campaign, [token], seed=len(token))
        before = look()
        asyncio.run(fleet.run(1, replays=0.0))
        right += read_off(before, look()) == fleet.tally.acknowledged[token]
    return right


def test_a_polling_viewer_reads_nothing_and_its_twin_reads_every_device(scene: Scene) -> None:
    campaign = scene.campaign()
    tokens = scene.tokens(campaign, 210)
    asyncio.run(Fleet("127.0.0.1", scene.settings.port, campaign, tokens[10:]).run(8))

    def exported() -> Answers:
        return answers_of(scene.call("GET", f"/v1/campaigns/{campaign}/export"))

    assert around_one_device(scene, campaign, tokens[:5], exported) == 0
    assert around_one_device(scene, campaign, tokens[5:10], lambda: scene.stored(campaign).answers) == 5
    until = time.monotonic() + 20.0  # snapshots advance once a second
    while not exported() and time.monotonic() < until:
        time.sleep(0.05)
    last = exported()
    assert 0 < sum(last.values()) <= 210 - STEP
    scene.call("POST", f"/v1/campaigns/{campaign}/close")
    assert exported() == scene.stored(campaign).answers
    assert sum((exported() - last).values()) >= STEP


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.full)])
def test_workers_and_a_restart_show_one_sequence_of_snapshots(
    workers: int, tmp_path: Path, fresh_database: str
) -> None:
    """Each look goes to whichever worker takes the connection; in the middle all are killed."""
    scene = Scene(tmp_path, fresh_database, workers=workers)
    scene.server.start()
    try:
        campaign = scene.campaign()
        tokens = scene.tokens(campaign, 400)
        seen: list[Answers] = []
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                seen.append(answers_of(scene.call("GET", f"/v1/campaigns/{campaign}/export")))

        def answer(tokens: list[str]) -> None:
            done.clear()
            viewer = threading.Thread(target=watch)
            viewer.start()
            asyncio.run(Fleet("127.0.0.1", scene.settings.port, campaign, tokens).run(8))
            done.set()
            viewer.join()

        answer(tokens[:200])
        scene.server.kill()
        scene.server.start()
        answer(tokens[200:])
        scene.call("POST", f"/v1/campaigns/{campaign}/close")
        seen.append(answers_of(scene.call("GET", f"/v1/campaigns/{campaign}/export")))
    finally:
        scene.server.stop()
    assert sum(seen[-1].values()) == 400
    found = steps(seen)
    assert len(found) >= 2
    assert min(found) >= STEP


# -- in process: every reading after every report ------------------------------------------------------------


class Host:
    """What one process of a server reads and turns, on a store that others share."""

    def __init__(self, settings: Settings) -> None:
        self.engine = open_engine(settings)
        self.store = open_device_store(settings)
        self.campaigns = Campaigns(self.engine, self.store, KeyFolder(settings.keys), "http://127.0.0.1:1")
        step = settings.snapshot_reports
        self._publisher = Publisher(self.store, self._nobody, Snapshots(self.engine, step).advance, pause=0.0)

    async def _nobody(self, _campaign: str) -> None:
        """No cache listens."""

    async def lead(self) -> bool:
        return True

    async def turn(self) -> None:
        self.store.try_lead = self.lead  # type: ignore[method-assign]  # two that believe to be the one
        await self._publisher.turn()

    async def look(self, campaign: str) -> tuple[Answers, str]:
        """Counts as exported, and everything an operator is told beside them."""
        exported = await self.campaigns.export(campaign)
        told = [await self.campaigns.show(campaign), await self.campaigns.overview()]
        told += [await self.campaigns.verify(campaign), exported["estimates"]]
        return answers_of(exported), json.dumps(told)

    async def close(self) -> None:
        await self.store.close()
        await self.engine.dispose()


DRAFT = Draft("m", "?", Integers(0, 999), epsilon=1.0, planned_users=1_000)


async def opened(settings: Settings) -> tuple[Host, str, list[Query]]:
    """A host, a new campaign of its own, and the campaign's first queries."""
    host = Host(settings)
    await migrate(host.engine)
    campaign = await host.campaigns.create(DRAFT, "tester")
    return host, campaign, [query for query, _ in (await host.store.published(1)).queries]


async def watched(settings: Settings, reports: int) -> tuple[list[Answers], list[str]]:
    """Reports one by one, to two hosts in turn where the store takes two, each started anew on the way.

    All readings after each report.
    """
    first, campaign, queries = await opened(settings)
    async with writing(first.engine) as db:
        await db.execute(schema.token.insert(), [{"campaign": 1, "id": b"%d" % k} for k in range(reports)])
    await first.store.commit([Pin(1, b"%d" % k, b"box", 9) for k in range(reports)])
    hosts = [first, Host(settings)] if settings.database else [first]
    counts, told = [], []
    for k in range(reports):
        place = k % len(hosts)
        if k % 50 == 49:
            await hosts[place].close()
            hosts[place] = Host(settings)
        await hosts[place].store.commit([Spend(1, b"%d" % k, queries[k % len(queries)], int(k % 3 == 0))])
        await asyncio.gather(*[host.turn() for host in hosts])
        found = await hosts[-1 - place].look(campaign)
        counts.append(found[0])
        told.append(found[1])
    await hosts[0].campaigns.close(campaign, "tester")
    counts.append((await hosts[-1].look(campaign))[0])
    for host in hosts:
        await host.close()
    return counts, told


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_every_number_an_operator_is_told_moves_in_steps(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    database = request.getfixturevalue("fresh_database") if store == "postgresql" else ""
    settings = Settings(data=tmp_path / "data", database=database)
    counts, told = asyncio.run(watched(settings, 110))
    assert sum(counts[-1].values()) == 110
    found = steps(counts)
    assert len(found) >= 2
    assert min(found) >= STEP
    for k, answers in enumerate(counts[:-1], 1):
        assert sum(answers.values()) <= max(0, k - STEP)
    # Nothing else an operator is told moves when the counts do not.
    for before, after, was, is_now in zip(counts, counts[1:-1], told, told[1:]):
        assert (was == is_now) == (before == after)


def test_the_step_can_be_set(tmp_path: Path) -> None:
    async def run() -> list[int]:
        host, campaign, queries = await opened(Settings(data=tmp_path / "data", snapshot_reports=5))
        seen = []
        for k in range(12):
            await host.store.commit([Spend(1, b"%d" % k, queries[0], 1)])
            await host.turn()
            seen.append(sum((await host.look(campaign))[0].values()))
        await host.close()
        return seen

    assert asyncio.run(run()) == [0] * 9 + [5] * 3


@pytest.mark.parametrize(("given", "shown"), [(range(5, 400, 5), 350), ([5, 40, 395], 40), ([5, 36, 37], 0)])
def test_a_burst_is_shown_but_for_its_last_steps(given: Sequence[int], shown: int, tmp_path: Path) -> None:
    """All of it comes within the pause between two snapshots, and nothing after it.

    What is shown is what was noted at least a step before the last; nothing else was.
    """

    async def run() -> int:
        host, campaign, queries = await opened(Settings(data=tmp_path / "data"))
        snapshots = Snapshots(host.engine, STEP, pause=0.2)
        for heard in given:
            await snapshots.advance(1, [Counts(queries[0], heard, 0)])
        await asyncio.sleep(0.3)
        await snapshots.catch_up()
        found = sum((await host.look(campaign))[0].values())
        await host.close()
        return found

    assert asyncio.run(run()) == shown


def test_a_snapshot_survives_being_packed() -> None:
    counts = [Counts(Query(2**63 - 1, 2**63 - 1, 3, 4), 7, 2), Counts(Query(0, 1), 1, 0)]
    assert unpacked(packed(counts)) == counts


# -- metrics -------------------------------------------------------------------------------------------------


def test_metrics_are_no_clock_of_single_reports(scene: Scene) -> None:
    """Whatever moves with one report moves in steps; a twin that counts at once would move every time."""
    campaign = scene.campaign(pace=0)
    tokens = scene.tokens(campaign, 40)
    tickets = []

    def lines() -> list[str]:
        found = scene.call("GET", "/metrics").splitlines()
        return [line for line in found if "reports" in line and not line.startswith("#") and "_created" not in line]

    async def ask() -> None:
        line = Connection("127.0.0.1", scene.settings.port)
        for token in tokens:
            _, body = await line.request("POST", wire.path_of(campaign, "query"), wire.query_request(token))
            tickets.append(wire.Ticket.parse(body).ticket)
        line.close()

    async def report(place: int) -> None:
        line = Connection("127.0.0.1", scene.settings.port)
        body = wire.WireReport(tokens[place], tickets[place], 1).to_bytes()
        assert (await line.request("POST", wire.path_of(campaign, "reports"), body))[0] == 201
        line.close()

    asyncio.run(ask())
    seen = [lines()]
    for place in range(len(tokens)):
        asyncio.run(report(place))
        seen.append(lines())
    moves = sum(before != after for before, after in zip(seen, seen[1:]))
    assert 1 <= moves <= 3  # the counter of reports and that of requests, 40 reports each


def test_a_stepped_counter_loses_nothing() -> None:
    class Plain:
        total = 0

        def inc(self, by: int) -> None:
            self.total += by

    plain = Plain()
    stepped = metrics.Stepped(plain)  # type: ignore[arg-type]
    seen = []
    for _ in range(2 * metrics.Stepped.step):
        stepped.inc()
        seen.append(plain.total)
    assert sorted(set(seen)) == [0, metrics.Stepped.step, 2 * metrics.Stepped.step]
