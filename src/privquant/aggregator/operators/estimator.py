"""Estimates for live pictures, computed in a process of their own.

An estimate with its error statements takes up to a second of processor time, and consoles want a new one all the
time. In the server's own process that time would be taken from the devices. So it is computed in a child process
with a lower priority. The child is started when a picture is wanted and ended when none was for a while. It also
ends when the server is gone, however that happened: the pipe it listens to is closed then.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import NamedTuple

from privquant._numba import stay_interpreted
from privquant.aggregator.campaign.protocol import CampaignProtocol
from privquant.aggregator.store.base import Counts
from privquant.errors import PrivquantError
from privquant.messages import Estimate
from privquant.planning.picture import drawing
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.wire import Manifest

_IDLE = 60.0  # seconds without a picture after which the child is ended
_SLOWEST = 120.0


class Drawn(NamedTuple):
    """The estimates of a campaign, and what is drawn for each: pooled reports and fitted curve, if it has any."""

    estimates: list[Estimate]
    drawings: list[dict[str, list[list[float]]]]


class EstimatorFailed(PrivquantError):
    """The child ended, took too long, or could not compute."""


def drawn(manifest: Manifest, counts: Sequence[Counts]) -> Drawn:
    """What follows from counts, from nothing."""
    search = CampaignProtocol(manifest)
    search.update(counts)
    protocol, estimates = search.protocol, search.estimates()
    drawings = [drawing(protocol, each) for each in estimates] if isinstance(protocol, Isotonic) else []
    # The record is a copy of all counts, for pictures that are drawn in Python.
    return Drawn([replace(each, record=None) for each in estimates], drawings)


class Estimator:
    """One child, one question at a time, and the last answer about each campaign kept."""

    def __init__(self) -> None:
        self._child: tuple[ProcessPoolExecutor, Connection] | None = None
        self._turn = asyncio.Lock()
        self._kept: dict[str, tuple[Sequence[Counts], Drawn]] = {}
        self._idle: asyncio.TimerHandle | None = None

    async def drawn(self, manifest: Manifest, counts: Sequence[Counts]) -> Drawn:
        """What `drawn` gives; at once where the campaign's counts are those of the last question about it."""
        async with self._turn:
            kept = self._kept.get(manifest.id)
            if kept is None or kept[0] != counts:
                kept = self._kept[manifest.id] = (counts, await self._compute(manifest, counts))
            return kept[1]

    async def estimates(self, manifest: Manifest, counts: Sequence[Counts]) -> list[Estimate]:
        """The estimates of earlier counts; what is kept of the newest stays."""
        async with self._turn:
            return (await self._compute(manifest, counts)).estimates

    async def stop(self) -> None:
        async with self._turn:
            self._end()

    async def _compute(self, manifest: Manifest, counts: Sequence[Counts]) -> Drawn:
        loop = asyncio.get_running_loop()
        if self._idle is not None:
            self._idle.cancel()
        self._child = self._child or _started()
        try:
            async with asyncio.timeout(_SLOWEST):
                return await loop.run_in_executor(self._child[0], drawn, manifest, list(counts))
        except (TimeoutError, BrokenProcessPool) as error:
            self._end()
            raise EstimatorFailed("the process that computes estimates did not answer") from error
        except PrivquantError as error:
            raise EstimatorFailed(f"no estimate could be computed: {error}") from error
        finally:
            self._idle = loop.call_later(_IDLE, self._end)

    def _end(self) -> None:
        self._kept.clear()
        if self._idle is not None:
            self._idle.cancel()
        if self._child is not None:
            pool, alive = self._child
            alive.close()
            pool.shutdown(wait=False, cancel_futures=True)
            self._child = None


def _started() -> tuple[ProcessPoolExecutor, Connection]:
    """A pool of one process, and what ends it when it is closed."""
    # Spawned: it has no other descriptor of the server's, so that the pipe ends with the server.
    context = get_context("spawn")
    watched, alive = context.Pipe(duplex=False)
    return ProcessPoolExecutor(1, context, _begin, (watched,)), alive


def _begin(server: Connection) -> None:
    def end_with_server() -> None:
        server.poll(None)  # nothing is ever sent, so this returns when the other end is closed
        os._exit(0)

    threading.Thread(target=end_with_server, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal; the parent decides
    os.nice(10)
    stay_interpreted()
