"""Several workers on one port: as quick as one, one key among them, and none without its supervisor."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest
from fleet import Fleet
from scene import Scene

from privquant import wire
from privquant.aggregator.settings import Settings
from privquant.server.keys import KeyFolder
from privquant.server.process import ServerFailed, ServerProcess, free_port

NAGLE_AND_DELAYED_ACK = 0.040
"""Seconds that a small answer in two parts takes where TCP_NODELAY is not set, whatever the machine."""


@pytest.fixture
def pair(tmp_path: Path, fresh_database: str) -> Iterator[Scene]:
    scene = Scene(tmp_path, fresh_database, workers=2)
    scene.server.start()
    yield scene
    scene.server.stop()


def workers_of(scene: Scene) -> list[psutil.Process]:
    return psutil.Process(scene.server.pid).children()


def until(what: Callable[[], bool], seconds: float = 60.0) -> bool:
    give_up = time.monotonic() + seconds
    while not what():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.05)
    return True


def quickest(scene: Scene, port: int, path: str, requests: int) -> float:
    """Seconds of the quickest request after the first over one kept connection."""
    line = http.client.HTTPConnection(scene.settings.host, port, timeout=30)
    took = []
    for _ in range(requests):
        began = time.perf_counter()
        line.request("GET", path)
        assert line.getresponse().read()
        took.append(time.perf_counter() - began)
    line.close()
    return min(took[1:])


def test_a_kept_connection_does_not_wait_for_acknowledgements(pair: Scene) -> None:
    manifest = wire.path_of(pair.campaign(), "manifest")
    assert quickest(pair, pair.settings.port, manifest, 40) < NAGLE_AND_DELAYED_ACK / 2
    assert quickest(pair, pair.settings.admin_port, "/healthz", 40) < NAGLE_AND_DELAYED_ACK / 2


def test_the_first_start_makes_one_key(pair: Scene) -> None:
    assert len(workers_of(pair)) == 2
    assert len(list(pair.settings.keys.glob("*.pem"))) == 1


def test_processes_that_start_at_once_make_one_key(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from privquant.server.keys import KeyFolder; print('.', flush=True);"
        "sys.stdin.read(); KeyFolder(pathlib.Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "keys")]
    racers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(6)]
    for racer in racers:
        assert racer.stdout is not None
        racer.stdout.readline()
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.close()
    assert [racer.wait(60) for racer in racers] == [0] * 6
    assert len(list((tmp_path / "keys").glob("*.pem"))) == 1


def test_a_killed_supervisor_leaves_no_worker_and_a_free_port(pair: Scene) -> None:
    workers = workers_of(pair)
    pair.server.kill()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert alive == []
    pair.server.start()
    assert len(workers_of(pair)) == 2


def test_a_killed_worker_is_started_anew_and_nothing_is_lost(pair: Scene) -> None:
    campaign = pair.campaign()
    fleet = Fleet("127.0.0.1", pair.settings.port, campaign, pair.tokens(campaign, 200))

    async def kill_on_the_way() -> None:
        running = asyncio.create_task(fleet.run(8))
        while len(fleet.tally.acknowledged) < 50:
            await asyncio.sleep(0.01)
        os.kill(workers_of(pair)[0].pid, signal.SIGKILL)
        await running

    asyncio.run(kill_on_the_way())
    found = pair.audit(campaign, fleet.tally)
    assert found == {"acknowledged": 200, "lost": 0, "doubled": 0, "missing": 0, "uncounted": 0}
    assert until(lambda: len(workers_of(pair)) == 2)


def test_a_worker_that_cannot_start_ends_the_server_with_one_line(tmp_path: Path, fresh_database: str) -> None:
    """The database lets its user in and lets it make no tables, so each worker fails when it migrates."""

    async def weaken() -> None:
        db = await asyncpg.connect(fresh_database)
        await db.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        await db.execute("DROP ROLE IF EXISTS weak")
        await db.execute("CREATE ROLE weak LOGIN")
        await db.close()

    asyncio.run(weaken())
    weak = fresh_database.replace("privquant@", "weak@")
    ports = {"port": free_port(), "admin_port": free_port()}
    settings = Settings(data=tmp_path / "data", database=weak, workers=3, **ports)
    KeyFolder(settings.keys)  # without keys the supervisor itself would look for campaigns, and fail first
    with pytest.raises(ServerFailed, match="code 2"):
        ServerProcess(settings, log=tmp_path / "log").start()
    lines = [line for line in (tmp_path / "log").read_text().splitlines() if not line.startswith("{")]
    assert lines == ["privquant: a worker cannot start: the database does not allow this user to do that"]


def test_a_supervisor_killed_with_words_unread_is_gone_all_the_same() -> None:
    """The line is then reset, not closed; a worker that only looked for its end stayed for ever."""
    code = (
        "import socket, sys; from privquant.aggregator.workers import SupervisorLine;"
        "line = SupervisorLine(socket.socket(fileno=int(sys.argv[1]))); line.say_ready(); print('.', flush=True);"
        "import time; time.sleep(60)"
    )
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-c", code, str(theirs.fileno())]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[theirs.fileno()])
    assert worker.stdout is not None
    worker.stdout.readline()
    ours.close()  # with the word of being ready unread in it
    assert worker.wait(20) == -signal.SIGTERM
