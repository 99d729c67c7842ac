"""The device in Node against the shipped aggregator, which is killed on the way: every answer is counted once."""

import threading

import pytest
from nodejs import JsDevice

pytest.importorskip("fastapi")

from test_with_aggregator import STUBBORN, Aggregator

from privquant.device import ServerRefused

DEVICES = 24
RULE = {"domain": {"kind": "integers", "low": 0, "high": 999}, "max_epsilon": 1}
POLICY = {"version": 1, "measurements": {"commute": RULE}}


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory):
    running = Aggregator(tmp_path_factory.mktemp("aggregator"))
    yield running
    running.server.stop()


def test_answers_given_while_the_server_is_killed_are_counted_once(aggregator, worker, tmp_path):
    invites = aggregator.invites(DEVICES)
    before, statuses = aggregator.heard(), []
    some_done = threading.Event()

    def answer_some(lane: int) -> None:
        for number in range(lane, DEVICES, 2):
            device = JsDevice(worker, POLICY, tmp_path / f"{number}", STUBBORN, None)
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


def test_an_open_link_gives_as_many_places_as_it_has(aggregator, worker, tmp_path):
    link = aggregator.call("POST", f"/v1/campaigns/{aggregator.campaign}/link", {"places": 2})["invite"]
    before = aggregator.heard()
    for number in range(2):
        device = JsDevice(worker, POLICY, tmp_path / f"{number}", STUBBORN, None)
        assert device.answer(link, 5).status == "counted"
        assert device.answer(link, 5).status == "answered before"
    with pytest.raises(ServerRefused):
        JsDevice(worker, POLICY, tmp_path / "third", STUBBORN, None).answer(link, 5)
    assert aggregator.heard() - before == 2


def test_an_open_link_with_a_code_lets_in_who_has_both(aggregator, worker, tmp_path):
    made = aggregator.call("POST", f"/v1/campaigns/{aggregator.campaign}/link", {"places": 9, "code": True})
    with pytest.raises(ServerRefused):
        JsDevice(worker, POLICY, tmp_path / "without", STUBBORN, None).answer(made["invite"], 5)
    coded = f"{made['invite']}&c={made['code']}"
    assert JsDevice(worker, POLICY, tmp_path / "with", STUBBORN, None).answer(coded, 5).status == "counted"
