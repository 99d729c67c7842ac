"""`privquant serve`: one process, or on PostgreSQL several that share one port.

There are two listeners: what anybody may reach (devices, invite pages), and what is for operators (their API,
health, metrics), by default on this machine only.
"""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from urllib.parse import urlsplit

from privquant._numba import stay_interpreted
from privquant.aggregator.settings import Settings
from privquant.aggregator.workers import Listeners, inherited, supervise
from privquant.errors import InvalidInput
from privquant.server import http_server, logs
from privquant.server.causes import cause_of
from privquant.server.keys import has_keys, open_keys

_DATABASE_SECONDS = 15.0
_PORT_SECONDS = 3.0  # workers whose supervisor was killed let go of the port within a moment


def run(settings: Settings) -> int:
    """Serve until told to stop (SIGTERM, SIGINT); requests in hand are finished first. The exit code."""
    settings.check_reachable()
    if settings.database:
        _database_answers(settings)
    taken = f"another server runs on {settings.data}; several need PostgreSQL"
    patience = _PORT_SECONDS if settings.workers > 1 else 0.0
    with (
        nullcontext() if settings.database else http_server.folder_lock(settings.data, taken),
        http_server.listening_socket(settings.host, settings.port, patience) as public,
        http_server.listening_socket(settings.admin_host, settings.admin_port, patience) as admin,
    ):
        if not has_keys(settings.keys):
            _no_campaigns_yet(settings)
        open_keys(settings.keys)  # made here if there is none, and not by each of several workers
        keep_serving = supervise if settings.workers > 1 else serve
        return keep_serving(settings, Listeners(public, admin))


def serve(settings: Settings, listening: Listeners, on_ready: Callable[[], None] = lambda: None) -> int:
    """Serve in this process, on sockets that are bound; `StartFailed` in one line if that cannot be."""
    from privquant.aggregator.api import AdminApp, PublicApp, build_admin_api, build_public_api
    from privquant.aggregator.service import Service

    logs.configure(settings.log_level)
    stay_interpreted()  # a publish takes milliseconds; a compiler that starts in a request takes half a minute
    service = Service(settings)
    admin = http_server.AdminServer(AdminApp(build_admin_api(service)), listening.admin)

    def on_stop() -> None:
        """End streams and send away those who wait for a place, which would all be waited for otherwise."""
        service.live.end_streams()
        service.admission.let_go()

    app = PublicApp(service, build_public_api(service))
    http_server.ServiceServer(app, service, admin, on_ready, on_stop).run_on(listening.public)
    return 0


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
        raise http_server.StartFailed(cause_of(error)) from error
    if needed:
        raise http_server.StartFailed(
            f"this database has campaigns signed by the key {needed[0]} and this server has no keys: give it those "
            "of the server that made them (--keys-folder, or docs/two-hosts.md)"
        )


def main() -> int:
    """This process, started as a module: a worker, or a server of its own."""
    worker = inherited()
    if worker is None:
        return http_server.exit_code(lambda: run(Settings.gather()))
    listening, line = worker
    return http_server.exit_code(lambda: serve(Settings.gather(), listening, line.say_ready), line.say_failed)


if __name__ == "__main__":
    raise SystemExit(main())
