"""The pace as devices and operators meet it: over HTTP, on a running server."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from fleet import Connection
from scene import Scene

from privquant import wire
from privquant.aggregator.devices.admission_rules import FLOOR
from privquant.device import Device, Policy, Rule, Transport
from privquant.domain import Integers


class Answer(NamedTuple):
    status: int
    body: bytes
    retry_after: str
    seconds: float


async def _ask_all(scene: Scene, campaign: str, tokens: list[str], width: int) -> dict[str, Answer]:
    found: dict[str, Answer] = {}
    left = list(tokens)

    async def line() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.settings.port)
        while left:
            token = left.pop()
            body = wire.query_request(token)
            path, began = wire.path_of(campaign, "query"), time.monotonic()
            writer.write(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length, told = (
                re.search(rf"^{name}: (\S+)\r$", head, re.M) for name in ("content-length", "retry-after")
            )
            assert length is not None
            answer = await reader.readexactly(int(length[1]))
            seconds = time.monotonic() - began
            found[token] = Answer(int(head.split()[1]), answer, told[1] if told else "", seconds)
        writer.close()

    await asyncio.gather(*[line() for _ in range(width)])
    return found


def ask_all(scene: Scene, campaign: str, tokens: list[str], width: int = 60) -> dict[str, Answer]:
    """The answer to a query of each token."""
    return asyncio.run(_ask_all(scene, campaign, tokens, width))


def asked_and_not(found: dict[str, Answer]) -> tuple[list[str], list[str]]:
    """The tokens that were asked at once, and those that were told to come back.

    A device that was asked and stays away holds its slot for 4 seconds or more, and then a held request may get it.
    """
    asked = [token for token, answer in found.items() if answer.status == 200 and answer.seconds < 3.5]
    return asked, [token for token, answer in found.items() if answer.status == 425]


def test_eight_are_asked_and_the_others_told_when_to_come_back(scene: Scene) -> None:
    campaign = scene.campaign()
    tokens = scene.tokens(campaign, 30)
    began = time.monotonic()
    found = ask_all(scene, campaign, tokens)
    given, waiting = asked_and_not(found)
    assert len(given) == FLOOR
    assert len(waiting) == 30 - FLOOR
    problem = wire.parse_problem(425, found[waiting[0]].body)
    assert (problem.code, problem.final) == ("not-yet", False)
    assert {found[token].retry_after for token in waiting} == {"1"}
    assert {token: found[token].body for token in given} == {
        token: answer.body for token, answer in ask_all(scene, campaign, given).items()
    }
    shown = scene.call("GET", f"/v1/campaigns/{campaign}")["pace"]
    assert (shown["share"], shown["at_a_time"], shown["waiting"]) == (0.15, FLOOR, len(waiting))
    assert 'privquant_refusals_total{reason="not-yet"}' in scene.call("GET", "/metrics")
    # Those who were asked stay away: their places go to others within seconds, and their reports count later.
    while True:
        found = ask_all(scene, campaign, waiting)
        if any(answer.status == 200 for answer in found.values()):
            break
        assert time.monotonic() - began < 40
        time.sleep(0.2)
    assert time.monotonic() - began > 3.5
    ticket = wire.Ticket.parse(ask_all(scene, campaign, given[:1])[given[0]].body)
    report = wire.WireReport(given[0], ticket.ticket, 1).to_bytes()

    async def send() -> tuple[int, bytes]:
        line = Connection("127.0.0.1", scene.settings.port)
        answer = await line.request("POST", wire.path_of(campaign, "reports"), report)
        line.close()
        return answer

    assert asyncio.run(send())[0] == 201


class Held:
    """A campaign whose first places are taken, and one device more, whose request is held."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.campaign = scene, scene.campaign()
        *self.first, self.late = scene.tokens(self.campaign, FLOOR + 1)
        self.given = ask_all(scene, self.campaign, self.first)
        assert {answer.status for answer in self.given.values()} == {200}

    async def begins(self) -> asyncio.Task[tuple[int, bytes]]:
        """The late one's query."""
        self.line = Connection("127.0.0.1", self.scene.settings.port)
        path, body = wire.path_of(self.campaign, "query"), wire.query_request(self.late)
        held = asyncio.create_task(self.line.request("POST", path, body))
        await asyncio.sleep(0.3)
        assert not held.done()
        return held

    async def all_report(self) -> None:
        line = Connection("127.0.0.1", self.scene.settings.port)
        for token, answer in self.given.items():
            report = wire.WireReport(token, wire.Ticket.parse(answer.body).ticket, 1).to_bytes()
            assert (await line.request("POST", wire.path_of(self.campaign, "reports"), report))[0] == 201
        line.close()

    def late_has_a_query(self) -> bool:
        late = self.scene.tickets(self.campaign).id(bytes.fromhex(wire.token_hash(self.late)))
        return late in self.scene.stored(self.campaign).pinned


def test_who_is_held_is_asked_the_moment_a_place_opens(scene: Scene) -> None:
    one = Held(scene)

    async def play() -> tuple[int, float]:
        held = await one.begins()
        await one.all_report()
        began = time.monotonic()
        status, _ = await held
        one.line.close()
        return status, time.monotonic() - began

    status, seconds = asyncio.run(play())
    assert status == 200
    assert seconds < 1.5
    assert one.late_has_a_query()


