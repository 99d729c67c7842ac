"""The outermost layer: bytes in, bytes out. Device routes are served here; everything else goes to an API."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from privquant.aggregator.service import Service
from privquant.server.replies import Asgi, Receive, RequestRefused, Scope, Send, problem
from privquant.server.request_bodies import SMALL_BODY, Hangup, Held, RequestBody
from privquant.wire import BATCHES, NOTICES, ROUTES, SHUFFLED_ROUTES, Route, route_of

MAX_OPERATOR_BODY = 1 << 20
_DEVICE_ROUTES = (*ROUTES, *SHUFFLED_ROUTES)


@lru_cache(64)  # few campaigns are answered at a time; a path is anybody's, and may be long
def _device_route(path: str) -> tuple[str, Route] | None:
    return route_of(path, _DEVICE_ROUTES)


class AsgiApp:
    """The ASGI application of one listener. devices: whether it is the one that devices speak to."""

    def __init__(self, service: Service, api: Asgi, *, devices: bool) -> None:
        self._service = service
        self._api = api
        self._devices = devices
        self._most_sent = SMALL_BODY if devices else MAX_OPERATOR_BODY
        self._held = Held()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._api(scope, receive, send)
            return
        route = _device_route(scope["path"]) if self._devices else None
        answered = False

        async def watched(message: MutableMapping[str, Any]) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            with self._held.lease() as lease:
                body = RequestBody(scope, receive, lease)
                if route is not None:
                    await self._device(*route, scope, body, receive, send)
                else:
                    await self._operator(scope, body, receive, watched)
        except Hangup:
            return
        except Exception as error:
            logging.getLogger("privquant.aggregator").error("a request failed", exc_info=error)
            if not answered:
                await problem("unavailable")(scope, receive, send)

    async def _device(
        self, identity: str, route: Route, scope: Scope, body: RequestBody, receive: Receive, send: Send
    ) -> None:
        if route in (BATCHES, NOTICES):
            reply = await self._service.batches.handle(identity, route, scope["method"], body.read)
        else:
            reply = await self._service.devices.handle(identity, route, scope["method"], body.read, body.gone)
        if not await body.let_go():
            reply = replace(reply, close=True)
        await reply(scope, receive, send)

    async def _operator(self, scope: Scope, body: RequestBody, receive: Receive, send: Send) -> None:
        try:
            whole = await body.read(self._most_sent)
        except RequestRefused as error:
            await replace(error.reply, close=True)(scope, receive, send)
            return
        given = False

        async def replay() -> MutableMapping[str, Any]:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": whole, "more_body": False}

        await self._api(scope, replay, send)
