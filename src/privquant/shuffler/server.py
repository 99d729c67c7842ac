"""`privquant shuffler serve`: one process on one port; a reverse proxy before it speaks TLS."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from privquant import wire
from privquant.errors import InvalidInput, PrivquantError
from privquant.pages.bare_page import file_reply, missing_page
from privquant.pages.page_files import serve_page
from privquant.pages.shuffled_page import shuffled_page
from privquant.server import logs
from privquant.server.http_server import ServiceServer, alone, bound, http_config
from privquant.server.replies import Receive, Reply, RequestRefused, Scope, Send, problem
from privquant.server.request_bodies import Hangup, Held, RequestBody
from privquant.shuffler.service import Service
from privquant.shuffler.settings import Settings


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
    guard = alone(settings.data, f"another shuffler runs on {settings.data}")
    try:
        listening = bound(settings.host, settings.port)
        logs.configure(settings.log_level)
        sys.setswitchinterval(0.0005)  # the thread that commits waits for the interpreter's lock twice a group
        service = Service(settings)
        ServiceServer(http_config(App(service), 10_000), service).run_on(listening)
    finally:
        guard.close()


def _work() -> int:
    try:
        run(Settings.gather())
        return 0
    except PrivquantError as error:
        print(f"privquant: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(_work())
