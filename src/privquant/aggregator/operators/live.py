"""Live pictures for any number of consoles: each is computed once and sent to all who watch.

A picture shows what `show` says and nothing finer: `show` speaks of a snapshot that lags behind the reports, and a
picture of anything newer could reveal a single answer. It is computed while somebody watches, no sooner than a
second after the last one and later if that one took long, and is sent if it differs. A console that cannot keep up
misses pictures and never holds up others. A stream ends after some minutes, so that a token that was removed is
noticed, and when the server stops, which would wait for it otherwise.

A picture has the trace of its campaign, how the answer closed in (see `history`). What of it is not computed yet is
computed between two pictures: for a second where the picture itself cost nothing, else point by point until there
are a few.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from privquant.aggregator.campaign.campaigns import Campaigns
from privquant.aggregator.devices.refusal_tally import told
from privquant.aggregator.operators.estimator import Drawn, Estimator
from privquant.aggregator.operators.forms import CampaignShown
from privquant.aggregator.operators.history import History
from privquant.aggregator.store.base import Counts
from privquant.error_words import error_statement
from privquant.errors import PrivquantError
from privquant.messages import Estimate
from privquant.wire import Manifest

_SOONEST = 1.0  # seconds between two pictures
_SHARE = 2.0  # a picture that took a second is followed by so many without one
_FILLING = 1.0  # seconds for the trace between two pictures, where nothing new had to be computed for the first
_QUICK = 0.25
_COARSE = 8  # points that are computed also where every picture costs
_ALIVE = 15.0  # seconds after which a stream without news says that it is alive
_LONGEST = 600.0

_log = logging.getLogger("privquant.aggregator")


class Topic:
    """The newest event about one campaign, and who waits for the next."""

    def __init__(self) -> None:
        self.watchers = 0
        self.event = b""
        self.version = 0
        self.news = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def tell(self, event: bytes) -> None:
        if event == self.event:
            return
        self.event, self.version = event, self.version + 1
        self.news.set()
        self.news = asyncio.Event()


class Live:
    """The streams of one process. history: what was shown before."""

    def __init__(self, campaigns: Campaigns, estimator: Estimator, history: History) -> None:
        self._campaigns = campaigns
        self._estimator = estimator
        self._history = history
        self._topics: dict[str, Topic] = {}
        self._closed = False

    def end_streams(self) -> None:
        """Let every stream end now; none begins any more."""
        self._closed = True
        for topic in self._topics.values():
            topic.news.set()

    async def stop(self) -> None:
        self.end_streams()
        tasks = [topic.task for topic in self._topics.values() if topic.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def once(self, identity: str) -> dict[str, Any]:
        """One picture, with its trace."""
        shown = await self._shown(identity)
        await self._history.fill(identity, _FILLING)
        return shown | {"trace": self._history.trace(identity)}

    async def _shown(self, identity: str) -> dict[str, Any]:
        """One picture, with what is computed of its trace."""
        try:
            shown = await _picture(self._campaigns, self._estimator, identity)
        except PrivquantError:  # deleted, for one
            self._history.forget(identity)
            raise
        self._history.saw(identity, shown["heard"], shown["estimates"])
        return shown | {"trace": self._history.trace(identity)}

    async def stream(self, identity: str) -> AsyncIterator[bytes]:
        """Server-sent events about one campaign, until the server stops or some minutes have passed."""
        topic = self._topics.setdefault(identity, Topic())
        topic.watchers += 1
        if topic.task is None or topic.task.done():
            topic.task = asyncio.create_task(self._watch(identity, topic), name="live")
        seen, end = 0, time.monotonic() + _LONGEST
        try:
            yield b"retry: 2000\n\n"
            while not self._closed and time.monotonic() < end:
                if topic.version != seen:
                    seen = topic.version
                    yield topic.event
                    continue
                try:
                    async with asyncio.timeout(_ALIVE):
                        await topic.news.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            topic.watchers -= 1

    async def _watch(self, identity: str, topic: Topic) -> None:
        while topic.watchers and not self._closed:
            began = time.perf_counter()
            try:
                topic.tell(_event("picture", await self._shown(identity)))
                quick = time.perf_counter() - began < _QUICK
                if quick or len(self._history.trace(identity)) < _COARSE:
                    await self._history.fill(identity, _FILLING if quick else 0.0)
            except PrivquantError as error:
                topic.tell(_event("trouble", {"detail": str(error)}))
            except Exception as error:
                _log.error("a live picture failed", exc_info=error)
                topic.tell(_event("trouble", {"detail": "the server cannot show this at the moment"}))
            await asyncio.sleep(max(_SOONEST, _SHARE * (time.perf_counter() - began)))
        self._topics.pop(identity, None)


def _event(kind: str, form: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(form, separators=(',', ':'), allow_nan=False)}\n\n".encode()


async def _picture(campaigns: Campaigns, estimator: Estimator, identity: str) -> dict[str, Any]:
    """`show`, with what is drawn and said for each quantile, and refusals by reason."""
    found: list[Drawn] = []

    async def elsewhere(manifest: Manifest, counts: Sequence[Counts]) -> list[Estimate]:
        found.append(await estimator.drawn(manifest, counts))
        return found[0].estimates

    shown = CampaignShown(**await campaigns.show(identity, elsewhere)).model_dump()
    said = [_sentences(estimate) for estimate in shown["estimates"]]
    drawings = found[0].drawings if found else []  # a shuffled campaign computes its estimates itself
    return shown | {"drawings": drawings, "said": said, "refusals": told(identity)}


def _sentences(estimate: Mapping[str, Any]) -> list[str]:
    """Everything that is said of an estimate, one sentence each."""
    said = [error_statement(estimate[kind]) for kind in ("typical", "certain")]
    return [*(f"{each}." for each in said if each is not None), *(f"{note}." for note in estimate["notes"])]
