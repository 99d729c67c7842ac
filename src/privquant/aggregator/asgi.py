"""The outermost layer: bytes in, bytes out. Device routes are served here; everything else goes to an API.

It bounds what a request may cost before anyone reads it: size of the body, time to send it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import MutableMapping
from typing import Any

from privquant.aggregator.replies import Asgi, Receive, Reply, Scope, Send, problem
from privquant.aggregator.service import Service
from privquant.wire import Route, route_of

MAX_OPERATOR_BODY = 1 << 20
SLOWEST_BODY = 10.0
"""Seconds a client may take to send a body."""


class _Hangup(Exception):
    """The client went away before its request was whole."""


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
        route = route_of(scope["path"]) if self._devices else None
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
        except _Hangup:
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
        return await self._service.devices.handle(identity, route, scope["method"], body)

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


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes | Reply:
    """The whole body, or the refusal of one that is too large or too slow."""
    for name, value in scope["headers"]:
        if name == b"content-length" and (len(value) > 12 or not value.isdigit() or int(value) > limit):
            return problem("too-large", f"at most {limit} bytes are allowed")
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        body: bytes = message.get("body", b"")
        return body if len(body) <= limit else problem("too-large", f"at most {limit} bytes are allowed")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            while True:
                if message["type"] == "http.disconnect":
                    raise _Hangup
                part = message.get("body", b"")
                size += len(part)
                if size > limit:
                    return problem("too-large", f"at most {limit} bytes are allowed")
                parts.append(part)
                if not message.get("more_body"):
                    return b"".join(parts)
                message = await receive()
    except TimeoutError:
        return problem("too-slow", f"a body is to arrive within {SLOWEST_BODY:g} seconds")
