"""Whether this process can do its work, and what an operator is told about it: each trouble once, and its end once.

Readiness follows what the process does anyway and a probe that writes every few seconds; asking for it touches
nothing, however often it is asked. What a service does again and again beside its requests is a task each, none of
which ends by failing, and whose health is told here too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from privquant.server.causes import Unavailable, cause_of
from privquant.server.logs import logger, say

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