def test_a_token_whose_request_is_held_is_told_at_once_when_it_asks_again(scene: Scene) -> None:
    one = Held(scene)

    async def play() -> None:
        held = await one.begins()
        again = (await _ask_all(scene, one.campaign, [one.late], 1))[one.late]
        assert (again.status, again.retry_after) == (425, "1")
        assert again.seconds < 1.5
        await one.all_report()
        assert (await held)[0] == 200
        one.line.close()

    asyncio.run(play())


def test_who_hangs_up_while_it_is_held_takes_no_place(scene: Scene) -> None:
    one = Held(scene)

    async def play() -> None:
        held = await one.begins()
        one.line.close()
        await asyncio.gather(held, return_exceptions=True)
        await asyncio.sleep(0.2)
        await one.all_report()
        await asyncio.sleep(0.5)

    asyncio.run(play())
    assert scene.stored(one.campaign).counted == FLOOR
    assert not one.late_has_a_query()


def test_who_is_held_when_the_campaign_is_paused_gets_no_query(scene: Scene) -> None:
    one = Held(scene)

    async def play() -> int:
        held = await one.begins()
        await asyncio.to_thread(scene.call, "POST", f"/v1/campaigns/{one.campaign}/pause")
        await one.all_report()
        status, _ = await held
        one.line.close()
        return status

    assert asyncio.run(play()) == 425
    assert not one.late_has_a_query()


def test_a_server_that_stops_lets_go_whom_it_holds(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.server.start()
    one = Held(scene)

    async def play() -> tuple[int, float]:
        held = await one.begins()
        began = time.monotonic()
        stopping = asyncio.create_task(asyncio.to_thread(scene.server.stop))
        status, _ = await held
        seconds = time.monotonic() - began
        assert await stopping == 0
        return status, seconds

    status, seconds = asyncio.run(play())
    assert status == 425
    assert seconds < 1.5


def test_without_a_pace_everybody_is_asked_at_once(scene: Scene) -> None:
    campaign = scene.campaign(pace=0)
    found = ask_all(scene, campaign, scene.tokens(campaign, 30))
    assert {answer.status for answer in found.values()} == {200}
    assert scene.call("GET", f"/v1/campaigns/{campaign}")["pace"] is None


def test_waves_apply_first(scene: Scene) -> None:
    campaign = scene.campaign(waves={"count": 2, "seconds": 3_600})
    found = ask_all(scene, campaign, scene.tokens(campaign, 60))
    given, waiting = asked_and_not(found)
    assert len(given) == FLOOR
    told = [int(found[token].retry_after) for token in waiting]
    assert {seconds == 1 for seconds in told} == {True, False}
    assert all(seconds == 1 or 3_000 < seconds <= 3_600 for seconds in told)


def test_real_devices_that_come_all_at_once_are_all_counted(scene: Scene, tmp_path: Path) -> None:
    """With the patience they ship with; and the queries they got were in more batches than one."""
    devices = 80
    campaign = scene.campaign(planned_users=devices)
    lines = scene.call("POST", f"/v1/campaigns/{campaign}/invites", {"count": devices}).splitlines()[1:]
    policies = [Policy({"commute-minutes": Rule(Integers(0, 999), 1.0)}, tmp_path / str(k)) for k in range(devices)]
    transport = Transport()
    with ThreadPoolExecutor(devices) as threads:
        receipts = list(
            threads.map(
                lambda k: Device(policies[k], transport=transport).answer(lines[k], 10 * k % 999), range(devices)
            )
        )
    transport.close()
    assert {receipt.status for receipt in receipts} == {"counted"}
    assert len({receipt.asked for receipt in receipts}) > 8
    assert scene.stored(campaign).counted == devices
    assert scene.call("GET", f"/v1/campaigns/{campaign}/verify")["ok"]


def test_a_thousand_claims_by_one_client_take_a_few_places_and_not_for_good(scene: Scene) -> None:
    campaign = scene.campaign(planned_users=1_000)
    link = wire.Invite.parse(scene.call("POST", f"/v1/campaigns/{campaign}/link", {"places": 1_000})["invite"]).link
    assert link is not None
    secret: str = link
    statuses: Counter[int] = Counter()

    async def claim_some() -> None:
        line = Connection("127.0.0.1", scene.settings.port)
        for _ in range(4):
            body = wire.Claim(secret, wire.token_hash(wire.new_token())).to_bytes()
            status, _ = await line.request("POST", wire.path_of(campaign, "claims"), body)
            statuses[status] += 1
        line.close()

    async def claim_all() -> None:
        await asyncio.gather(*[claim_some() for _ in range(250)])

    began = time.monotonic()
    asyncio.run(claim_all())
    assert sum(statuses.values()) == 1_000
    ticks = (time.monotonic() - began) / 4.0
    assert set(statuses) == {201, 425}
    assert FLOOR <= statuses[201] <= FLOOR * (1 + ticks)
    assert scene.call("GET", f"/v1/campaigns/{campaign}")["open_link"]["taken"] == statuses[201]


@pytest.mark.parametrize(("wrong", "reason"), [(0.001, "pace must be 0"), (1.5, "pace"), (-1, "pace")])
def test_a_pace_that_cannot_be_kept_is_refused(scene: Scene, wrong: float, reason: str) -> None:
    with pytest.raises(Exception, match=reason):
        scene.campaign(pace=wrong)
