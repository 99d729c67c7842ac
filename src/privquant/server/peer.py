"""One signed message to the other party, and its answer: how aggregator and shuffler speak to each other.

What is sent carries its own signature and its own seal; the connection is https all the same, except on this
machine. No redirect is followed and no proxy of the environment is asked for plain http.
"""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from privquant.errors import InvalidInput, PrivquantError
from privquant.server.http_client import Refusal, opener_for
from privquant.wire import LOOPBACK, MAX_MANIFEST, parse_problem

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
    request = urllib.request.Request(url, data=body, method="POST", headers={"content-type": "application/json"})
    return _answer(request)


def get(url: str) -> bytes:
    return _answer(urllib.request.Request(url))


def _answer(request: urllib.request.Request) -> bytes:
    host = request.host
    try:
        with opener_for(request.type).open(request, timeout=TIMEOUT) as answer:
            return bytes(answer.read(MAX_MANIFEST + 1))
    except urllib.error.HTTPError as error:
        problem = parse_problem(error.code, error.read(MAX_MANIFEST))
        if error.code >= 500 or not problem.final:
            raise PeerSilent(f"{host} cannot take it now: {problem.detail}") from error
        raise PeerRefused(f"{host} says: {problem.detail}", problem.code) from error
    except (OSError, http.client.HTTPException) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise PeerSilent(f"the certificate of {host} is not valid: {cause.verify_message}") from error
        raise PeerSilent(f"{host} does not answer: {cause}") from error
