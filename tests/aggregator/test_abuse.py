"""Who means harm slows honest devices by less than half, and costs no memory: forged batches, slow bodies, silence.

Each check on a server has a twin in its long form, the same server with the bound taken away, which fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvicorn
from abuser import BATCH, abuse, head
from fleet import Connection, Fleet
from scene import Scene
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from privquant import wire
from privquant.aggregator.devices import routes
from privquant.server import http_server, request_bodies
from privquant.server.replies import RequestRefused
from privquant.server.request_bodies import BodyMemory, RequestBody

SERVE = "; from privquant.aggregator.server import main; raise SystemExit(main())"
UNBOUND_BATCHES = (
    "from privquant.aggregator.devices import routes as b; b.REST, b.PIECE, b.FORGED = 0.0, 10**9, 10**9"
)
UNBOUND_BODIES = "from privquant.server import request_bodies as b; b.BodyMemory.__init__.__defaults__ = (1 << 50,)"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[[str], Scene]]:
    """A server of one's own, after some statements."""
    running: list[Scene] = []

    def start(statements: str) -> Scene:
        scene = Scene(tmp_path, command=("-c", statements + SERVE))
        scene.server.start()
        running.append(scene)
        return scene

    yield start
    for scene in running:
        scene.server.kill()


# -- forged batches ------------------------------------------------------------------------------------------


def rate(scene: Scene, campaign: str, tokens: list[str], seconds: float) -> float:
    """Devices a second that ask and report, 16 at a time."""
    fleet = Fleet("127.0.0.1", scene.settings.port, campaign, tokens)

    async def run() -> int:
        running = asyncio.create_task(fleet.run(16, replays=0.0))
        await asyncio.sleep(seconds)
        done = len(fleet.tally.acknowledged)
        fleet.stopping = True
        await running
        return done

    return asyncio.run(run()) / seconds


def until_idle(scene: Scene) -> None:
    """What was sent before the abuser was stopped is worked off."""
    quick = 0
    while quick < 5:
        began = time.perf_counter()
        scene.call("GET", "/healthz")
        quick = quick + 1 if time.perf_counter() - began < 0.1 else 0
        time.sleep(0.05)


def share_left(scene: Scene, log: Path, *, turns: int, seconds: float) -> float:
    """Honest devices a second under four connections of forged batches, as a share of what it is without.

    In turns, because the machine has other work too: the median of the shares of all turns.
    """
    campaign = scene.campaign(pace=0)
    tokens = iter(scene.tokens(campaign, 40_000))
    most = int(2_000 * seconds)
    alone, attacked = [], []

    def measure() -> float:
        return rate(scene, campaign, [next(tokens) for _ in range(most)], seconds)

    measure()
    with abuse(scene.settings.port, "batches", campaign, 4, log) as pid:
        for _ in range(turns):
            attacked.append(measure())
            os.kill(pid, signal.SIGSTOP)
            until_idle(scene)
            alone.append(measure())
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.5)
    print(f"alone {alone}, attacked {attacked}", file=sys.stderr)
    return statistics.median(under / without for under, without in zip(attacked, alone))


def test_forged_batches_leave_honest_devices_half_their_pace(scene: Scene, tmp_path: Path) -> None:
    share = share_left(scene, tmp_path / "abuse", turns=5, seconds=0.8)
    assert "200" in (tmp_path / "abuse").read_text().split()  # it was taken in, and answered
    assert share > 0.5


@pytest.mark.full
def test_without_the_bounds_forged_batches_would_starve_them(
    served: Callable[[str], Scene], tmp_path: Path
) -> None:
    assert share_left(served(UNBOUND_BATCHES), tmp_path / "abuse", turns=2, seconds=3.0) < 0.5


def send_batch(scene: Scene, campaign: str, reports: list[dict[str, Any]]) -> list[int]:
    async def send() -> bytes:
        line = Connection("127.0.0.1", scene.settings.port)
        body = json.dumps({"reports": reports}).encode()
        status, found = await line.request("POST", wire.path_of(campaign, "reports:batch"), body)
        line.close()
        assert status == 200
        return found

    found = json.loads(asyncio.run(send()))["results"]
    types = {result["type"] for result in found if result["status"] == 429}
    assert types <= {wire.PROBLEM_TYPE + "too-many-requests"}
    return [result["status"] for result in found]


