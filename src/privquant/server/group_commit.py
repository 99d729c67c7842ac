"""Group commit: whatever asks arrive while one transaction runs make up the next one.

Where processes share a store, each has its own groups, and a group costs the database the same however small it is.
So a group that would be smaller than the last one may wait a moment for those who are about to ask.

An ask is answered after the transaction that holds it has been committed, never before. A group that the store
could not take is answered Unavailable, ask by ask; asking again is always right.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from privquant.server.causes import Unavailable

A = TypeVar("A")
R = TypeVar("R")

MOST = 1_000


@dataclass(eq=False)
class GroupCommit(Generic[A, R]):
    """Feeds one store. `MOST` asks make a group; beyond `depth` waiting asks new ones are turned away."""

    _commit: Callable[[list[A]], Awaitable[list[R]]]
    depth: int = 50_000
    moment: float = 0.0  # seconds for which a group smaller than the last one waits

    def __post_init__(self) -> None:
        self._last = 0
        self._waiting: deque[tuple[A, asyncio.Future[R]]] = deque()
        self._arrived = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="group-commit")

    async def stop(self) -> None:
        """Commit what is waiting, then end."""
        self._stopping = True
        self._arrived.set()
        if self._task is not None:
            await self._task

    def put(self, ask: A) -> asyncio.Future[R]:
        """The outcome, once it is durable."""
        if self._stopping or len(self._waiting) >= self.depth:
            raise Unavailable("too many requests are waiting for the store")
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((ask, future))
        self._arrived.set()
        return future

    async def put_all(self, asks: Sequence[A]) -> list[R]:
        return list(await asyncio.gather(*[self.put(ask) for ask in asks]))

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def _run(self) -> None:
        while not (self._stopping and not self._waiting):
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                if self.moment and len(self._waiting) < self._last:
                    await asyncio.sleep(self.moment)
                self._last = len(self._waiting)
                group = [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]
                await self._answer(group)

    async def _answer(self, group: list[tuple[A, asyncio.Future[R]]]) -> None:
        try:
            outcomes = await self._commit([ask for ask, _ in group])
        except Exception as error:
            refusal = error if isinstance(error, Unavailable) else Unavailable(f"unforeseen: {error!r}")
            for _, future in group:
                if not future.done():
                    future.set_exception(refusal)
            return
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if not future.done():  # the request may have been cancelled meanwhile; its ask counts all the same
                future.set_result(outcome)
