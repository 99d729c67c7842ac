"""What devices and the aggregator say to a shuffler: manifest, claims, query, reports, announcements.

Plain functions from bytes to a `Reply`. A report is answered 201 or 200 only after the transaction that holds it
is durable. An announcement opens a round only if the issuer signed it, it follows the ones before, and the round
before it is over; a second one for a round is refused, and kept as evidence beside the first.

No label of a metric names a campaign, a device, a token or an address. Reports and refusals are counted in steps of
many (see `server.health`).
"""

import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from prometheus_client import Counter

from privquant import wire
from privquant.server.causes import Unavailable
from privquant.server.group_commit import GroupCommit
from privquant.server.health import Stepped
from privquant.server.keys import KeyUnusable
from privquant.server.logs import say
from privquant.server.replies import Reply, RequestRefused, check_method, refusal_of
from privquant.server.request_bodies import ReadBody
from privquant.server.token_ids import TokenIds, hash_of, link_matches
from privquant.shuffler import rounds
from privquant.shuffler.campaigns import Joined
from privquant.shuffler.settings import Settings
from privquant.shuffler.store import OPEN, Ask, AskResult, Outcome, Store

_reports = Stepped(Counter("privquant_shuffler_reports", "Reports kept for their round, in steps"))
_duplicates = Stepped(Counter("privquant_shuffler_duplicates", "Reports that were kept before, in steps"))
_refusals = Stepped(Counter("privquant_shuffler_refusals", "Requests refused, by reason, in steps", ["reason"]))

_ID = re.compile("[0-9a-f]{64}")
_REFUSALS = {
    Outcome.SPENT: ("token-spent", ""),
    Outcome.UNKNOWN: ("unknown-token", ""),
    Outcome.OVER: ("round-closed", ""),
    Outcome.FULL: ("link-exhausted", ""),
    Outcome.CLOSED: ("campaign-closed", ""),
    Outcome.COPY: ("conflict", "these sealed bytes were sent by another token before"),
    Outcome.STRAY: ("conflict", "this token was not given a place in that round"),
}


class View:
    """One campaign as this process sees it; the answer to a query is made once a round."""

    def __init__(self, row: Joined, token_ids: TokenIds) -> None:
        self.row = row
        self.token_ids = token_ids
        self.manifest = row.manifest
        self.batches = tuple(each.batch for each in wire.terms_of(row.manifest).rounds)
        self.answers: dict[int, bytes] = {}


