"""What a campaign does differently in its two modes: `Local`, which is here, and `shuffled.Shuffled`.

In the local mode devices talk to this server. Queries are published from the counts, a device is given one, and
its report is counted by itself. What is shown while the campaign runs lags behind, in snapshots. In the shuffled
mode devices talk to the shuffler. This server announces the question of a round, and the shuffler sends the round's
reports as one batch, which is counted whole. A round is the smallest thing that is counted and is shown as it is.

    what a manifest says       terms_of_draft
    how a report comes in      check_route
    what is asked first        first_queries
    who gets in                check_invites
    what is shown              show, export, verify, heard, contradicted, alarms, created, page
    how the answer closed in   past

Both classes have all of these; the type checker sees to it, because `campaigns.mode_of` gives the one or the other.
What is asked next, `publisher` says of both. A mode holds the manifest and nothing besides; all that it shows it
reads from the database.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from privquant.aggregator.campaign.alarms import alarms, judged, poisoning
from privquant.aggregator.campaign.protocol import CampaignProtocol, Options, campaign_options, estimates_of, key_of
from privquant.aggregator.campaign.snapshots import shown_counts
from privquant.aggregator.campaign.states import SHOWS_SNAPSHOTS, shown_state
from privquant.aggregator.devices.admission_rules import DEFAULT_SHARE, at_a_time
from privquant.aggregator.store import operator_queries as queries
from privquant.aggregator.store.base import CampaignRow, Counts
from privquant.aggregator.store.operator_queries import Engine, as_dict, find_campaign, read_counts, reading
from privquant.domain import Domain
from privquant.messages import Estimate, Query
from privquant.pages.invite_page import invite_page
from privquant.privacy.coin import flip_threshold, real_epsilon
from privquant.server.replies import RequestRefused
from privquant.wire import BATCHES, NOTICES, Manifest, Route, SealKey, Waves, fingerprint

ONE_WAVE = Waves()
Estimating = Callable[[Manifest, Sequence[Counts]], Awaitable[list[Estimate]]]
"""Computes the estimates of counts."""
Waiting = Callable[[str], tuple[int, float]]
"""How many devices wait for their turn in a campaign, and how many seconds others had waited."""


@dataclass(frozen=True, slots=True)
class ShuffleDraft:
    """What an operator says about the shuffle model.

    cap:       the most that may be left if shuffler and aggregator work together; None: no limit.
    colluding: share of a round's reports that may be the aggregator's own.
    drop_outs: share of the users planned for who are expected not to answer.
    address, key: of the shuffler; `privquant shuffler key` shows both.
    """

    delta: float
    address: str
    key: str
    cap: float | None = None
    colluding: float = 0.0
    drop_outs: float = 0.0


@dataclass(frozen=True, slots=True)
class Draft:
    """What an operator says about a new campaign; the rest of the manifest follows from it."""

    measurement: str
    question: str
    domain: Domain
    epsilon: float
    planned_users: int
    quantiles: tuple[float, ...] = (0.5,)
    protocol: str = "isotonic"
    options: Options = ()
    interval: float | None = None
    waves: Waves = ONE_WAVE
    opens: int | None = None
    deadline: int | None = None
    pace: float = DEFAULT_SHARE
    shuffle: ShuffleDraft | None = None
    keep_days: int | None = None


class CampaignMode:
    """What both modes share, and for what only one of them has to say, the answer of the other."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    @cached_property
    def id(self) -> str:
        return self.manifest.id

    announces_rounds = False
    """Whether the next question goes to a shuffler as a round, and not to devices as a query."""

    def check_invites(self) -> None:
        """WrongState where tokens are not issued here."""

    def heard(self, row: CampaignRow, _counts: Sequence[Counts]) -> int:
        """How many reports are shown in the overview. counts: the ones that are shown."""
        return row.heard

    def contradicted(self, _counts: Sequence[Counts]) -> bool:
        """Whether one part of the run contradicts the others, by the counts that are shown."""
        return False

    def alarms(self, _counts: Sequence[Counts]) -> list[str]:
        """A sentence for everything in the shown counts that honest devices alone cannot have brought about.

        None in the shuffled mode: there is no snapshot to look at, and a single report is never seen here.
        """
        return []

    def created(self, _url: str) -> dict[str, str]:
        """What an operator is told of a new campaign beside its id. url: of this server."""
        return {}

    async def past(self, _engine: Engine) -> dict[int, Callable[[], list[Estimate]]]:
        """The earlier estimates that follow from the database, by how many reports they are of."""
        return {}

    def _shown_of(self, row: Any) -> dict[str, Any]:
        """What `show` says in both modes. row: of the table of campaigns."""
        return {
            "id": self.id,
            "state": shown_state(row.state, self.manifest.deadline),
            "manifest": self.manifest.to_dict(),
            "key_fingerprint": fingerprint(self.manifest.issuer),
            "planned_users": self.manifest.planned_users,
        }

    def _exported_of(self, row: Any) -> dict[str, Any]:
        """What `export` says in both modes."""
        state = shown_state(row.state, self.manifest.deadline)
        return {"campaign": self.id, "state": state, "envelope": json.loads(bytes(row.envelope))}


