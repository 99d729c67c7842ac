from pathlib import Path

import pytest
from loopback import HASTY, Server, campaign, harmless

from privquant.device import Device, Ledger, Policy, Refused, Rule
from privquant.domain import Integers


@pytest.fixture
def server():
    with Server(campaign()) as running:
        yield running


@pytest.fixture
def ledger(tmp_path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def make_device(ledger):
    """A device that may be asked for `steps`: 0 .. 100, epsilon at most 1, once. Keywords change the rule."""

    def make(path=None, patience=HASTY, transport=None, allow_http=False, **changes) -> Device:
        rule = Rule(**{"domain": Integers(0, 100), "max_epsilon": 1, **changes})
        policy = Policy({"steps": rule}, path or ledger, allow_http)
        return Device(policy, patience=patience, transport=transport)

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
