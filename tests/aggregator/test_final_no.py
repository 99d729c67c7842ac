"""A device is turned away, and for good, only on the store's count: never on what one process has counted itself.

The cache and the routes of a process, on a real SQLite store; no clock is waited for. The process's own count is
made wrong in the way it goes wrong in life: a token that was given a query does not come back, and its lease ends.
The twins run the same scenes with a cache that believes its own count.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fleet import campaign_form, tokens_of

from privquant import wire
from privquant.aggregator.campaign.campaigns import Campaigns
from privquant.aggregator.devices.admission import Admission
from privquant.aggregator.devices.campaign_cache import CampaignCache, CampaignView
from privquant.aggregator.devices.routes import DeviceRoutes
from privquant.aggregator.operators.forms import CampaignForm
from privquant.aggregator.settings import Settings
from privquant.aggregator.store import schema
from privquant.aggregator.store.base import CampaignRow
from privquant.aggregator.store.migrate import migrate, open_engine
from privquant.aggregator.store.operator_queries import writing
from privquant.aggregator.store.sqlite import SqliteDeviceStore
from privquant.messages import Query
from privquant.server.group_commit import GroupCommit
from privquant.server.keys import KeyFolder


class BelievesItself(CampaignCache):
    """The mistake: who is full, and who is complete, is said by the process's own count."""

    async def is_full(self, view: CampaignView) -> bool:
        return view.taken >= view.manifest.planned_users

    async def is_complete(self, view: CampaignView) -> bool:
        return view.taken >= view.manifest.planned_users


class BelievesItselfAtTheEnd(CampaignCache):
    """The same mistake in the last step only."""

    async def is_complete(self, view: CampaignView) -> bool:
        return view.taken >= view.manifest.planned_users


@dataclass
class Process:
    """One process's cache and routes, and a campaign for two users with four tokens."""

    engine: Any
    store: SqliteDeviceStore
    cache: CampaignCache
    routes: DeviceRoutes
    campaign: str
    tokens: list[str]
    tickets: dict[str, str] = field(default_factory=dict)

    async def ask(self, token: str) -> str:
        """ "asked", or the code of the refusal and whether it is final."""
        answer = await self.routes.handle(
            self.campaign, wire.QUERY, "POST", wire.query_request(token), asyncio.Event().wait
        )
        if answer.status != 200:
            refused = wire.parse_problem(answer.status, answer.body)
            return f"{refused.code}, {'for good' if refused.final else 'for now'}"
        self.tickets[token] = wire.Ticket.parse(answer.body).ticket
        return "asked"

    async def report(self, token: str) -> str:
        body = wire.WireReport(token, self.tickets[token], 1).to_bytes()
        reply = await self.routes.handle(self.campaign, wire.REPORTS, "POST", body, asyncio.Event().wait)
        return wire.COUNTED.parse(reply.body)

    async def end_leases(self) -> None:
        """As if the devices that were asked had stayed away for longer than a lease."""
        async with writing(self.engine) as db:
            await db.execute(schema.pin.update().values(lease=0))

    async def remember_being_full(self) -> None:
        """For the rest of the test, however slow the machine is."""
        view = await self.cache.view(self.campaign)
        assert view is not None
        view.full_until = math.inf


@asynccontextmanager
async def process(folder: Path, kind: type[CampaignCache]) -> AsyncIterator[Process]:
    settings = Settings(data=folder / "data")
    engine = open_engine(settings)
    await migrate(engine)
    store, keys = SqliteDeviceStore(settings.sqlite_file), KeyFolder(settings.keys)
    group = GroupCommit(store.commit)
    group.start()
    try:
        campaigns = Campaigns(engine, store, keys, settings.url)
        identity = await campaigns.create(CampaignForm(**campaign_form(planned_users=2)).to_draft(), "tester")
        invites = await campaigns.invite(identity, 4, "tester")
        cache = kind(store, keys)
        routes = DeviceRoutes(
            cache, group, Admission(cache, group, store), store.link_secret, settings.lease_minutes
        )
        yield Process(engine, store, cache, routes, identity, tokens_of("invite\n" + "\n".join(invites)))
    finally:
        await group.stop()
        await store.close()
        await engine.dispose()


