"""`privquant serve`: one process, or on PostgreSQL several that share one port.

There are two listeners: what anybody may reach (devices, invite pages), and what is for operators (their API,
health, metrics), by default on this machine only.
"""

from __future__ import annotations

import asyncio
import gc
import math
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import uvicorn

from privquant._numba import stay_interpreted
from privquant.aggregator.settings import Settings, settings_from
from privquant.aggregator.workers import Listeners, inherited, supervise
from privquant.errors import InvalidInput, PrivquantError
from privquant.server import connections, logs
from privquant.server.causes import cause_of
from privquant.server.http_server import ServiceServer, StartFailed, alone, bound, http_config
from privquant.server.keys import has_keys, open_keys

if TYPE_CHECKING:
    from privquant.aggregator.service import Service

_DATABASE_SECONDS = 15.0
_PORT_SECONDS = 3.0  # workers whose supervisor was killed let go of the port within a moment


def run(settings: Settings) -> int:
    """Serve until told to stop (SIGTERM, SIGINT); requests in hand are finished first. The exit code."""
    settings.check_reachable()
    if settings.database:
        _database_answers(settings)
    taken = f"another server runs on {settings.data}; several need PostgreSQL"
    guard = None if settings.database else alone(settings.data, taken)
    patience = _PORT_SECONDS if settings.workers > 1 else 0.0
    try:
        with (
            bound(settings.host, settings.port, patience) as public,
            bound(settings.admin_host, settings.admin_port, patience) as admin,
        ):
            if not has_keys(settings.keys):
                _no_campaigns_yet(settings)
            open_keys(settings.keys)  # made here if there is none, and not by each of several workers
            if settings.workers > 1:
                return supervise(settings, Listeners(public, admin))
            serve(settings, Listeners(public, admin))
            return 0
    finally:
        if guard is not None:
            guard.close()


def serve(settings: Settings, listening: Listeners, on_ready: Callable[[], None] = lambda: None) -> None:
    """Serve in this process, on sockets that are bound; `StartFailed` in one line if that cannot be."""
    from privquant.aggregator.api import build_admin_api, build_public_api
    from privquant.aggregator.asgi import AsgiApp
    from privquant.aggregator.service import Service

    logs.configure(settings.log_level)
    stay_interpreted()  # a publish takes milliseconds; a compiler that starts in a request takes half a minute
    # The thread that commits waits for the interpreter's lock twice a group, by default up to 5 ms each time.
    sys.setswitchinterval(0.0005)
    service = Service(settings)
    public = http_config(AsgiApp(service, build_public_api(service), devices=True), 10_000)
    admin = http_config(AsgiApp(service, build_admin_api(service), devices=False), 1_000)
    connections.allow_many()
    _Server(public, service, _AdminServer(admin), listening.admin, on_ready).run_on(listening.public)


class _AdminServer(uvicorn.Server):
    """Beside the other one: signals are not its business, and a crowd of devices takes none of its connections."""

    async def on_tick(self, counter: int) -> bool:
        if counter % connections.SWEEP_TICKS == 0:
            # No bound on a request: to erase a campaign takes as long as it takes.
            connections.sweep(self.server_state.connections, math.inf)
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def begin(self, listening: socket.socket) -> None:
        self._running = asyncio.create_task(self.serve([listening]), name="admin")
        while not self.started and not self._running.done():
            await asyncio.sleep(0.01)

    async def end(self) -> None:
        self.should_exit = True
        await self._running


class _Server(ServiceServer):
    """Devices' listener, with the operators' beside it."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        admin: _AdminServer,
        admin_socket: socket.socket,
        on_ready: Callable[[], None],
    ) -> None:
        super().__init__(config, service)
        self._service = service
        self._admin = admin
        self._admin_socket = admin_socket
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.failure is not None:
            return
        await self._admin.begin(self._admin_socket)  # which says "ready": devices are let in before
        self._on_ready()
        # What is here by now stays. Requests leave few cycles, and to look for them in all of it takes a tenth of
        # the time of a request.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.live.end_streams()  # else they would be waited for, as would those who wait for a place
        self._service.admission.let_go()
        await super().shutdown(sockets)

    async def end_beside(self) -> None:
        await self._admin.end()


def _database_answers(settings: Settings) -> None:
    """A database that is not there is said in one line, and not by a traceback in the log."""
    from privquant.aggregator.store.migrate import untouched

    async def look() -> None:
        async with untouched(settings) as engine, asyncio.timeout(_DATABASE_SECONDS), engine.connect():
            pass

    try:
        asyncio.run(look())
    except ImportError:  # the driver: the command line says what to install
        raise
    except Exception as error:
        reason = "it took too long" if isinstance(error, TimeoutError) else (str(error).splitlines() or [""])[0]
        where = urlsplit(settings.database)
        raise InvalidInput(
            f"the database at {where.hostname or 'the local socket'} does not let this server in: {reason}"
        ) from error


def _no_campaigns_yet(settings: Settings) -> None:
    """A server without keys may make one, but not beside campaigns that another key has signed."""
    from privquant.aggregator.store.migrate import on_store
    from privquant.aggregator.store.operator_queries import issuers

    try:
        needed = on_store(settings, issuers)
    except Exception as error:
        raise StartFailed(cause_of(error)) from error
    if needed:
        raise StartFailed(
            f"this database has campaigns signed by the key {needed[0]} and this server has no keys: give it those "
            "of the server that made them (--keys-folder, or docs/two-hosts.md)"
        )


def _work() -> int:
    """This process, started as a module: a worker, or a server of its own."""
    line = None
    try:
        worker = inherited()
        if worker is None:
            return run(settings_from())
        listening, line = worker
        serve(settings_from(), listening, line.say_ready)
        return 0
    except PrivquantError as error:
        if line is not None:
            line.say_failed(str(error))
        else:
            print(f"privquant: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(_work())
