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
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from privquant.aggregator.campaign.shuffled_protocol import COUNTED, RoundRow, folded
from privquant.aggregator.campaign.snapshots import unpacked
from privquant.aggregator.operators.estimator import Estimator
from privquant.aggregator.store import schema
from privquant.aggregator.store.operator_queries import find_campaign, reading
from privquant.aggregator.store.rounds import read_rounds
from privquant.wire import Manifest

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

    def next_missing(self) -> Mark | None:
        """The mark without ranges that is farthest from one with them: the way appears coarse and gets denser."""
        known = [-1, *(k for k, mark in enumerate(self.marks) if mark.ranges is not None), len(self.marks)]
        missing = [k for k, mark in enumerate(self.marks) if mark.ranges is None]
        if not missing:
            return None
        return self.marks[max(missing, key=lambda k: min(abs(k - each) for each in known))]


class History:
    """The ways of one process's campaigns."""

    def __init__(self, engine: AsyncEngine, estimator: Estimator) -> None:
        self._engine = engine
        self._estimator = estimator
        self._ways: dict[str, Way] = {}

    async def note(self) -> None:
        """Take note of the snapshots that have turned."""
        snapshot, campaign = schema.snapshot.c, schema.campaign.c
        known = select(campaign.id, snapshot.campaign, snapshot.shown_heard).where(campaign.no == snapshot.campaign)
        async with self._engine.connect() as db:
            for identity, number, heard in (await db.execute(known)).all():
                way = self._way(identity)
                if heard >= max(1, GROWTH * way.heard):
                    one = select(snapshot.shown_heard, snapshot.shown).where(snapshot.campaign == number)
                    row = (await db.execute(one)).first()
                    if row is not None:  # it may have been closed meanwhile
                        way.add(Mark(row.shown_heard, zlib.compress(bytes(row.shown))))

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
        async with reading(self._engine) as db:
            row, manifest = await find_campaign(db, identity)
            rows = await read_rounds(db, row.no) if manifest.shuffle is not None else []
        for place, heard in enumerate(accumulate(row.answered for row in rows)):
            if rows[place].state == COUNTED and all(mark.heard != heard for mark in way.marks):
                way.add(Mark(heard))
        while (mark := way.next_missing()) is not None:
            mark.ranges = await self._ranges(manifest, mark, rows)
            mark.counts = b""
            if time.monotonic() >= end:
                return

    async def _ranges(self, manifest: Manifest, mark: Mark, rows: Sequence[RoundRow]) -> list[Range]:
        if manifest.shuffle is None:
            counts = unpacked(zlib.decompress(mark.counts))
            found = await self._estimator.estimates(manifest, counts)
        else:
            so_far = [row for row, sum_ in zip(rows, accumulate(r.answered for r in rows)) if sum_ <= mark.heard]
            found = await asyncio.to_thread(lambda: folded(manifest, so_far).estimates())
        return [_range(estimate.to_dict()) for estimate in found]

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
