"""Faults between device and store: lost requests, lost answers, garbage, slow clients, a database that restarts."""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from fleet import Connection, Fleet
from postgres_cluster import PostgresCluster
from proxies import LossyProxy
from scene import Scene

from privquant import wire
from privquant.messages import Query


def assert_all_counted_once(scene: Scene, campaign: str, fleet: Fleet, devices: int) -> dict[str, Any]:
    found = scene.audit(campaign, fleet.tally)
    assert found["acknowledged"] == devices
    assert (found["lost"], found["doubled"], found["missing"], found["uncounted"]) == (0, 0, 0, 0)
    scene.call("POST", f"/v1/campaigns/{campaign}/close")
    verified: dict[str, Any] = scene.call("GET", f"/v1/campaigns/{campaign}/verify")
    assert verified["ok"]
    assert verified["reports"] == devices
    return verified


@pytest.mark.parametrize("lose", ["request", "response"])
def test_counts_are_exact_behind_a_proxy_that_loses_a_fifth(scene: Scene, lose: str) -> None:
    campaign = scene.campaign()
    tokens = scene.tokens(campaign, 300)

    async def run() -> tuple[Fleet, LossyProxy]:
        async with LossyProxy(scene.settings.port, lose, 0.2, seed=4) as proxy:
            fleet = Fleet("127.0.0.1", proxy.port, campaign, tokens, seed=5)
            await fleet.run(12)
            return fleet, proxy

    fleet, proxy = asyncio.run(run())
    assert proxy.lost > 50
    assert_all_counted_once(scene, campaign, fleet, 300)
    if lose == "response":
        assert fleet.tally.statuses[200] > 300  # some reports had been counted when they came again


def test_nobody_is_turned_away_while_there_is_a_place(scene: Scene) -> None:
    """As many tokens as places, many at a time: the process's own count may run ahead, the store's decides."""
    campaign = scene.campaign(planned_users=500, pace=0)
    fleet = Fleet("127.0.0.1", scene.settings.port, campaign, scene.tokens(campaign, 500), seed=14)
    asyncio.run(fleet.run(24))
    assert set(fleet.tally.statuses) == {200, 201}
    assert_all_counted_once(scene, campaign, fleet, 500)


class Garbage:
    """Requests no honest device makes, each with the statuses that are right for it."""

    def __init__(self, campaign: str, spent: list[bytes], tickets: list[str], seed: int) -> None:
        self._campaign = campaign
        self._spent = spent
        self._tickets = tickets
        self._rng = random.Random(seed)

    def next(self) -> tuple[str, str, bytes, set[int]]:
        kind = self._rng.randrange(9)
        rng, path = self._rng, lambda route: wire.path_of(self._campaign, route)
        if kind == 0:  # duplicate
            return "POST", path("reports"), rng.choice(self._spent), {200}
        if kind == 1:  # garbled
            body = bytearray(rng.choice(self._spent))
            body[rng.randrange(len(body))] = rng.randrange(256)
            return "POST", path("reports"), bytes(body), {200, 400, 403}
        if kind == 2:  # oversized
            return "POST", path(rng.choice(["query", "reports"])), b"x" * rng.randrange(4097, 20_000), {413}
        if kind == 3:  # forged
            token = wire.token_from_bytes(rng.randbytes(16))
            return "POST", path("reports"), wire.WireReport(token, rng.choice(self._tickets), 1).to_bytes(), {403}
        if kind == 4:  # out of order: a report before its query
            token = wire.token_from_bytes(rng.randbytes(16))
            return "POST", path("reports"), wire.WireReport(token, "A" * 40, 0).to_bytes(), {403}
        if kind == 5:
            return "POST", path("query"), wire.query_request(wire.token_from_bytes(rng.randbytes(16))), {403}
        if kind == 6:
            return "POST", path("reports:batch"), rng.randbytes(rng.randrange(2000)), {400}
        if kind == 7:
            return rng.choice(["PUT", "DELETE", "PATCH"]), path("reports"), b"{}", {405}
        return "POST", wire.path_of(rng.randbytes(32).hex(), "reports"), rng.randbytes(50), {404}


def throw_garbage(scene: Scene, count: int, width: int = 24) -> tuple[Counter[int], list[float]]:
    """`count` bad requests; the statuses, and the server's memory in MiB at ten moments."""
    campaign = scene.campaign()
    fleet = Fleet("127.0.0.1", scene.settings.port, campaign, scene.tokens(campaign, 60), seed=6)
    asyncio.run(fleet.run(8))
    before = scene.stored(campaign)
    issuer = scene.tickets(campaign)
    spent, tickets = [], []
    for token, (threshold, bit) in fleet.tally.acknowledged.items():
        query = Query(threshold, issuer.coin, phase=1)
        ticket = issuer.ticket(bytes.fromhex(wire.token_hash(token)), query)
        spent.append(wire.WireReport(token, ticket, bit).to_bytes())
        tickets.append(ticket)
    garbage = Garbage(campaign, spent, tickets, seed=7)
    statuses: Counter[int] = Counter()
    wrong: list[Any] = []
    memory: list[float] = []
    server = psutil.Process(scene.server.pid)

    async def sender() -> None:
        line = Connection("127.0.0.1", scene.settings.port)
        while sum(statuses.values()) < count:
            method, path, body, right = garbage.next()
            try:
                status, found = await line.request(method, path, body)
            except ConnectionError:
                assert len(body) > 4096  # the server may close on a body it will not read
                status, found = 413, b""
            statuses[status] += 1
            if status not in right:
                wrong.append((method, path, body[:200], status, found[:200]))
            if sum(statuses.values()) * 10 // count > len(memory):
                memory.append(server.memory_info().rss / 2**20)
        line.close()

    async def run() -> None:
        await asyncio.gather(*[sender() for _ in range(width)])

    asyncio.run(run())
    assert wrong == []
    after = scene.stored(campaign)
    assert (after.spent, after.answers) == (before.spent, before.answers)
    return statuses, memory


