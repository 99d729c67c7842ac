"""What a service does again and again beside its requests: each a task, none of which ends by failing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from privquant.server.health import Health


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
