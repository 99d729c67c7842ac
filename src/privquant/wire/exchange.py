"""Requests and answers between a device and the aggregator. A report has the same size for both bits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from privquant.wire.form import (
    MAX_REQUEST,
    Receipts,
    WireError,
    canonical,
    check_code,
    check_hash,
    check_token,
    exact_fields,
    parse_json,
    parse_object,
    token_hash,
    whole_from_wire,
    whole_to_wire,
)

MAX_TICKET = 200
CODED_CLAIM = 2
"""The version of the claim that carries a code."""

_TICKET = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_TICKET}}}")


@dataclass(frozen=True, slots=True)
class Claim:
    """Take a place of an open link for a token the device made. Answer: 201, or 200 if it has it already.

    code: of a link that needs one. A claim without has the form of version 1, which does not say so.
    """

    link: str
    token_hash: str
    code: str | None = None

    def to_bytes(self) -> bytes:
        form: dict[str, Any] = {"link": self.link, "token_hash": self.token_hash}
        return canonical(form if self.code is None else form | {"code": self.code, "version": CODED_CLAIM})

    @classmethod
    def parse(cls, body: bytes) -> Claim:
        form = parse_json(body, MAX_REQUEST)
        coded = isinstance(form, dict) and "version" in form
        exact_fields(form, ("link", "token_hash", *(("code", "version") if coded else ())), "message")
        if coded and (type(form["version"]) is not int or form["version"] != CODED_CLAIM):
            raise WireError(f"a claim that says its version is of version {CODED_CLAIM}")
        return cls(
            check_token(form["link"], "link"),
            check_hash(form["token_hash"], "token_hash"),
            check_code(form["code"]) if coded else None,
        )


def query_request(token: str) -> bytes:
    """Ask for the threshold of a token, of which only the hash is sent."""
    return canonical({"token_hash": token_hash(token)})


def parse_query_request(body: bytes) -> str:
    """The token hash."""
    return check_hash(parse_object(body, MAX_REQUEST, ("token_hash",))["token_hash"], "token_hash")


@dataclass(frozen=True, slots=True)
class Ticket:
    """The threshold a token was given, and the server's seal on it, opaque to the device."""

    threshold: int
    ticket: str

    def to_bytes(self) -> bytes:
        return canonical({"threshold": whole_to_wire(self.threshold), "ticket": self.ticket})

    @classmethod
    def parse(cls, body: bytes) -> Ticket:
        form = parse_object(body, MAX_REQUEST, ("threshold", "ticket"))
        return cls(whole_from_wire(form["threshold"], "threshold"), check_ticket(form["ticket"]))


def check_ticket(ticket: Any) -> str:
    if not isinstance(ticket, str) or not _TICKET.fullmatch(ticket):
        raise WireError(f"a ticket is 1 to {MAX_TICKET} characters of base64url")
    return ticket


@dataclass(frozen=True, slots=True)
class WireReport:
    """One bit, the ticket it answers, and the token it spends."""

    token: str
    ticket: str
    bit: int

    def to_dict(self) -> dict[str, Any]:
        return {"token": self.token, "ticket": self.ticket, "bit": self.bit}

    def to_bytes(self) -> bytes:
        return canonical(self.to_dict())

    @classmethod
    def from_dict(cls, form: Any) -> WireReport:
        exact_fields(form, ("token", "ticket", "bit"), "report")
        if type(form["bit"]) is not int or form["bit"] not in (0, 1):
            raise WireError(f"a report's bit is the number 0 or 1; a {type(form['bit']).__name__} was given")
        return cls(check_token(form["token"]), check_ticket(form["ticket"]), form["bit"])

    @classmethod
    def parse(cls, body: bytes) -> WireReport:
        return cls.from_dict(parse_json(body, MAX_REQUEST))


COUNTED = Receipts("counted", "already counted", "a receipt")
CLAIMED = Receipts("claimed", "already claimed", "a claim's answer")
