"""What a request is answered with, and the one place that writes it: status, headers, body."""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from privquant import wire

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

RETRY_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, which is also an ASGI application that gives it."""

    status: int
    body: bytes
    media: str = "application/json"
    retry_after: int | None = None
    immutable: bool = False
    allow: str | None = None  # the methods the address takes
    close: bool = False  # the rest of the request is not worth reading

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", self.media.encode("ascii")),
            (b"content-length", b"%d" % len(self.body)),
            (b"cache-control", b"public, max-age=31536000, immutable" if self.immutable else b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        if self.retry_after is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after))
        if self.allow is not None:
            headers.append((b"allow", self.allow.encode("ascii")))
        if self.close:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else self.body})


class RequestRefused(Exception):
    """Ends a request with a problem of the wire format's table."""

    def __init__(
        self, code: str, detail: str = "", retry_after: int | None = None, allow: str | None = None
    ) -> None:
        super().__init__(code)
        self.code = code
        self.reply = problem(code, detail, retry_after, allow)


def refusal_of(error: Exception) -> tuple[str, Reply]:
    """Reason and answer to a message that is refused, forged or malformed, or that the store could not take."""
    if isinstance(error, RequestRefused):
        return error.code, error.reply
    if isinstance(error, wire.WireError):
        code = "forged-signature" if isinstance(error, wire.SignatureError) else "malformed"
        return code, problem(code, str(error))
    return "unavailable", problem("unavailable")


def check_method(route: wire.Route, method: str) -> None:
    if method != route.method and (method, route.method) != ("HEAD", "GET"):
        raise RequestRefused("method-not-allowed", f"this address takes {route.method}", allow=route.method)


def problem(code: str, detail: str = "", retry_after: int | None = None, allow: str | None = None) -> Reply:
    kind = wire.PROBLEMS[code]
    if retry_after is None and not kind.final:
        retry_after = RETRY_SECONDS
    body = wire.problem_body(code, detail or kind.title)
    return Reply(kind.status, body, wire.PROBLEM_MEDIA, retry_after, allow=allow)
