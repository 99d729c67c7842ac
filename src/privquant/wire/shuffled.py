"""Requests and answers between a device and the shuffler. The sealed report has one size for both bits.

A query has the form it has in the local trust model (`query_request`); its answer is the announcement of the
round that the token is given, with the thresholds of the rounds before, by which the chain is checked.
"""

from __future__ import annotations

from dataclasses import dataclass

from privquant.wire.announcement import Announcement, announcement_of, check_chain
from privquant.wire.form import (
    MAX_REQUEST,
    Receipts,
    WireError,
    canonical,
    check_token,
    parse_json,
    parse_object,
    whole_from_wire,
    whole_to_wire,
)
from privquant.wire.manifest import Manifest
from privquant.wire.sealing import sealed_from_wire, sealed_to_wire
from privquant.wire.shuffle_terms import MAX_ROUNDS, check_round

MAX_ROUND_ANSWER = 32_768
"""Bytes in the answer to a query: a thousand earlier thresholds, and an announcement."""

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
