"""A device in Node killed between any two of its steps never gives two different bits.

At epsilon 40 the coin shows the true bit (it would not with probability 4e-18), and each run after a kill is given
the opposite value: a bit that was redrawn would differ for certain. What counts is what arrived at the server.
"""

import json
import signal
from pathlib import Path

import pytest
from loopback import Server, campaign
from nodejs import HERE, run_node

from privquant.device import Device, Ledger, Policy, Rule
from privquant.domain import Integers
from privquant.wire import new_token


class Crashes:
    """Answers in Node processes that die where they are told to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kills = 0

    def run(self, ledger: Path, invite: str, value: int, kill_at: int | None, forgetful: bool) -> dict | None:
        """What the device said, or None if it was killed."""
        order = {
            "ledger": str(ledger), "invite": invite, "value": value, "kill_at": kill_at, "forgetful": forgetful,
        }  # fmt: skip
        done = run_node(HERE / "crash_child.mjs", json.dumps(order))
        if done.returncode == -signal.SIGKILL:
            self.kills += 1
            return None
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def crashes(tmp_path):
    return Crashes(tmp_path)


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
        assert (answer.bit, answer.state) == (last["bit"], "acked")


def test_every_kind_of_point_is_hit(crashes, server):
    points = points_of(crashes, server)
    kinds = {point.split()[1] for point in points}
    assert kinds == {"open", "lock", "close", "throw", "ftruncate", "write", "fsync", "send", "receive"}
    assert points.count("within write") == 3
    assert points.count("before fsync") == 2


def test_killed_between_any_two_steps_there_is_one_bit(crashes, server):
    """The short form: around every write, sync and send from the throw on, and every eighth point elsewhere."""
    points = points_of(crashes, server)
    steps = ("write", "fsync", "throw", "send", "receive")
    near = [at for at, point in enumerate(points, 1) if point.split()[1] in steps]
    near = [at for at in near if at > points.index("before write") - 4]
    rest = [at for at in range(1, len(points) + 1, 8) if at not in near]
    plans = [[at] for at in near + rest]
    one_bit_for_each(crashes, server, plans)
    assert crashes.kills == len(plans) >= 20


@pytest.mark.full
def test_killed_at_every_point_and_again_on_the_way_back_there_is_one_bit(crashes, server):
    """The long form: every point, every point but killed twice, and three kills in a row; at least 150 kills."""
    total = len(points_of(crashes, server))
    plans = [[at] for at in range(1, total + 1)]
    plans += [[at, at] for at in range(1, total + 1)]
    plans += [[at, total // 2, at // 2 + 1] for at in range(total // 3, total + 1)]
    one_bit_for_each(crashes, server, plans)
    print(f"{crashes.kills} kills over {len(plans)} answers, {total} points")
    assert crashes.kills >= 150


def test_a_killed_node_is_resumed_by_python_with_its_bit(crashes, server):
    """Both keep one ledger: what one drew the other resends."""
    points = points_of(crashes, server)
    last_write = [at for at, point in enumerate(points, 1) if point == "after write"]
    for number, kill_at in enumerate(last_write):
        ledger, token = crashes.folder / f"shared {number}", new_token()
        crashes.run(ledger, server.invite(token=token), 0, kill_at, False)
        rule = Rule(Integers(0, 100), max_epsilon=40)
        receipt = Device(Policy({"steps": rule}, ledger)).answer(server.invite(token=token), 100)
        assert receipt.bit == 1, points[kill_at - 1]
        assert set(server.bits[token]) == {1}
    assert crashes.kills == 3


def test_the_harness_finds_a_ledger_that_writes_too_late(crashes, server):
    """The twin: the same kills on a device that writes its bit down only when it is acknowledged."""
    points = points_of(crashes, server, forgetful=True)
    last_receive = len(points) - points[::-1].index("after receive")
    found = [
        answer_through(crashes, server, f"late {at}", [at], forgetful=True)[0]
        for at in range(last_receive, last_receive + 3)
    ]
    assert {0, 1} in found
