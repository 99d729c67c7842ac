"""The process that computes pictures: says what the server would, is replaced when it dies, and outlives nobody."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import urllib.request
from pathlib import Path

import psutil
import pytest
from scene import Scene, manifest

from privquant.aggregator.campaign.protocol import CampaignProtocol, estimates_of
from privquant.aggregator.operators.estimator import Estimator, EstimatorFailed, drawn
from privquant.aggregator.store.base import Counts
from privquant.domain import LogGrid
from privquant.messages import Query


def some_counts(asked) -> list[Counts]:
    """Reports as if half of all users lay below each threshold that is asked first."""
    return [Counts(query, users, users // 2) for query, users in CampaignProtocol(asked).next_queries()]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"quantiles": (0.1, 0.5, 0.9)},
        {"domain": LogGrid(1, 1e6, 40)},
        {"protocol": "bayeslearn", "options": (("update", "counts"),)},
    ],
)
def test_it_says_what_the_server_says(changes):
    asked = manifest(**changes)

    async def ask():
        estimator = Estimator()
        try:
            return [await estimator.drawn(asked, counts) for counts in ([], some_counts(asked))]
        finally:
            await estimator.stop()

    for found, counts in zip(asyncio.run(ask()), ([], some_counts(asked))):
        assert [each.to_dict() for each in found.estimates] == [
            each.to_dict() for each in estimates_of(asked, counts)
        ]
        assert found == drawn(asked, counts)
        json.dumps(found.drawings, allow_nan=False)
        assert len(found.drawings) == (0 if asked.protocol == "bayeslearn" else len(asked.quantiles))


def test_a_child_that_died_is_replaced_and_a_fault_is_said():
    asked = manifest()

    async def ask():
        estimator, others = Estimator(), set(multiprocessing.active_children())
        try:
            first = await estimator.drawn(asked, [])
            assert await estimator.drawn(asked, []) is first  # the same counts: not computed again
            [child] = set(multiprocessing.active_children()) - others
            os.kill(child.pid, signal.SIGKILL)
            with pytest.raises(EstimatorFailed, match="did not answer"):
                await estimator.drawn(asked, some_counts(asked))
            again = await estimator.drawn(asked, some_counts(asked))
            wrong = Counts(Query(10**9, asked.flip_threshold), 5, 2)
            with pytest.raises(EstimatorFailed, match="no estimate could be computed"):
                await estimator.drawn(asked, [wrong])
            return again
        finally:
            await estimator.stop()

    assert asyncio.run(ask()).estimates[0].users > 0


def test_it_ends_with_a_server_that_was_killed(tmp_path: Path):
    scene = Scene(tmp_path)
    scene.server.start()
    path = f"{scene.server.admin_url}/v1/campaigns/{scene.campaign()}/picture"
    request = urllib.request.Request(path, headers={"Authorization": f"Bearer {scene.token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert json.load(answer)["heard"] == 0
    children = psutil.Process(scene.server.pid).children()
    assert any(child.nice() >= 10 for child in children)
    scene.server.kill()
    assert psutil.wait_procs(children, timeout=20)[1] == []


def test_it_is_ended_in_the_middle_of_its_work():
    async def leave_it():
        estimator, others = Estimator(), set(multiprocessing.active_children())
        asked = manifest()
        await estimator.drawn(asked, [])
        [started] = set(multiprocessing.active_children()) - others
        child = psutil.Process(started.pid)
        child.suspend()
        work = asyncio.create_task(estimator.drawn(asked, some_counts(asked)))
        await asyncio.sleep(0.1)
        work.cancel()
        await estimator.stop()
        child.resume()
        return await asyncio.to_thread(psutil.wait_procs, [child], 20)

    assert asyncio.run(leave_it())[1] == []
