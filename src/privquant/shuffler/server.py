"""`privquant shuffler serve`: one process on one port; a reverse proxy before it speaks TLS."""

from __future__ import annotations

import fcntl
import logging
import signal
import socket
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, Any

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from privquant import wire
from privquant.aggregator import connections, logs
from privquant.aggregator.bare_page import file_reply, missing_page
from privquant.aggregator.bodies import Hangup, Held, RequestBody
from privquant.aggregator.causes import cause_of
from privquant.aggregator.page_files import serve_page
from privquant.aggregator.replies import Receive, Reply, RequestRefused, Scope, Send, problem
from privquant.aggregator.shuffle_page import shuffled_page
from privquant.errors import InvalidInput, PrivquantError
from privquant.shuffler.service import Service
from privquant.shuffler.settings import Settings, settings_from


class StartFailed(PrivquantError):
    """The shuffler cannot start."""


class App:
    """The ASGI application: the routes of the wire format, the join page, whether the process runs and is ready."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._held = Held()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            reply: Reply | Response = await self._reply(scope, receive)
        except Hangup:
            return
        except Exception as error:
            logging.getLogger("privquant.shuffler").error("a request failed", exc_info=error)
            reply = problem("unavailable")
        await reply(scope, receive, send)

    async def _reply(self, scope: Scope, receive: Receive) -> Reply | Response:
        found = wire.route_of(scope["path"], wire.SHUFFLER_ROUTES)
        if found is None and scope["path"].startswith("/c/"):
            return await self._page(scope)
        if found is None:
            return file_reply(scope) or self._health(scope)
        identity, route = found
        with self._held.lease() as lease:
            body = RequestBody(scope, receive, lease)
            try:
                sent = await body.read(max(route.most_sent, 1))
            except RequestRefused as error:
                return replace(error.reply, close=True)
            return await self._service.routes.handle(identity, route, scope["method"], sent)

    async def _page(self, scope: Scope) -> Reply | Response:
        """For a person who opens an invite in a browser; devices have no use for that address."""
        accepts = next((value for name, value in scope["headers"] if name == b"accept"), b"")
        if scope["method"] not in ("GET", "HEAD") or b"text/html" not in accepts.lower():
            return problem("not-found", "an invite is answered with `privquant answer`; only browsers get a page")
        view = await self._service.view_of(scope["path"].removeprefix("/c/"))
        if view is None:
            return serve_page(missing_page("../"), Request(scope), 404)
        return serve_page(shuffled_page(view.manifest, at_shuffler=True), Request(scope))

    def _health(self, scope: MutableMapping[str, Any]) -> Reply:
        if scope["path"] == "/healthz":
            return Reply(200, wire.status_body("ok"))
        if scope["path"] == "/readyz":
            cause = self._service.health.cause
            if cause is None and self._service.started:
                return Reply(200, wire.status_body("ready"))
            return problem("unavailable", cause or "")
        return problem("not-found")


def run(settings: Settings) -> None:
    """Serve until told to stop (SIGTERM, SIGINT); requests in hand are finished first."""
    if settings.host in ("0.0.0.0", "::") and not settings.public_url:
        raise InvalidInput(f"--host {settings.host} is no address a device can reach: say --public-url too")
    guard = _alone(settings)
    try:
        listening = _bound(settings)
        logs.configure(settings.log_level)
        sys.setswitchinterval(0.0005)  # the thread that commits waits for the interpreter's lock twice a group
        service = Service(settings)
        config = uvicorn.Config(
            App(service),
            http=connections.bounded(AutoHTTPProtocol),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=20,
            timeout_keep_alive=30,
            limit_concurrency=10_000,
            backlog=4_096,
            lifespan="off",
        )
        server = _Server(config, service)
        server.run([listening])
        if server.failure is not None:
            raise StartFailed(cause_of(server.failure)) from server.failure
    finally:
        guard.close()


class _Server(uvicorn.Server):
    """Runs the service around the HTTP server. Being told to stop is its success: no signal is passed on."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self.failure: Exception | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await self._service.start()
        except Exception as error:
            self.failure, self.should_exit = error, True
            return
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        await self._service.stop()

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


def _bound(settings: Settings) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        raise InvalidInput(
            f"cannot listen on {settings.host}, port {settings.port}: {error.strerror or error}"
        ) from error
    return bound


def _alone(settings: Settings) -> IO[str]:
    """The lock of the one shuffler this folder may have. Goes with the process, however it ends."""
    try:
        settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        guard = open(settings.data / "server.lock", "w")  # noqa: SIM115  # held until the server ends
    except OSError as error:
        raise InvalidInput(f"{settings.data} cannot be the data folder: {error.strerror}") from error
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        guard.close()
        raise InvalidInput(f"another shuffler runs on {settings.data}") from error
    return guard


def _work() -> int:
    try:
        run(settings_from())
        return 0
    except PrivquantError as error:
        print(f"privquant: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(_work())
