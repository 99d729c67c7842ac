"""Estimates for live pictures, computed in a process of their own.

An estimate with all that is said of it takes up to a second of processor time, and consoles want a new one all the
time. In the server's own process that would be taken from the devices. So it is computed in a child that yields to
everything else on the machine. It is started when a picture is wanted, sent away when none was for a while, and
ends by itself when the server is gone, however that ended: then its standard input ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import struct
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import IO, NamedTuple

from privquant.aggregator.campaign.local_protocol import CampaignProtocol
from privquant.aggregator.store.base import Counts
from privquant.errors import PrivquantError
from privquant.messages import Estimate
from privquant.planning.picture import drawing
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.wire import Manifest

_HEAD = struct.Struct(">Q")
_IDLE = 60.0  # seconds without a picture after which the child is sent away
_SLOWEST = 120.0


class Drawn(NamedTuple):
    """The estimates of a campaign, and what is drawn for each: pooled reports and fitted curve, if it has any."""

    estimates: list[Estimate]
    drawings: list[dict[str, list[list[float]]]]


class EstimatorFailed(PrivquantError):
    """The child ended, or took too long."""


def drawn(manifest: Manifest, counts: Sequence[Counts]) -> Drawn:
    """What follows from counts, from nothing."""
    search = CampaignProtocol(manifest)
    search.update(counts)
    protocol, estimates = search.protocol, search.estimates()
    drawings = [drawing(protocol, each) for each in estimates] if isinstance(protocol, Isotonic) else []
    # The record is a copy of all counts, for pictures that are drawn in Python.
    return Drawn([replace(each, record=None) for each in estimates], drawings)


class Estimator:
    """The parent's side: one child, one question at a time, and the last answers kept."""

    def __init__(self) -> None:
        self._child: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._kept: dict[str, tuple[Sequence[Counts], Drawn]] = {}
        self._leaving: asyncio.TimerHandle | None = None

    async def drawn(self, manifest: Manifest, counts: Sequence[Counts]) -> Drawn:
        """What `drawn` gives; at once where the campaign's counts are those of the last question about it."""
        async with self._turn:
            kept = self._kept.get(manifest.id)
            if kept is None or kept[0] != counts:
                kept = self._kept[manifest.id] = (counts, await self._ask(manifest, counts))
            return kept[1]

    async def estimates(self, manifest: Manifest, counts: Sequence[Counts]) -> list[Estimate]:
        """The estimates of earlier counts; what is kept of the newest stays."""
        async with self._turn:
            return (await self._ask(manifest, counts)).estimates

    async def stop(self) -> None:
        async with self._turn:
            await self._end()

    async def _ask(self, manifest: Manifest, counts: Sequence[Counts]) -> Drawn:
        if self._leaving is not None:
            self._leaving.cancel()
        try:
            async with asyncio.timeout(_SLOWEST):
                found = await self._exchange(pickle.dumps((manifest, list(counts))))
        except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
            await self._end()
            raise EstimatorFailed("the process that computes estimates did not answer") from error
        except asyncio.CancelledError:  # half an answer is left in the pipe
            await self._end()
            raise
        self._leaving = asyncio.get_running_loop().call_later(_IDLE, self._leave)
        if isinstance(found, Drawn):
            return found
        raise EstimatorFailed(f"no estimate could be computed: {found}")

    async def _exchange(self, question: bytes) -> object:
        if self._child is None or self._child.returncode is not None:
            command = (sys.executable, "-m", "privquant.aggregator.operators.estimator")
            pipe = asyncio.subprocess.PIPE
            self._child = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(_HEAD.pack(len(question)) + question)
        await self._child.stdin.drain()
        (size,) = _HEAD.unpack(await self._child.stdout.readexactly(_HEAD.size))
        return pickle.loads(await self._child.stdout.readexactly(size))

    def _leave(self) -> None:
        self._kept.clear()
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()
        self._child = None

    async def _end(self) -> None:
        child, self._child = self._child, None
        self._kept.clear()
        if self._leaving is not None:
            self._leaving.cancel()
        if child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()


def _serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    """The child's side, until its standard input ends."""
    while len(head := questions.read(_HEAD.size)) == _HEAD.size:
        (size,) = _HEAD.unpack(head)
        body = questions.read(size)
        if len(body) < size:
            return
        try:
            found: object = drawn(*pickle.loads(body))
        except PrivquantError as error:
            found = str(error)
        answer = pickle.dumps(found)
        answers.write(_HEAD.pack(len(answer)) + answer)
        answers.flush()


if __name__ == "__main__":
    from privquant._numba import stay_interpreted
    from privquant.aggregator.operators import estimator  # by its name: what is pickled is found by the parent

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal; the parent decides
    os.nice(10)
    stay_interpreted()
    estimator._serve(sys.stdin.buffer, sys.stdout.buffer)
