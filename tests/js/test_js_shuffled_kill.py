"""A device in Node killed between any two steps of a shuffled answer seals one bit once; as in `test_js_kill`."""

import pytest
from shuffled_loopback import ShuffleServer
from test_js_kill import Crashes, answer_through, points_of

from privquant.device import Ledger
from privquant.privacy.coin import flip_threshold
from privquant.wire import RoundTerms


@pytest.fixture
def crashes(tmp_path):
    return Crashes(tmp_path)


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
        assert (answer.bit, answer.state) == (last["bit"], "acked")


def test_killed_around_every_write_and_send_there_is_one_sealed_report(crashes, server):
    """The short form: from the throw on, around every write, sync and send."""
    points = points_of(crashes, server)
    assert points.count("within write") == 4
    steps = ("write", "fsync", "throw", "send")
    start = max(at for at, point in enumerate(points) if point == "before throw")
    plans = [[at] for at, point in enumerate(points, 1) if point.split()[1] in steps and at > start]
    one_sealed_report_for_each(crashes, server, plans)
    assert crashes.kills == len(plans) >= 10


@pytest.mark.full
def test_killed_at_every_point_and_again_on_the_way_back_there_is_one_sealed_report(crashes, server):
    total = len(points_of(crashes, server))
    plans = [[at] for at in range(1, total + 1)] + [[at, at] for at in range(1, total + 1)]
    one_sealed_report_for_each(crashes, server, plans)
    print(f"{crashes.kills} kills over {len(plans)} answers, {total} points")
    assert crashes.kills >= 150
