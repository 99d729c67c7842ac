"""kill -9 of shuffler and aggregator under load: acknowledged = forwarded + dropped, exactly, and nothing twice."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from parties import Parties, Sealing
from wiretap import Wiretap

from privquant.cli.campaign import differing_batches

HERE = Path(__file__).parent
LARGER = {"kind": "integers", "low": "0", "high": "99999"}


async def storm(parties: Parties, fleet: Sealing, kills: int, rng: random.Random, between: int) -> None:
    """Kill and restart the two in turn, at random moments while devices answer."""
    devices = asyncio.create_task(fleet.run(24, replays=0.02))
    for turn in range(2 * kills):
        before = len(fleet.acknowledged)
        while len(fleet.acknowledged) < before + between:  # the load is back
            if devices.done():
                break
            await asyncio.sleep(0.01)
        await asyncio.sleep(rng.uniform(0.0, 0.3))
        victim = parties.shuffler if turn % 2 == 0 else parties.scene.server
        await asyncio.to_thread(victim.kill)
        await asyncio.to_thread(victim.start)
    await devices


def audit(parties: Parties, campaign: str, fleet: Sealing) -> dict[str, Any]:
    """What devices know against what both parties have, round by round and bit by bit."""
    books, verified = parties.books(campaign), parties.verified(campaign)
    known = fleet.acknowledged
    exported = parties.scene.call("GET", f"/v1/campaigns/{campaign}/export")["rounds"]
    counted = [row for row in exported if row["state"] == "counted"]
    ones = {row["phase"] - 1: row["ones"] for row in verified_counts(parties, campaign)}
    sent, bits = Counter(each.round for each in known), Counter(each.round for each in known if each.bit)
    forwarded = {row["round"]: row["reports"] for row in books["rounds"] if row["state"] == "forwarded"}
    return {
        "acknowledged": len(known),
        "kept": books["acknowledged"],
        "forwarded": books["forwarded"],
        "dropped": books["dropped"],
        "waiting": books["waiting"],
        "counted": sum(row["reports"] for row in counted),
        "opened": sum(row["opened"] for row in counted),
        "lost": len(known) - books["forwarded"] - books["dropped"] - books["waiting"],
        "wrong_rounds": sum(abs(sent[number] - reports) for number, reports in forwarded.items()),
        "wrong_ones": sum(abs(bits[number] - ones.get(number, 0)) for number in forwarded),
        "replays": fleet.replays,
        "retaken": fleet.retaken,
        "cut": fleet.failures,
        "late": fleet.late,
        "verify": verified["ok"],
        "differ": differing_batches(verified, json.loads(json.dumps(books))),
    }


def verified_counts(parties: Parties, campaign: str) -> list[dict[str, Any]]:
    return list(parties.scene.call("GET", f"/v1/campaigns/{campaign}/export")["counts"])


def assert_exact(found: dict[str, Any], least: int) -> None:
    assert found["acknowledged"] >= least
    assert found["cut"] > 0  # kills hit requests on their way, or nothing was tested
    assert found["acknowledged"] == found["kept"] == found["forwarded"] + found["dropped"] + found["waiting"]
    assert found["forwarded"] == found["counted"] == found["opened"]
    assert (found["lost"], found["wrong_rounds"], found["wrong_ones"], found["retaken"]) == (0, 0, 0, 0)
    assert found["verify"]
    assert found["differ"] == []


def settled(parties: Parties, campaign: str) -> bool:
    """Nothing is under way between the two."""
    books = parties.books(campaign)
    counted = {row["round"] for row in parties.verified(campaign)["rounds"] if row["state"] != "announced"}
    over = {row["round"] for row in books["rounds"] if row["state"] in ("forwarded", "dropped")}
    closing = any(row["state"] in ("closing", "closed") for row in books["rounds"])
    return not closing and counted == over


def kill_both(parties: Parties, kills: int, seed: int, between: int, **campaign: Any) -> dict[str, Any]:
    parties.start()
    try:
        manifest = parties.campaign(**campaign)
        tokens = parties.tokens(manifest.id, manifest.planned_users + 200)
        fleet = Sealing(parties, manifest, tokens, seed=seed)
        asyncio.run(storm(parties, fleet, kills, random.Random(seed), between))
        parties.until(lambda: settled(parties, manifest.id), 60)
        return audit(parties, manifest.id, fleet)
    finally:
        parties.kill()


def test_both_survive_kills(tmp_path: Path) -> None:
    assert_exact(kill_both(Parties(tmp_path), 2, seed=1, between=100), 1_400)


def test_both_survive_kills_with_the_aggregator_on_postgresql(tmp_path: Path, database: str) -> None:
    assert_exact(kill_both(Parties(tmp_path, database=database), 1, seed=2, between=100), 1_400)


def test_the_harness_finds_losses_when_acknowledged_before_commit(tmp_path: Path) -> None:
    """The twin: the same kills on a shuffler that answers 50 ms before it commits.

    A kill misses the window with a probability of about 0.2, so all four miss it in 2 runs of a thousand or fewer.
    """
    parties = Parties(tmp_path, command=(str(HERE / "early_shuffler.py"),), lease_seconds=1)
    parties.start()
    try:
        manifest = parties.campaign()
        fleet = Sealing(parties, manifest, parties.tokens(manifest.id, manifest.planned_users), seed=3)

        async def shuffler_only() -> None:
            devices = asyncio.create_task(fleet.run(24))
            for _ in range(4):
                before = len(fleet.acknowledged)
                while len(fleet.acknowledged) < before + 50 and not devices.done():
                    await asyncio.sleep(0.001)
                await asyncio.to_thread(parties.shuffler.kill)
                await asyncio.to_thread(parties.shuffler.start)
            fleet.stopping = True
            await devices

        asyncio.run(shuffler_only())
        books = parties.books(manifest.id)
        kept = books["forwarded"] + books["dropped"] + books["waiting"]
        assert len(fleet.acknowledged) > kept
    finally:
        parties.kill()


@pytest.mark.parametrize("victim", ["shuffler", "aggregator"])
def test_a_kill_between_forward_and_acknowledge(victim: str, tmp_path: Path) -> None:
    """The batch of round 0 is counted, its answer is lost with the victim; sent again, it counts once."""
    parties = Parties(tmp_path)
    parties.start()
    tap = Wiretap(parties.scene.settings.port)
    parties.aggregator = tap.url
    process = parties.shuffler if victim == "shuffler" else parties.scene.server
    fell: list[int] = []

    def fall(path: str, status: int, answer: bytes) -> bool:
        if path.endswith("/batches") and not fell:
            process.kill()
            fell.append(status)
            return True
        return False

    tap.after = fall
    try:
        manifest = parties.campaign()
        first = manifest.shuffle.rounds[0].batch
        fleet = Sealing(parties, manifest, parties.tokens(manifest.id, first))

        async def fill() -> None:
            devices = asyncio.create_task(fleet.run(24))
            while not fell:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(process.start)
            await devices

        asyncio.run(fill())
        parties.until(lambda: settled(parties, manifest.id), 60)
        assert fell == [201]
        sent = [body for path, _, body in tap.requests if path.endswith("/batches")]
        assert len(sent) >= 2
        assert len(set(sent)) == 1  # the same bytes
        found = audit(parties, manifest.id, fleet)
        assert found["forwarded"] == found["counted"] == found["acknowledged"] == first
        assert (found["wrong_ones"], found["verify"], found["differ"]) == (0, True, [])
    finally:
        tap.close()
        parties.kill()


@pytest.mark.full
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_thirty_kills_of_each(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    database = request.getfixturevalue("database") if store == "postgresql" else ""
    parties = Parties(tmp_path, database=database)
    found = kill_both(
        parties, 30, seed=30, between=200, planned_users=20_000, domain=LARGER, shuffle={"delta": 1e-6}
    )
    print(store, found, file=sys.stderr)
    assert_exact(found, 10_000)
