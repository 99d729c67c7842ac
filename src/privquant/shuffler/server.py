"""`privquant shuffler serve`: one process; a reverse proxy before it speaks TLS.

What it counts is not for everybody, and behind a proxy every request seems to come from this machine: metrics are
served on a listener of their own, and only if one is asked for (--admin-port).

Batches and notices are sent to the aggregator until they are acknowledged. A kill between sending and hearing does
no harm, because the aggregator counts a batch once, by its id.
"""

import asyncio
import contextlib
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import Counter, Gauge
from starlette.requests import Request
from starlette.responses import Response

from privquant import wire
from privquant.pages.join_pages import file_reply, missing_page, shuffled_page
from privquant.pages.page_files import serve_page
from privquant.server import logs
from privquant.server.causes import Unavailable
from privquant.server.group_commit import GroupCommit
from privquant.server.health import MEDIA, PROBE_SECONDS, Repeating, render
from privquant.server.http_client import PeerRefused, PeerSilent, exchange
from privquant.server.http_server import AdminServer, App, ServiceServer, exit_code, folder_lock, listening_socket
from privquant.server.keys import KeyFolder
from privquant.server.logs import say
from privquant.server.replies import Reply, Scope, problem
from privquant.server.request_bodies import RequestBody
from privquant.server.sqlite_file import connect
from privquant.shuffler import rounds
from privquant.shuffler.campaigns import Joined, joined, token_ids_of
from privquant.shuffler.rounds import Event, State
from privquant.shuffler.routes import Routes, View
from privquant.shuffler.settings import Settings
from privquant.shuffler.store import OPEN, Ask, AskResult, Store, prepare

_SAID = {Event.CLOSE: "round full", Event.EXTEND: "round extended", Event.DROP: "round dropped"}
_LOOK = 0.25  # seconds between two looks at what an operator's command changed
_TURN = 0.01
_SWEEP = 10.0
_PATIENCE = 5.0  # longest pause before a silent aggregator is tried again

# What no repetition changes. Any other refusal may be a proxy's, and is tried again.
_FOR_GOOD = frozenset(("campaign-closed", "second-batch", "short-batch", "unknown-campaign", "forged-signature"))

_BATCHES = "SELECT round, batch, held FROM round WHERE campaign = ? AND state = ? ORDER BY round"
_NOTICES = "SELECT round, status, reports FROM notice WHERE campaign = ? ORDER BY round, rowid"
_TOLD = "DELETE FROM notice WHERE campaign = ? AND round = ? AND status = ?"
_batches = Counter("privquant_shuffler_batches", "Batches that the aggregator counted or refused", ["outcome"])
_rounds = Gauge("privquant_shuffler_rounds", "Rounds of the campaigns in the database, by state", ["state"])


@dataclass(frozen=True, slots=True)
class Peer:
    """A campaign's aggregator. key: this shuffler's; file: its database."""

    campaign: Joined
    key: Ed25519PrivateKey
    file: Path

    def send_notice(self, number: int, status: str, reports: int) -> None:
        notice = wire.RoundNotice(self.campaign.id, number, status, reports)
        self._send(wire.NOTICES, wire.sign_notice(notice, self.campaign.manifest, self.key), wire.NOTED)

    def send_batch(self, number: int, batch: str, reports: int) -> str:
        """Send all parts of a batch, or as many as the aggregator lacks; what it said to the last."""
        of_round, key = "FROM outbox WHERE campaign = ? AND round = ?", (self.campaign.no, number)
        status = wire.KEPT
        with contextlib.closing(connect(self.file)) as db:
            (parts,) = db.execute(f"SELECT count(*) {of_round}", key).fetchone()
            for part in range(parts):
                ((blob,),) = db.execute(f"SELECT sealed {of_round} AND part = ?", (*key, part)).fetchall()
                sealed = tuple(rounds.split(blob))
                sent = wire.BatchPart(self.campaign.id, number, batch, reports, part, parts, sealed)
                body = wire.sign_part(sent, self.campaign.manifest, self.key)
                status = self._send(wire.BATCHES, body, wire.KEPT, wire.BATCH_COUNTED, wire.BATCH_ALREADY_COUNTED)
                if status != wire.KEPT:
                    break
        return status

    def _send(self, route: wire.Route, body: bytes, *allowed: str) -> str:
        """The status that the aggregator answers with; `PeerRefused` if it says no for good."""
        try:
            answer = exchange(self.campaign.aggregator + wire.path_of(self.campaign.id, route.name), body)
            return wire.parse_status(answer, allowed)
        except wire.WireError as error:
            raise PeerSilent(f"the aggregator's answer cannot be read: {error}") from error
        except PeerRefused as error:
            if error.code in _FOR_GOOD:
                raise
            raise PeerSilent(str(error)) from error


def is_waiting(store: Store, campaign: Joined) -> bool:
    """Whether anything is still to be sent."""
    return bool(store.read(_BATCHES, campaign.no, State.CLOSED) or store.read(_NOTICES, campaign.no))


