"""Requests and answers between a device and the aggregator or shuffler. A report has one size for both bits.

A query has the same form in both trust models (`query_request`). Its answer from a shuffler is the announcement of
the round that the token is given, with the thresholds of the rounds before, by which the chain is checked.

Refusals have the form of RFC 9457. One table has every kind, its status, and whether asking again can help.
"""

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
from privquant.wire.manifest import Manifest
from privquant.wire.rounds import Announcement, announcement_of, check_chain
from privquant.wire.sealing import sealed_from_wire, sealed_to_wire
from privquant.wire.shuffle_terms import MAX_ROUNDS, check_round

MAX_TICKET = 200
CODED_CLAIM = 2
"""The version of the claim that carries a code."""

MAX_ROUND_ANSWER = 32_768
"""Bytes in the answer to a query: a thousand earlier thresholds, and an announcement."""

PROBLEM_TYPE = "urn:privquant:problem:"
PROBLEM_MEDIA = "application/problem+json"

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
ACCEPTED = Receipts("accepted", "already accepted", "a shuffler's receipt")
"""Of a report: kept for its round now, or this token has reported before."""


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """What a token is asked: the announcement of its round, checked back to the manifest."""

    announcement: Announcement
    earlier: tuple[int, ...]

    @classmethod
    def parse(cls, body: bytes, manifest: Manifest) -> RoundAnswer:
        form = parse_object(body, MAX_ROUND_ANSWER, ("announcement", "earlier"))
        if not isinstance(form["earlier"], list) or len(form["earlier"]) > MAX_ROUNDS:
            raise WireError(f"earlier is a list of at most {MAX_ROUNDS} thresholds")
        earlier = tuple(whole_from_wire(each, "threshold") for each in form["earlier"])
        announcement = announcement_of(form["announcement"], manifest)
        check_chain(announcement, earlier)
        return cls(announcement, earlier)


def round_answer(envelope: bytes, earlier: tuple[int, ...] | list[int]) -> bytes:
    """The answer to a query: the aggregator's signed announcement as it came, and the thresholds before it."""
    return canonical(
        {
            "announcement": parse_json(envelope, MAX_REQUEST),
            "earlier": [whole_to_wire(threshold) for threshold in earlier],
        }
    )


@dataclass(frozen=True, slots=True)
class SealedReport:
    """Sealed bytes for a round, and the token they spend. The shuffler can read all of it but the bit."""

    token: str
    round: int
    sealed: bytes

    def to_bytes(self) -> bytes:
        return canonical({"token": self.token, "round": self.round, "sealed": sealed_to_wire(self.sealed)})

    @classmethod
    def parse(cls, body: bytes) -> SealedReport:
        form = parse_object(body, MAX_REQUEST, ("token", "round", "sealed"))
        return cls(check_token(form["token"]), check_round(form["round"]), sealed_from_wire(form["sealed"]))


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of refusal. final: the same request will never succeed, so a device stops asking."""

    code: str
    status: int
    title: str
    final: bool = True


PROBLEMS = {
    kind.code: kind
    for kind in (
        ProblemKind("malformed", 400, "The request does not have the form the wire format asks for"),
        ProblemKind("unauthorized", 401, "An operator token is needed"),
        ProblemKind("unknown-token", 403, "The campaign never issued this token"),
        ProblemKind("wrong-link", 403, "The campaign has no open link with this secret"),
        ProblemKind("forged-ticket", 403, "This ticket was not given to this token in this campaign"),
        ProblemKind("forged-signature", 403, "The message is not signed by the key that the manifest names"),
        ProblemKind("forbidden", 403, "The operator token does not allow this"),
        ProblemKind("unknown-campaign", 404, "There is no such campaign"),
        ProblemKind("not-found", 404, "There is nothing at this address"),
        ProblemKind("method-not-allowed", 405, "The address does not take this method"),
        ProblemKind("too-slow", 408, "The body took too long to arrive", final=False),
        ProblemKind("token-spent", 409, "A report for this token is already counted"),
        ProblemKind("second-announcement", 409, "The round was announced before, with another threshold"),
        ProblemKind("second-batch", 409, "The round has another batch, or was dropped"),
        ProblemKind("conflict", 409, "The campaign is not in a state that allows this"),
        ProblemKind("link-exhausted", 410, "All places of the open link are taken"),
        ProblemKind("round-closed", 410, "The round of this token has closed without its report"),
        ProblemKind("campaign-complete", 410, "The planned number of users has answered"),
        ProblemKind("campaign-closed", 410, "The campaign is closed"),
        ProblemKind("deadline-passed", 410, "The campaign's deadline has passed"),
        ProblemKind("too-large", 413, "The body is larger than allowed"),
        ProblemKind("short-batch", 422, "The batch has fewer reports than its round is forwarded with"),
        ProblemKind("invalid", 422, "The request is well formed but asks for what is not allowed"),
        ProblemKind("not-yet", 425, "The wave of this token has not opened", final=False),
        ProblemKind("too-many-requests", 429, "More than the server takes at once", final=False),
        ProblemKind("all-places-taken", 503, "As many devices as planned are answering now", final=False),
        ProblemKind("campaign-paused", 503, "The campaign is paused", final=False),
        ProblemKind("unavailable", 503, "The store does not answer now; nothing was counted", final=False),
    )
}


@dataclass(frozen=True, slots=True)
class Problem:
    """A refusal as it was read from the wire."""

    code: str
    status: int
    detail: str
    final: bool


def problem_body(code: str, detail: str) -> bytes:
    kind = PROBLEMS[code]
    return canonical({"type": PROBLEM_TYPE + code, "title": kind.title, "status": kind.status, "detail": detail})


def parse_problem(status: int, body: bytes) -> Problem:
    """What a refusal says. Never raises: a proxy's refusal may have any body, and is judged by its status."""
    detail, code = "", ""
    try:
        form = parse_json(body, MAX_REQUEST)
        if isinstance(form, dict):
            kind_of = form.get("type")
            if isinstance(kind_of, str) and kind_of.startswith(PROBLEM_TYPE):
                code = kind_of[len(PROBLEM_TYPE) :]
            said = form.get("detail")
            detail = said[:500] if isinstance(said, str) else ""
    except WireError:
        pass
    kind = PROBLEMS.get(code)
    if kind is not None and kind.status == status:
        return Problem(code, status, detail or kind.title, kind.final)
    final = 400 <= status < 500 and status not in (408, 425, 429)
    return Problem("unknown", status, detail or f"HTTP status {status}", final)