def test_garbage_gets_the_right_refusal_and_changes_nothing(scene: Scene) -> None:
    statuses, _ = throw_garbage(scene, 3_000)
    assert not [status for status in statuses if status >= 500]
    assert {200, 400, 403, 404, 405, 413} <= set(statuses)


@pytest.mark.full
def test_a_hundred_thousand_bad_requests_leave_memory_flat(scene: Scene) -> None:
    throw_garbage(scene, 10_000)  # caches fill
    statuses, memory = throw_garbage(scene, 100_000)
    print(dict(statuses), [round(mb) for mb in memory], file=sys.stderr)
    assert not [status for status in statuses if status >= 500]
    assert max(memory) - memory[0] < 16


def test_slow_clients_do_not_hold_up_others(scene: Scene) -> None:
    """500 clients that send a byte and wait; a whole campaign goes through beside them."""
    campaign = scene.campaign()
    tokens = scene.tokens(campaign, 100)

    async def run() -> float:
        slow = []
        for _ in range(500):
            _, writer = await asyncio.open_connection("127.0.0.1", scene.settings.port)
            head = f"POST {wire.path_of(campaign, 'query')} HTTP/1.1\r\nhost: x\r\ncontent-length: 80\r\n\r\n"
            writer.write(head.encode() + b"{")
            slow.append(writer)
        fleet = Fleet("127.0.0.1", scene.settings.port, campaign, tokens, seed=8)
        began = time.perf_counter()
        await fleet.run(8)
        assert len(fleet.tally.acknowledged) == 100
        for writer in slow:
            writer.close()
        return time.perf_counter() - began

    assert asyncio.run(run()) < 20


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_log_counts_and_estimate_agree_at_every_moment(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Verified over and over while reports come in and are sealed ten at a time."""
    database = request.getfixturevalue("fresh_database") if store == "postgresql" else ""
    scene = Scene(tmp_path, database, seal_rows=10)
    scene.server.start()
    try:
        campaign = scene.campaign()
        fleet = Fleet("127.0.0.1", scene.settings.port, campaign, scene.tokens(campaign, 5_000), seed=10)

        async def run() -> dict[int, bool]:
            running = asyncio.create_task(fleet.run(4))
            found: dict[int, bool] = {}
            while len(found) < 8 and not running.done():
                answer = await asyncio.to_thread(scene.call, "GET", f"/v1/campaigns/{campaign}/verify")
                found[len(fleet.tally.acknowledged)] = answer["ok"]
            fleet.stopping = True
            await running
            return found

        found = asyncio.run(run())
    finally:
        scene.server.stop()
    assert len(found) >= 8
    assert all(found.values())


def restart_database_under_load(
    postgres: PostgresCluster, scene: Scene, restarts: int, devices: int
) -> dict[str, Any]:
    """Several API processes on one PostgreSQL that is stopped, started and killed while devices answer."""
    scene.server.start()
    try:
        campaign = scene.campaign(planned_users=devices)
        fleet = Fleet("127.0.0.1", scene.settings.port, campaign, scene.tokens(campaign, devices), seed=9)

        async def storm() -> None:
            running = asyncio.create_task(fleet.run(16))
            for turn in range(restarts):
                goal = len(fleet.tally.acknowledged) + devices // (restarts + 2)
                while len(fleet.tally.acknowledged) < goal and not running.done():
                    await asyncio.sleep(0.02)
                assert not running.done(), "the devices were done before the last restart"
                if turn % 2:
                    await asyncio.to_thread(postgres.kill)
                else:
                    await asyncio.to_thread(postgres.stop, "immediate" if turn % 4 else "fast")
                await asyncio.to_thread(postgres.start)
            await running

        asyncio.run(storm())
        verified = assert_all_counted_once(scene, campaign, fleet, devices)
        counted = re.search(r"^privquant_reports_total ([0-9.]+)$", scene.call("GET", "/metrics"), re.M)
        assert counted is not None  # of all workers together; a report that was cut is counted in the store alone
        assert devices / 2 < float(counted[1]) <= devices
        return {
            "devices": devices,
            "restarts": restarts,
            "refused or cut": fleet.tally.failures + fleet.tally.statuses[503],
            "replays": fleet.tally.replays,
            "estimate": verified["estimates"][0]["value"],
        }
    finally:
        scene.server.stop()


def test_two_processes_and_a_database_that_restarts(
    tmp_path: Path, postgres: PostgresCluster, fresh_database: str
) -> None:
    scene = Scene(tmp_path, fresh_database, workers=2)
    found = restart_database_under_load(postgres, scene, 2, 500)
    assert found["refused or cut"] > 0


@pytest.mark.full
def test_four_processes_and_twenty_restarts_of_the_database(
    tmp_path: Path, postgres: PostgresCluster, fresh_database: str
) -> None:
    found = restart_database_under_load(postgres, Scene(tmp_path, fresh_database, workers=4), 20, 20_000)
    print(json.dumps(found), file=sys.stderr)
    assert found["refused or cut"] > 20
