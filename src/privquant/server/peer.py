"""One signed message to the other party, and its answer: how aggregator and shuffler speak to each other.

What is sent carries its own signature and its own seal; the connection is https all the same, except on this
machine. No redirect is followed and no proxy of the environment is asked for plain http.
"""

from __future__ import annotations

import urllib.request
from urllib.parse import urlsplit

from privquant.errors import InvalidInput, PrivquantError
from privquant.server.http_client import Refusal, answer_of
from privquant.wire import LOOPBACK, MAX_MANIFEST

TIMEOUT = 60.0


class PeerRefused(Refusal):
    """The other party said no, and will say so again."""


class PeerSilent(PrivquantError):
    """The other party does not answer now; send the same again."""


def check_peer(address: str) -> str:
    """An address that messages may be sent to; InvalidInput otherwise."""
    where = urlsplit(address)
    if where.scheme not in ("https", "http") or not where.hostname or address.endswith("/"):
        raise InvalidInput(f"an address is https://host without a closing slash, got {address!r:.80}")
    if where.scheme == "http" and where.hostname not in LOOPBACK:
        raise InvalidInput(f"{address} is not encrypted: say https://; plain http is for this machine only")
    return address


def post(url: str, body: bytes) -> bytes:
    """The body of an answer that is no refusal."""
    return _answer(urllib.request.Request(url, body, {"content-type": "application/json"}, method="POST"))


def get(url: str) -> bytes:
    return _answer(urllib.request.Request(url))


def _answer(request: urllib.request.Request) -> bytes:
    try:
        return answer_of(request, TIMEOUT, MAX_MANIFEST + 1)[0]
    except Refusal as error:
        if error.final:
            raise PeerRefused(str(error), error.code, final=True) from error
        raise PeerSilent(str(error)) from error
