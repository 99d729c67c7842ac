"""The routes devices use: manifest, claims, query, reports, reports:batch; and the shuffler: batches, notices.

Plain functions from bytes to a `Reply`, with no web framework on the way: this is the path every device takes.
A report is answered 201 or 200 only after the transaction that counts it has been committed.

A batch costs thousands of times what a report does, and anybody can send one full of forged tickets. So that
devices with single reports hardly notice:

- one batch is in work at a time in a process, and it works for a fifth of the time at most;
- its reports are looked at and stored a piece at a time, and other requests are served between two pieces;
- when `FORGED` of its reports were forged, and half of those looked at, the rest is not looked at: each is answered
  429, which is not final. The sender may have been lied to, and sends the rest again in a smaller batch.

A batch of the shuffler is counted whole and once. It is opened only when the campaign's shuffler signed it, its
round was announced and is not over, it has at least the round's number of reports, no two of them are the same, and
all its parts are there and hash to its id. What is kept of it is the number of reports, how many opened, and how
many of those were ones.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from privquant import wire
from privquant.aggregator import metrics
from privquant.aggregator.campaign.protocol import build_shuffled
from privquant.aggregator.campaign.states import COUNTS_REPORTS, GIVES_QUERIES
from privquant.aggregator.devices.admission import Admission, HungUp
from privquant.aggregator.devices.admission_rules import InFlightLimit
from privquant.aggregator.devices.campaign_cache import CampaignCache, CampaignView
from privquant.aggregator.store import rounds as shuffled_rounds
from privquant.aggregator.store.base import Admit, Ask, AskResult, Outcome, Pin, Spend, Unavailable
from privquant.aggregator.store.operator_queries import DatabaseError, Engine, writing
from privquant.aggregator.store.rounds import ANNOUNCED, COUNTED, RoundRow
from privquant.server.group_commit import GroupCommit
from privquant.server.keys import KeyRing, KeyUnusable, seal_key
from privquant.server.logs import say
from privquant.server.replies import Reply, RequestRefused, check_method, refusal_of
from privquant.server.request_bodies import ReadBody, whole
from privquant.server.token_ids import hash_of, link_matches

PLACES_SECONDS = 10
"""How soon to ask again for a place that somebody in flight may leave."""
CLAIM_MINUTES = 2
"""For so long a place of an open link is kept for a device that asks for no query; more than its patience."""
PIECE = 100
"""Reports of a batch looked at before other requests are served."""
REST = 4.0
"""Seconds left to other requests for every second a batch works."""
FORGED = 64
"""Forged reports in a batch, at least, before the rest of it is left unread."""

T = TypeVar("T")

_CHUNK = 256  # reports of the shuffler opened before other requests get a turn
_WRONG_LINK = "The campaign has no open link with this secret, or it needs a code and this is not the one"
_CLAIMED = "All places of the open link are taken, some of them by devices that have not asked yet"
_NEW, _KNOWN = Reply(201, wire.COUNTED.body(True)), Reply(200, wire.COUNTED.body(False))
_LATE = "The place of the open link was not used in time and has gone to others; claim one again"


class CampaignRoutes:
    """Routes of campaigns: each is served by a function of the campaign, the body, and the client's hanging up."""

    _cache: CampaignCache
    _serve: Mapping[wire.Route, Callable[[CampaignView, bytes, HungUp], Awaitable[Reply]]]
    _failures: tuple[type[Exception], ...] = (RequestRefused, wire.WireError, Unavailable, KeyUnusable)

    async def handle(
        self, identity: str, route: wire.Route, method: str, body: bytes | ReadBody, hung_up: HungUp
    ) -> Reply:
        """One request, one reply; nothing that is sent raises. A body is read when its campaign is known."""
        try:
            check_method(route, method)
            view = await self._cache.served(identity, route)
            reply = await self._serve[route](view, await whole(body, route.most_sent), hung_up)
        except self._failures as error:
            reason, reply = refusal_of(error)  # not the error: a variable with it would keep the body alive
            metrics.refusals.labels(reason).inc()
            self._cache.refused(identity, reason)
        metrics.requested(route.name, reply.status)
        return reply


