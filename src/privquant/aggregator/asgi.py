"""The outermost layer: bytes in, bytes out. Device routes are served here; everything else goes to an API.

It bounds what a request may cost before anyone reads it: size of the body, time to send it.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from privquant.aggregator.replies import Asgi, Receive, Reply, Scope, Send, problem
from privquant.aggregator.request_body import Hangup, read_body
from privquant.aggregator.service import Service
from privquant.wire import BATCHES, NOTICES, ROUTES, SHUFFLED_ROUTES, Route, route_of

MAX_OPERATOR_BODY = 1 << 20


class AsgiApp:
    """The ASGI application of one listener. devices: whether it is the one that devices speak to."""

    def __init__(self, service: Service, api: Asgi, *, devices: bool) -> None:
        self._service = service
        self._api = api
        self._devices = devices

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._api(scope, receive, send)
            return
        route = route_of(scope["path"], (*ROUTES, *SHUFFLED_ROUTES)) if self._devices else None
        answered = False

        async def watched(message: MutableMapping[str, Any]) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            if route is not None:
                reply = await self._device(*route, scope, receive)
                await reply(scope, receive, send)
            else:
                await self._operator(scope, receive, watched)
        except Hangup:
            return
        except Exception as error:
            logging.getLogger("privquant.aggregator").error("a request failed", exc_info=error)
            if not answered:
                await problem("unavailable")(scope, receive, send)

    async def _device(self, identity: str, route: Route, scope: Scope, receive: Receive) -> Reply:
        body: bytes | Reply = b""
        if scope["method"] not in ("GET", "HEAD"):
            body = await read_body(scope, receive, max(route.most_sent, 1))
        if isinstance(body, Reply):
            return body
        routes = self._service.batches if route in (BATCHES, NOTICES) else self._service.devices
        return await routes.handle(identity, route, scope["method"], body)

    async def _operator(self, scope: Scope, receive: Receive, send: Send) -> None:
        body: bytes | Reply = b""
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            body = await read_body(scope, receive, MAX_OPERATOR_BODY)
        if isinstance(body, Reply):
            await body(scope, receive, send)
            return
        whole = body
        given = False

        async def replay() -> MutableMapping[str, Any]:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": whole, "more_body": False}

        await self._api(scope, replay, send)