def play(folder: Path, kind: type[CampaignCache], scene: Callable[[Process], Awaitable[list[str]]]) -> list[str]:
    async def inside() -> list[str]:
        async with process(folder, kind) as one:
            return await scene(one)

    return asyncio.run(inside())


async def stays_away(one: Process) -> list[str]:
    """Two are asked and stay away; a third comes when their leases have ended."""
    heard = [await one.ask(token) for token in one.tokens[:2]]
    await one.end_leases()
    return [*heard, await one.ask(one.tokens[2])]


async def in_flight(one: Process) -> list[str]:
    """Two are asked; a third comes before, between and after their reports."""
    heard = [await one.ask(token) for token in one.tokens[:3]]
    for token in one.tokens[:2]:
        assert await one.report(token) == "counted"
        heard.append(await one.ask(one.tokens[2]))
    return heard


async def found_full(one: Process) -> list[str]:
    """The cache remembers that it was full; meanwhile the leases end and nobody has answered."""
    heard = [await one.ask(token) for token in one.tokens[:3]]
    await one.remember_being_full()
    await one.end_leases()
    return [*heard, await one.ask(one.tokens[3])]


ASKED, NOW, GOOD = "asked", "all-places-taken, for now", "campaign-complete, for good"


def test_a_place_that_the_store_has_is_given_whatever_the_process_counted(tmp_path: Path) -> None:
    assert play(tmp_path, CampaignCache, stays_away) == [ASKED, ASKED, ASKED]


def test_for_good_is_said_when_the_store_has_heard_all_and_not_before(tmp_path: Path) -> None:
    assert play(tmp_path, CampaignCache, in_flight) == [ASKED, ASKED, NOW, NOW, GOOD]


def test_a_cache_that_remembers_being_full_says_only_for_now(tmp_path: Path) -> None:
    assert play(tmp_path, CampaignCache, found_full) == [ASKED, ASKED, NOW, NOW]


async def all_at_once(one: Process) -> list[str]:
    """Two come at the same moment, before the process has seen the campaign; the store is slow to answer."""
    quick = one.store.published

    async def slow(campaign: int) -> list[tuple[Query, int]]:
        await asyncio.sleep(0.05)
        return await quick(campaign)

    one.store.published = slow  # type: ignore[method-assign]
    first = asyncio.create_task(one.ask(one.tokens[0]))
    await asyncio.sleep(0.02)
    return [await one.ask(one.tokens[1]), await first]


class KnownTooSoon(CampaignCache):
    """The twin: a campaign is known to others before it has its queries."""

    async def _refresh(self, view: CampaignView, row: CampaignRow) -> None:
        self._views.setdefault(view.id, view)
        await super()._refresh(view, row)


def test_who_comes_first_of_all_is_asked(tmp_path: Path) -> None:
    assert play(tmp_path / "a", CampaignCache, all_at_once) == [ASKED, ASKED]
    assert play(tmp_path / "b", KnownTooSoon, all_at_once) == [NOW, ASKED]


@pytest.mark.parametrize(
    ("kind", "scene", "wrong"),
    [
        (BelievesItself, stays_away, [ASKED, ASKED, GOOD]),
        (BelievesItself, in_flight, [ASKED, ASKED, GOOD, GOOD, GOOD]),
        (BelievesItselfAtTheEnd, in_flight, [ASKED, ASKED, GOOD, GOOD, GOOD]),
        (BelievesItselfAtTheEnd, found_full, [ASKED, ASKED, GOOD, GOOD]),
    ],
)
def test_a_cache_that_believes_its_own_count_is_found_out(
    kind: type[CampaignCache], scene: Callable[[Process], Awaitable[list[str]]], wrong: list[str], tmp_path: Path
) -> None:
    assert play(tmp_path, kind, scene) == wrong
