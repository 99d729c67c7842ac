"""A device killed between any two of its steps never gives two different bits.

At epsilon 40 the coin shows the true bit (it would not with probability 4e-18), and each run after a kill is given
the opposite value: a bit that was redrawn would differ for certain. What counts is what arrived at the server.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from loopback import Server, campaign

from privquant.device import Ledger
from privquant.device.answer_states import State
from privquant.wire import new_token

CHILD = Path(__file__).with_name("crash_child.py")


class Crashes:
    """Answers in processes that die where they are told to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kills = 0
        self._child = subprocess.Popen(
            [sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        self._child.stdin.close()
        self._child.wait(10)
        self._child.stdout.close()

    def run(
        self, ledger: Path, invite: str, value: int, kill_at: int | None, forgetful: bool = False
    ) -> dict | None:
        """What the device said, or None if it was killed."""
        order = {
            "ledger": str(ledger), "invite": invite, "value": value, "kill_at": kill_at, "forgetful": forgetful,
        }  # fmt: skip
        self._child.stdin.write(json.dumps(order) + "\n")
        self._child.stdin.flush()
        first = json.loads(self._child.stdout.readline())
        if first.get("killed"):
            self.kills += 1
            return None
        assert "bit" in first, first
        assert json.loads(self._child.stdout.readline())["status"] == 0
        return first


@pytest.fixture
def crashes(tmp_path):
    running = Crashes(tmp_path)
    yield running
    running.close()


@pytest.fixture
def server():
    with Server(campaign(epsilon=40.0)) as running:
        yield running


def answer_through(crashes, server, name, kills, forgetful=False) -> tuple[set[int], dict]:
    """One measurement, killed at each of these points in turn, then left alone; the bits that arrived."""
    ledger, token = crashes.folder / name, new_token()
    invite = server.invite(token=token)
    value = 0
    for kill_at in kills:
        crashes.run(ledger, invite, value, kill_at, forgetful)
        value = 100 - value
    last = crashes.run(ledger, invite, value, None, forgetful)
    return set(server.bits[token]), last


def points_of(crashes, server, forgetful=False) -> list[str]:
    return answer_through(crashes, server, f"whole {forgetful}", [], forgetful)[1]["points"]


def one_bit_for_each(crashes, server, plans) -> None:
    for number, kills in enumerate(plans):
        arrived, last = answer_through(crashes, server, f"{number}", kills)
        assert arrived == {last["bit"]}, kills
        (answer,) = Ledger(crashes.folder / f"{number}").answers("steps")
        assert (answer.bit, answer.state) == (last["bit"], State.ACKED)


def test_every_kind_of_point_is_hit(crashes, server):
    points = points_of(crashes, server)
    kinds = {point.split()[1] for point in points}
    assert kinds == {"open", "lock", "close", "throw", "ftruncate", "write", "fsync", "send", "receive"}
    assert points.count("within write") == 3
    assert points.count("before fsync") == 2


def test_killed_between_any_two_steps_there_is_one_bit(crashes, server):
    """The short form: around every write, sync, throw and send of the report, and every fifth point elsewhere."""
    points = points_of(crashes, server)
    near = [at for at, point in enumerate(points, 1) if point.split()[1] in ("write", "fsync", "throw", "send")]
    near = [at for at in near if at > points.index("before throw")]
    rest = [at for at in range(1, len(points) + 1, 5) if at not in near]
    plans = [[at] for at in near + rest]
    one_bit_for_each(crashes, server, plans)
    assert crashes.kills == len(plans) >= 20


@pytest.mark.full
def test_killed_at_every_point_and_again_on_the_way_back_there_is_one_bit(crashes, server):
    """The long form: every point, every point but killed twice, and three kills in a row; at least 200 kills."""
    total = len(points_of(crashes, server))
    plans = [[at] for at in range(1, total + 1)]
    plans += [[at, at] for at in range(1, total + 1)]
    plans += [[at, total // 2, at // 2 + 1] for at in range(total // 3, total + 1)]
    one_bit_for_each(crashes, server, plans)
    assert crashes.kills >= 200


def test_the_harness_finds_a_ledger_that_writes_too_late(crashes, server):
    """The twin: the same kills on a device that writes its bit down only when it is acknowledged."""
    points = points_of(crashes, server, forgetful=True)
    last_send = len(points) - points[::-1].index("after send")
    found = [
        answer_through(crashes, server, f"late {at}", [at], forgetful=True)[0]
        for at in range(last_send, last_send + 4)
    ]
    assert {0, 1} in found


# -- a power cut takes what was not synced ------------------------------------------------------------------


class Disk:
    """Notes what would survive a power cut at each moment a report leaves."""

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger
        self.durable = b""
        self.named = False
        self.at_send: list[bytes | None] = []

    def fsync(self, file: int) -> None:
        os.fsync(file)
        if os.path.samestat(os.fstat(file), os.stat(self.ledger.parent)):
            self.named = True
        else:
            self.durable = self.ledger.read_bytes()

    def send(self) -> None:
        self.at_send.append(self.durable if self.named else None)


def survived(server, device, ledger, monkeypatch, sync=True, mark=b'"bit"') -> list:
    """The ledger as a power cut would leave it at each moment a byte of a report, which has `mark`, may leave."""
    from privquant.device import ledger as module
    from privquant.device import ledger_format as records
    from privquant.device import transport

    disk = Disk(ledger)
    system = type(sys)("os")
    vars(system).update(vars(os))
    system.fsync = disk.fsync if sync else lambda file: None
    monkeypatch.setattr(module, "os", system)
    send = transport._Paced.sendall

    def sendall(self, data):
        if mark in bytes(data):
            disk.send()
        return send(self, data)

    monkeypatch.setattr(transport._Paced, "sendall", sendall)
    device.answer(server.invite(), 30)
    return [None if raw is None else records.read(raw).answers["steps"] for raw in disk.at_send]


def test_before_a_report_leaves_its_bit_survives_a_power_cut(server, make_device, ledger, monkeypatch):
    (left,) = survived(server, make_device(max_epsilon=40), ledger, monkeypatch)
    (answer,) = left.values()
    assert answer.state is State.SENT
    assert [[answer.bit]] == list(server.bits.values())


def test_a_ledger_that_does_not_sync_is_noticed(server, make_device, ledger, monkeypatch):
    assert survived(server, make_device(max_epsilon=40), ledger, monkeypatch, sync=False) == [None]
