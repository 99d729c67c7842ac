"""HTTP for a device that does not trust the server: one request, one answer, bounded in bytes and in time.

It promises, whatever the other side does:

- an end: every request is over at its deadline. The clock runs over the whole request, not over single reads,
  so a server that sends a byte a second gains nothing;
- a bound: no more than the body limit and 64 KiB of headers are taken in;
- no detour: redirects are not followed, proxies of the environment are not used, cookies are not kept;
- the same bytes for everybody: no user agent, no header that tells devices apart.

Connections are kept open and used again. A Transport may be shared by any number of devices and threads.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from privquant.device.refusals import InviteRefused, TransportRefused, TryLater

HEADER_ALLOWANCE = 64 << 10
MEDIA = "application/json"


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: status, the raw Retry-After header if there is one, and the body."""

    status: int
    retry_after: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a server listens, taken from an address such as https://host:port/prefix."""

    secure: bool
    host: str
    port: int
    prefix: str

    @classmethod
    def of(cls, base: str) -> Origin:
        parts = urlsplit(base)
        try:
            port = parts.port
        except ValueError as error:
            raise InviteRefused("invite-malformed", f"the invite's address has no valid port: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InviteRefused("invite-malformed", "the invite's address starts with neither https:// nor http://")
        secure = parts.scheme == "https"
        return cls(secure, parts.hostname, port or (443 if secure else 80), parts.path)


class Transport:
    """Sends requests. `tls`: the context for https; by default the system's certificates, names checked."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._idle: dict[Origin, list[_Connection]] = {}

    def __enter__(self) -> Transport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections that are not in use."""
        for idle in self._idle.values():
            while idle:
                idle.pop().close()

    def send(
        self, origin: Origin, method: str, path: str, body: bytes | None, *, limit: int, deadline: float
    ) -> Response:
        """The answer to one request, of at most `limit` bytes, before `deadline` on the monotonic clock.

        `TryLater` when the server could not be reached or fell silent, `TransportRefused` when it misbehaved.
        A kept connection that the server closed meanwhile is replaced once: every request of the wire format
        may be repeated.
        """
        idle = self._idle.setdefault(origin, [])
        try:
            connection = idle.pop()
        except IndexError:
            return self._over(self._new(origin), method, path, body, limit, deadline)
        try:
            return self._over(connection, method, path, body, limit, deadline)
        except TryLater as failure:
            if failure.reason != "unreachable":
                raise
            return self._over(self._new(origin), method, path, body, limit, deadline)

    def _new(self, origin: Origin) -> _Connection:
        if not origin.secure:
            return _Connection(origin, None)
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return _Connection(origin, self._tls)

    def _over(
        self, connection: _Connection, method: str, path: str, body: bytes | None, limit: int, deadline: float
    ) -> Response:
        origin = connection.origin
        connection.begin(deadline, limit + HEADER_ALLOWANCE)
        headers = {"Accept": MEDIA} if body is None else {"Accept": MEDIA, "Content-Type": MEDIA}
        reusable = False
        try:
            connection.request(method, origin.prefix + path, body, headers)
            answer = connection.getresponse()
            with answer:
                response = Response(answer.status, answer.getheader("Retry-After"), _body(answer, limit))
                reusable = answer.isclosed() and not answer.will_close  # closed: read to its end
        except TimeoutError as error:
            raise TryLater("deadline", f"{origin.host} did not answer in time") from error
        except ConnectionRefusedError as error:
            raise TryLater("unreachable", f"nothing listens at {origin.host}:{origin.port}") from error
        except (ConnectionError, http.client.IncompleteRead) as error:
            raise TryLater("unreachable", f"{origin.host} broke the connection off") from error
        except ssl.SSLCertVerificationError as error:
            raise TransportRefused(
                "insecure", f"{origin.host} has no valid certificate: {error.verify_message}"
            ) from error
        except OSError as error:
            raise TryLater("unreachable", f"{origin.host} cannot be reached: {error.strerror or error}") from error
        except (http.client.HTTPException, ValueError) as error:
            raise TransportRefused(
                "not-http", f"{origin.host} does not speak HTTP: {type(error).__name__}"
            ) from error
        finally:
            if reusable:
                self._idle[origin].append(connection)
            else:
                connection.close()
        return response


def _body(answer: http.client.HTTPResponse, limit: int) -> bytes:
    if answer.length is not None and answer.length > limit:
        raise _too_large(limit)
    body = answer.read(limit + 1)
    if len(body) > limit:
        raise _too_large(limit)
    if answer.length:  # what the length promised and the connection did not bring
        raise http.client.IncompleteRead(body, answer.length)
    return body


def _too_large(limit: int) -> TransportRefused:
    return TransportRefused("too-large", f"the server sent more than the {limit} bytes that are allowed here")


class _Connection(http.client.HTTPConnection):
    """A connection whose every operation keeps the deadline and the byte limit of the current request."""

    def __init__(self, origin: Origin, tls: ssl.SSLContext | None) -> None:
        super().__init__(origin.host, origin.port)
        self.origin = origin
        self._context = tls
        self.default_port = 443 if tls is not None else 80  # decides whether Host names the port
        self._deadline = 0.0
        self._left = 0

    def begin(self, deadline: float, most: int) -> None:
        self._deadline = deadline
        self._left = most

    def remaining(self) -> float:
        """Seconds to the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        return left

    def received(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise TransportRefused("too-large", "the server sent more header bytes than are allowed")

    def connect(self) -> None:
        bare = self._dial()
        try:
            if self._context is not None:
                bare.settimeout(self.remaining())
                bare = self._context.wrap_socket(bare, server_hostname=self.host)
        except BaseException:
            bare.close()
            raise
        self.sock: Any = _Paced(bare, self)

    def _dial(self) -> socket.socket:
        """The first address that takes the connection; all together must keep the deadline."""
        failure: OSError = OSError("no address found")
        for family, kind, protocol, _, address in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
            bare = socket.socket(family, kind, protocol)
            try:
                bare.settimeout(self.remaining())
                bare.connect(address)
                bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return bare
            except OSError as error:
                failure = error
                bare.close()
        raise failure


class _Paced:
    """The part of a socket http.client uses. Its timeout is what is left of the request, not one a read."""

    def __init__(self, bare: socket.socket, connection: _Connection) -> None:
        self._bare = bare
        self._connection = connection
        self._readers = 0
        self._closed = False

    def sendall(self, data: Any) -> None:
        self._bare.settimeout(self._connection.remaining())
        self._bare.sendall(data)

    def receive_into(self, buffer: memoryview) -> int:
        self._bare.settimeout(self._connection.remaining())
        count = self._bare.recv_into(buffer)
        self._connection.received(count)
        return count

    def makefile(self, mode: str) -> io.BufferedReader:
        self._readers += 1
        return io.BufferedReader(_Reader(self))

    def close(self) -> None:
        """Like a socket's, this waits for the last reader: http.client closes first and reads the body then."""
        self._closed = True
        if self._readers == 0:
            self._bare.close()

    def reader_closed(self) -> None:
        self._readers -= 1
        if self._closed and self._readers == 0:
            self._bare.close()


class _Reader(io.RawIOBase):
    def __init__(self, paced: _Paced) -> None:
        self._paced = paced

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._paced.receive_into(memoryview(buffer).cast("B"))

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._paced.reader_closed()
