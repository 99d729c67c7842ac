"""The fixtures of the Python device's tests, with the device in JavaScript in its place."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "device"))

from loopback import HASTY, Server, campaign, harmless
from nodejs import JsDevice, Worker

from privquant.device import Ledger, Refused
from privquant.device.consent import policy_form
from privquant.domain import Integers


@pytest.fixture(scope="session")
def node_worker():
    running = Worker()
    yield running
    running.close()


@pytest.fixture
def worker(node_worker):
    """Which Node process answers; a module may put another in its place."""
    return node_worker


@pytest.fixture
def server():
    with Server(campaign()) as running:
        yield running


@pytest.fixture
def ledger(tmp_path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def make_device(worker, ledger):
    """A device that may be asked for `steps`: 0 .. 100, epsilon at most 1, once. Keywords change the rule."""

    def make(path=None, patience=HASTY, transport=None, allow_http=False, **changes) -> JsDevice:
        rule = {"domain": Integers(0, 100), "max_epsilon": 1, **changes}
        rule["domain"] = policy_form(rule["domain"])
        policy = {"version": 1, "allow_http": allow_http, "measurements": {"steps": rule}}
        return JsDevice(worker, policy, path or ledger, patience, transport)

    return make


@pytest.fixture
def refused(server, make_device, ledger):
    """Let the device answer; it must refuse for this reason, and be none the worse for it."""

    def check(kind, reason, invite=None, drawn=False, patience=HASTY, **rule) -> Refused:
        with pytest.raises(kind) as refusal:
            make_device(patience=patience, **rule).answer(invite or server.invite(), 30)
        assert refusal.value.reason in reason.split(" or ")
        assert refusal.value.text.isprintable()
        assert bool(Ledger(ledger).answers("steps")) is drawn
        harmless(server, ledger)
        return refusal.value

    return check
