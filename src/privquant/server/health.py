"""Whether this process can do its work, and what an operator is told about it: each trouble once, and its end once.

Readiness follows what the process does anyway and a probe that writes every few seconds; asking for it touches
nothing, however often it is asked. What a service does again and again beside its requests is a task each, none of
which ends by failing, and whose health is told here too.

What it counts is told to Prometheus. A number that moved with every report would be a clock of single reports for
anyone who watches it, so what counts reports moves in steps of many.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry, Counter, generate_latest, multiprocess

from privquant.server.causes import Unavailable, cause_of
from privquant.server.logs import logger, say

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
PROBE_SECONDS = 3.0  # between two probes of the store
_DECISIVE = frozenset(("probe", "commit", "keys"))  # parts without which no report can be counted


class Health:
    """What each part of a process says of itself."""

    def __init__(self) -> None:
        self._troubles: dict[str, str] = {}

    @property
    def cause(self) -> str | None:
        """Why no report can be counted now; None if that is not so."""
        return next((cause for part, cause in sorted(self._troubles.items()) if part in _DECISIVE), None)

    def trouble(self, part: str) -> str | None:
        return self._troubles.get(part)

    def failed(self, part: str, error: Exception) -> None:
        """`part` could not do its work. Said unless the same is known already, from this part or another."""
        cause = cause_of(error)
        known = set(self._troubles.values())
        if self._troubles.get(part) == cause:
            return
        self.well(part)
        self._troubles[part] = cause
        if cause not in known:
            unforeseen = not isinstance(error, Unavailable) and cause.startswith("unforeseen")
            level = logging.ERROR if unforeseen else logging.WARNING
            logger.log(level, "trouble", extra={"facts": {"part": part, "cause": cause}}, exc_info=error)

    def well(self, part: str) -> None:
        """`part` did its work."""
        cause = self._troubles.pop(part, None)
        if cause is not None and cause not in self._troubles.values():
            say("recovered", part=part, cause=cause)


class Repeating:
    """The tasks of a service, and its health."""

    def __init__(self) -> None:
        self.health = Health()
        self._tasks: list[asyncio.Task[None]] = []

    def _repeat(self, name: str, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        self._tasks.append(asyncio.create_task(self._every(name, seconds, work), name=name))

    async def _every(self, name: str, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` for ever; a turn that fails is said once, and the next comes anyway."""
        while True:
            if not await self._done(name, work):
                await asyncio.sleep(min(1.0, seconds * 4))
            await asyncio.sleep(seconds)

    async def _done(self, name: str, work: Callable[[], Awaitable[None]]) -> bool:
        try:
            await work()
        except Exception as error:
            self.health.failed(name, error)
            return False
        self.health.well(name)
        return True


class Stepped:
    """A counter that is told of every event and moves when there are `step` of them with the same labels."""

    step = 32

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._held: dict[tuple[str, ...], int] = {}

    def inc(self, *labels: str) -> None:
        counter = self._counter.labels(*labels) if labels else self._counter
        held = self._held.get(labels, 0) + 1
        if held >= Stepped.step:
            counter.inc(held)
            held = 0
        self._held[labels] = held


def render() -> bytes:
    """All that this process counts, or all workers of this server together."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
    return generate_latest()
