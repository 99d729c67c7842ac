"""The shipped device against the shipped aggregator, which is killed on the way: every answer is counted once."""

import asyncio
import sqlite3
import threading

import pytest

from privquant.device import Device, Patience, Policy, Rule, ServerRefused, Transport
from privquant.domain import Integers
from privquant.wire import Invite, new_token

pytest.importorskip("fastapi")

from privquant.aggregator.operators.accounts import add_operator
from privquant.aggregator.settings import Settings
from privquant.aggregator.store.migrate import opened
from privquant.server.process import ServerProcess, free_port

DEVICES = 60
POLICY = Policy({"commute": Rule(Integers(0, 999), 1)})
STUBBORN = Patience(total=60, request=10, first_pause=0.05, longest_pause=0.5)


class Aggregator:
    """A real server in a process of its own, with one campaign."""

    def __init__(self, folder):
        settings = Settings(data=folder / "data", port=free_port(), admin_port=free_port())
        self.server = ServerProcess(settings, log=folder / "server.log")
        self._token = asyncio.run(self._operator(settings))
        self.server.start()
        form = {
            "measurement": "commute",
            "question": "How long is your way to work, in minutes?",
            "domain": {"kind": "integers", "low": "0", "high": "999"},
            "epsilon": 1.0,
            "planned_users": 1000,
        }
        self.campaign = self.call("POST", "/v1/campaigns", form)["id"]

    @staticmethod
    async def _operator(settings) -> str:
        async with opened(settings) as engine:
            return await add_operator(engine, "tester")

    def call(self, method, path, form=None):
        return self.server.call(method, path, form, token=self._token)

    def invites(self, count: int) -> list[str]:
        text = self.call("POST", f"/v1/campaigns/{self.campaign}/invites", {"count": count})
        return text.splitlines()[1:]

    def heard(self) -> int:
        """Exact, which the API does not tell while the campaign runs."""
        with sqlite3.connect(self.server.settings.sqlite_file) as db:
            return db.execute("SELECT count(*) FROM spent").fetchone()[0]


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory):
    running = Aggregator(tmp_path_factory.mktemp("aggregator"))
    yield running
    running.server.stop()


def test_answers_given_while_the_server_is_killed_are_counted_once(aggregator, tmp_path):
    invites = aggregator.invites(DEVICES)
    before, statuses = aggregator.heard(), []
    some_done = threading.Event()

    def answer_some(lane: int) -> None:
        with Transport() as transport:
            for number in range(lane, DEVICES, 2):
                device = Device(POLICY, ledger=tmp_path / f"{number}", transport=transport, patience=STUBBORN)
                statuses.append(device.answer(invites[number], number * 16).status)
                if len(statuses) >= DEVICES // 4:
                    some_done.set()

    lanes = [threading.Thread(target=answer_some, args=(lane,)) for lane in range(2)]
    for lane in lanes:
        lane.start()
    assert some_done.wait(60)
    aggregator.server.kill()
    aggregator.server.start()
    for lane in lanes:
        lane.join()
    assert len(statuses) == DEVICES
    assert set(statuses) <= {"counted", "already counted"}
    assert aggregator.heard() - before == DEVICES


def test_a_token_nobody_issued_is_refused(aggregator, tmp_path):
    invite = Invite.parse(aggregator.invites(1)[0])
    forged = Invite(invite.base, invite.campaign_id, invite.key_fingerprint, new_token())
    with pytest.raises(ServerRefused):
        Device(POLICY, ledger=tmp_path / "ledger").answer(forged, 5)


def test_an_open_link_gives_as_many_places_as_it_has(aggregator, tmp_path):
    link = aggregator.call("POST", f"/v1/campaigns/{aggregator.campaign}/link", {"places": 3})["invite"]
    before = aggregator.heard()
    for number in range(3):
        device = Device(POLICY, ledger=tmp_path / f"{number}")
        assert device.answer(link, 5).status == "counted"
        assert device.answer(link, 5).status == "answered before"
    with pytest.raises(ServerRefused):
        Device(POLICY, ledger=tmp_path / "fourth").answer(link, 5)
    assert aggregator.heard() - before == 3
