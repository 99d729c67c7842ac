"""Reading what a request sends, within bounds: its size, the time it takes, and the memory all of them hold.

A body is read only when somebody asks for it, which for devices is after their campaign was looked up: a request to
a campaign that does not exist costs its headers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from privquant.server.replies import Receive, RequestRefused, Scope

SLOWEST_BODY = 10.0  # seconds a client may take to send a body
SMALL_BODY = 4_096
"""Bytes that are read and thrown away to keep a connection; behind a larger body that nobody wants it is closed."""
MOST_HELD = 32 << 20  # bytes that all bodies together may hold in one process, beside small ones

ReadBody = Callable[[int], Awaitable[bytes]]  # reads a body of at most so many bytes


async def whole(body: bytes | ReadBody, limit: int) -> bytes:
    """A body that is there, or is read now."""
    return body if isinstance(body, bytes) else await body(limit)


class Hangup(Exception):
    """The client went away before its request was whole."""


class BodyMemory:
    """The memory that bodies hold in this process."""

    def __init__(self, most: int = MOST_HELD) -> None:
        self._most = most
        self._now = 0

    def take(self, size: int) -> None:
        if self._now + size > self._most:
            raise RequestRefused("too-many-requests", "large bodies fill this server's memory; send it again later")
        self._now += size

    def give_back(self, size: int) -> None:
        self._now -= size


class RequestBody:
    """The body of one request; read once, or not at all. Its memory is given back at the end of a `with` block."""

    def __init__(self, scope: Scope, receive: Receive, memory: BodyMemory) -> None:
        self._receive = receive
        self._memory = memory
        self._taken = 0
        self._tried = False
        self._declared: int | None = None  # not known of one that comes in chunks
        self.whole = scope["method"] in ("GET", "HEAD", "OPTIONS")  # of theirs nobody reads any
        said = dict(scope["headers"])
        if b"transfer-encoding" not in said:
            length = said.get(b"content-length", b"0")
            self._declared = int(length) if length.isdigit() and len(length) <= 12 else 10**12

    def __enter__(self) -> RequestBody:
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.give_back(self._taken)

    async def read(self, limit: int) -> bytes:
        """All of it; `RequestRefused` if it is larger than `limit`, too slow, or the server's memory is full."""
        self._tried = True
        if self.whole:
            return b""
        if self._declared is not None and self._declared > limit:
            raise _too_large(limit)
        if self._has_arrived():
            return await self._collect(limit)
        try:
            async with asyncio.timeout(SLOWEST_BODY):
                return await self._collect(limit)
        except TimeoutError as error:
            raise RequestRefused("too-slow", f"a body is to arrive within {SLOWEST_BODY:g} seconds") from error

    def _has_arrived(self) -> bool:
        """Whether the HTTP server beneath says that it has all of it: then no clock need be set, which is dear."""
        return getattr(getattr(self._receive, "__self__", None), "more_body", True) is False

    async def _collect(self, limit: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        while not self.whole:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Hangup
            part = message.get("body", b"")
            size += len(part)
            if size > limit:
                raise _too_large(limit)
            if size > SMALL_BODY:  # a small body takes nothing
                self._memory.take(size - self._taken)
                self._taken = size
            parts.append(part)
            self.whole = not message.get("more_body")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def gone(self) -> None:
        """Wait until the client hangs up, which it may do while it is waiting for the answer."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def finish(self) -> bool:
        """Before the answer: whether the connection can be kept, because no part of the body is left in it."""
        if not self._tried and self._declared is not None and self._declared <= SMALL_BODY:
            with suppress(RequestRefused):
                await self.read(SMALL_BODY)
        return self.whole


def _too_large(limit: int) -> RequestRefused:
    return RequestRefused("too-large", f"at most {limit} bytes are allowed")
