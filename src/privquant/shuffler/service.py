"""One shuffler process: opens its database, keeps its loops running, and lets go of everything in order."""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial

from privquant.server.causes import Unavailable
from privquant.server.group_commit import GroupCommit
from privquant.server.health import PROBE_SECONDS, Repeating
from privquant.server.keys import KeyFolder
from privquant.server.logs import say
from privquant.server.peer import PeerRefused, PeerSilent
from privquant.server.sqlite_writer import connect
from privquant.shuffler import forwarding, metrics, rounds
from privquant.shuffler.campaigns import joined, token_ids_of
from privquant.shuffler.database import OPEN, prepare
from privquant.shuffler.round_states import Event, State
from privquant.shuffler.routes import Routes, View
from privquant.shuffler.settings import Settings
from privquant.shuffler.store import Ask, AskResult, Store

_SAID = {Event.CLOSE: "round full", Event.EXTEND: "round extended", Event.DROP: "round dropped"}
_LOOK = 0.25  # seconds between two looks at what an operator's command changed
_TURN = 0.01
_SWEEP = 10.0
_PATIENCE = 5.0  # longest pause before a silent aggregator is tried again

# What no repetition changes. Any other refusal may be a proxy's, and is tried again.
FOR_GOOD = frozenset(("campaign-closed", "second-batch", "short-batch", "unknown-campaign", "forged-signature"))


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
        self._reader = connect(self.settings.file)
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
        self._reader.close()
        await self.store.close()
        say("stopped")

    def metrics(self) -> bytes:
        """What Prometheus is told."""
        return metrics.shown(dict(self.store.read("SELECT state, count(*) FROM round GROUP BY state")))

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
        """Campaigns joined, closed or deleted meanwhile; a manifest never changes, so each is read once."""
        states: dict[str, str] = dict(self.store.read("SELECT id, state FROM campaign"))
        for gone in set(self._views) - set(states):
            del self._views[gone]
        if states != {view.row.id: view.row.state for view in self._views.values()}:
            for row in joined(self._reader):
                known = self._views.get(row.id)
                if known is None or known.row.state != row.state:
                    self._views[row.id] = View(row, token_ids_of(self.keys, row.manifest))

    async def _turn(self) -> None:
        """Close, mix, extend and drop rounds; start sending what is to be sent."""
        self._changed.clear()
        for view in list(self._views.values()):
            await self._settle(view)
            task = self._sending.get(view.row.id)
            if (task is None or task.done()) and self._waiting(view):
                self._sending[view.row.id] = asyncio.create_task(self._send(view), name="send")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), 0.5)

    async def _settle(self, view: View) -> None:
        campaign, now = view.row.no, time.time()
        found = rounds.open_round(self._reader, campaign)
        if found is not None:
            needed = view.batches[found.number]
            # Devices that were asked before the deadline have their lease to answer in.
            over = 0.0 if view.row.state != OPEN else view.manifest.deadline + self.settings.lease_seconds
            event = rounds.event_due(found, needed, now, over)
            if event is not None:
                until = int(now) + view.row.round_seconds
                await self.store.write(lambda: rounds.act(self.store.db, campaign, event, found, needed, until))
                say(_SAID[event], campaign=view.row.id[:16], round=found.number, needed=needed)
        closing = "SELECT round FROM round WHERE campaign = ? AND state = ?"
        for (number,) in self._reader.execute(closing, (campaign, State.CLOSING)).fetchall():
            await self.store.write(partial(rounds.mix, self.store.db, campaign, view.row.id, number), aside=True)

    def _waiting(self, view: View) -> bool:
        campaign = view.row.no
        pending = forwarding.pending_batches(self._reader, campaign)
        return bool(pending or forwarding.pending_notices(self._reader, campaign))

    async def _send(self, view: View) -> None:
        """Until nothing waits: send, and write down what was acknowledged. Failures are said once."""
        pause = 0.1
        while self._waiting(view):
            try:
                await self._send_all(view)
                self.health.well("aggregator")
                pause = 0.1
            except (PeerSilent, PeerRefused, Unavailable) as error:
                self.health.failed("aggregator", error)
                await asyncio.sleep(pause)
                pause = min(_PATIENCE, pause * 2)

    async def _send_all(self, view: View) -> None:
        campaign, db = view.row.no, self.store.db
        peer = forwarding.Peer(view.row.aggregator, view.manifest, self.keys.current)
        for notice in forwarding.pending_notices(self._reader, campaign):
            try:
                await asyncio.to_thread(forwarding.send_notice, notice, peer)
            except PeerRefused as error:
                if error.code not in FOR_GOOD:
                    raise
            await self.store.write(partial(forwarding.told, db, campaign, notice))
        for row in forwarding.pending_batches(self._reader, campaign):
            number = row[0]
            try:
                status = await asyncio.to_thread(forwarding.send_batch, self.settings.file, campaign, row, peer)
            except PeerRefused as error:
                if error.code not in FOR_GOOD:
                    raise
                await self.store.write(partial(forwarding.refused, db, campaign, number, error))
                metrics.batches.labels("refused").inc()
                say("batch refused", campaign=view.row.id[:16], round=number, why=error.code)
                continue
            if status == "kept":
                raise PeerSilent("the aggregator has all parts of a batch and did not count it")
            await self.store.write(partial(rounds.forwarded, db, campaign, number), aside=True)
            await self.store.sweep()
            metrics.batches.labels("forwarded").inc()
            say("round forwarded", campaign=view.row.id[:16], round=number, reports=row[2])
