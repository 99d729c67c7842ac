"""The frame of both servers: a service behind uvicorn, its listeners, and the lock of its folder.

What cannot be had (a port, a folder, a lock) is said in one line before anything starts.

A connection is bounded here in what it may cost before and between its requests. uvicorn closes one that is idle
after an answer. It waits for ever for the first request, for the rest of a header, and for a client to take its
answer; and it keeps a header however long it grows. Here a connection knows since when it is in its present state,
and `sweep` closes those that are in it for too long.
"""

import asyncio
import errno
import fcntl
import gc
import math
import resource
import signal
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Protocol

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from privquant.errors import InvalidInput, PrivquantError
from privquant.server.causes import cause_of
from privquant.server.logs import logger
from privquant.server.replies import Asgi, Receive, Reply, Scope, Send, problem
from privquant.server.request_bodies import BodyMemory, Hangup, RequestBody

MOST_HEAD = 64 << 10  # bytes of a request before its body
LONGEST_SILENCE = 30.0  # seconds from the opening of a connection, or an answer, to the next request's whole header
LONGEST_REQUEST = 120.0  # seconds from a request's header to its answer being taken
SWEEP_TICKS = 10  # ticks of the HTTP server, a tenth of a second each, from one sweep to the next
_MOST_FILES = 1 << 16


class StartFailed(PrivquantError):
    """The server cannot start."""


class Service(Protocol):
    """What is run around an HTTP server."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class App(ABC):
    """The application of a listener: one request, one answer, whatever happens.

    A body is read within bounds and only when somebody asks for it. An error that nobody foresaw goes to the log,
    and its request is answered "unavailable".
    """

    def __init__(self) -> None:
        self._memory = BodyMemory()

    @abstractmethod
    async def answer(self, scope: Scope, body: RequestBody) -> Asgi:
        """What this request is answered with, which is an ASGI application too."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        with RequestBody(scope, receive, self._memory) as body:
            try:
                reply = await self._answer(scope, body)
                await reply(scope, receive, send)
            except Hangup:
                return
            except Exception as error:  # of a reply that had begun: whatever it could answer, it did
                logger.error("a request failed", exc_info=error)

    async def _answer(self, scope: Scope, body: RequestBody) -> Asgi:
        try:
            reply = await self.answer(scope, body)
            if isinstance(reply, Reply) and not await body.finish():
                return replace(reply, close=True)
            return reply
        except Hangup:
            raise
        except Exception as error:
            logger.error("a request failed", exc_info=error)
            return problem("unavailable")


def bounded(base: type[Any]) -> type[Any]:
    """A protocol class of uvicorn's, with these bounds."""

    class Bounded(base):  # type: ignore[misc]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._since = self.loop.time()
            self._head = 0
            self._last = None

        @property
        def _in_work(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not self._last:
                self._last, self._since, self._head = self.cycle, self.loop.time(), 0
            elif not self._in_work:
                self._head += len(data)
                if self._head > MOST_HEAD:
                    self.transport.abort()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._since, self._head = self.loop.time(), 0

        def overdue(self, longest_request: float) -> bool:
            return bool(self.loop.time() - self._since > (longest_request if self._in_work else LONGEST_SILENCE))

    return Bounded


def sweep(connections: Iterable[Any], longest_request: float) -> None:
    """Close what has been silent, or at one request, for too long."""
    for connection in list(connections):
        if connection.overdue(longest_request):
            connection.transport.abort()


class _BoundedServer(uvicorn.Server):
    longest_request = LONGEST_REQUEST

    def __init__(self, app: Any, most_connections: int) -> None:
        config = uvicorn.Config(
            app,
            http=bounded(AutoHTTPProtocol),
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
        super().__init__(config)

    async def on_tick(self, counter: int) -> bool:
        if counter % SWEEP_TICKS == 0:
            sweep(self.server_state.connections, self.longest_request)
        return await super().on_tick(counter)


class AdminServer(_BoundedServer):
    """The listener beside that of the devices, who take none of its connections. Signals go to the other one."""

    longest_request = math.inf  # to erase a campaign takes as long as it takes

    def __init__(self, app: Any, listening: socket.socket) -> None:
        super().__init__(app, 1_000)
        self._listening = listening

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def begin(self) -> None:
        self._running = asyncio.create_task(self.serve([self._listening]), name="admin")
        while not self.started and not self._running.done():
            await asyncio.sleep(0.01)

    async def end(self) -> None:
        self.should_exit = True
        await self._running


class ServiceServer(_BoundedServer):
    """Runs a service around the HTTP server, and the admin listener, if there is one, beside it.

    Being told to stop is its success: no signal is passed on. on_ready: called when both listeners answer.
    on_stop: called when it was told to stop, before the requests in hand are waited for.
    """

    def __init__(
        self,
        app: Any,
        service: Service,
        admin: AdminServer | None,
        on_ready: Callable[[], None] = lambda: None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(app, 10_000)
        self._service = service
        self._admin = admin
        self._on_ready = on_ready
        self._on_stop = on_stop
        self.failure: Exception | None = None

    def run_on(self, listening: socket.socket) -> None:
        """Serve until told to stop; `StartFailed` in one line if the service cannot start."""
        # The thread that commits waits for the interpreter's lock twice a group, by default up to 5 ms each time.
        sys.setswitchinterval(0.0005)
        _allow_many()
        self.run([listening])
        if self.failure is not None:
            raise StartFailed(cause_of(self.failure)) from self.failure

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await self._service.start()
        except Exception as error:
            self.failure, self.should_exit = error, True
            return
        await super().startup(sockets)
        if self._admin is not None:
            await self._admin.begin()  # which says "ready": devices are let in before
        self._on_ready()
        # What is here by now stays. Requests leave few cycles, and to look for them in all of it takes a tenth of
        # the time of a request.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets)
        if self._admin is not None:
            await self._admin.end()
        await self._service.stop()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _allow_many() -> None:
    """As many open connections as this process may be given; what is usual by default is a thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def exit_code(work: Callable[[], int], tell: Callable[[str], None] | None = None) -> int:
    """The exit code of a process that does this; what it fails with is told in one line."""
    try:
        return work()
    except PrivquantError as error:
        if tell is None:
            print(f"privquant: {error}", file=sys.stderr)
        else:
            tell(str(error))
        return 2


def listening_socket(host: str, port: int, patience: float = 0.0) -> socket.socket:
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


def folder_lock(folder: Path, taken: str) -> IO[str]:
    """The lock of the one server this folder may have; `InvalidInput(taken)` if another server has it."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        guard = open(folder / "server.lock", "w")  # noqa: SIM115  # held until the process ends, however that is
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be the data folder: {error.strerror}") from error
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        guard.close()
        raise InvalidInput(taken) from error
    return guard