def genuine(scene: Scene, campaign: str, count: int) -> list[dict[str, Any]]:
    tokens = scene.tokens(campaign, count)

    async def ask() -> list[str]:
        line = Connection("127.0.0.1", scene.settings.port)
        found = []
        for token in tokens:
            _, body = await line.request("POST", wire.path_of(campaign, "query"), wire.query_request(token))
            found.append(wire.Ticket.parse(body).ticket)
        line.close()
        return found

    return [{"token": t, "ticket": ticket, "bit": 1} for t, ticket in zip(tokens, asyncio.run(ask()))]


def forged(count: int) -> list[dict[str, Any]]:
    return [
        {"token": wire.token_from_bytes(bytes([k % 256, k // 256] * 8)), "ticket": "A" * 40, "bit": 0}
        for k in range(count)
    ]


def test_one_liar_does_not_void_the_reports_of_others(scene: Scene) -> None:
    """What follows many forged reports is not looked at, and may be sent again; each report is counted once."""
    campaign = scene.campaign(pace=0)
    honest = genuine(scene, campaign, 20)
    statuses = send_batch(scene, campaign, honest[:5] + forged(3 * routes.PIECE) + honest[5:])
    assert statuses[:5] == [201] * 5
    assert set(statuses[5:]) == {403, 429}
    assert statuses[-15:] == [429] * 15
    assert not wire.PROBLEMS["too-many-requests"].final
    assert send_batch(scene, campaign, honest) == [200] * 5 + [201] * 15
    assert scene.stored(campaign).counted == 20


def test_a_few_forged_reports_among_many_stop_nothing(scene: Scene) -> None:
    """Two of five, and more in all than would stop it were they more than half."""
    campaign = scene.campaign(pace=0)
    honest, liars = genuine(scene, campaign, 120), iter(forged(80))
    mixed = [each for k in range(0, 120, 3) for each in (*honest[k : k + 3], next(liars), next(liars))]
    statuses = send_batch(scene, campaign, mixed)
    assert (statuses.count(201), statuses.count(403)) == (120, 80)
    assert routes.FORGED < 80


def test_a_full_batch_of_genuine_reports_is_counted(scene: Scene) -> None:
    campaign = scene.campaign(pace=0)
    honest = genuine(scene, campaign, 450)
    began = time.perf_counter()
    assert send_batch(scene, campaign, honest) == [201] * 450
    assert time.perf_counter() - began < 20
    assert len(forged(BATCH)) == wire.BATCH_LIMIT


# -- bodies --------------------------------------------------------------------------------------------------


async def answer_to(port: int, request: bytes) -> tuple[int, bool]:
    """The status, and whether the connection can be used again."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(20):
        lines = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return int(lines.split()[1]), b"connection: close" not in lines.lower()


def test_the_campaign_is_looked_up_before_the_body(scene: Scene) -> None:
    """Only the header is sent: whoever waited for the body would wait for ever."""
    unknown, known = wire.path_of("0" * 64, "reports:batch"), wire.path_of(scene.campaign(), "reports:batch")
    port = scene.settings.port
    assert asyncio.run(answer_to(port, head(unknown, wire.MAX_BATCH_REQUEST))) == (404, False)
    assert asyncio.run(answer_to(port, head(known, wire.MAX_BATCH_REQUEST + 1))) == (413, False)
    assert asyncio.run(answer_to(port, head("/v1/campaigns", 1 << 20))) == (413, False)
    assert asyncio.run(answer_to(port, head(unknown, 3) + b"abc")) == (404, True)
    chunked = f"POST {unknown} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    assert asyncio.run(answer_to(port, chunked)) == (404, False)


def growth(scene: Scene, campaign: str, connections: int, seconds: float, log: Path) -> float:
    """MiB by which the server grows while slow bodies of 4 MiB come in."""
    server = psutil.Process(scene.server.pid)
    before, most = server.memory_info().rss, 0
    with abuse(scene.settings.port, "slow", campaign, connections, log):
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            most = max(most, server.memory_info().rss)
            time.sleep(0.1)
    grown = (most - before) / 2**20
    print(f"{connections} slow bodies: {grown:.0f} MiB more", file=sys.stderr)
    return grown


def test_slow_bodies_leave_memory_flat(scene: Scene, tmp_path: Path) -> None:
    """60 of 4 MiB would be 240 MiB. To a campaign that is not there they cost nothing, to one that is, so much."""
    campaign = scene.campaign(pace=0)
    assert growth(scene, "0" * 64, 60, 4.0, tmp_path / "log") < 24
    assert growth(scene, campaign, 60, 4.0, tmp_path / "log") < 24 + request_bodies.MOST_HELD / 2**20


@pytest.mark.full
def test_without_the_bound_slow_bodies_would_fill_the_memory(
    served: Callable[[str], Scene], tmp_path: Path
) -> None:
    scene = served(UNBOUND_BODIES)
    assert growth(scene, scene.campaign(), 60, 8.0, tmp_path / "log") > 150


def body_of(memory: BodyMemory, *parts: int) -> RequestBody:
    """The body of a request that comes in parts of so many bytes."""
    sent = iter(parts)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": bytes(next(sent)), "more_body": True}

    return RequestBody({"method": "POST", "headers": [(b"transfer-encoding", b"chunked")]}, receive, memory)


async def taken_in(body: RequestBody) -> None:
    """All that was sent of it by now."""
    with pytest.raises(RuntimeError, match="StopIteration"):
        await body.read(1 << 20)


def test_memory_of_bodies_is_given_back() -> None:
    memory = BodyMemory(10_000)

    async def fill() -> None:
        with body_of(memory, 4_096) as small, body_of(memory, 4_096, 4_904) as first:
            await taken_in(small)  # is not counted
            await taken_in(first)
            with body_of(memory, 4_000, 1_000) as second, pytest.raises(RequestRefused) as refused:
                await second.read(1 << 20)
            assert refused.value.reply.status == 429
            assert refused.value.reply.retry_after is not None
        with body_of(memory, 10_000) as third:
            await taken_in(third)

    asyncio.run(fill())


# -- connections, in process ---------------------------------------------------------------------------------


@asynccontextmanager
async def listening(base: type[Any], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """A server of the bounded protocol whose application answers /quick and nothing else, ever."""
    monkeypatch.setattr(http_server, "LONGEST_SILENCE", 0.4)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != "/quick":
            await asyncio.sleep(60)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    class Server(uvicorn.Server):
        async def on_tick(self, counter: int) -> bool:
            http_server.sweep(self.server_state.connections, 1.2)
            return await super().on_tick(counter)

    protocol = http_server.bounded(base)
    config = uvicorn.Config(app, http=protocol, ws="none", log_config=None, lifespan="off", port=0)
    server = Server(config)
    server.capture_signals = lambda: asynccontextless()  # type: ignore[method-assign]
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    server.force_exit = True
    await running


class asynccontextless:  # noqa: N801  # stands for a context manager of signals, of which a test has none
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


async def lasts(port: int, *parts: bytes, pause: float = 0.0) -> float:
    """Seconds until the server closes a connection on which these are sent; 5 if it does not."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.monotonic()

    async def send() -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)

    sending = asyncio.create_task(send())
    try:
        async with asyncio.timeout(5):
            while await reader.read(1 << 16):
                pass
    except TimeoutError:
        return 5.0
    except OSError:
        pass
    finally:
        sending.cancel()
        writer.close()
    return time.monotonic() - began


@pytest.mark.parametrize("base", [HttpToolsProtocol, H11Protocol])
def test_a_connection_without_end_is_closed(base: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    quick = b"GET /quick HTTP/1.1\r\nhost: x\r\n\r\n"

    async def run() -> dict[str, float]:
        async with listening(base, monkeypatch) as port:
            found = await asyncio.gather(
                lasts(port),
                lasts(port, *[b"GET / HTTP/1.1\r\n"], *[b"x: y\r\n"] * 100, pause=0.05),
                lasts(port, quick, quick, b"GET /qu", pause=0.1),
                lasts(port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"),
                lasts(port, b"GET / HTTP/1.1\r\nx: ", *[b"y" * 20_000] * 100, pause=0.01),
                lasts(port, *[quick] * 20, pause=0.1),
            )
            names = ("silent", "slow header", "slow second header", "no answer", "long header", "busy")
            return dict(zip(names, found))

    found = asyncio.run(run())
    assert found["silent"] < 1.5
    assert found["slow header"] < 1.5
    assert 0.4 < found["slow second header"] < 2
    assert 1.2 < found["no answer"] < 3
    assert found["long header"] < 0.4
    assert found["busy"] > 2  # as long as it asks, and is answered
