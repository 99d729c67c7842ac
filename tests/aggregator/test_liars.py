"""Real devices, and liars who come together at the end, on the real service: the answer holds, and an alarm."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fleet import Connection
from scene import Scene, manifest

from privquant import wire
from privquant.aggregator.campaign.alarms import alarms, judged
from privquant.aggregator.store.base import Counts
from privquant.demo.local import rank_error
from privquant.device import Device, Patience, Policy, Rule, Transport
from privquant.domain import Integers
from privquant.messages import Query
from privquant.privacy.coin import flip_threshold
from privquant.privacy.poisoning import shift

USERS = 4_000  # with fewer, liars who come one by one are left out, but not always with an alarm
LIARS = USERS // 20
LAST = 9_999
STUBBORN = Patience(total=60, request=20, first_pause=0.05, longest_pause=0.5)


def _answer_all(folder: Path, invites: Sequence[str], values: Sequence[int], lanes: int = 8) -> None:
    """Each the real device with a ledger of its own, `lanes` of them at a time."""
    policy = Policy({"commute-minutes": Rule(Integers(0, LAST), 1)})
    local = threading.local()

    def person(number: int) -> None:
        if not hasattr(local, "transport"):
            local.transport = Transport()
        device = Device(policy, ledger=folder / f"{number}", transport=local.transport, patience=STUBBORN)
        assert device.answer(invites[number], values[number]).status == "counted"

    with ThreadPoolExecutor(lanes) as pool:
        list(pool.map(person, range(len(invites))))


async def _lie(scene: Scene, campaign: str, tokens: Sequence[str], bit: int) -> None:
    """What no honest device does: the same bit, whatever is asked, and no coin."""
    line = Connection("127.0.0.1", scene.settings.port)
    for token in tokens:
        asked = wire.path_of(campaign, "query"), wire.query_request(token)
        while (answer := await line.request("POST", *asked))[0] in (425, 503):  # its turn has not come
            await asyncio.sleep(0.1)
        status, body = answer
        assert status == 200
        report = wire.WireReport(token, wire.Ticket.parse(body).ticket, bit).to_bytes()
        status, _ = await line.request("POST", wire.path_of(campaign, "reports"), report)
        assert status == 201
    line.close()


def _told_alike(scene: Scene) -> None:
    """The list and the metrics count the same alarms, once no snapshot turns between the two looks."""
    deadline = time.monotonic() + 20
    while True:
        metrics = str(scene.server.call("GET", "/metrics"))
        gauge = re.search(r"^privquant_alarmed_campaigns (\S+)$", metrics, re.MULTILINE)
        running = [line for line in scene.call("GET", "/v1/campaigns") if line["state"] != "closed"]
        assert gauge is not None
        if float(gauge[1]) == sum(line["alarm"] for line in running):
            return
        assert time.monotonic() < deadline
        time.sleep(0.2)


def attacked(scene: Scene, folder: Path, **options: Any) -> tuple[float, dict[str, Any], dict[str, Any]]:
    """(rank error, the campaign as shown, its line in the list) after 95 % honest devices and then 5 % liars."""
    form = {"domain": {"kind": "integers", "low": "0", "high": str(LAST)}, "planned_users": USERS}
    campaign = scene.campaign(**form, options=options)
    text = scene.call("POST", f"/v1/campaigns/{campaign}/invites", {"count": USERS})
    invites = text.splitlines()[1:]
    honest = USERS - LIARS
    rng = np.random.default_rng(7)
    values = np.clip(rng.lognormal(7.2, 0.6, honest), 0, LAST).astype(int).tolist()
    _answer_all(folder, invites[:honest], values)
    tokens = [str(wire.Invite.parse(invite).token) for invite in invites[honest:]]
    asyncio.run(_lie(scene, campaign, tokens, bit=0))
    _told_alike(scene)
    scene.call("POST", f"/v1/campaigns/{campaign}/close")  # what runs is shown as of a snapshot
    shown = scene.call("GET", f"/v1/campaigns/{campaign}")
    line = next(line for line in scene.call("GET", "/v1/campaigns") if line["id"] == campaign)
    return rank_error(values, shown["estimates"][0]["value"], 0.5), shown, line


def test_five_percent_of_liars_at_the_end_are_found_out(scene: Scene, tmp_path: Path) -> None:
    """Devices throw their own coins, so this cannot be seeded. 300 runs of the lab with 2,400 users, in batches of
    2 %, were never off by twice the bound, and all raised the alarm (without the guard .25 were off); evidence
    grows as the number of users does.
    """
    bound = shift(LIARS / USERS, epsilon=1.0).high
    off, shown, line = attacked(scene, tmp_path)
    assert shown["heard"] == USERS
    assert off < 2 * bound
    assert any("contradict" in alarm for alarm in shown["alarms"])
    assert line["alarm"] is True
    assert "left out of the answer" in " ".join(shown["estimates"][0]["notes"])
    assert shown["estimates"][0]["certain"] is None


@pytest.mark.full
def test_without_the_guard_nobody_hears_of_them(scene: Scene, tmp_path: Path) -> None:
    """The twin: the same devices and liars, and a campaign that keeps no epochs."""
    _, shown, line = attacked(scene, tmp_path, guard=False)
    assert shown["heard"] == USERS
    assert not any("contradict" in alarm for alarm in shown["alarms"])
    assert line["alarm"] is False


def counted(polluted: Sequence[int], epochs: int = 16) -> list[Counts]:
    """Counts of a run that asked everywhere alike, in which the epochs named said no to everything."""
    rng, coin = np.random.default_rng(3), flip_threshold(1.0)
    rows = []
    for epoch in range(epochs):
        for threshold in range(50, 1000, 50):
            rate = 0.27 if epoch in polluted else 0.27 + 0.46 * threshold / 1000
            rows.append(Counts(Query(threshold, coin, 1 + 3 * epoch), 8, int(rng.binomial(8, rate))))
    return rows


def test_an_alarm_names_the_part_of_the_run_and_honest_counts_raise_none() -> None:
    guarded = manifest(options=(("guard", True), ("spread", "0.25")), planned_users=2_500)
    assert alarms(guarded, counted(())) == []
    (said,) = alarms(guarded, counted((6, 7)))
    assert "part 7, 8 of 16 of the run is left out of the answer" in said
    # rates that honest devices could have, at every threshold: only their time gives them away
    before = manifest(options=(("spread", "0.25"),), planned_users=2_500)
    assert alarms(before, counted((6, 7))) == []
    assert judged(before, counted((6, 7))) is None