@dataclass(eq=False)
class DeviceRoutes(CampaignRoutes):
    """Answers devices out of the campaign cache and a group commit."""

    _cache: CampaignCache
    _group: GroupCommit[Ask, AskResult]
    _admission: Admission
    _link_of: Callable[[int], Awaitable[bytes | None]]
    _lease_minutes: int

    def __post_init__(self) -> None:
        self._one_batch_at_a_time = asyncio.Lock()
        self._serve = {
            wire.MANIFEST: self._manifest,
            wire.CLAIMS: self._claim,
            wire.QUERY: self._query,
            wire.REPORTS: self._report,
            wire.BATCH: self._batch,
        }

    async def _manifest(self, view: CampaignView, _body: bytes, _hung_up: HungUp) -> Reply:
        return Reply(200, view.envelope, immutable=True)

    async def _claim(self, view: CampaignView, body: bytes, hung_up: HungUp) -> Reply:
        claim = wire.Claim.parse(body)
        stored = await self._link_of(view.no)
        if stored is None or not link_matches(claim, stored):
            raise RequestRefused("wrong-link", _WRONG_LINK)
        hashed = bytes.fromhex(claim.token_hash)
        token, term = view.tickets.id(hashed), _minute() + CLAIM_MINUTES

        async def ask(limit: InFlightLimit | None) -> Admit:
            return Admit(view.no, token, term, limit)

        result = await self._admission.result(view, token, hashed, ask, hung_up)
        if result.outcome is Outcome.WAIT and view.share == 0:
            raise RequestRefused("all-places-taken", _CLAIMED, retry_after=PLACES_SECONDS)
        if result.outcome is Outcome.FULL:
            raise RequestRefused("link-exhausted")
        if result.outcome is Outcome.CLOSED:
            raise _not_open(view)
        new = result.outcome is Outcome.COUNTED
        return Reply(201 if new else 200, wire.CLAIMED.body(new))

    async def _query(self, view: CampaignView, body: bytes, hung_up: HungUp) -> Reply:
        hashed = bytes.fromhex(wire.parse_query_request(body))
        if view.state not in COUNTS_REPORTS:
            raise RequestRefused("campaign-closed")
        if view.state not in GIVES_QUERIES:
            raise _not_open(view)
        view.tickets.check_wave(view.manifest, hashed)
        token, lease = view.tickets.id(hashed), _minute() + self._lease_minutes
        query = None

        async def ask(limit: InFlightLimit | None) -> Pin:
            nonlocal query
            only_again = time.time() >= view.manifest.deadline or await self._cache.is_full(view)
            query = None if only_again else view.next_query()
            return Pin(view.no, token, None if query is None else view.tickets.seal(hashed, query), lease, limit)

        result = await self._admission.result(view, token, hashed, ask, hung_up)
        if result.outcome is Outcome.PINNED:
            view.taken += 1
            metrics.pins.inc()
        if result.box is None:
            raise await self._no_query(view, result)
        # If another request of the same token was given a query first, this one gets the same.
        if result.outcome is not Outcome.PINNED or query is None:
            query = view.tickets.unseal(hashed, result.box)
        return Reply(200, wire.Ticket(query.threshold, view.tickets.ticket(hashed, query)).to_bytes())

    async def _no_query(self, view: CampaignView, result: AskResult) -> RequestRefused:
        if result.outcome is Outcome.SPENT:
            return RequestRefused("token-spent")
        if result.outcome is Outcome.UNKNOWN:
            return RequestRefused("unknown-token")
        if result.outcome is Outcome.EXPIRED:
            return RequestRefused("not-yet", _LATE, retry_after=60 * CLAIM_MINUTES)
        if time.time() >= view.manifest.deadline:
            return RequestRefused("deadline-passed")
        if await self._cache.is_complete(view):
            return RequestRefused("campaign-complete")
        return RequestRefused("all-places-taken", retry_after=PLACES_SECONDS)

    async def _report(self, view: CampaignView, body: bytes, _hung_up: HungUp) -> Reply:
        result = await self._group.put(self._spend(view, wire.WireReport.parse(body)))
        if result.outcome is Outcome.CLOSED:
            raise RequestRefused("campaign-closed")
        new = _counted(result)
        if new:
            view.refusals.counted()
        return _NEW if new else _KNOWN

    def _spend(self, view: CampaignView, report: wire.WireReport) -> Spend:
        hashed = hash_of(report.token)
        query = view.tickets.read(hashed, report.ticket)
        if query is None:
            raise RequestRefused("forged-ticket")
        return Spend(view.no, view.tickets.id(hashed), query, report.bit)

    async def _batch(self, view: CampaignView, body: bytes, _hung_up: HungUp) -> Reply:
        async with self._one_batch_at_a_time:
            reports = await _resting(lambda: _reports_in(body))
            results: list[dict[str, Any]] = []
            forged = 0
            while len(results) < len(reports):
                if forged >= FORGED and 2 * forged >= len(results):
                    left = len(reports) - len(results)
                    results += [_refused_result("too-many-requests", left)] * left
                    break
                found = await self._piece(view, reports[len(results) : len(results) + PIECE])
                forged += sum(result["status"] == 403 for result in found)
                results += found
            return await _resting(lambda: Reply(200, wire.canonical({"results": results})))

    async def _piece(self, view: CampaignView, forms: list[Any]) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = [{} for _ in forms]
        asks: list[Spend] = []

        def look() -> None:
            for result, form in zip(results, forms, strict=True):
                try:
                    asks.append(self._spend(view, wire.WireReport.from_dict(form)))
                except wire.WireError:
                    result |= _refused_result("malformed")
                except RequestRefused as error:
                    view.refusals.refused(error.code)
                    result |= _refused_result(error.code)

        await _resting(look)
        asked = [result for result in results if not result]
        for result, found in zip(asked, await self._group.put_all(asks), strict=True):
            if found.outcome is Outcome.CLOSED:
                result |= _refused_result("campaign-closed")
            else:
                result["status"] = 201 if _counted(found) else 200
        return results


