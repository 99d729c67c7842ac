"""Reading a request's body, bounded in size and in time before anyone looks at it."""

from __future__ import annotations

import asyncio

from privquant.aggregator.replies import Receive, Reply, Scope, problem

SLOWEST_BODY = 10.0
"""Seconds a client may take to send a body."""


class Hangup(Exception):
    """The client went away before its request was whole."""


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
                    raise Hangup
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
