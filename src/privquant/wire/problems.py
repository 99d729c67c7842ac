"""Refusals, in the form of RFC 9457. One table: every kind, its status, and whether asking again can help."""

from __future__ import annotations

from dataclasses import dataclass

from privquant.wire.form import MAX_REQUEST, WireError, canonical, parse_json

PROBLEM_TYPE = "urn:privquant:problem:"
PROBLEM_MEDIA = "application/problem+json"


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
