"""Shuffled campaigns in a real browser: sealed once, the same bytes from every tab, announcements remembered."""

import json

import pytest
from chromium import Chromium, PageServer
from loopback import reply, reset
from shuffled_loopback import ShuffleServer
from test_js_chromium import DEVICE
from test_shuffled import second

from privquant.wire import new_token


class ShufflePageServer(PageServer, ShuffleServer):
    """The shuffler of the device's tests, which also serves a page and the device's files."""


TRUSTING = DEVICE + (
    "const trusting = new Policy({ version: 1, measurements: { steps: { ...rule, max_epsilon: 1, "
    'shuffle: { max_local_epsilon: 5, max_delta: "1e-6", colluding: COLLUDING } } } });\n'
)


def answering(invite: str, value: int, colluding: float = 0) -> str:
    return (
        TRUSTING.replace("COLLUDING", str(colluding))
        + f"return new Device(trusting, {{ patience }}).answer({json.dumps(invite)}, {value}).catch(refusal);"
    )


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    running = Chromium(tmp_path_factory.mktemp("chromium")).start()
    yield running
    running.kill()


@pytest.fixture
def server():
    with ShufflePageServer() as running:
        yield running


@pytest.fixture
def tab(chromium, server):
    return chromium.open(f"{server.base}/page")


def test_one_sealed_bit_leaves_and_every_tab_resends_it(server, tab, chromium):
    token = new_token()
    invite = server.invite(token=token)
    server.on["reports"] = lambda request: (server.keep(request), reset())[1]
    impatient = answering(invite, 0).replace("total: 20, request: 10", "total: 1, request: 1")
    assert tab.run(impatient)["kind"] == "TryLater"
    del server.on["reports"]
    receipt = chromium.open(f"{server.base}/page").run(answering(invite, 100))
    assert (receipt["status"], receipt["asked"], receipt["shuffled"]["round"]) == ("already accepted", 25, 1)
    assert receipt["shuffled"]["spent_delta"] == "1e-6"
    assert len(set(server.sealed[token])) == 1
    assert set(server.bits[token]) == {receipt["bit"]}
    assert [request.what for request in server.asked()].count("query") == 1
    assert tab.run(answering(invite, 100))["status"] == "answered before"


def test_a_second_announcement_is_refused(server, tab):
    """The first was seen when the owner's share of colluders stood in the way of an answer."""
    invite = server.invite()
    assert tab.run(answering(invite, 30, colluding=0.5))["reason"] == "accounting"
    server.on["query"] = lambda request: reply(200, second(server))
    assert tab.run(answering(invite, 30))["reason"] == "second-announcement"
    del server.on["query"]
    assert tab.run(answering(invite, 30))["status"] == "accepted"


def test_a_policy_that_is_silent_on_shuffling_refuses_it(server, tab):
    code = (
        DEVICE
        + f"return new Device(policy, {{ patience }}).answer({json.dumps(server.invite())}, 5).catch(refusal);"
    )
    assert tab.run(code)["reason"] == "shuffling"
    assert not server.sealed


def test_a_part_of_the_device_that_does_not_load_is_waited_for(server, tab):
    missing = server.honest

    def lost(request):
        return reply(404, b"") if request.path.endswith("/shuffled.js") else missing(request)

    server.on["shuffled.js"] = lost
    refused = tab.run(answering(server.invite(), 30))
    assert (refused["kind"], refused["reason"]) == ("TryLater", "unreachable")
    assert not server.sealed


def test_a_ledger_of_before_is_taken_over(server, tab):
    """A database of version 1 with an answer in it: the answer counts, and shuffled ones find their place."""
    old = {
        "measurement": "steps", "campaign": "c" * 64, "bit": 1, "token": "A" * 22, "ticket": "t", "state": "acked",
    }  # fmt: skip
    made = f"""
    const open = indexedDB.open("privquant ledger", 1);
    open.onupgradeneeded = () => {{
      open.result.createObjectStore("answers", {{ keyPath: ["measurement", "campaign"] }});
      open.result.createObjectStore("secret");
    }};
    await new Promise((done) => {{ open.onsuccess = done; }});
    const step = open.result.transaction("answers", "readwrite");
    step.objectStore("answers").put({{ ...{json.dumps(old)}, coin: 4961093570831980854n, threshold: 50n }});
    await new Promise((done) => {{ step.oncomplete = done; }});
    open.result.close();
    """
    tab.run(made)
    refused = tab.run(answering(server.invite(), 30))
    assert (refused["kind"], refused["reason"]) == ("PolicyRefused", "one-answer")
    wider = answering(server.invite(), 30).replace(
        "max_epsilon: 1,", "max_epsilon: 1, lifetime_epsilon: 2, answers: 2,"
    )
    wider = wider.replace("max_local_epsilon: 5,", "max_local_epsilon: 5, lifetime_local_epsilon: 6,")
    receipt = tab.run(wider)
    assert (receipt["status"], receipt["spent"], receipt["shuffled"]["spent_local_epsilon"]) == (
        "accepted",
        "2",
        "5.9",
    )
