"""A real HTTP server on loopback for the device's tests: honest unless told otherwise.

It speaks over raw sockets, so that it can do what a web framework would not let it do, and keeps every request
byte for byte. A route is a function from the request to the bytes of the answer, or to a function that is given
the socket and may do anything with it.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privquant.device import Ledger, Patience, spending
from privquant.domain import Domain, Integers
from privquant.privacy.coin import flip_threshold
from privquant.wire import (
    CLAIMED,
    COUNTED,
    Claim,
    Invite,
    Manifest,
    Ticket,
    Waves,
    WireReport,
    fingerprint,
    new_nonce,
    new_token,
    parse_query_request,
    public_key_of,
    sign_manifest,
)

TICKET = "s" * 86

# Short pauses: what is tested is what happens, not how long a person would wait for it.
HASTY = Patience(total=5.0, request=2.0, first_pause=0.01, longest_pause=0.05)
# One attempt: the first pause would outlast all patience, so it is not begun.
ONCE = Patience(total=5.0, request=2.0, first_pause=30.0)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    raw: bytes

    @property
    def what(self) -> str:
        return self.path.rpartition("/")[2]


Action = Callable[[socket.socket], None]
Route = Callable[[Request], bytes | Action]


def reply(status: int, body: bytes, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def drip(data: bytes, pause: float) -> Action:
    """Send a byte at a time."""

    def send(sock: socket.socket) -> None:
        for byte in data:
            sock.sendall(bytes([byte]))
            time.sleep(pause)

    return send


def reset(data: bytes = b"") -> Action:
    """Send this much and then a TCP reset."""

    def cut(sock: socket.socket) -> None:
        sock.sendall(data)
        time.sleep(0.01 if data else 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()

    return cut


@dataclass(frozen=True)
class Campaign:
    """A manifest and the key that signs it."""

    manifest: Manifest
    key: Ed25519PrivateKey

    @property
    def envelope(self) -> bytes:
        return sign_manifest(self.manifest, self.key)

    def invite(self, base: str, token: str | None = None, link: str | None = None) -> Invite:
        if token is None and link is None:
            token = new_token()
        return Invite(base, self.manifest.id, fingerprint(self.manifest.issuer), token, link)


def campaign(
    measurement: str = "steps",
    domain: Domain = Integers(0, 100),
    epsilon: float = 1.0,
    key: Ed25519PrivateKey | None = None,
) -> Campaign:
    key = key or Ed25519PrivateKey.generate()
    manifest = Manifest(
        measurement=measurement,
        question="How many steps, in thousands?",
        domain=domain,
        quantiles=(0.5,),
        epsilon=epsilon,
        flip_threshold=flip_threshold(epsilon),
        protocol="isotonic",
        options=(),
        interval=None,
        planned_users=1000,
        waves=Waves(),
        opens=0,
        deadline=10**10,
        issuer=public_key_of(key),
        nonce=new_nonce(),
    )
    return Campaign(manifest, key)


@dataclass
class Server:
    """Serves one campaign honestly; `on` replaces routes: manifest, claims, query, reports."""

    campaign: Campaign
    threshold: int = 50
    on: dict[str, Route] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    bits: dict[str, list[int]] = field(default_factory=dict)  # by token, every arrival
    claims: set[str] = field(default_factory=set)
    accepted: int = 0
    tls: ssl.SSLContext | None = None

    def __enter__(self) -> Server:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        scheme = "http" if self.tls is None else "https"
        self.base = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for sock in list(self._open):
            sock.close()

    def invite(self, **secret: str) -> str:
        return self.campaign.invite(self.base, **secret).to_url()

    def honest(self, request: Request) -> bytes:
        """What the aggregator would answer."""
        if request.what == "manifest":
            return reply(200, self.campaign.envelope)
        if request.what == "claims":
            claim = Claim.parse(request.body)
            new = claim.token_hash not in self.claims
            self.claims.add(claim.token_hash)
            return reply(201 if new else 200, CLAIMED.body(new))
        if request.what == "query":
            parse_query_request(request.body)
            return reply(200, Ticket(self.threshold, TICKET).to_bytes())
        if request.what == "reports":
            new = self.keep(request)
            return reply(201 if new else 200, COUNTED.body(new))
        return reply(404, b"{}")

    def keep(self, request: Request) -> bool:
        """Note the bit of a report; whether it is the first of its token."""
        report = WireReport.parse(request.body)
        arrived = self.bits.setdefault(report.token, [])
        arrived.append(report.bit)
        return len(arrived) == 1

    def publish(self, **changes: object) -> Campaign:
        """Serve a changed manifest, signed by the same key, from now on."""
        self.campaign = Campaign(replace(self.campaign.manifest, **changes), self.campaign.key)
        return self.campaign

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.add(sock)
            self.accepted += 1
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            if self.tls is not None:
                sock = self.tls.wrap_socket(sock, server_side=True)
            with sock, sock.makefile("rb") as file:
                while (request := read_request(file)) is not None:
                    self.requests.append(request)
                    answer = self.on.get(request.what, self.honest)(request)
                    if callable(answer):
                        answer(sock)
                        return
                    sock.sendall(answer)
        except OSError:
            pass  # the device left, or the test is over
        finally:
            self._open.discard(sock)


def read_request(file) -> Request | None:
    """The next request; None if the client left before it was whole."""
    first = file.readline()
    raw, headers = first, {}
    while (line := file.readline()) != b"\r\n":
        if not line:
            return None
        raw += line
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    length = int(headers.get("content-length", 0))
    body = file.read(length)
    if len(body) < length:
        return None
    method, path, _ = first.decode("latin-1").split(" ")
    return Request(method, path, headers, body, raw + b"\r\n" + body)


def harmless(server: Server, ledger, limit: int = spending.UNITS) -> None:
    """At most one bit of the device is known to the server, and the ledger is right.

    It can be read, holds exactly that bit if there is one, and has spent no more than the policy allows.
    """
    answers = Ledger(ledger).answers("steps")
    known = {(token, bit) for token, bits in server.bits.items() for bit in bits}
    assert len(known) <= 1
    assert known <= {(answer.token, answer.bit) for answer in answers}
    assert sum(spending.cost(answer.coin) for answer in answers) <= limit
