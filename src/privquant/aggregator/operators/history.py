"""How the answer of a campaign closed in: its snapshots since the server's start, for consoles that open late.

Every process notes the snapshots of running campaigns as they turn, in memory, and thinned: each has a tenth more
reports than the one before, which is even on the logarithmic axis they are drawn on. Of a shuffled campaign the
rounds that were counted are the way, and the database has all of them. What a point costs, an estimate, is paid
when somebody looks, coarse first, a little at a time. Nothing here is newer or finer than what was shown in its
time.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any

from privquant.aggregator.campaign.modes import mode_of
from privquant.aggregator.campaign.snapshots import unpacked
from privquant.aggregator.operators.estimator import Estimator
from privquant.aggregator.store import operator_queries as queries

GROWTH = 1.1
_MOST_POINTS = 300
_MOST_WAYS = 200

Range = list[float | int | None]
"""The answer, and the two ends of the range in which it lands."""


@dataclass(slots=True)
class Mark:
    """A place on the way. counts: those of the snapshot, packed, until the ranges are computed from them."""

    heard: int
    counts: bytes = b""
    ranges: list[Range] | None = None


@dataclass(slots=True)
class Way:
    """The marks of one campaign, in their order."""

    marks: list[Mark] = field(default_factory=list)

    @property
    def heard(self) -> int:
        return self.marks[-1].heard if self.marks else 0

    def add(self, mark: Mark) -> None:
        """Put a mark where it belongs; what was known of it stays known."""
        place = next((k for k, each in enumerate(self.marks) if each.heard >= mark.heard), len(self.marks))
        if place < len(self.marks) and self.marks[place].heard == mark.heard:
            mark.ranges = mark.ranges or self.marks[place].ranges
            self.marks[place] = mark
        else:
            self.marks.insert(place, mark)
        if len(self.marks) > _MOST_POINTS:
            del self.marks[1:-1:2]

    def keep(self, known: Container[int]) -> None:
        """Forget marks that nothing can be computed for any more: rounds that a restored backup does not have."""
        self.marks = [mark for mark in self.marks if mark.ranges or mark.counts or mark.heard in known]

    def next_missing(self) -> Mark | None:
        """The mark without ranges that is farthest from one with them: the way appears coarse and gets denser."""
        known = [-1, *(k for k, mark in enumerate(self.marks) if mark.ranges is not None), len(self.marks)]
        missing = [k for k, mark in enumerate(self.marks) if mark.ranges is None]
        if not missing:
            return None
        return self.marks[max(missing, key=lambda k: min(abs(k - each) for each in known))]


class History:
    """The ways of one process's campaigns."""

    def __init__(self, engine: queries.Engine, estimator: Estimator) -> None:
        self._engine = engine
        self._estimator = estimator
        self._ways: dict[str, Way] = {}

    async def note(self) -> None:
        """Take note of the snapshots that have turned."""
        async with self._engine.connect() as db:
            for identity, number, heard in await queries.heard_in_snapshots(db):
                way = self._way(identity)
                if heard >= max(1, GROWTH * way.heard):
                    now, counts = await queries.shown_snapshot(db, number)
                    if now:  # it may have been closed meanwhile
                        way.add(Mark(now, zlib.compress(counts)))

    def saw(self, identity: str, heard: int, estimates: Sequence[dict[str, Any]]) -> None:
        """What was shown of a campaign just now."""
        if heard:
            self._way(identity).add(Mark(heard, ranges=[_range(estimate) for estimate in estimates]))

    def trace(self, identity: str) -> list[list[Any]]:
        """[heard, range of each quantile ...] of the marks that are computed."""
        return [[mark.heard, *mark.ranges] for mark in self._way(identity).marks if mark.ranges is not None]

    def forget(self, identity: str) -> None:
        self._ways.pop(identity, None)

    async def fill(self, identity: str, seconds: float) -> None:
        """Compute what is missing of a way, a point at least and for about so long."""
        way, end = self._way(identity), time.monotonic() + seconds
        async with queries.reading(self._engine) as db:
            _, manifest = await queries.find_campaign(db, identity)
        past = await mode_of(manifest).past(self._engine)
        way.keep(past)
        for heard in past:
            if all(mark.heard != heard for mark in way.marks):
                way.add(Mark(heard))
        while (mark := way.next_missing()) is not None:
            if mark.heard in past:
                found = await asyncio.to_thread(past[mark.heard])
            else:
                found = await self._estimator.estimates(manifest, unpacked(zlib.decompress(mark.counts)))
            mark.ranges = [_range(estimate.to_dict()) for estimate in found]
            mark.counts = b""
            if time.monotonic() >= end:
                return

    def _way(self, identity: str) -> Way:
        way = self._ways.pop(identity, None) or Way()
        self._ways[identity] = way  # the last one touched is the last to be forgotten
        if len(self._ways) > _MOST_WAYS:
            del self._ways[next(iter(self._ways))]
        return way


def _range(estimate: dict[str, Any]) -> Range:
    """The answer, and the range in which it typically lands, or where the data are lumpy what is certain."""
    typical = estimate.get("typical") or {}
    said = typical if typical.get("kind") == "smooth" else estimate.get("certain") or {}
    return [estimate["value"], said.get("low"), said.get("high")]