@dataclass(eq=False)
class BatchRoutes(CampaignRoutes):
    """The routes `batches` and `notices`. on_end: called when a round is over, so that the next is announced."""

    _engine: Engine
    _cache: CampaignCache
    _keys: KeyRing
    _on_end: Callable[[], None]

    def __post_init__(self) -> None:
        self._serve = {wire.BATCHES: self._batch, wire.NOTICES: self._notice}
        self._failures = (*self._failures, DatabaseError, OSError)
        self._counting: dict[tuple[int, int], asyncio.Lock] = {}

    async def _round(self, view: CampaignView, number: int) -> RoundRow:
        rows = await shuffled_rounds.read_rounds(self._engine, view.no)
        if number >= len(rows):
            raise RequestRefused("conflict", f"round {number} was not announced")
        return rows[number]

    async def _notice(self, view: CampaignView, body: bytes, _hung_up: HungUp) -> Reply:
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

    async def _batch(self, view: CampaignView, body: bytes, _hung_up: HungUp) -> Reply:
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
        query = build_shuffled(view.manifest).query_of_round(row.round, row.threshold)
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


async def _resting(work: Callable[[], T]) -> T:
    """Do the work, then serve other requests for `REST` times as long."""
    began = time.perf_counter()
    done = work()
    await asyncio.sleep(REST * (time.perf_counter() - began))
    return done


def _reports_in(body: bytes) -> list[Any]:
    reports = wire.parse_object(body, wire.MAX_BATCH_REQUEST, ("reports",))["reports"]
    if not isinstance(reports, list) or not 1 <= len(reports) <= wire.BATCH_LIMIT:
        raise wire.WireError(f"reports is a list of 1 to {wire.BATCH_LIMIT} reports")
    return reports


def _refused_result(code: str, times: int = 1) -> dict[str, Any]:
    metrics.refusals.labels(code).inc(times)
    return {"status": wire.PROBLEMS[code].status, "type": wire.PROBLEM_TYPE + code}


def _counted(result: AskResult) -> bool:
    """Whether a report was new."""
    new = result.outcome is Outcome.COUNTED
    (metrics.reports if new else metrics.duplicates).inc()
    return new


def _minute() -> int:
    return int(time.time() // 60)


def _not_open(view: CampaignView) -> RequestRefused:
    return RequestRefused("campaign-paused" if view.state in COUNTS_REPORTS else "campaign-closed", retry_after=60)


def _open(open_one: Callable[[bytes], int], sealed: Sequence[bytes]) -> tuple[int, int]:
    answered = ones = 0
    for each in sealed:
        with suppress(wire.SealError):
            ones += open_one(each)
            answered += 1
    return answered, ones


def _over(row: RoundRow, part: wire.BatchPart) -> Reply:
    """The answer to a batch of a round that is over: the one that was counted, or another."""
    if row.state == COUNTED and row.batch == part.id:
        return Reply(200, wire.status_body(wire.BATCH_ALREADY_COUNTED))
    raise RequestRefused("second-batch")
