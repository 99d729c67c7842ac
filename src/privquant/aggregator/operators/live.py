"""Live pictures for any number of consoles: each is computed once and sent to all who watch.

A picture shows what `show` says and nothing finer: `show` speaks of a snapshot that lags behind the reports, and a
picture of anything newer could reveal a single answer. It is computed while somebody watches, no sooner than a
second after the last one and later if that one took long, and is sent if it differs. A console that cannot keep up
misses pictures and never holds up others. A stream ends after some minutes, so that a token that was removed is
noticed, and when the server stops, which would wait for it otherwise.

A picture has the trace of its campaign: how the answer closed in, by the snapshots since the server's start, for
consoles that open late. Every process notes the snapshots of running campaigns in memory as they change. It keeps
only those with a tenth more reports than the one before, which is even on the logarithmic axis they are drawn on.
The trace of a shuffled campaign is its counted rounds, and the database has all of them. A point costs an estimate,
which is computed between two pictures, coarse first: for a second where the picture itself cost nothing, else point
by point until there are a few. Nothing in a trace is newer or finer than what was shown in its time.
"""

import asyncio
import json
import time
import zlib
from collections.abc import AsyncIterator, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from privquant.aggregator.campaign.campaigns import Campaigns, mode_of
from privquant.aggregator.campaign.snapshots import unpacked
from privquant.aggregator.metrics import told_refusals
from privquant.aggregator.operators.estimator import Drawn, Estimator
from privquant.aggregator.operators.forms import CampaignShown
from privquant.aggregator.store import operator_queries as queries
from privquant.aggregator.store.base import Counts
from privquant.error_words import error_statement
from privquant.errors import PrivquantError
from privquant.messages import Estimate
from privquant.server.logs import logger
from privquant.wire import Manifest

_SOONEST = 1.0  # seconds between two pictures
_SHARE = 2.0  # a picture that took a second is followed by so many without one
_FILLING = 1.0  # seconds for the trace between two pictures, where nothing new had to be computed for the first
_QUICK = 0.25
_COARSE = 8  # points that are computed also where every picture costs
_ALIVE = 15.0  # seconds after which a stream without news says that it is alive
_LONGEST = 600.0
_GROWTH = 1.1
_MOST_POINTS = 300
_MOST_TRACES = 200

Range = list[float | int | None]
"""The answer, and the two ends of the range in which it lands."""


@dataclass(slots=True)
class TracePoint:
    """A point of a trace. counts: those of the snapshot, packed, until the ranges are computed from them."""

    heard: int
    counts: bytes = b""
    ranges: list[Range] | None = None


@dataclass(slots=True)
class Trace:
    """The points of one campaign, in their order."""

    points: list[TracePoint] = field(default_factory=list)

    @property
    def heard(self) -> int:
        return self.points[-1].heard if self.points else 0

    def add(self, point: TracePoint) -> None:
        """Put a point where it belongs; what was known of it stays known."""
        place = next((k for k, each in enumerate(self.points) if each.heard >= point.heard), len(self.points))
        if place < len(self.points) and self.points[place].heard == point.heard:
            point.ranges = point.ranges or self.points[place].ranges
            self.points[place] = point
        else:
            self.points.insert(place, point)
        if len(self.points) > _MOST_POINTS:
            del self.points[1:-1:2]

    def keep(self, known: Container[int]) -> None:
        """Forget points that nothing can be computed for any more: rounds that a restored backup does not have."""
        self.points = [point for point in self.points if point.ranges or point.counts or point.heard in known]

    def next_missing(self) -> TracePoint | None:
        """The point without ranges farthest from one with them, so that a trace appears coarse and gets denser."""
        known = [-1, *(k for k, point in enumerate(self.points) if point.ranges is not None), len(self.points)]
        missing = [k for k, point in enumerate(self.points) if point.ranges is None]
        if not missing:
            return None
        return self.points[max(missing, key=lambda k: min(abs(k - each) for each in known))]

    def computed(self) -> list[list[Any]]:
        """[heard, range of each quantile ...] of the points that are computed."""
        return [[point.heard, *point.ranges] for point in self.points if point.ranges is not None]


class Topic:
    """The newest event about one campaign, and who waits for the next."""

    def __init__(self) -> None:
        self.watchers = 0
        self.event = b""
        self.news = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def tell(self, event: bytes) -> None:
        if event != self.event:
            self.event = event
            self.news.set()
            self.news = asyncio.Event()


