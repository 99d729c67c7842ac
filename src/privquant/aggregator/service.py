"""One server process: opens the store, keeps its loops running, and lets go of everything in order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from privquant.aggregator import metrics
from privquant.aggregator.campaign_cache import CampaignCache
from privquant.aggregator.campaigns import Campaigns
from privquant.aggregator.devices import DeviceRoutes
from privquant.aggregator.group_commit import GroupCommit
from privquant.aggregator.keys import KeyRing
from privquant.aggregator.logs import say
from privquant.aggregator.publisher import Publisher
from privquant.aggregator.settings import Settings
from privquant.aggregator.store.base import Ask, AskResult, DeviceStore, Unavailable
from privquant.aggregator.store.migrate import migrate, open_engine
from privquant.aggregator.store.postgres import PostgresDeviceStore
from privquant.aggregator.store.sqlite import SqliteDeviceStore

_SWEEP = 10.0  # seconds between two sweeps of what the database itself remembers
_SEAL = 1.0


def open_device_store(settings: Settings) -> DeviceStore:
    return PostgresDeviceStore(settings.database) if settings.database else SqliteDeviceStore(settings.sqlite_file)


class Service:
    """Everything one process of the aggregator runs. `start` and `stop` once each."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.keys = KeyRing(settings.keys)
        self.engine = open_engine(settings)
        self._tasks: list[asyncio.Task[None]] = []
        self._last_sweep = 0.0
        self._leads = False
        self.ready = False

    async def start(self) -> None:
        await migrate(self.engine)
        self.store = open_device_store(self.settings)
        self.group = GroupCommit(self._timed_commit)
        self.cache = CampaignCache(self.store, self.keys)
        self.campaigns = Campaigns(self.engine, self.store, self.keys, self.settings.url)
        self.devices = DeviceRoutes(self.cache, self.group, self.store.link_secret, self.settings.lease_minutes)
        self._publisher = Publisher(self.store, self.cache.refresh_one)
        self.group.start()
        self._repeat("refresh", self.settings.refresh, self.cache.refresh)
        self._repeat("publish", self.settings.publish, self._publish)
        self._repeat("seal", _SEAL, self._seal)
        self.ready = True
        say("started", store="postgresql" if self.settings.database else "sqlite")

    async def stop(self) -> None:
        """Commit what was taken in, then close."""
        self.ready = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.group.stop()
        await self.store.close()
        await self.engine.dispose()
        say("stopped")

    async def check(self) -> None:
        """Raise unless the store answers."""
        await self.store.campaigns("0" * 64)

    async def _timed_commit(self, asks: list[Ask]) -> list[AskResult]:
        started = time.perf_counter()
        try:
            outcomes = await self.store.commit(asks)
        except Unavailable:
            metrics.failures.inc()
            raise
        metrics.commits.observe(time.perf_counter() - started)
        metrics.groups.observe(len(asks))
        metrics.waiting.set(self.group.waiting)
        return outcomes

    async def _publish(self) -> None:
        self._leads = await self._publisher.turn()
        if not self._leads:
            await asyncio.sleep(1.0)

    async def _seal(self) -> None:
        if not self._leads:
            return
        moved = await self.store.seal(self.settings.seal_rows)
        if moved:
            metrics.sealed.inc(moved)
        if time.monotonic() - self._last_sweep > _SWEEP:
            await self.store.sweep()
            self._last_sweep = time.monotonic()

    def _repeat(self, name: str, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        self._tasks.append(asyncio.create_task(_every(name, seconds, work), name=name))


async def _every(name: str, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    """Run `work` for ever; a turn that fails is logged once in a row and the next comes anyway."""
    failing = False
    while True:
        try:
            await work()
            failing = False
        except Exception as error:
            if not failing:
                level = logging.WARNING if isinstance(error, Unavailable) else logging.ERROR
                logging.getLogger("privquant.aggregator").log(level, f"{name} failed", exc_info=error)
            failing = True
            await asyncio.sleep(min(1.0, seconds * 4))
        await asyncio.sleep(seconds)