@dataclass(eq=False)
class Routes:
    """Answers out of the joined campaigns, a group commit and the store."""

    _settings: Settings
    _store: Store
    _group: GroupCommit[Ask, AskResult]
    _view_of: Callable[[str], Awaitable[View | None]]
    _on_change: Callable[[], None]

    def __post_init__(self) -> None:
        self._serve: dict[wire.Route, Callable[[View, bytes], Awaitable[Reply]]] = {
            wire.MANIFEST: self._manifest,
            wire.CLAIMS: self._claim,
            wire.ROUND_QUERY: self._query,
            wire.REPORTS: self._report,
            wire.ANNOUNCEMENTS: self._announcement,
        }

    async def handle(self, identity: str, route: wire.Route, method: str, body: ReadBody) -> Reply:
        """One request, one reply; nothing that is sent raises. A body is read when its campaign is known."""
        try:
            check_method(route, method)
            view = await self._view_of(identity) if _ID.fullmatch(identity) else None
            if view is None:
                raise RequestRefused("unknown-campaign")
            return await self._serve[route](view, await body(route.most_sent))
        except (RequestRefused, wire.WireError, Unavailable, KeyUnusable) as error:
            reason, reply = refusal_of(error)
            _refusals.inc(reason)
            return reply

    async def _manifest(self, view: View, _body: bytes) -> Reply:
        return Reply(200, view.row.envelope, immutable=True)

    async def _claim(self, view: View, body: bytes) -> Reply:
        claim = wire.Claim.parse(body)
        rows = self._store.read("SELECT secret FROM link WHERE campaign = ?", view.row.no)
        if not rows or not link_matches(claim, bytes(rows[0][0])):
            raise RequestRefused("wrong-link")
        token = view.token_ids.id(bytes.fromhex(claim.token_hash))
        result = await self._group.put(partial(self._store.admit, view.row.no, token))
        if result.outcome in _REFUSALS:
            raise RequestRefused(*_REFUSALS[result.outcome])
        new = result.outcome is Outcome.KEPT
        return Reply(201 if new else 200, wire.CLAIMED.body(new))

    async def _query(self, view: View, body: bytes) -> Reply:
        hashed = bytes.fromhex(wire.parse_query_request(body))
        if view.row.state != OPEN:
            raise RequestRefused("campaign-closed")
        view.token_ids.check_wave(view.manifest, hashed)
        token, lease = view.token_ids.id(hashed), int(time.time()) + self._settings.lease_seconds
        # How many places each round has: its number, and none once the deadline has passed.
        room = view.batches if time.time() < view.manifest.deadline else (0,) * len(view.batches)
        result = await self._group.put(partial(self._store.place, view.row.no, token, room, lease))
        if result.outcome in (Outcome.PLACED, Outcome.HAS):
            return Reply(200, self._answer(view, result.round))
        if result.outcome in _REFUSALS:
            raise RequestRefused(*_REFUSALS[result.outcome])
        if time.time() >= view.manifest.deadline:
            raise RequestRefused("deadline-passed")
        not_open = "SELECT count(*) FROM round WHERE campaign = ? AND state <> ?"
        if self._store.read(not_open, view.row.no, rounds.State.OPEN) == [(len(view.batches),)]:
            raise RequestRefused("campaign-complete")
        raise RequestRefused("not-yet", "no round has a place now", retry_after=self._settings.retry_seconds)

    def _answer(self, view: View, number: int) -> bytes:
        if number not in view.answers:
            known = "SELECT envelope, threshold FROM round WHERE campaign = ? AND round <= ? ORDER BY round"
            *earlier, (envelope, _) = self._store.read(known, view.row.no, number)
            answer = wire.round_answer(bytes(envelope), [threshold for _, threshold in earlier])
            view.answers = {number: answer}  # the rounds before it take nobody any more
        return view.answers[number]

    async def _report(self, view: View, body: bytes) -> Reply:
        report = wire.SealedReport.parse(body)
        token = view.token_ids.id(hash_of(report.token))
        ask = partial(self._store.keep, view.row.no, token, report.round, report.sealed)
        outcome = (await self._group.put(ask)).outcome
        if outcome is Outcome.KEPT:
            _reports.inc()
            self._on_change()
            return Reply(201, wire.ACCEPTED.body(True))
        if outcome is Outcome.SPENT:
            _duplicates.inc()
            return Reply(200, wire.ACCEPTED.body(False))
        raise RequestRefused(*_REFUSALS[outcome])

    async def _announcement(self, view: View, body: bytes) -> Reply:
        found = wire.open_announcement(body, view.manifest)
        if view.row.state != OPEN:
            raise RequestRefused("campaign-closed")
        new = await self._store.write(lambda: self._note(view, body, found))
        if isinstance(new, RequestRefused):
            say("announcement refused", campaign=view.row.id[:16], round=found.round, why=new.code)
            raise new
        if new:
            say("round opened", campaign=view.row.id[:16], round=found.round, needed=view.batches[found.round])
        return Reply(201 if new else 200, wire.status_body(wire.NOTED))

    def _note(self, view: View, body: bytes, found: wire.Announcement) -> bool | RequestRefused:
        """Open the round; whether it is new. A refusal is returned, so that its evidence is committed."""
        db, campaign = self._store.db, view.row.no
        rows = "SELECT envelope, threshold, state FROM round WHERE campaign = ? ORDER BY round"
        known = db.execute(rows, (campaign,)).fetchall()
        if found.round < len(known):
            first = bytes(known[found.round][0])
            if wire.open_announcement(first, view.manifest) == found:
                return False
            rounds.note(db, campaign, found.round, "second announcement", first, body)
            return RequestRefused("second-announcement")
        if found.round > len(known) or (known and known[-1][2] not in rounds.OVER):
            return RequestRefused("conflict", f"round {len(known)} is the next, once the one before it is over")
        try:
            wire.check_chain(found, [threshold for _, threshold, _ in known])
        except wire.WireError:
            rounds.note(db, campaign, found.round, "announcement outside the chain", body)
            return RequestRefused("second-announcement", "it does not follow the announcements before it")
        rounds.announce(db, campaign, body, found, int(time.time()) + view.row.round_seconds)
        return True
