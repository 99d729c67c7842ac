"""The frame of both servers, the aggregator and the shuffler: a service behind uvicorn, its socket, its folder.

Nothing of it is an API: what cannot be had (a port, a folder, a lock) is said in one line before anything starts.
"""

from __future__ import annotations

import errno
import fcntl
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from privquant.errors import InvalidInput, PrivquantError
from privquant.server import connections
from privquant.server.causes import cause_of


class StartFailed(PrivquantError):
    """The server cannot start."""


class Runs(Protocol):
    """What is run around an HTTP server."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def http_config(app: Any, most_connections: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=connections.bounded(AutoHTTPProtocol),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=20,
        timeout_keep_alive=30,
        limit_concurrency=most_connections,
        backlog=4_096,
        lifespan="off",
    )


class ServiceServer(uvicorn.Server):
    """Runs a service around the HTTP server. Being told to stop is its success: no signal is passed on."""

    def __init__(self, config: uvicorn.Config, service: Runs) -> None:
        super().__init__(config)
        self._runs = service
        self.failure: Exception | None = None

    def run_on(self, listening: socket.socket) -> None:
        """Serve until told to stop; `StartFailed` in one line if the service cannot start."""
        self.run([listening])
        if self.failure is not None:
            raise StartFailed(cause_of(self.failure)) from self.failure

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await self._runs.start()
        except Exception as error:
            self.failure, self.should_exit = error, True
            return
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        await self.end_beside()
        await self._runs.stop()

    async def end_beside(self) -> None:
        """End what else this process serves, before the service ends."""

    async def on_tick(self, counter: int) -> bool:
        if counter % connections.SWEEP_TICKS == 0:
            connections.sweep(self.server_state.connections, connections.LONGEST_REQUEST)
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def bound(host: str, port: int, patience: float = 0.0) -> socket.socket:
    """A socket to listen on; for so many seconds a port that is taken is tried again."""
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    give_up = time.monotonic() + patience
    while True:
        try:
            found.bind((host, port))
            return found
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < give_up:
                time.sleep(0.1)
                continue
            found.close()
            raise InvalidInput(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error


def alone(folder: Path, taken: str) -> IO[str]:
    """The lock of the one server this folder may have. Goes with the process, however it ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        guard = open(folder / "server.lock", "w")  # noqa: SIM115  # held until the server ends
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be the data folder: {error.strerror}") from error
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        guard.close()
        raise InvalidInput(taken) from error
    return guard
