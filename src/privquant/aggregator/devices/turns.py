"""Turns: an ask that needs a place of the pace gets it now, or when one opens soon, or is told when to come.

A request whose token has its turn and finds no place sits down in the waiting room until the turn's hold is over.
Places open when the next queries are published or somebody stays away; this process looks whenever it has published
or, as the one that publishes, counted reports itself, and every `_LOOK` seconds for what others did, but only while
somebody is held. Where those held wait for queries that follow from what was heard, the publisher is told not to
wait for its time.

A held request ends when its client hangs up, when the campaign is paused or closed, and when the server stops.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from privquant.aggregator import metrics
from privquant.aggregator.campaign.states import GIVES_QUERIES
from privquant.aggregator.devices.campaign_cache import CampaignCache, CampaignView
from privquant.aggregator.devices.pace import Pace, at_a_time
from privquant.aggregator.devices.waiting_room import REST, Seat, WaitingRoom
from privquant.aggregator.store.base import Admit, Ask, AskResult, DeviceStore, Pin, What
from privquant.server.group_commit import GroupCommit
from privquant.server.replies import RequestRefused
from privquant.server.request_bodies import Hangup

_LOOK = 0.05
_CROWD = "Many want to answer now. Everybody has a turn, and yours comes"

Gone = Callable[[], Awaitable[None]]
"""Returns when the client has hung up."""
AskFor = Callable[[Pace | None], Awaitable[Pin | Admit]]
"""What is asked of the store under this pace."""


@dataclass(eq=False)
class Turns:
    """Who is asked next, of those who came to this process. alone: whether no other serves these campaigns."""

    _cache: CampaignCache
    _group: GroupCommit[Ask, AskResult]
    _store: DeviceStore
    alone: bool = True

    def __post_init__(self) -> None:
        self._room = WaitingRoom()
        self._calls: dict[Seat, asyncio.Future[bool]] = {}
        self._views: dict[int, CampaignView] = {}
        self._news = asyncio.Event()
        self._closed = False
        self.hungry = asyncio.Event()
        """Set when somebody waits for queries that follow from what was counted since the last."""

    async def outcome(
        self, view: CampaignView, token: bytes, hashed: bytes, ask: AskFor, gone: Gone | None
    ) -> AskResult:
        """The outcome of an ask that needs a place; `RequestRefused` says when to come back."""
        if view.share == 0:
            return await self._group.put(await ask(None))
        now = time.time()
        turn = view.crowd.is_new(token) or view.crowd.may_try(token, view.office.phase(hashed), now)
        # Who has a query gets it again. A place that is free is for those held, if there are any.
        may_take = turn and view.no not in self._room
        result = await self._group.put(await ask(Pace(view.share, view.known, may_take)))
        if result.what is not What.WAIT:
            return self._served(view, token, result)
        phase = view.office.phase(hashed)
        if turn and not self._closed:
            view.crowd.wait(token, phase, now, tried=True)
            begun = view.crowd.turn(phase, now)
            result = await self._held(view, Seat(view.no, begun, view.office.lot(hashed, begun)), ask, gone)
        if result.what is What.WAIT:
            left = view.crowd.wait(token, phase, time.time(), tried=False)
            raise RequestRefused("not-yet", _CROWD, retry_after=left)
        return self._served(view, token, result)

    def _served(self, view: CampaignView, token: bytes, result: AskResult) -> AskResult:
        waited = view.crowd.leave(token, time.time())
        if result.what is What.PINNED:
            metrics.waits.observe(waited)
        return result

    async def _held(self, view: CampaignView, seat: Seat, ask: AskFor, gone: Gone | None) -> AskResult:
        while await self._called(view, seat, gone) and view.state in GIVES_QUERIES:
            try:
                result = await self._group.put(await ask(Pace(view.share, view.known)))
            finally:
                self._room.answered(seat)
            if result.what is not What.WAIT:
                return result
            seat.rests = time.time() + REST
        if seat.asking:
            self._room.answered(seat)
        return AskResult(What.WAIT)

    async def _called(self, view: CampaignView, seat: Seat, gone: Gone | None) -> bool:
        """Wait; whether it is called, and not that its time is over or the room was full."""
        loop = asyncio.get_running_loop()
        call: asyncio.Future[bool] = loop.create_future()
        self._calls[seat], self._views[view.no] = call, view
        goes = self._room.sit(seat)
        if goes is not None:
            _tell(self._calls[goes], False)
        self._news.set()
        end = loop.call_later(max(0.0, seat.until - time.time()), _tell, call, False)
        watch = None if gone is None else asyncio.ensure_future(gone())
        if watch is not None:
            watch.add_done_callback(lambda _: _hang_up(call))
        try:
            return await call
        except BaseException:
            if seat.asking:
                self._room.answered(seat)
            raise
        finally:
            end.cancel()
            if watch is not None:
                watch.cancel()
            del self._calls[seat]
            self._room.leave(seat)

    def counted(self) -> None:
        """Reports were counted by this process, which publishes what follows from them."""
        if self._calls:
            self._news.set()

    async def look(self) -> None:
        """Wait for something that may open places, and call those held for them; to be repeated."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK if self._calls else None):
                await self._news.wait()
        self._news.clear()
        self._views = {number: self._views[number] for number in self._room.campaigns}
        for view in list(self._views.values()):
            await self._look_at(view)

    async def published(self, identity: str) -> None:
        """This process has published the next queries of a campaign.

        Where there may be other processes it looks no sooner than they do, or those held here would come first.
        """
        await self._cache.refresh_one(identity)
        for view in list(self._views.values()):
            if view.id == identity and self.alone:
                await self._look_at(view)

    async def _look_at(self, view: CampaignView) -> None:
        traffic = await self._store.traffic(view.no)
        if traffic.known > view.known:
            await self._cache.refresh_one(view.id)
        pace = Pace(view.share, view.known)
        needed = view.manifest.planned_users - max(view.taken, traffic.heard + traffic.in_flight)
        places = min(pace.places(traffic.heard, traffic.in_flight), needed)
        for seat in self._room.call(view.no, places, time.time()):
            _tell(self._calls[seat], True)
        if 2 * (traffic.heard - view.known) >= at_a_time(view.share, view.known):
            self.hungry.set()

    def let_go(self) -> None:
        """The server stops: who is held is told to come back, and nobody is held any more."""
        self._closed = True
        for call in self._calls.values():
            _tell(call, False)


def _tell(call: asyncio.Future[bool], called: bool) -> None:
    if not call.done():
        call.set_result(called)


def _hang_up(call: asyncio.Future[bool]) -> None:
    if not call.done():
        call.set_exception(Hangup())
