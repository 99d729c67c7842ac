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
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from privquant.aggregator.campaign.shuffled_protocol import COUNTED, RoundRow, folded
from privquant.aggregator.campaign.shuffled_rounds import read_rounds
from privquant.aggregator.campaign.snapshots import unpacked
from privquant.aggregator.operators.estimator import Estimator
from privquant.aggregator.store import schema
from privquant.aggregator.store.operator_queries import find_campaign, reading
from privquant.wire import Manifest

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

    def next_missing(self) -> TracePoint | None:
        """The point without ranges farthest from one with them, so that a trace appears coarse and gets denser."""
        known = [-1, *(k for k, point in enumerate(self.points) if point.ranges is not None), len(self.points)]
        missing = [k for k, point in enumerate(self.points) if point.ranges is None]
        if not missing:
            return None
        return self.points[max(missing, key=lambda k: min(abs(k - each) for each in known))]


class History:
    """The traces of one process's campaigns."""

    def __init__(self, engine: AsyncEngine, estimator: Estimator) -> None:
        self._engine = engine
        self._estimator = estimator
        self._traces: dict[str, Trace] = {}

    async def note(self) -> None:
        """Take note of the snapshots that have turned."""
        snapshot, campaign = schema.snapshot.c, schema.campaign.c
        known = select(campaign.id, snapshot.campaign, snapshot.shown_heard).where(campaign.no == snapshot.campaign)
        async with self._engine.connect() as db:
            for identity, number, heard in (await db.execute(known)).all():
                trace = self._trace(identity)
                if heard >= max(1, GROWTH * trace.heard):
                    one = select(snapshot.shown_heard, snapshot.shown).where(snapshot.campaign == number)
                    row = (await db.execute(one)).first()
                    if row is not None:  # it may have been closed meanwhile
                        trace.add(TracePoint(row.shown_heard, zlib.compress(bytes(row.shown))))

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
        async with reading(self._engine) as db:
            row, manifest = await find_campaign(db, identity)
            rows = await read_rounds(db, row.no) if manifest.shuffle is not None else []
        for place, heard in enumerate(accumulate(row.answered for row in rows)):
            if rows[place].state == COUNTED and all(point.heard != heard for point in trace.points):
                trace.add(TracePoint(heard))
        while (point := trace.next_missing()) is not None:
            point.ranges = await self._ranges(manifest, point, rows)
            point.counts = b""
            if time.monotonic() >= end:
                return

    async def _ranges(self, manifest: Manifest, point: TracePoint, rows: Sequence[RoundRow]) -> list[Range]:
        if manifest.shuffle is None:
            counts = unpacked(zlib.decompress(point.counts))
            found = await self._estimator.estimates(manifest, counts)
        else:
            so_far = [row for row, sum_ in zip(rows, accumulate(r.answered for r in rows)) if sum_ <= point.heard]
            found = await asyncio.to_thread(lambda: folded(manifest, so_far).estimates())
        return [_range(estimate.to_dict()) for estimate in found]

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
