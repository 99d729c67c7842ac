from pathlib import Path

import pytest
from loopback import HASTY, Server, campaign

from privquant.device import Device, Policy, Rule
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
