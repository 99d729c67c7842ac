"""Admission: a request that needs a slot gets one now, or is held until one opens, or is told when to come back.

The rules, and the figures that justify them, are in `admission_rules`; here are the clock, the event loop and the
store. A free slot goes to the requests that are held, if there are any, and only then to one that has just arrived.

Slots open when the next queries are published, or when a device that was asked stays away. A process looks for
them when it has published, when it has counted reports as the one that publishes, and every `_LOOK` seconds while
it holds requests. When held requests wait for queries that follow from what was counted, `publish_now` is set.

A held request ends when its client hangs up, when the campaign is paused or closed, and when the server stops.

Other bounds of this server, which hold whoever asks: a connection's silence and header (server/http_server), the
size, time and memory of bodies (server/request_bodies), the asks that wait for the store (server/group_commit), and
the share of the time that batches of reports may take (devices/routes).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from privquant.aggregator import metrics
from privquant.aggregator.campaign.states import GIVES_QUERIES
from privquant.aggregator.devices.admission_rules import HOLD, HeldRequest, HeldRequests, InFlightLimit, at_a_time
from privquant.aggregator.devices.campaign_cache import CampaignCache, CampaignView
from privquant.aggregator.store.base import Admit, Ask, AskResult, DeviceStore, Outcome, Pin
from privquant.server.group_commit import GroupCommit
from privquant.server.replies import RequestRefused
from privquant.server.request_bodies import Hangup

_LOOK = 0.05
_REST = 0.2  # seconds for which a request that was chosen in vain is not chosen again
_NOT_YET = "Many want to answer now. Everybody has a turn, and yours comes"
_WAIT = AskResult(Outcome.WAIT)

HungUp = Callable[[], Awaitable[object]]
"""Returns when the client has hung up."""
AskUnder = Callable[[InFlightLimit | None], Awaitable[Pin | Admit]]
"""What is asked of the store under this limit."""


async def next_turn(event: asyncio.Event, seconds: float | None) -> None:
    """Wait for an event, at most for so long, and be ready for the next."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    event.clear()


@dataclass(eq=False)
class _Held(HeldRequest):
    ask: AskUnder
    until: float
    result: asyncio.Future[AskResult] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def end(self, result: AskResult = _WAIT) -> None:
        if not self.result.done():
            self.result.set_result(result)

    def fail(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(error)


@dataclass(eq=False)
class Admission:
    """Admits the requests that came to this process. alone: whether no other process serves these campaigns."""

    _cache: CampaignCache
    _group: GroupCommit[Ask, AskResult]
    _store: DeviceStore
    alone: bool = True

    def __post_init__(self) -> None:
        self._held: HeldRequests[_Held] = HeldRequests()
        self._news = asyncio.Event()
        self._closed = False
        self.publish_now = asyncio.Event()
        """Set when held requests wait for queries that follow from what was counted since the last."""

    async def result(
        self, view: CampaignView, token: bytes, hashed: bytes, ask: AskUnder, hung_up: HungUp
    ) -> AskResult:
        """The result of an ask that needs a slot; `RequestRefused` says when to come back."""
        if view.share == 0:
            return await self._group.put(await ask(None))
        # A token that already has a query gets the same one again, whatever the limit says.
        limit = InFlightLimit(view.share, view.known, take=not self._held.waits(view))
        found = await self._group.put(await ask(limit))
        if found.outcome is Outcome.WAIT:
            view.waiting.wait(token, time.time())
            until = asyncio.get_running_loop().time() + HOLD
            found = await self._hold(_Held(view, view.tickets.rank(hashed), ask, until), hung_up)
        if found.outcome is Outcome.WAIT:
            raise RequestRefused("not-yet", _NOT_YET, retry_after=view.waiting.wait(token, time.time()))
        waited = view.waiting.leave(token, time.time())
        if found.outcome is Outcome.PINNED:
            metrics.waits.observe(waited)
        return found

    async def _hold(self, request: _Held, hung_up: HungUp) -> AskResult:
        self._add(request)
        timer = asyncio.get_running_loop().call_at(request.until, self._time_is_over, request)
        watch = asyncio.ensure_future(hung_up())
        watch.add_done_callback(lambda _: request.fail(Hangup()))
        try:
            return await request.result
        finally:
            timer.cancel()
            watch.cancel()
            self._held.remove(request)

    def _add(self, request: _Held) -> None:
        if self._closed:
            request.end()
        elif not request.result.done():
            not_held = self._held.add(request)
            if not_held is not None:
                not_held.end()
            self._news.set()

    def _time_is_over(self, request: _Held) -> None:
        if self._held.remove(request):  # else the store is being asked for it
            request.end()

    def counted(self) -> None:
        """Reports were counted by this process, which publishes what follows from them."""
        if self._held:
            self._news.set()

    async def published(self, identity: str) -> None:
        """This process has published the next queries of a campaign.

        Where there may be other processes it looks no sooner than they do, or those held here would come first.
        """
        await self._cache.refresh_one(identity)
        if self._held and self.alone:
            self._news.set()

    async def look(self) -> None:
        """Wait for something that may open slots, and give them to held requests; to be repeated."""
        await next_turn(self._news, _LOOK if self._held else None)
        for view in self._held.campaigns:
            await self._fill_slots(view)

    async def _fill_slots(self, view: CampaignView) -> None:
        traffic = await self._store.traffic(view.no)
        if traffic.known > view.known:
            await self._cache.refresh_one(view.id)
        if view.state not in GIVES_QUERIES:
            for request in self._held.take(view, len(self._held)):
                request.end()
            return
        limit = InFlightLimit(view.share, view.known)
        needed = view.manifest.planned_users - max(view.taken, traffic.heard + traffic.in_flight)
        slots = min(limit.slots(traffic.heard, traffic.in_flight), needed)
        if 2 * (traffic.heard - view.known) >= at_a_time(view.share, view.known):
            self.publish_now.set()
        await asyncio.gather(*[self._ask_store(request, limit) for request in self._held.take(view, slots)])

    async def _ask_store(self, request: _Held, limit: InFlightLimit) -> None:
        """Another process may have been quicker, or the open link has no place: then the request is held again."""
        loop = asyncio.get_running_loop()
        try:
            found = await self._group.put(await request.ask(limit))
        except Exception as error:
            request.fail(error)
            return
        if found.outcome is Outcome.WAIT and loop.time() + _REST < request.until:
            loop.call_later(_REST, self._add, request)
        else:
            request.end(found)

    def let_go(self) -> None:
        """The server stops: held requests are told to come back, and no others are held."""
        self._closed = True
        for request in self._held:
            request.end()
