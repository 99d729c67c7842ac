"""Requests to a running server, an operator's or the other party's, and plain words where there is no answer.

For servers the caller trusts; the device, which trusts none, has a transport of its own. As there, a secret leaves
this machine encrypted or not at all: with a token plain http is refused except to this machine itself, and a
redirect, which would carry the token to wherever it points, is not followed.

What aggregator and shuffler send each other carries its own signature and its own seal; the connection is https all
the same, except on this machine.
"""

import http.client
import json
import ssl
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from privquant.errors import InvalidInput, PrivquantError
from privquant.wire import LOOPBACK, MAX_MANIFEST, parse_problem

MOST_READ = 1 << 30  # bytes of an answer that are read of a server the caller trusts
PEER_TIMEOUT = 60.0


class Refusal(PrivquantError):
    """The server said no, or nothing.

    code: of the wire format's problems; empty where there was no answer. final: it will say so again.
    """

    def __init__(self, text: str, code: str = "", *, final: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.final = final


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves a redirect as the answer it is."""

    def redirect_request(self, *_: Any) -> None:
        return None


def answer_of(request: urllib.request.Request, timeout: float, most: int = MOST_READ) -> tuple[bytes, str]:
    """Body, of which at most so many bytes are read, and media type of an answer; `Refusal` if it is none.

    Follows no redirect. A proxy of the environment reads what goes to it over plain http, so none gets that; https
    passes through it unread.
    """
    server = f"{request.type}://{request.host}"
    aside = [urllib.request.ProxyHandler({})] if request.type == "http" else []
    opener = urllib.request.build_opener(_NoRedirect, *aside)
    try:
        with opener.open(request, timeout=timeout) as answer:
            return bytes(answer.read(most)), answer.headers.get_content_type()
    except urllib.error.HTTPError as error:
        if 300 <= error.code < 400:
            raise Refusal(
                f"{server} sends elsewhere (status {error.code}), where nothing is sent on: give the address it "
                "really has"
            ) from error
        problem = parse_problem(error.code, error.read(most))
        final = problem.final and error.code < 500
        raise Refusal(f"{server} says: {problem.detail}", problem.code, final=final) from error
    except (OSError, http.client.HTTPException) as error:
        raise Refusal(f"{server} does not answer: {_reason(error, timeout)}") from error


def _reason(error: Exception, timeout: float) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ConnectionRefusedError):
        return "nothing listens there; is the server running (`privquant serve`)?"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return "it does not speak https; say http:// if it is on this machine"
    if isinstance(cause, TimeoutError):
        return f"it took longer than {timeout:g} seconds"
    return (cause.strerror if isinstance(cause, OSError) else None) or str(cause)


class OperatorClient:
    """One server, one token. timeout: seconds for a request."""

    def __init__(self, server: str, token: str = "", *, timeout: float = 120.0) -> None:
        if not server.startswith(("http://", "https://")):
            raise InvalidInput(f"the server's address starts with https:// or http://, got {server!r}")
        where = urlsplit(server)
        if token and where.scheme != "https" and where.hostname not in LOOPBACK:
            raise InvalidInput(
                f"{server} is not encrypted, and anyone on the way could read the operator's token: say https://, "
                "or run the command on the server's own machine; plain http is for this machine only (localhost, "
                "127.0.0.1, ::1)"
            )
        self.server = server.rstrip("/")
        self._token = token
        self._timeout = timeout

    def call(self, method: str, path: str, form: Any = None) -> Any:
        """The server's answer, read as JSON; a text where it is another kind."""
        body = None if form is None else json.dumps(form).encode()
        request = urllib.request.Request(self.server + path, data=body, method=method)
        request.add_header("content-type", "application/json")
        if self._token:
            request.add_header("authorization", f"Bearer {self._token}")
        said, kind = answer_of(request, self._timeout)
        return json.loads(said) if kind == "application/json" and said else said.decode()


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


def exchange(url: str, body: bytes | None = None) -> bytes:
    """Get an address of the other party, or post it a message; the body of an answer that is no refusal."""
    headers = {} if body is None else {"content-type": "application/json"}
    request = urllib.request.Request(url, body, headers)
    try:
        return answer_of(request, PEER_TIMEOUT, MAX_MANIFEST + 1)[0]
    except Refusal as error:
        if error.final:
            raise PeerRefused(str(error), error.code, final=True) from error
        raise PeerSilent(str(error)) from error