class Local(CampaignMode):
    """A campaign in the local trust model."""

    @classmethod
    def terms_of_draft(cls, draft: Draft, epsilon: float, _seal: SealKey) -> dict[str, Any]:
        """The fields of a new manifest that depend on the mode. seal: the key that batches can be sealed to."""
        return {
            "flip_threshold": flip_threshold(epsilon),
            "options": campaign_options(draft.protocol, draft.options),
            "planned_users": draft.planned_users,
        }

    def check_route(self, route: Route) -> None:
        """RequestRefused where this server does not answer the route for this campaign."""
        if route in (BATCHES, NOTICES):
            raise RequestRefused("unknown-campaign")

    def first_queries(self) -> list[tuple[Query, int]]:
        """The queries to publish at first; InvalidInput if the campaign cannot run or does not keep its promise."""
        return CampaignProtocol(self.manifest).next_queries()

    async def show(self, engine: Engine, *, behind: int, waiting: Waiting, estimate: Estimating) -> dict[str, Any]:
        """State, progress and estimates, as JSON; as of the last snapshot while the campaign runs.

        behind: reports that what is shown of a running campaign is behind, at least.
        """
        async with reading(engine) as db:
            row, manifest = await find_campaign(db, self.id)
            counts = await shown_counts(db, row.no, row.state)
            issued, given, spent = [await queries.size_of(db, row.no, name) for name in ("token", "pin", "spent")]
            link = await queries.places_of_link(db, row.no)
        estimates = await estimate(manifest, counts)
        heard = sum(each.answered for each in counts)
        devices, seconds = waiting(self.id)
        pace = {
            "share": row.pace,
            "at_a_time": at_a_time(row.pace, heard),
            "waiting": devices,
            "wait_seconds": round(seconds),
        }
        return self._shown_of(row) | {
            "heard": heard,
            "tokens": issued,
            "asked_not_answered": given + spent - heard,  # changes when a device is asked, not when it answers
            "behind": behind if row.state in SHOWS_SNAPSHOTS else 0,
            "pace": None if row.pace == 0 else pace,
            "open_link": link,
            "keep_days": row.keep_days,
            "closed": row.closed,
            "thresholds": len(counts),
            "epsilon": real_epsilon(manifest.flip_threshold),
            "estimates": estimates_as_json(estimates),
            "privacy": str(estimates[0].guarantee),
            "poisoning": poisoning(manifest),
            "alarms": await asyncio.to_thread(alarms, manifest, counts),
        }

    async def export(self, engine: Engine) -> dict[str, Any]:
        """Everything that is not a token: manifest, signature, counts per query, estimates, as JSON."""
        async with reading(engine) as db:
            row, manifest = await find_campaign(db, self.id)
            counts = await shown_counts(db, row.no, row.state)
        return self._exported_of(row) | {
            "counts": counts_as_json(sorted(counts, key=key_of)),
            "estimates": estimates_as_json(await asyncio.to_thread(estimates_of, manifest, counts)),
        }

    async def verify(self, engine: Engine) -> dict[str, Any]:
        """Everything rebuilt from what the database keeps, and whether it agrees with what is shown, as JSON.

        Here from the log of reports. The numbers are told of a closed campaign only; else whether they agree.
        """
        async with reading(engine) as db:
            row, manifest = await find_campaign(db, self.id)
            served, logged = await read_counts(db, row.no), await read_counts(db, row.no, from_log=True)
            spent, sealed, fresh = [await queries.size_of(db, row.no, name) for name in ("spent", "log", "tail")]
        reports = sealed + fresh
        same_counts = as_dict(served) == as_dict(logged)
        from_counts = await asyncio.to_thread(estimates_of, manifest, served)
        from_log = await asyncio.to_thread(estimates_of, manifest, logged)
        same = [e.to_dict() for e in from_counts] == [e.to_dict() for e in from_log]
        final = row.state not in SHOWS_SNAPSHOTS
        return {
            "campaign": self.id,
            "ok": same_counts and same and spent == reports,
            "counts_agree": same_counts,
            "estimates_agree": same,
            "tokens_agree": spent == reports,
            "reports": reports if final else None,
            "estimates": estimates_as_json(from_log) if final else None,
        }

    def heard(self, row: CampaignRow, counts: Sequence[Counts]) -> int:
        return sum(each.answered for each in counts) if row.state in SHOWS_SNAPSHOTS else row.heard

    def contradicted(self, counts: Sequence[Counts]) -> bool:
        found = judged(self.manifest, counts)
        return found is not None and found[0].alarm

    def alarms(self, counts: Sequence[Counts]) -> list[str]:
        return alarms(self.manifest, counts)

    def page(self, state: str, url: str) -> str:
        """What a browser shows at the campaign's address on this server."""
        return invite_page(self.manifest, state, f"{url}/c/{self.id}")


def estimates_as_json(estimates: Iterable[Estimate]) -> list[dict[str, Any]]:
    """With the guarantee in words."""
    return [estimate.to_dict() | {"guarantee": str(estimate.guarantee)} for estimate in estimates]


def counts_as_json(counts: Iterable[Counts]) -> list[dict[str, Any]]:
    """Numbers that may pass 2^53 are texts."""
    return [
        {
            "phase": row.query.phase,
            "arm": row.query.arm,
            "coin": str(row.query.coin),
            "threshold": str(row.query.threshold),
            "answered": row.answered,
            "ones": row.ones,
        }
        for row in counts
    ]
