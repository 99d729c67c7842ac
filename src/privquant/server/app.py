"""The outermost layer of a listener: one request, one answer, whatever happens.

A body is read within bounds and only when somebody asks for it. An error that nobody foresaw goes to the log, and
its request is answered "unavailable".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from privquant.server.logs import logger
from privquant.server.replies import Asgi, Receive, Reply, Scope, Send, problem
from privquant.server.request_bodies import BodyMemory, Hangup, RequestBody


class App(ABC):
    """An ASGI application for HTTP; what it answers with is an ASGI application too."""

    def __init__(self) -> None:
        self._memory = BodyMemory()

    @abstractmethod
    async def answer(self, scope: Scope, body: RequestBody) -> Asgi:
        """What this request is answered with."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        with RequestBody(scope, receive, self._memory) as body:
            try:
                reply = await self._answer(scope, body)
                await reply(scope, receive, send)
            except Hangup:
                return
            except Exception as error:  # of a reply that had begun: whatever it could answer, it did
                logger.error("a request failed", exc_info=error)

    async def _answer(self, scope: Scope, body: RequestBody) -> Asgi:
        try:
            reply = await self.answer(scope, body)
            if isinstance(reply, Reply) and not await body.finish():
                return replace(reply, close=True)
            return reply
        except Hangup:
            raise
        except Exception as error:
            logger.error("a request failed", exc_info=error)
            return problem("unavailable")
