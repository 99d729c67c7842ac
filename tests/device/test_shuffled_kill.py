"""A device killed between any two steps of a shuffled answer seals one bit once: the same bytes arrive, or none.

As in `test_kill`: at epsilon 40 the coin shows the true bit, and each run after a kill is given the opposite value.
"""

import pytest
from loopback import HASTY
from shuffled_loopback import ShuffleServer
from test_kill import Crashes, answer_through, points_of, survived

from privquant.device import Device, Ledger, Policy, Rule, ShuffleRule
from privquant.device.answer_states import State
from privquant.domain import Integers
from privquant.privacy.coin import flip_threshold
from privquant.wire import RoundTerms


@pytest.fixture
def crashes(tmp_path):
    running = Crashes(tmp_path)
    yield running
    running.close()


@pytest.fixture
def server():
    with ShuffleServer() as running:
        # A coin that keeps epsilon by itself: no number of reports is needed for it.
        running.publish(epsilon=40.0, rounds=(RoundTerms(10, flip_threshold(40.0)),) * 3)
        yield running


def one_sealed_report_for_each(crashes, server, plans) -> None:
    for number, kills in enumerate(plans):
        before = set(server.sealed)
        arrived, last = answer_through(crashes, server, f"{number}", kills)
        assert arrived == {last["bit"]}, kills
        (token,) = set(server.sealed) - before
        assert len(set(server.sealed[token])) == 1, kills
        (answer,) = Ledger(crashes.folder / f"{number}").answers("steps")
        assert (answer.bit, answer.state) == (last["bit"], State.ACKED)


def test_every_kind_of_point_is_hit(crashes, server):
    points = points_of(crashes, server)
    kinds = {point.split()[1] for point in points}
    assert kinds == {"open", "lock", "close", "throw", "seal", "ftruncate", "write", "fsync", "send", "receive"}
    assert points.count("within write") == 4
    assert points.count("before fsync") == 2
    last_write = len(points) - points[::-1].index("after fsync")
    assert points.index("after seal") < last_write < len(points) - points[::-1].index("after send")


def test_killed_between_any_two_steps_there_is_one_sealed_report(crashes, server):
    """The short form: around every write, sync, throw, seal and send of the report, every fifth point elsewhere."""
    points = points_of(crashes, server)
    kinds = ("write", "fsync", "throw", "seal", "send")
    near = [at for at, point in enumerate(points, 1) if point.split()[1] in kinds]
    near = [at for at in near if at > points.index("before write")]
    rest = [at for at in range(1, len(points) + 1, 5) if at not in near]
    plans = [[at] for at in near + rest]
    one_sealed_report_for_each(crashes, server, plans)
    assert crashes.kills == len(plans) >= 25


@pytest.mark.full
def test_killed_at_every_point_and_again_on_the_way_back_there_is_one_sealed_report(crashes, server):
    total = len(points_of(crashes, server))
    plans = [[at] for at in range(1, total + 1)]
    plans += [[at, at] for at in range(1, total + 1)]
    plans += [[at, total // 2, at // 2 + 1] for at in range(total // 3, total + 1)]
    one_sealed_report_for_each(crashes, server, plans)
    print(f"{crashes.kills} kills over {len(plans)} answers, {total} points")
    assert crashes.kills >= 200


def test_the_harness_finds_a_ledger_that_writes_too_late(crashes, server):
    points = points_of(crashes, server, forgetful=True)
    last_send = len(points) - points[::-1].index("after send")
    found = [
        answer_through(crashes, server, f"late {at}", [at], forgetful=True)[0]
        for at in range(last_send, last_send + 4)
    ]
    assert {0, 1} in found


def test_before_a_sealed_report_leaves_it_survives_a_power_cut(server, ledger, monkeypatch):
    rule = Rule(Integers(0, 100), 40, shuffle=ShuffleRule(40, 1e-6))
    device = Device(Policy({"steps": rule}, ledger), patience=HASTY)
    (left,) = survived(server, device, ledger, monkeypatch, mark=b'"sealed"')
    (answer,) = left.values()
    assert answer.state is State.SENT
    from privquant.wire import sealed_from_wire

    assert [[sealed_from_wire(answer.shuffled.sealed)]] == list(server.sealed.values())
