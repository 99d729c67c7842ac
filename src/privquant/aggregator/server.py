"""`privquant serve`: one process, or on PostgreSQL several that share one port."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO
from urllib.parse import urlsplit

import uvicorn

from privquant._compiling import announce
from privquant.aggregator import logs
from privquant.aggregator.settings import Settings, settings_from
from privquant.errors import InvalidInput

_FD = "PRIVQUANT_LISTENING_FD"
_DATABASE_SECONDS = 15.0


def run(settings: Settings) -> int:
    """Serve until told to stop (SIGTERM, SIGINT); requests in hand are finished first. The exit code."""
    if settings.database:
        _database_answers(settings)
    if settings.workers > 1:
        _can_listen(settings)
        return _supervise(settings)
    guard = _alone(settings)
    try:
        _can_listen(settings)
        return _serve(settings)
    finally:
        if guard is not None:
            guard.close()


def _serve(settings: Settings, listening: int | None = None) -> int:
    from privquant.aggregator.api import build_api
    from privquant.aggregator.asgi import AsgiApp
    from privquant.aggregator.service import Service

    logs.configure(settings.log_level)
    announce(logs.say)
    # The thread that commits waits for the interpreter's lock twice a group, by default up to 5 ms each time.
    sys.setswitchinterval(0.0005)
    service = Service(settings)
    config = uvicorn.Config(
        AsgiApp(service, build_api(service)),
        host=settings.host,
        port=settings.port,
        fd=listening,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=20,
        timeout_keep_alive=30,
        limit_concurrency=10_000,
        backlog=4_096,
        lifespan="on",
    )
    server = _Server(config)
    server.run()
    return 0 if server.started else 1


class _Server(uvicorn.Server):
    """A server whose graceful end is a success: being told to stop is not an error to pass on."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _database_answers(settings: Settings) -> None:
    """A database that is not there is said in one line, and not by a traceback in the log."""
    from privquant.aggregator.store.migrate import open_engine

    async def look() -> None:
        engine = open_engine(settings)
        try:
            async with asyncio.timeout(_DATABASE_SECONDS), engine.connect():
                pass
        finally:
            await engine.dispose()

    try:
        asyncio.run(look())
    except Exception as error:
        reason = "it took too long" if isinstance(error, TimeoutError) else (str(error).splitlines() or [""])[0]
        where = urlsplit(settings.database)
        raise InvalidInput(
            f"the database at {where.hostname or 'the local socket'} does not let this server in: {reason}"
        ) from error


def _can_listen(settings: Settings) -> None:
    """Said in plain words before anything is started; the server itself would only log it."""
    if settings.port == 0:
        return
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((settings.host, settings.port))
        except OSError as error:
            raise InvalidInput(
                f"cannot listen on {settings.host}, port {settings.port}: {error.strerror or error}"
            ) from error


def _alone(settings: Settings) -> IO[str] | None:
    """On SQLite: the lock of the one server this folder may have. Goes with the process, however it ends."""
    if settings.database:
        return None
    try:
        settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        guard = open(settings.data / "server.lock", "w")  # noqa: SIM115  # held until the server ends
    except OSError as error:
        raise InvalidInput(f"{settings.data} cannot be the data folder: {error.strerror}") from error
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        guard.close()
        raise InvalidInput(f"another server runs on {settings.data}; several need PostgreSQL") from error
    return guard


def _supervise(settings: Settings) -> int:
    """Start the workers on one listening socket; start anew one that dies; stop all when told to."""
    logs.configure(settings.log_level)
    listening = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((settings.host, settings.port))
    listening.listen(4_096)
    listening.set_inheritable(True)
    samples = Path(tempfile.mkdtemp(prefix="privquant-metrics-"))
    environment = os.environ | settings.environment() | {"PRIVQUANT_WORKERS": "1"}
    environment |= {_FD: str(listening.fileno()), "PROMETHEUS_MULTIPROC_DIR": str(samples)}

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "privquant.aggregator.server"]
        return subprocess.Popen(command, env=environment, pass_fds=[listening.fileno()])

    workers = [start() for _ in range(settings.workers)]
    stopping = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        for worker in workers:
            worker.terminate()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    while not stopping:
        for place, worker in enumerate(workers):
            try:
                code = worker.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                continue
            if not stopping:
                logs.say("a worker ended and is started anew", code=code)
                time.sleep(0.2)
                workers[place] = start()
    for worker in workers:
        worker.wait()
    shutil.rmtree(samples, ignore_errors=True)
    return 0


if __name__ == "__main__":
    inherited = os.environ.get(_FD)
    if inherited is None:
        raise SystemExit(run(settings_from()))
    raise SystemExit(_serve(settings_from(), int(inherited)))
