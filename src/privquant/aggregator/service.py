"""One server process: opens the store, runs what is done again and again, and closes everything in order."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial

from privquant.aggregator import metrics
from privquant.aggregator.campaign.campaigns import Campaigns, Retention
from privquant.aggregator.campaign.publisher import Announcer, Publisher
from privquant.aggregator.campaign.snapshots import Snapshots
from privquant.aggregator.campaign.states import WrongState
from privquant.aggregator.devices.admission import Admission, next_turn
from privquant.aggregator.devices.campaign_cache import CampaignCache
from privquant.aggregator.devices.routes import BatchRoutes, DeviceRoutes
from privquant.aggregator.operators.estimator import Estimator
from privquant.aggregator.operators.live import Live
from privquant.aggregator.settings import Settings
from privquant.aggregator.store.base import Ask, AskResult, CampaignRow, DeviceStore, Outcome, Unavailable
from privquant.aggregator.store.migrate import migrate, open_engine
from privquant.aggregator.store.operator_queries import manifest_of
from privquant.aggregator.store.sqlite import SqliteDeviceStore
from privquant.aggregator.workers import is_worker
from privquant.server.causes import DAMAGED
from privquant.server.group_commit import GroupCommit
from privquant.server.health import PROBE_SECONDS, Repeating
from privquant.server.keys import KeyMissing, KeyUnusable, open_keys
from privquant.server.logs import say
from privquant.wire import Manifest, fingerprint

_SWEEP = 10.0  # seconds between two sweeps of what the database itself remembers
_SNAPSHOT = 1.0  # seconds between two snapshots of a campaign
_TICK = 4.0  # seconds; a device that was asked and stays away frees its slot after the second tick
_OTHER_COMMIT = 0.005  # seconds; what a transaction of another worker takes
_PAUSE = 0.005  # seconds between two turns of a task that itself waits for work
_RETENTION = 60.0


def open_device_store(settings: Settings) -> DeviceStore:
    if not settings.database:
        return SqliteDeviceStore(settings.sqlite_file)
    from privquant.aggregator.store.postgres import PostgresDeviceStore  # its driver is not needed on SQLite

    return PostgresDeviceStore(settings.database)


class Service(Repeating):
    """Everything one process of the aggregator runs. `start` and `stop` once each."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        self.keys = open_keys(settings.keys)
        self.engine = open_engine(settings)
        self._last_sweep = 0.0
        self._leads = False
        self._round_over = asyncio.Event()
        self.started = False

    async def start(self) -> None:
        settings = self.settings
        await migrate(self.engine)
        self.store = open_device_store(settings)
        metrics.Stepped.step = settings.snapshot_reports
        self.group = GroupCommit(self._timed_commit, moment=_OTHER_COMMIT if is_worker() else 0.0)
        self.cache = CampaignCache(self.store, self.keys)
        self.campaigns = Campaigns(
            self.engine, self.store, self.keys, settings.url, settings.snapshot_reports, self.cache.waiting
        )
        self.admission = Admission(self.cache, self.group, self.store, alone=not settings.database)
        self.devices = DeviceRoutes(
            self.cache, self.group, self.admission, self.store.link_secret, settings.lease_minutes
        )
        self.batches = BatchRoutes(self.engine, self.cache, self.keys, self._round_over.set)
        self._announcer = Announcer(self.engine, self.keys, self.health)
        self._snapshots = Snapshots(self.engine, settings.snapshot_reports, _SNAPSHOT)
        self._publisher = Publisher(self.store, self.admission.published, self._snapshots.advance)
        self._estimator = Estimator()
        self.live = Live(self.campaigns, self._estimator)
        self.group.start()
        self.campaign_metrics = metrics.CampaignMetrics(
            partial(self.campaigns.overview, with_alarms=True), self.health
        )
        self._repeat("refresh", settings.refresh, self.cache.refresh)
        self._repeat("publish", _PAUSE, self._publish)
        self._repeat("slots", _PAUSE, self.admission.look)
        self._repeat("announce", 0.01, self._announce)
        self._repeat("history", 0.5, self.live.note)
        self._repeat_leading("seal", 1.0, self._seal)
        self._repeat_leading("tick", _TICK, lambda: self.store.tick(int(time.time() // 60)))
        for name, work in (("probe", self._probe), ("keys", self._check_keys)):
            await self._done(name, work)  # nobody is told "ready" before it is known
            self._repeat(name, PROBE_SECONDS, work)
        self._repeat_leading("deadlines", 5.0, self._close_over)
        self._repeat_leading("retention", _RETENTION, Retention(self.campaigns).turn)
        self.started = True
        say("started", store="postgresql" if settings.database else "sqlite")

    async def stop(self) -> None:
        """Commit what was taken in, then close."""
        self.started = False
        await self.live.stop()
        await self._estimator.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._announcer.stop()
        await self.group.stop()
        await self.store.close()
        await self.engine.dispose()
        say("stopped")

    def _repeat_leading(self, name: str, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """What one process does for all."""

        async def turn() -> None:
            if self._leads:
                await work()

        self._repeat(name, seconds, turn)

    async def _probe(self) -> None:
        """Write something; if commits failed since the last probe, find out whether they still would."""
        failing = self.health.trouble("commit")
        await self.store.probe(thorough=failing is not None)
        self.health.well("operator")
        if failing != DAMAGED or not self.settings.database:  # PostgreSQL tells of damage only when it reads it
            self.health.well("commit")

    async def _check_keys(self) -> None:
        """A process that cannot answer for a running campaign is not ready, and says which key it needs."""
        for name in sorted({fingerprint(manifest.issuer) for _, manifest in await self._running()}):
            if name not in self.keys.fingerprints():
                raise KeyMissing(f"the key {name} of a running campaign is not among this server's keys")
            try:
                self.keys.by_fingerprint(name)
            except (KeyUnusable, OSError) as error:
                # Not in its own words, which name a path: readiness is told to anybody.
                raise KeyUnusable(f"the key {name} of a running campaign cannot be read, or others can") from error

    async def _close_over(self) -> None:
        """Close campaigns whose deadline has passed by more than the grace."""
        for row, manifest in await self._running():
            if time.time() >= manifest.deadline + 60 * self.settings.grace:
                with contextlib.suppress(WrongState):  # an operator was quicker
                    await self.campaigns.close(row.id, "server", "the deadline has passed")
                await self.cache.refresh_one(row.id)

    async def _running(self) -> list[tuple[CampaignRow, Manifest]]:
        return [(row, manifest_of(row.envelope)) for row in await self.store.campaigns(live=True)]

    async def _timed_commit(self, asks: list[Ask]) -> list[AskResult]:
        started = time.perf_counter()
        try:
            outcomes = await self.store.commit(asks)
        except Unavailable as error:
            metrics.failures.inc()
            self.health.failed("commit", error)
            raise
        self.health.well("commit")
        metrics.commits.observe(time.perf_counter() - started)
        metrics.groups.observe(len(asks))
        metrics.waiting.set(self.group.waiting)
        if self._leads and any(result.outcome is Outcome.COUNTED for result in outcomes):
            self.admission.counted()
        return outcomes

    async def _publish(self) -> None:
        """In its time, or as soon as held requests wait for it."""
        await next_turn(self.admission.publish_now, self.settings.publish)
        self._leads = await self._publisher.turn()
        if not self._leads:
            await asyncio.sleep(1.0)

    async def _announce(self) -> None:
        """At once when a round ended here, and every moment: it may have ended in another process."""
        await next_turn(self._round_over, 0.25)
        if self._leads:
            await self._announcer.turn(await self._running())

    async def _seal(self) -> None:
        await self._snapshots.catch_up()
        metrics.sealed.inc(await self.store.seal(self.settings.seal_rows))
        if time.monotonic() - self._last_sweep > _SWEEP:
            await self.store.sweep()
            self._last_sweep = time.monotonic()