async def send_all(store: Store, peer: Peer) -> None:
    """Send what waits, and write down what was acknowledged."""
    campaign, db = peer.campaign.no, store.db
    for notice in store.read(_NOTICES, campaign):
        with contextlib.suppress(PeerRefused):
            await asyncio.to_thread(peer.send_notice, *notice)
        await store.write(partial(db.execute, _TOLD, (campaign, *notice[:2])))
    for number, batch, reports in store.read(_BATCHES, campaign, State.CLOSED):
        facts = {"campaign": peer.campaign.id[:16], "round": number}
        try:
            status = await asyncio.to_thread(peer.send_batch, number, batch, reports)
        except PeerRefused as error:
            await store.write(partial(rounds.refused, db, campaign, number, error.code))
            _batches.labels("refused").inc()
            say("batch refused", **facts, why=error.code)
            continue
        if status == wire.KEPT:
            raise PeerSilent("the aggregator has all parts of a batch and did not count it")
        await store.write(partial(rounds.forwarded, db, campaign, number), aside=True)
        await store.sweep()
        _batches.labels("forwarded").inc()
        say("round forwarded", **facts, reports=reports)


class Service(Repeating):
    """Everything a shuffler runs. `start` and `stop` once each."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        self.keys = KeyFolder(settings.keys)
        self.started = False
        self._views: dict[str, View] = {}
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    async def start(self) -> None:
        prepare(self.settings.file)
        self.store = Store(self.settings.file)
        self.group: GroupCommit[Ask, AskResult] = GroupCommit(self._commit)
        self.group.start()
        self.routes = Routes(self.settings, self.store, self.group, self.view_of, self._changed.set)
        await self._look()
        self._repeat("look", _LOOK, self._look)
        self._repeat("rounds", _TURN, self._turn)
        self._repeat("sweep", _SWEEP, self.store.sweep)
        await self._done("probe", self.store.probe)  # nobody is told "ready" before it is known
        self._repeat("probe", PROBE_SECONDS, self.store.probe)
        self.started = True
        say("started", role="shuffler")

    async def stop(self) -> None:
        self.started = False
        tasks = [*self._tasks, *self._sending.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.group.stop()
        await self.store.close()
        say("stopped")

    def metrics(self) -> bytes:
        """What Prometheus is told."""
        found = dict(self.store.read("SELECT state, count(*) FROM round GROUP BY state"))
        for state in State:
            _rounds.labels(state).set(found.get(state, 0))
        return render()

    async def _commit(self, asks: list[Ask]) -> list[AskResult]:
        try:
            found = await self.store.commit(asks)
        except Unavailable as error:
            self.health.failed("commit", error)
            raise
        self.health.well("commit")
        return found

    async def view_of(self, identity: str) -> View | None:
        """A joined campaign; also one that was joined a moment ago, because its devices take no for an answer."""
        if identity not in self._views:
            await self._look()
        return self._views.get(identity)

    async def _look(self) -> None:
        """Campaigns joined, closed or deleted meanwhile; as long as there are none, no manifest is read again."""
        states: dict[str, str] = dict(self.store.read("SELECT id, state FROM campaign"))
        if states != {view.row.id: view.row.state for view in self._views.values()}:
            rows = joined(self.store.reader)
            self._views = {row.id: View(row, token_ids_of(self.keys, row.manifest)) for row in rows}

    async def _turn(self) -> None:
        """Close, mix, extend and drop rounds; start sending what is to be sent."""
        self._changed.clear()
        for view in list(self._views.values()):
            await self._settle(view)
            task = self._sending.get(view.row.id)
            if (task is None or task.done()) and is_waiting(self.store, view.row):
                self._sending[view.row.id] = asyncio.create_task(self._send(view), name="send")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), 0.5)

    async def _settle(self, view: View) -> None:
        campaign, now = view.row.no, time.time()
        found = rounds.open_round(self.store.reader, campaign)
        if found is not None:
            needed = view.batches[found.number]
            # Devices that were asked before the deadline have their lease to answer in.
            over = 0.0 if view.row.state != OPEN else view.manifest.deadline + self.settings.lease_seconds
            event = rounds.event_due(found, needed, now, over)
            if event is not None:
                until = int(now) + view.row.round_seconds
                await self.store.write(lambda: rounds.act(self.store.db, campaign, event, found, needed, until))
                say(_SAID[event], campaign=view.row.id[:16], round=found.number, needed=needed)
        in_state = "SELECT round FROM round WHERE campaign = ? AND state = ?"
        for (number,) in self.store.read(in_state, campaign, State.CLOSING):
            await self.store.write(partial(rounds.mix, self.store.db, campaign, view.row.id, number), aside=True)

    async def _send(self, view: View) -> None:
        """Until nothing waits: send, and write down what was acknowledged. Failures are said once."""
        pause = 0.1
        while is_waiting(self.store, view.row):
            try:
                await send_all(self.store, Peer(view.row, self.keys.current, self.settings.file))
                self.health.well("aggregator")
                pause = 0.1
            except (PeerSilent, Unavailable) as error:
                self.health.failed("aggregator", error)
                await asyncio.sleep(pause)
                pause = min(_PATIENCE, pause * 2)


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
    with contextlib.ExitStack() as held:
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
