"""The shipped device against the shipped shuffler and aggregator, the shuffler killed on the way.

One round is filled by real devices: every answer is counted once, and what the aggregator counts is what their
ledgers say was sealed.
"""

import sqlite3
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

sys.path.append(str(Path(__file__).parents[1] / "shuffler"))
sys.path.append(str(Path(__file__).parents[1] / "aggregator"))

from parties import Parties

from privquant.device import Device, Ledger, Patience, Policy, Rule, ShuffleRule, Transport, TryLater
from privquant.wire import Invite, fingerprint

STUBBORN = Patience(total=60, request=10, first_pause=0.05, longest_pause=0.5)
ONCE = Patience(total=5, request=5, first_pause=30)


@pytest.fixture(scope="module")
def parties(tmp_path_factory):
    running = Parties(tmp_path_factory.mktemp("parties"))
    running.start()
    yield running
    running.kill()


def invites(parties, manifest, count: int) -> list[str]:
    mark = fingerprint(manifest.issuer)
    tokens = parties.tokens(manifest.id, count)
    return [Invite(parties.settings.url, manifest.id, mark, token).to_url() for token in tokens]


def policy(manifest) -> Policy:
    trust = ShuffleRule(10, manifest.shuffle.delta, shuffler_key=manifest.shuffle.key)
    return Policy({manifest.measurement: Rule(manifest.domain, manifest.epsilon, shuffle=trust)})


def counted(parties, manifest) -> dict[int, tuple[int, int]]:
    """Reports and ones by round, as the aggregator has them."""
    rows = parties.scene.call("GET", f"/v1/campaigns/{manifest.id}/export")["counts"]
    return {row["phase"] - 1: (row["answered"], row["ones"]) for row in rows}


def test_a_round_of_real_devices_is_counted_once_and_the_next_is_announced(parties, tmp_path):
    manifest = parties.campaign()
    size = manifest.shuffle.rounds[0].batch
    links, rules, statuses = invites(parties, manifest, size + 1), policy(manifest), []
    some_done = threading.Event()

    def answer_some(lane: int) -> None:
        with Transport() as transport:
            for number in range(lane, size, 3):
                device = Device(rules, ledger=tmp_path / f"{number}", transport=transport, patience=STUBBORN)
                statuses.append(device.answer(links[number], number % 500).status)
                if len(statuses) >= size // 3:
                    some_done.set()

    lanes = [threading.Thread(target=answer_some, args=(lane,)) for lane in range(3)]
    for lane in lanes:
        lane.start()
    assert some_done.wait(60)
    parties.shuffler.kill()
    parties.shuffler.start()
    for lane in lanes:
        lane.join()
    assert len(statuses) == size
    assert set(statuses) <= {"accepted", "already accepted"}
    parties.until(lambda: parties.shown(manifest.id)["shuffle"]["counted_rounds"] == 1)
    answers = [Ledger(tmp_path / f"{number}").find(manifest.id) for number in range(size)]
    assert {answer.shuffled.round for answer in answers} == {0}
    assert counted(parties, manifest)[0] == (size, sum(answer.bit for answer in answers))
    # The next device is asked in the next round, along the chain.
    late = Device(rules, ledger=tmp_path / "next", patience=STUBBORN)
    assert late.answer(links[size], 5).shuffled.round == 1
    with sqlite3.connect(parties.settings.file) as db:
        dumped = "\n".join(db.iterdump())
    for answer in answers:
        assert answer.shuffled.sealed not in dumped
        assert answer.token not in dumped


def test_a_shuffler_that_is_down_is_tried_again(parties, tmp_path):
    manifest = parties.campaign()
    (link,) = invites(parties, manifest, 1)
    rules, ledger = policy(manifest), tmp_path / "ledger"
    parties.shuffler.kill()
    with pytest.raises(TryLater):
        Device(rules, ledger=ledger, patience=ONCE).answer(link, 5)
    parties.shuffler.start()
    device = Device(rules, ledger=ledger, patience=STUBBORN)
    receipt = device.answer(link, 5)
    assert (receipt.status, receipt.shuffled.round) == ("accepted", 0)
    assert device.answer(link, 5).status == "answered before"
