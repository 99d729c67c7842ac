"""Requests of a command to a running server: the token from the environment, and a word when it takes long."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from privquant.errors import InvalidInput

_SOON = 3.0  # seconds after which a person wonders what is going on


def call(server: str, method: str, path: str, form: Any = None) -> Any:
    """The server's answer; `Refusal` where it says no or nothing."""
    from privquant.server.http_client import OperatorClient, Refusal

    token = os.environ.get("PRIVQUANT_TOKEN")
    if not token:
        raise InvalidInput("set PRIVQUANT_TOKEN to an operator's token (privquant operator add NAME)")
    try:
        with _said_if_slow(server):
            return OperatorClient(server, token).call(method, path, form)
    except Refusal as error:
        if error.code != "unauthorized":
            raise
        raise Refusal(
            f"{server} does not know the token in PRIVQUANT_TOKEN; `privquant operator add NAME`, run where "
            "its data folder is, makes one"
        ) from error


@contextmanager
def _said_if_slow(server: str) -> Iterator[None]:
    """Says once, if an answer takes long, what is waited for."""
    text = f"privquant: waiting for {server}, which has not answered yet"
    timer = threading.Timer(_SOON, lambda: typer.echo(text, err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
