"""How the answer of a campaign closed in: its snapshots since the server's start, for consoles that open late.

Every process notes the snapshots of running campaigns in memory as they change. It keeps only those with a tenth
more reports than the one before, which is even on the logarithmic axis they are drawn on. The trace of a shuffled
campaign is its counted rounds, and the database has all of them. A point costs an estimate, which is computed when
somebody looks, coarse first, a little at a time. Nothing here is newer or finer than what was shown in its time.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any

from privquant.aggregator.campaign.campaigns import mode_of
from privquant.aggregator.campaign.snapshots import unpacked
from privquant.aggregator.operators.estimator import Estimator
from privquant.aggregator.store import operator_queries as queries

GROWTH = 1.1
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


class History:
    """The traces of one process's campaigns."""

    def __init__(self, engine: queries.Engine, estimator: Estimator) -> None:
        self._engine = engine
        self._estimator = estimator
        self._traces: dict[str, Trace] = {}

    async def note(self) -> None:
        """Take note of the snapshots that have turned."""
        async with self._engine.connect() as db:
            for identity, number, heard in await queries.heard_in_snapshots(db):
                trace = self._trace(identity)
                if heard >= max(1, GROWTH * trace.heard):
                    now, counts = await queries.shown_snapshot(db, number)
                    if now:  # it may have been closed meanwhile
                        trace.add(TracePoint(now, zlib.compress(counts)))

    def saw(self, identity: str, heard: int, estimates: Sequence[dict[str, Any]]) -> None:
        """What was shown of a campaign just now."""
        if heard:
            self._trace(identity).add(TracePoint(heard, ranges=[_range(estimate) for estimate in estimates]))

    def trace(self, identity: str) -> list[list[Any]]:
        """[heard, range of each quantile ...] of the points that are computed."""
        return [[point.heard, *point.ranges] for point in self._trace(identity).points if point.ranges is not None]

    def forget(self, identity: str) -> None:
        self._traces.pop(identity, None)

    async def fill(self, identity: str, seconds: float) -> None:
        """Compute what is missing of a trace, a point at least and for about so long."""
        trace, end = self._trace(identity), time.monotonic() + seconds
        async with queries.reading(self._engine) as db:
            _, manifest = await queries.find_campaign(db, identity)
        past = await mode_of(manifest).past(self._engine)
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


def _range(estimate: dict[str, Any]) -> Range:
    """The answer, and the range in which it typically lands, or where the data are lumpy what is certain."""
    typical = estimate.get("typical") or {}
    said = typical if typical.get("kind") == "smooth" else estimate.get("certain") or {}
    return [estimate["value"], said.get("low"), said.get("high")]
