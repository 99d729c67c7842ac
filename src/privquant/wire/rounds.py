"""What is signed while a shuffled campaign runs: the question of each round, and what became of its reports.

    {"announcement": {"campaign", "round", "threshold", "previous"}, "signature"}
    {"batch": {"campaign", "round", "id", "reports", "part", "parts", "sealed": [...]}, "signature"}
    {"notice": {"campaign", "round", "status", "reports"}, "signature"}

An announcement is the one thing that an aggregator adds to its manifest while a campaign runs. It is signed by the
manifest's issuer. `previous` is the hash of the announcement before, for round 0 the manifest's id, so that the
announcements of a campaign are one chain: an aggregator that made two for one round has signed the proof of it.
Since an announcement is given by its round, its threshold and the one before, the thresholds of all earlier rounds
are enough to check a chain back to the manifest.

A batch, in parts, or the notice that there will be none is what the shuffler tells the aggregator, signed by the
shuffler's key of the manifest. A round has one batch, whose id is the hash of its campaign, round and sealed
reports in their permuted order: the same batch sent again has the same id and counts once, another one for the same
round has another and is refused. A batch of more than `PART_LIMIT` reports travels in parts, each within the size
of a request; nothing of it is opened before all parts are there and hash to the id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privquant.wire import signing
from privquant.wire.form import (
    MAX_BATCH_REQUEST,
    MAX_REQUEST,
    SignatureError,
    WireError,
    canonical,
    check_hash,
    exact_fields,
    parse_json,
    whole_from_wire,
    whole_in,
    whole_to_wire,
)
from privquant.wire.manifest import Manifest, terms_of
from privquant.wire.sealing import sealed_from_wire, sealed_to_wire
from privquant.wire.shuffle_terms import MAX_ROUND_REPORTS, MAX_ROUNDS, check_round

PART_LIMIT = 50_000
_ID = b"privquant/batch-id/2\x00"

KEPT = "kept"
BATCH_COUNTED = "counted"
BATCH_ALREADY_COUNTED = "already counted"
NOTED = "noted"

EXTENDED = "extended"
DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Announcement:
    """Round `round` of the campaign asks whether the value's index is at most `threshold`."""

    campaign: str
    round: int
    threshold: int
    previous: str

    def to_dict(self) -> dict[str, Any]:
        form = {name: getattr(self, name) for name in self.__slots__}
        return form | {"threshold": whole_to_wire(self.threshold)}

    @property
    def id(self) -> str:
        """SHA-256 of the canonical JSON, in hex: the `previous` of the next."""
        return hashlib.sha256(canonical(self.to_dict())).hexdigest()

    @classmethod
    def from_dict(cls, form: Any) -> Announcement:
        exact_fields(form, cls.__slots__, "announcement")
        return cls(
            check_hash(form["campaign"], "campaign"),
            check_round(form["round"]),
            whole_from_wire(form["threshold"], "threshold"),
            check_hash(form["previous"], "previous"),
        )


def next_announcement(campaign: str, earlier: Iterable[int], threshold: int) -> Announcement:
    """The announcement that follows those with these thresholds, of rounds 0, 1, 2, ..."""
    return announcements(campaign, (*earlier, threshold))[-1]


def announcements(campaign: str, thresholds: Iterable[int]) -> list[Announcement]:
    """The chain of announcements with these thresholds, one a round from round 0 on."""
    chain: list[Announcement] = []
    for number, threshold in enumerate(thresholds):
        chain.append(Announcement(campaign, number, threshold, chain[-1].id if chain else campaign))
    return chain


def sign_announcement(announcement: Announcement, manifest: Manifest, key: Ed25519PrivateKey) -> bytes:
    """The envelope as canonical JSON."""
    _check_against(announcement, manifest)
    form = announcement.to_dict()
    return signing.signed_bytes(signing.ANNOUNCEMENT, "announcement", form, key, manifest.issuer)


def open_announcement(body: bytes, manifest: Manifest) -> Announcement:
    """The announcement, if the manifest's issuer signed it and it is one of this campaign; else WireError."""
    return announcement_of(parse_json(body, MAX_REQUEST), manifest)


def announcement_of(envelope: Any, manifest: Manifest) -> Announcement:
    """`open_announcement` of an envelope that is already parsed."""
    form = signing.open_signed(signing.ANNOUNCEMENT, "announcement", envelope, manifest.issuer)
    found = Announcement.from_dict(form)
    _check_against(found, manifest)
    return found


def _check_against(announcement: Announcement, manifest: Manifest) -> None:
    """Campaign, round and threshold are ones of the manifest."""
    if announcement.campaign != manifest.id:
        raise SignatureError("the announcement is of another campaign")
    rounds = len(manifest.rounds)
    if announcement.round >= rounds:
        raise WireError(f"round {announcement.round} is announced; the manifest has {rounds} rounds")
    # The last index is no threshold: everybody's value is at most the largest.
    if not 0 <= announcement.threshold <= manifest.domain.size - 2:
        raise WireError(
            f"threshold {announcement.threshold} is outside the domain's 0 .. {manifest.domain.size - 2}"
        )


