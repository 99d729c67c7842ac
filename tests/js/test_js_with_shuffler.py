"""Devices in Node beside Python's in one round of the shipped shuffler: the aggregator counts what they sealed."""

import pytest
from nodejs import JsDevice

pytest.importorskip("fastapi")

from test_with_shuffler import STUBBORN, Parties, counted, invites, policy

from privquant.device import Device, Ledger, Transport
from privquant.device.consent import policy_form

NODES = 8


@pytest.fixture(scope="module")
def parties(tmp_path_factory):
    running = Parties(tmp_path_factory.mktemp("parties"))
    running.start()
    yield running
    running.kill()


def test_a_round_of_both_devices_is_counted(parties, worker, tmp_path):
    manifest = parties.campaign()
    size, terms = manifest.shuffle.rounds[0].batch, manifest.shuffle
    links = invites(parties, manifest, size)
    trust = {"max_local_epsilon": 10, "max_delta": terms.delta, "shuffler_key": terms.key}
    rule = {"domain": policy_form(manifest.domain), "max_epsilon": manifest.epsilon, "shuffle": trust}
    form = {"version": 1, "measurements": {manifest.measurement: rule}}
    for number in range(NODES):
        receipt = JsDevice(worker, form, tmp_path / f"{number}", STUBBORN, None).answer(links[number], number * 100)
        assert (receipt.status, receipt.shuffled["round"]) == ("accepted", 0)
    with Transport() as transport:
        for number in range(NODES, size):
            device = Device(policy(manifest), ledger=tmp_path / f"{number}", transport=transport, patience=STUBBORN)
            assert device.answer(links[number], number % 500).status == "accepted"
    parties.until(lambda: parties.shown(manifest.id)["shuffle"]["counted_rounds"] == 1)
    answers = [Ledger(tmp_path / f"{number}").find(manifest.id) for number in range(size)]
    assert counted(parties, manifest)[0] == (size, sum(answer.bit for answer in answers))
