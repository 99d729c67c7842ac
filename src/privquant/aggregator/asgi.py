"""The outermost layer: bytes in, bytes out. Device routes are served here; everything else goes to an API."""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import lru_cache
from typing import Any

from privquant.aggregator.service import Service
from privquant.server.http_server import App
from privquant.server.replies import Asgi, Receive, RequestRefused, Scope, Send
from privquant.server.request_bodies import SMALL_BODY, RequestBody
from privquant.wire import BATCHES, NOTICES, ROUTES, SHUFFLED_ROUTES, Route, route_of

MAX_OPERATOR_BODY = 1 << 20
_DEVICE_ROUTES = (*ROUTES, *SHUFFLED_ROUTES)


@lru_cache(64)  # few campaigns are answered at a time; a path is anybody's, and may be long
def _device_route(path: str) -> tuple[str, Route] | None:
    return route_of(path, _DEVICE_ROUTES)


class AdminApp(App):
    """The operators' listener. most_sent: bytes of the largest body the API takes."""

    def __init__(self, api: Asgi, most_sent: int = MAX_OPERATOR_BODY) -> None:
        super().__init__()
        self._api = api
        self._most_sent = most_sent

    async def answer(self, scope: Scope, body: RequestBody) -> Asgi:
        try:
            return self._with_body(await body.read(self._most_sent))
        except RequestRefused as error:
            return error.reply

    def _with_body(self, whole: bytes) -> Asgi:
        """The API, which reads a body that is here already."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            given = False

            async def replay() -> MutableMapping[str, Any]:
                nonlocal given
                if given:
                    return await receive()
                given = True
                return {"type": "http.request", "body": whole, "more_body": False}

            await self._api(scope, replay, send)

        return answer


class PublicApp(AdminApp):
    """The devices' listener. What is no route of theirs is a page, and the API's."""

    def __init__(self, service: Service, api: Asgi) -> None:
        super().__init__(api, SMALL_BODY)
        self._service = service

    async def answer(self, scope: Scope, body: RequestBody) -> Asgi:
        found = _device_route(scope["path"])
        if found is None:
            return await super().answer(scope, body)
        identity, route = found
        if route in (BATCHES, NOTICES):
            return await self._service.batches.handle(identity, route, scope["method"], body.read)
        return await self._service.devices.handle(identity, route, scope["method"], body.read, body.gone)
