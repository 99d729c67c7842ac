"""The local mode: devices talk to this server, and each report is counted by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from privquant.aggregator.campaign.alarms import alarms, judged, poisoning
from privquant.aggregator.campaign.mode import (
    CampaignMode,
    Draft,
    Estimating,
    Waiting,
    counts_as_json,
    estimates_as_json,
)
from privquant.aggregator.campaign.protocol import CampaignProtocol, campaign_options, estimates_of, key_of
from privquant.aggregator.campaign.snapshots import shown_counts
from privquant.aggregator.campaign.states import SHOWS_SNAPSHOTS
from privquant.aggregator.devices.admission_rules import at_a_time
from privquant.aggregator.store import operator_queries as queries
from privquant.aggregator.store.base import CampaignRow, Counts
from privquant.aggregator.store.operator_queries import Engine, as_dict, find_campaign, read_counts, reading
from privquant.messages import Query
from privquant.pages.invite_page import invite_page
from privquant.privacy.coin import flip_threshold, real_epsilon
from privquant.server.replies import RequestRefused
from privquant.wire import BATCHES, NOTICES, Route, SealKey


class Local(CampaignMode):
    """A campaign in the local trust model."""

    @classmethod
    def terms_of_draft(cls, draft: Draft, epsilon: float, _seal: SealKey) -> dict[str, Any]:
        return {
            "flip_threshold": flip_threshold(epsilon),
            "options": campaign_options(draft.protocol, draft.options),
            "planned_users": draft.planned_users,
        }

    def check_route(self, route: Route) -> None:
        if route in (BATCHES, NOTICES):
            raise RequestRefused("unknown-campaign")

    def first_queries(self) -> list[tuple[Query, int]]:
        return CampaignProtocol(self.manifest).next_queries()

    async def show(self, engine: Engine, *, behind: int, waiting: Waiting, estimate: Estimating) -> dict[str, Any]:
        """As of the last snapshot while the campaign runs."""
        async with reading(engine) as db:
            row, manifest = await find_campaign(db, self.id)
            counts = await shown_counts(db, row.no, row.state)
            issued, asked = await queries.tokens_issued_and_asked(db, row.no)
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
            "asked_not_answered": asked - heard,
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
        async with reading(engine) as db:
            row, manifest = await find_campaign(db, self.id)
            counts = await shown_counts(db, row.no, row.state)
        return self._exported_of(row) | {
            "counts": counts_as_json(sorted(counts, key=lambda each: key_of(each.query))),
            "estimates": estimates_as_json(await asyncio.to_thread(estimates_of, manifest, counts)),
        }

    async def verify(self, engine: Engine) -> dict[str, Any]:
        """From the log of reports. The numbers are told of a closed campaign only; else whether they agree."""
        async with reading(engine) as db:
            row, manifest = await find_campaign(db, self.id)
            served, logged = await read_counts(db, row.no), await read_counts(db, row.no, from_log=True)
            spent, reports = await queries.tokens_spent_and_reports(db, row.no)
        same_counts = as_dict(served) == as_dict(logged)
        from_counts, from_log = await asyncio.to_thread(
            lambda: (estimates_of(manifest, served), estimates_of(manifest, logged))
        )
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

    def heard(self, row: CampaignRow, in_snapshot: int) -> int:
        return in_snapshot if row.state in SHOWS_SNAPSHOTS else row.heard

    def contradicted(self, counts: Sequence[Counts]) -> bool:
        found = judged(self.manifest, counts)
        return found is not None and found[0].alarm

    def alarms(self, counts: Sequence[Counts]) -> list[str]:
        return alarms(self.manifest, counts)

    def page(self, state: str, url: str) -> str:
        return invite_page(self.manifest, state, f"{url}/c/{self.id}")