class Live:
    """The streams of one process, and the traces of its campaigns."""

    def __init__(self, campaigns: Campaigns, estimator: Estimator) -> None:
        self._campaigns = campaigns
        self._estimator = estimator
        self._topics: dict[str, Topic] = {}
        self._traces: dict[str, Trace] = {}
        self._closed = False

    def end_streams(self) -> None:
        """Let every stream end now; none begins any more."""
        self._closed = True
        for topic in self._topics.values():
            topic.news.set()

    async def stop(self) -> None:
        self.end_streams()
        tasks = [topic.task for topic in self._topics.values() if topic.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def once(self, identity: str) -> dict[str, Any]:
        shown = await self._picture(identity)
        await self._fill(identity, _FILLING)
        return shown | {"trace": self._trace(identity).computed()}

    async def stream(self, identity: str) -> AsyncIterator[bytes]:
        """Server-sent events about one campaign, until the server stops or some minutes have passed."""
        topic = self._topics.setdefault(identity, Topic())
        topic.watchers += 1
        if topic.task is None or topic.task.done():
            topic.task = asyncio.create_task(self._watch(identity, topic), name="live")
        seen, end = b"", time.monotonic() + _LONGEST
        try:
            yield b"retry: 2000\n\n"
            while not self._closed and time.monotonic() < end:
                if topic.event != seen:
                    seen = topic.event
                    yield seen
                    continue
                try:
                    async with asyncio.timeout(_ALIVE):
                        await topic.news.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            topic.watchers -= 1

    async def _watch(self, identity: str, topic: Topic) -> None:
        while topic.watchers and not self._closed:
            began = time.perf_counter()
            try:
                topic.tell(_event("picture", await self._picture(identity)))
                quick = time.perf_counter() - began < _QUICK
                if quick or len(self._trace(identity).computed()) < _COARSE:
                    await self._fill(identity, _FILLING if quick else 0.0)
            except PrivquantError as error:
                topic.tell(_event("trouble", {"detail": str(error)}))
            except Exception as error:
                logger.error("a live picture failed", exc_info=error)
                topic.tell(_event("trouble", {"detail": "the server cannot show this at the moment"}))
            await asyncio.sleep(max(_SOONEST, _SHARE * (time.perf_counter() - began)))
        self._topics.pop(identity, None)

    async def _picture(self, identity: str) -> dict[str, Any]:
        """`show`, with what is drawn and said for each quantile, refusals by reason, and the trace so far."""
        found: list[Drawn] = []

        async def elsewhere(manifest: Manifest, counts: Sequence[Counts]) -> list[Estimate]:
            found.append(await self._estimator.drawn(manifest, counts))
            return found[0].estimates

        try:
            shown = CampaignShown(**await self._campaigns.show(identity, elsewhere)).model_dump()
        except PrivquantError:  # deleted, for one
            self._traces.pop(identity, None)
            raise
        estimates, trace = shown["estimates"], self._trace(identity)
        if shown["heard"]:
            trace.add(TracePoint(shown["heard"], ranges=[_range(estimate) for estimate in estimates]))
        return shown | {
            "drawings": found[0].drawings if found else [],  # a shuffled campaign computes its estimates itself
            "said": [_sentences(estimate) for estimate in estimates],
            "refusals": told_refusals(identity),
            "trace": trace.computed(),
        }

    async def note(self) -> None:
        """Take note of the snapshots that have turned."""
        async with self._campaigns.engine.connect() as db:
            for identity, number, heard in await queries.heard_in_snapshots(db):
                trace = self._trace(identity)
                if heard >= max(1, _GROWTH * trace.heard):
                    now, counts = await queries.shown_snapshot(db, number)
                    if now:  # it may have been closed meanwhile
                        trace.add(TracePoint(now, zlib.compress(counts)))

    async def _fill(self, identity: str, seconds: float) -> None:
        """Compute what is missing of a trace, a point at least and for about so long."""
        trace, end = self._trace(identity), time.monotonic() + seconds
        manifest = await self._campaigns.manifest(identity)
        past = await mode_of(manifest).past(self._campaigns.engine)
        trace.keep(past)
        for heard in past:
            if all(point.heard != heard for point in trace.points):
                trace.add(TracePoint(heard))
        while (point := trace.next_missing()) is not None:
            if point.heard in past:
                found = await asyncio.to_thread(past[point.heard])
            else:
                found = await self._estimator.estimates(manifest, unpacked(zlib.decompress(point.counts)))
            point.ranges = [_range(estimate.to_dict()) for estimate in found]
            point.counts = b""
            if time.monotonic() >= end:
                return

    def _trace(self, identity: str) -> Trace:
        trace = self._traces.pop(identity, None) or Trace()
        self._traces[identity] = trace  # the last one touched is the last to be forgotten
        if len(self._traces) > _MOST_TRACES:
            del self._traces[next(iter(self._traces))]
        return trace


def _event(kind: str, form: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(form, separators=(',', ':'), allow_nan=False)}\n\n".encode()


def _range(estimate: dict[str, Any]) -> Range:
    """The answer, and the range in which it typically lands, or where the data are lumpy what is certain."""
    typical = estimate.get("typical") or {}
    said = typical if typical.get("kind") == "smooth" else estimate.get("certain") or {}
    return [estimate["value"], said.get("low"), said.get("high")]


def _sentences(estimate: Mapping[str, Any]) -> list[str]:
    """Everything that is said of an estimate, one sentence each."""
    said = [error_statement(estimate[kind]) for kind in ("typical", "certain")]
    return [*(f"{each}." for each in said if each is not None), *(f"{note}." for note in estimate["notes"])]