def check_chain(announcement: Announcement, earlier: Sequence[int]) -> None:
    """`SignatureError` unless the announcement follows those with these thresholds, back to the manifest."""
    if len(earlier) != announcement.round:
        raise WireError(
            f"round {announcement.round} follows {announcement.round} others, {len(earlier)} were given"
        )
    if next_announcement(announcement.campaign, earlier, announcement.threshold) != announcement:
        raise SignatureError("the announcement does not follow the announcements before it")


@dataclass(frozen=True, slots=True)
class BatchPart:
    """Part `part` of `parts` of a round's batch. reports: how many the whole batch has."""

    campaign: str
    round: int
    id: str
    reports: int
    part: int
    parts: int
    sealed: tuple[bytes, ...]

    def to_dict(self) -> dict[str, Any]:
        form = {name: getattr(self, name) for name in self.__slots__}
        return form | {"sealed": [sealed_to_wire(each) for each in self.sealed]}

    @classmethod
    def from_dict(cls, form: Any) -> BatchPart:
        exact_fields(form, cls.__slots__, "batch")
        reports = whole_in(form["reports"], 1, MAX_ROUND_REPORTS, "reports")
        parts = whole_in(form["parts"], 1, _parts_of(reports), "parts")
        part = whole_in(form["part"], 0, parts - 1, "part")
        sealed = form["sealed"]
        if parts != _parts_of(reports):
            raise WireError(f"a batch of {reports} reports has {_parts_of(reports)} parts, got {parts}")
        if not isinstance(sealed, list) or len(sealed) != min(PART_LIMIT, reports - part * PART_LIMIT):
            raise WireError(f"a part has {PART_LIMIT} reports, the last one what is left")
        return cls(
            check_hash(form["campaign"], "campaign"),
            whole_in(form["round"], 0, MAX_ROUNDS - 1, "round"),
            check_hash(form["id"], "batch id"),
            reports,
            part,
            parts,
            tuple(sealed_from_wire(each) for each in sealed),
        )


def batch_id(campaign: str, round: int, sealed: Iterable[bytes]) -> str:
    """The id of the batch with these sealed reports in this order."""
    found = hashlib.sha256(_ID + bytes.fromhex(check_hash(campaign, "campaign")) + round.to_bytes(4, "big"))
    for each in sealed:
        found.update(each)
    return found.hexdigest()


def sign_part(part: BatchPart, manifest: Manifest, key: Ed25519PrivateKey) -> bytes:
    """The envelope as canonical JSON."""
    return signing.signed_bytes(signing.BATCH, "batch", part.to_dict(), key, terms_of(manifest).key)


def open_part(body: bytes, manifest: Manifest) -> BatchPart:
    """A part of a batch, if the campaign's shuffler signed it; else WireError.

    Whether the batch has the number of its round is for `enough` to say, whether the parts make the batch for
    `batch_id`.
    """
    envelope = parse_json(body, MAX_BATCH_REQUEST)
    part = BatchPart.from_dict(signing.open_signed(signing.BATCH, "batch", envelope, terms_of(manifest).key))
    _check_round(part.campaign, part.round, manifest)
    return part


def enough(part: BatchPart, manifest: Manifest) -> bool:
    """Whether a batch has at least the number of reports that its round is forwarded with."""
    return part.reports >= terms_of(manifest).rounds[part.round].batch


@dataclass(frozen=True, slots=True)
class RoundNotice:
    """A round that did not fill in time: extended once, then dropped for good with the reports it had."""

    campaign: str
    round: int
    status: str
    reports: int

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, form: Any) -> RoundNotice:
        exact_fields(form, cls.__slots__, "notice")
        if form["status"] not in (EXTENDED, DROPPED):
            raise WireError(f"a notice says {EXTENDED!r} or {DROPPED!r}, got {form['status']!r:.40}")
        return cls(
            check_hash(form["campaign"], "campaign"),
            whole_in(form["round"], 0, MAX_ROUNDS - 1, "round"),
            form["status"],
            whole_in(form["reports"], 0, MAX_ROUND_REPORTS, "reports"),
        )


def sign_notice(notice: RoundNotice, manifest: Manifest, key: Ed25519PrivateKey) -> bytes:
    return signing.signed_bytes(signing.NOTICE, "notice", notice.to_dict(), key, terms_of(manifest).key)


def open_notice(body: bytes, manifest: Manifest) -> RoundNotice:
    """A notice, if the campaign's shuffler signed it; else WireError."""
    envelope = parse_json(body, MAX_REQUEST)
    notice = RoundNotice.from_dict(signing.open_signed(signing.NOTICE, "notice", envelope, terms_of(manifest).key))
    _check_round(notice.campaign, notice.round, manifest)
    return notice


def status_body(status: str) -> bytes:
    """The answer to a part, a notice or an announcement."""
    return canonical({"status": status})


def _parts_of(reports: int) -> int:
    return -(-reports // PART_LIMIT)


def _check_round(campaign: str, round: int, manifest: Manifest) -> None:
    if campaign != manifest.id:
        raise SignatureError("the message is about another campaign")
    if round >= len(manifest.rounds):
        raise WireError(f"round {round} is named; the manifest has {len(manifest.rounds)} rounds")
