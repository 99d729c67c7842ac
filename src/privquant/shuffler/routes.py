"""What devices and the aggregator say to a shuffler: manifest, claims, query, reports, announcements.

Plain functions from bytes to a `Reply`. A report is answered 201 or 200 only after the transaction that holds it
is durable. An announcement opens a round only if the issuer signed it, it follows the ones before, and the round
before it is over; a second one for a round is refused, and kept as evidence beside the first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from privquant import wire
from privquant.server.causes import Unavailable
from privquant.server.group_commit import GroupCommit
from privquant.server.keys import KeyUnusable
from privquant.server.logs import say
from privquant.server.replies import Reply, RequestRefused, check_method, refusal_of
from privquant.server.request_bodies import ReadBody
from privquant.server.token_ids import TokenIds, hash_of, link_matches
from privquant.shuffler import forwarding, metrics, rounds
from privquant.shuffler.campaigns import Joined
from privquant.shuffler.database import OPEN
from privquant.shuffler.round_states import OVER, State
from privquant.shuffler.settings import Settings
from privquant.shuffler.store import Admit, Ask, AskResult, Keep, Outcome, Place, Store

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
            metrics.refusals.inc(reason)
            return reply

    async def _manifest(self, view: View, _body: bytes) -> Reply:
        return Reply(200, view.row.envelope, immutable=True)

    async def _claim(self, view: View, body: bytes) -> Reply:
        claim = wire.Claim.parse(body)
        rows = self._store.read("SELECT secret FROM link WHERE campaign = ?", view.row.no)
        if not rows or not link_matches(claim, bytes(rows[0][0])):
            raise RequestRefused("wrong-link")
        result = await self._group.put(Admit(view.row.no, view.token_ids.id(bytes.fromhex(claim.token_hash))))
        if result.outcome in _REFUSALS:
            raise RequestRefused(*_REFUSALS[result.outcome])
        new = result.outcome is Outcome.KEPT
        return Reply(201 if new else 200, wire.CLAIMED.body(new))

    async def _query(self, view: View, body: bytes) -> Reply:
        hashed = bytes.fromhex(wire.parse_query_request(body))
        if view.row.state != OPEN:
            raise RequestRefused("campaign-closed")
        view.token_ids.check_wave(view.manifest, hashed)
        lease = int(time.time()) + self._settings.lease_seconds
        result = await self._group.put(Place(view.row.no, view.token_ids.id(hashed), self._room(view), lease))
        if result.outcome in (Outcome.PLACED, Outcome.HAS):
            return Reply(200, self._answer(view, result.round))
        raise self._no_place(view, result.outcome)

    def _room(self, view: View) -> tuple[int, ...]:
        """How many places each round has: its number, and none once the deadline has passed."""
        return view.batches if time.time() < view.manifest.deadline else (0,) * len(view.batches)

    def _no_place(self, view: View, outcome: Outcome) -> RequestRefused:
        if outcome in _REFUSALS:
            return RequestRefused(*_REFUSALS[outcome])
        if time.time() >= view.manifest.deadline:
            return RequestRefused("deadline-passed")
        not_open = "SELECT count(*) FROM round WHERE campaign = ? AND state <> ?"
        over = self._store.read(not_open, view.row.no, State.OPEN)
        if over[0][0] == len(view.batches):
            return RequestRefused("campaign-complete")
        return RequestRefused("not-yet", "no round has a place now", retry_after=self._settings.retry_seconds)

    def _answer(self, view: View, number: int) -> bytes:
        found = view.answers.get(number)
        if found is None:
            rows = self._store.read(
                "SELECT envelope, threshold FROM round WHERE campaign = ? AND round <= ? ORDER BY round",
                view.row.no,
                number,
            )
            found = wire.round_answer(bytes(rows[-1][0]), [threshold for _, threshold in rows[:-1]])
            view.answers = {number: found}  # the rounds before it take nobody any more
        return found

    async def _report(self, view: View, body: bytes) -> Reply:
        report = wire.SealedReport.parse(body)
        identity = view.token_ids.id(hash_of(report.token))
        result = await self._group.put(Keep(view.row.no, identity, report.round, report.sealed))
        if result.outcome in (Outcome.KEPT, Outcome.SPENT):
            new = result.outcome is Outcome.KEPT
            (metrics.reports if new else metrics.duplicates).inc()
            if new:
                self._on_change()
            return Reply(201 if new else 200, wire.ACCEPTED.body(new))
        raise RequestRefused(*_REFUSALS[result.outcome])

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
        known = db.execute(
            "SELECT envelope, threshold, state FROM round WHERE campaign = ? ORDER BY round", (campaign,)
        ).fetchall()
        earlier = [threshold for _, threshold, _ in known]
        if found.round < len(known):
            first = wire.open_announcement(bytes(known[found.round][0]), view.manifest)
            if first == found:
                return False
            forwarding.note(db, campaign, found.round, "second announcement", bytes(known[found.round][0]), body)
            return RequestRefused("second-announcement")
        if found.round > len(known) or (known and known[-1][2] not in OVER):
            return RequestRefused("conflict", f"round {len(known)} is the next, once the one before it is over")
        try:
            wire.check_chain(found, earlier)
        except wire.WireError:
            forwarding.note(db, campaign, found.round, "announcement outside the chain", body)
            return RequestRefused("second-announcement", "it does not follow the announcements before it")
        rounds.announce(db, campaign, body, found, int(time.time()) + view.row.round_seconds)
        return True
