"""Requests to a running server with an operator's token, and plain words where there is no answer."""

from __future__ import annotations

import json
import os
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from privquant.errors import InvalidInput, PrivquantError

_SOON = 3.0  # seconds after which a person wonders what is going on


class Refusal(PrivquantError):
    """The server said no."""


def call(server: str, method: str, path: str, form: Any = None) -> Any:
    """The server's answer, read as JSON."""
    return json.loads(send(server, method, path, form))


def send(server: str, method: str, path: str, form: Any = None) -> bytes:
    """The body of the server's answer; `Refusal` where it says no or nothing."""
    from privquant.wire import parse_problem

    token = os.environ.get("PRIVQUANT_TOKEN")
    if not token:
        raise InvalidInput("set PRIVQUANT_TOKEN to an operator's token (privquant operator add NAME)")
    if not server.startswith(("http://", "https://")):
        raise InvalidInput(f"the server's address starts with https:// or http://, got {server!r}")
    body = None if form is None else json.dumps(form).encode()
    request = urllib.request.Request(server.rstrip("/") + path, data=body, method=method)
    request.add_header("authorization", f"Bearer {token}")
    request.add_header("content-type", "application/json")
    try:
        with _said_if_slow(server), urllib.request.urlopen(request, timeout=120) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        problem = parse_problem(error.code, error.read())
        if error.code == 401:
            raise Refusal(
                f"{server} does not know the token in PRIVQUANT_TOKEN; `privquant operator add NAME`, run where "
                "its data folder is, makes one"
            ) from error
        raise Refusal(f"{server} says: {problem.detail}") from error
    except (urllib.error.URLError, OSError) as error:
        raise Refusal(f"{server} does not answer: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Why there was no answer, in words."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ConnectionRefusedError):
        return "nothing listens there; is the server running (`privquant serve`)?"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return "it does not speak https; say http:// if it is on this machine"
    if isinstance(cause, TimeoutError):
        return "it took longer than 120 seconds"
    return (cause.strerror if isinstance(cause, OSError) else None) or str(cause)


@contextmanager
def _said_if_slow(server: str) -> Iterator[None]:
    """Says once, if an answer takes long, what is waited for."""
    text = f"privquant: waiting for {server}; at its first use a server compiles its kernels, up to a minute"
    timer = threading.Timer(_SOON, lambda: typer.echo(text, err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
