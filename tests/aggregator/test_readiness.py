"""What a server says of itself is true: a disk that takes nothing, damaged pages, a folder that was moved away.

Each on a running server. The disk is filled by a limit on how large this one process may write a file; the server's
log stays below it.
"""

from __future__ import annotations

import json
import resource
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from scene import PAGE, Scene, damage

from privquant import wire
from privquant.aggregator.store.base import Unavailable
from privquant.errors import PrivquantError
from privquant.server import causes, logs
from privquant.server.causes import cause_of
from privquant.server.health import PROBE_SECONDS, Health

SOON = 20 * PROBE_SECONDS
"""Far longer than a probe takes, for a machine that is busy."""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    scene.server.start()
    yield scene
    scene.server.kill()


def readiness(scene: Scene) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(scene.server.admin_url + "/readyz", timeout=30) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["detail"]


def until(found: Callable[[], Any], wanted: Any) -> None:
    give_up = time.monotonic() + SOON
    while (last := found()) != wanted:
        assert time.monotonic() < give_up, f"{last!r} where {wanted!r} was waited for"
        time.sleep(0.1)


def device(scene: Scene, campaign: str, route: str, body: bytes) -> int:
    request = urllib.request.Request(scene.server.url + wire.path_of(campaign, route), data=body, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def said(scene: Scene, event: str) -> list[str]:
    lines = [json.loads(line) for line in scene.log.read_text().splitlines() if line.startswith("{")]
    return [line["cause"] for line in lines if line["event"] == event]


def test_a_disk_that_takes_nothing_is_said_once_and_so_is_its_end(own: Scene) -> None:
    campaign = own.campaign()
    early, late = own.tokens(campaign, 2)
    until(lambda: readiness(own), (200, ""))
    resource.prlimit(own.server.pid, resource.RLIMIT_FSIZE, (PAGE - 1, resource.RLIM_INFINITY))
    until(lambda: readiness(own), (503, causes.NO_WRITES))
    assert device(own, campaign, "query", wire.query_request(early)) == 503
    time.sleep(2 * PROBE_SECONDS)
    assert said(own, "trouble") == [causes.NO_WRITES]
    resource.prlimit(own.server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    until(lambda: readiness(own), (200, ""))
    assert device(own, campaign, "query", wire.query_request(late)) == 200
    assert said(own, "trouble") == said(own, "recovered") == [causes.NO_WRITES]


def test_damaged_pages_are_said_when_a_commit_meets_them_and_stay_said(own: Scene) -> None:
    """A probe's own write goes through all the while: only the commit, and the check after it, see the damage."""
    campaign = own.campaign()
    (token,) = own.tokens(campaign, 1)
    own.server.stop()
    damage(own.settings.sqlite_file, "token")
    own.server.start()
    until(lambda: readiness(own), (200, ""))
    assert device(own, campaign, "query", wire.query_request(token)) == 503
    until(lambda: readiness(own), (503, causes.DAMAGED))
    time.sleep(2 * PROBE_SECONDS)
    assert readiness(own) == (503, causes.DAMAGED)
    assert said(own, "trouble") == [causes.DAMAGED]


def test_a_folder_that_was_moved_takes_no_report(own: Scene, tmp_path: Path) -> None:
    campaign = own.campaign()
    (token,) = own.tokens(campaign, 1)
    own.settings.data.rename(tmp_path / "elsewhere")
    assert device(own, campaign, "query", wire.query_request(token)) == 503
    until(lambda: readiness(own)[0], 503)
    assert "moved" in readiness(own)[1]
    (tmp_path / "elsewhere").rename(own.settings.data)
    until(lambda: readiness(own), (200, ""))
    assert device(own, campaign, "query", wire.query_request(token)) == 200


def test_asking_for_readiness_touches_nothing(scene: Scene) -> None:
    def turns() -> int:
        with sqlite3.connect(scene.settings.sqlite_file) as db:
            return int(db.execute("PRAGMA user_version").fetchone()[0])

    began, before = time.monotonic(), turns()
    for _ in range(200):
        assert readiness(scene) == (200, "")
    assert turns() - before <= 2 + (time.monotonic() - began) / PROBE_SECONDS
    until(lambda: turns() > before, True)


def test_a_campaign_past_its_deadline_is_over_and_closes_after_the_grace(tmp_path: Path) -> None:
    scene = Scene(tmp_path, lease_minutes=2, grace_minutes=1)  # the lease is longer, so it is the grace
    scene.server.start()
    try:
        now = int(time.time())
        just = scene.campaign(opens=now - 900, deadline=now - 90)
        long_ago = scene.campaign(opens=now - 900, deadline=now - 121)
        running = scene.campaign()

        def states() -> dict[str, str]:
            return {line["id"]: line["state"] for line in scene.call("GET", "/v1/campaigns")}

        until(states, {just: "over", long_ago: "closed", running: "open"})
        assert scene.call("GET", f"/v1/campaigns/{just}")["state"] == "over"
        assert scene.call("GET", f"/v1/campaigns/{just}/export")["state"] == "over"
        acts = [line for line in scene.call("GET", "/v1/audit") if line["act"] == "close"]
        assert [(a["operator"], a["campaign"], a["detail"]) for a in acts] == [
            ("server", long_ago, "the deadline has passed")
        ]
    finally:
        scene.server.kill()


# -- causes and health by themselves -----------------------------------------------------------------------


def test_a_full_database_is_a_full_disk(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "x")
    db.execute("PRAGMA max_page_count=2")
    db.execute("CREATE TABLE first (x)")
    with pytest.raises(sqlite3.OperationalError) as full:
        db.execute("CREATE TABLE second (x)")
    wrapped = Unavailable("the SQLite store did not take the transaction")
    wrapped.__cause__ = full.value
    assert cause_of(wrapped) == cause_of(full.value) == causes.FULL


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OSError(28, "No space left on device"), causes.FULL),
        (PermissionError(13, "no"), causes.READ_ONLY),
        (ConnectionRefusedError(111, "no"), causes.GONE),
        (TimeoutError(), causes.GONE),
        (asyncpg.DiskFullError("x"), causes.FULL),
        (asyncpg.IndexCorruptedError("x"), causes.DAMAGED),
        (asyncpg.InvalidPasswordError("x"), "the database does not accept this user or password"),
        (PrivquantError("in our own words"), "in our own words"),
        (ValueError("what a request said"), "unforeseen: ValueError"),
    ],
)
def test_causes_are_said_in_words(error: Exception, cause: str) -> None:
    assert cause_of(error) == cause


def test_one_cause_in_two_parts_is_said_once_and_ends_with_the_last(caplog: pytest.LogCaptureFixture) -> None:
    health, full = Health(), OSError(28, "")
    with caplog.at_level("INFO", logs.logger.name):
        health.failed("publish", full)
        assert health.cause is None  # reports can still be counted
        health.failed("probe", full)
        health.failed("probe", full)
        assert health.cause == causes.FULL
        health.well("publish")
        assert [record.message for record in caplog.records] == ["trouble"]
        health.failed("probe", TimeoutError())
        health.well("probe")
        health.well("probe")
    assert [record.message for record in caplog.records] == ["trouble", "recovered", "trouble", "recovered"]
    assert health.cause is None
