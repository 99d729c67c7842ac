"""What the shuffler says to the aggregator: batches, which are opened and counted whole and once, and notices.

A batch is opened only when the campaign's shuffler signed it, its round was announced and is not over, it has at
least the round's number of reports, no two of them are the same, and all its parts are there and hash to its id.
What is kept of it is the number of reports, how many opened, and how many of those were ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from privquant import wire
from privquant.aggregator import metrics
from privquant.aggregator.campaign.protocol import build_shuffled
from privquant.aggregator.campaign.states import COUNTS_REPORTS
from privquant.aggregator.devices.campaign_cache import CampaignCache, CampaignView
from privquant.aggregator.store import rounds as shuffled_rounds
from privquant.aggregator.store.operator_queries import DatabaseError, Engine, writing
from privquant.aggregator.store.rounds import ANNOUNCED, COUNTED, RoundRow
from privquant.protocols.base import ThresholdProtocol
from privquant.server.causes import Unavailable
from privquant.server.keys import KeyRing, KeyUnusable, seal_key
from privquant.server.logs import say
from privquant.server.replies import Reply, RequestRefused, check_method, refusal_of
from privquant.server.request_bodies import ReadBody, whole

_CHUNK = 256  # reports opened before other requests get a turn


@dataclass(eq=False)
class BatchRoutes:
    """The routes `batches` and `notices`. on_end: called when a round is over, so that the next is announced."""

    _engine: Engine
    _cache: CampaignCache
    _keys: KeyRing
    _on_end: Callable[[], None]

    def __post_init__(self) -> None:
        self._counting: dict[tuple[int, int], asyncio.Lock] = {}
        self._protocols: dict[str, ThresholdProtocol] = {}

    async def handle(self, identity: str, route: wire.Route, method: str, body: bytes | ReadBody) -> Reply:
        """One request, one reply; nothing that is sent raises."""
        try:
            check_method(route, method)
            view = await self._cache.served(identity, route)
            serve = self._notice if route == wire.NOTICES else self._batch
            reply = await serve(view, await whole(body, route.most_sent))
        except (RequestRefused, wire.WireError, Unavailable, KeyUnusable, DatabaseError, OSError) as error:
            reason, reply = refusal_of(error)
            metrics.refusals.labels(reason).inc()
            self._cache.refused(identity, reason)
        metrics.requested(route.name, reply.status)
        return reply

    async def _round(self, view: CampaignView, number: int) -> RoundRow:
        rows = await shuffled_rounds.read_rounds(self._engine, view.no)
        if number >= len(rows):
            raise RequestRefused("conflict", f"round {number} was not announced")
        return rows[number]

    def _protocol(self, view: CampaignView) -> ThresholdProtocol:
        """Asked nothing but how its queries are numbered."""
        if view.id not in self._protocols:
            self._protocols[view.id] = build_shuffled(view.manifest)
        return self._protocols[view.id]

    async def _notice(self, view: CampaignView, body: bytes) -> Reply:
        notice = wire.open_notice(body, view.manifest)
        row = await self._round(view, notice.round)
        if notice.status == wire.EXTENDED:
            if row.state == ANNOUNCED:
                await shuffled_rounds.mark(self._engine, view.no, notice.round, extended=True)
            return Reply(201, wire.status_body(wire.NOTED))
        if row.state == COUNTED:
            raise RequestRefused("conflict", "the batch of this round is counted")
        new = await shuffled_rounds.drop_round(self._engine, view.no, notice.round, notice.reports)
        if new:
            self._on_end()
            say("round dropped", campaign=view.id[:16], round=notice.round, reports=notice.reports)
        return Reply(201 if new else 200, wire.status_body(wire.NOTED))

    async def _batch(self, view: CampaignView, body: bytes) -> Reply:
        part = await asyncio.to_thread(wire.open_part, body, view.manifest)
        async with self._counting.setdefault((view.no, part.round), asyncio.Lock()):
            return await self._take(view, part)

    async def _take(self, view: CampaignView, part: wire.BatchPart) -> Reply:
        row = await self._round(view, part.round)
        if row.over:
            return _over(row, part)
        if view.state not in COUNTS_REPORTS:
            raise RequestRefused("campaign-closed")
        if not wire.enough(part, view.manifest):
            raise RequestRefused("short-batch")
        sealed = await self._whole(view, part)
        if sealed is None:
            return Reply(201, wire.status_body(wire.KEPT))
        answered, ones = await self._opened(view, row, sealed)
        query = self._protocol(view).query_of_round(row.round, row.threshold)
        if not await shuffled_rounds.count_batch(self._engine, view.no, part, query, answered, ones):
            return _over(await self._round(view, part.round), part)
        self._on_end()
        say("round counted", campaign=view.id[:16], round=part.round, reports=part.reports, opened=answered)
        return Reply(201, wire.status_body(wire.BATCH_COUNTED))

    async def _whole(self, view: CampaignView, part: wire.BatchPart) -> Sequence[bytes] | None:
        """All reports of the batch if this part is the last that was missing; else the part is kept."""
        sealed: Sequence[bytes] = part.sealed
        if part.parts > 1:
            kept = await shuffled_rounds.keep_part(self._engine, view.no, part)
            if any(batch != part.id for batch, _ in kept):
                raise RequestRefused("second-batch")
            if len(kept) < part.parts:
                return None
            size = wire.SEALED_BYTES
            sealed = [blob[at : at + size] for _, blob in kept for at in range(0, len(blob), size)]
        if wire.batch_id(part.campaign, part.round, sealed) != part.id or len(set(sealed)) != part.reports:
            async with writing(self._engine) as db:
                await shuffled_rounds.forget_parts(db, view.no, part.round)
            raise RequestRefused("malformed", "the parts do not hash to the batch's id, or a report is in it twice")
        return sealed

    async def _opened(self, view: CampaignView, row: RoundRow, sealed: Sequence[bytes]) -> tuple[int, int]:
        """How many reports open as answers to this very question, and how many of them are ones."""
        terms = wire.terms_of(view.manifest)
        info = wire.report_info(view.id, row.round, row.threshold, terms.rounds[row.round].coin)
        open_one = wire.opener(seal_key(self._keys, view.manifest.issuer, view.manifest.nonce), info)
        answered = ones = 0
        for start in range(0, len(sealed), _CHUNK):
            found, bits = await asyncio.to_thread(_open, open_one, sealed[start : start + _CHUNK])
            answered, ones = answered + found, ones + bits
        return answered, ones


def _open(open_one: Callable[[bytes], int], sealed: Sequence[bytes]) -> tuple[int, int]:
    answered = ones = 0
    for each in sealed:
        try:
            ones += open_one(each)
        except wire.SealError:
            continue
        answered += 1
    return answered, ones


def _over(row: RoundRow, part: wire.BatchPart) -> Reply:
    """The answer to a batch of a round that is over: the one that was counted, or another."""
    if row.state == COUNTED and row.batch == part.id:
        return Reply(200, wire.status_body(wire.BATCH_ALREADY_COUNTED))
    raise RequestRefused("second-batch")
