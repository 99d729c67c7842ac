"""`privquant shuffler serve`: one process; a reverse proxy before it speaks TLS.

What it counts is not for everybody, and behind a proxy every request seems to come from this machine: metrics are
served on a listener of their own, and only if one is asked for (--admin-port).
"""

from __future__ import annotations

from contextlib import ExitStack

from starlette.requests import Request
from starlette.responses import Response

from privquant import wire
from privquant.pages.join_pages import file_reply, missing_page, shuffled_page
from privquant.pages.page_files import serve_page
from privquant.server import logs
from privquant.server.http_server import AdminServer, App, ServiceServer, exit_code, folder_lock, listening_socket
from privquant.server.metrics import MEDIA
from privquant.server.replies import Reply, Scope, problem
from privquant.server.request_bodies import RequestBody
from privquant.shuffler.service import Service
from privquant.shuffler.settings import Settings


class AdminApp(App):
    """What this shuffler counts; whether the process runs and is ready."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        self._service = service

    async def answer(self, scope: Scope, body: RequestBody) -> Reply | Response:
        if scope["path"] == "/metrics":
            return Reply(200, self._service.metrics(), MEDIA)
        return self._health(scope)

    def _health(self, scope: Scope) -> Reply:
        if scope["path"] == "/healthz":
            return Reply(200, wire.status_body("ok"))
        if scope["path"] == "/readyz":
            cause = self._service.health.cause
            if cause is None and self._service.started:
                return Reply(200, wire.status_body("ready"))
            return problem("unavailable", cause or "")
        return problem("not-found")


class PublicApp(AdminApp):
    """The routes of the wire format, the join page, whether the process runs and is ready."""

    async def answer(self, scope: Scope, body: RequestBody) -> Reply | Response:
        found = wire.route_of(scope["path"], wire.SHUFFLER_ROUTES)
        if found is not None:
            identity, route = found
            return await self._service.routes.handle(identity, route, scope["method"], body.read)
        if scope["path"].startswith("/c/"):
            return await self._page(scope)
        return file_reply(scope) or self._health(scope)

    async def _page(self, scope: Scope) -> Reply | Response:
        """For a person who opens an invite in a browser; devices have no use for that address."""
        accepts = next((value for name, value in scope["headers"] if name == b"accept"), b"")
        if scope["method"] not in ("GET", "HEAD") or b"text/html" not in accepts.lower():
            return problem("not-found", "an invite is answered with `privquant answer`; only browsers get a page")
        view = await self._service.view_of(scope["path"].removeprefix("/c/"))
        if view is None:
            return serve_page(missing_page("../"), Request(scope), 404)
        return serve_page(shuffled_page(view.manifest, at_shuffler=True), Request(scope))


def run(settings: Settings) -> int:
    """Serve until told to stop (SIGTERM, SIGINT); requests in hand are finished first. The exit code."""
    settings.check_reachable()
    with ExitStack() as held:
        held.enter_context(folder_lock(settings.data, f"another shuffler runs on {settings.data}"))
        listening = held.enter_context(listening_socket(settings.host, settings.port))
        logs.configure(settings.log_level)
        service, admin = Service(settings), None
        if settings.admin_port:
            beside = held.enter_context(listening_socket(settings.admin_host, settings.admin_port))
            admin = AdminServer(AdminApp(service), beside)
        ServiceServer(PublicApp(service), service, admin).run_on(listening)
        return 0


if __name__ == "__main__":
    raise SystemExit(exit_code(lambda: run(Settings.gather())))
