"""The announcement of a round: the one thing that an aggregator adds to its manifest while a campaign runs.

    {"announcement": {"campaign", "round", "threshold", "previous"}, "signature"}

Signed by the manifest's issuer. `previous` is the hash of the announcement before, for round 0 the manifest's
id, so that the announcements of a campaign are one chain: an aggregator that made two for one round has signed
the proof of it. Since an announcement is given by its round, its threshold and the one before, the thresholds
of all earlier rounds are enough to check a chain back to the manifest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privquant.wire.form import (
    MAX_REQUEST,
    SignatureError,
    WireError,
    canonical,
    check_hash,
    exact_fields,
    parse_json,
    whole_from_wire,
    whole_to_wire,
)
from privquant.wire.manifest import Manifest
from privquant.wire.shuffle_terms import check_round
from privquant.wire.signing import ANNOUNCEMENT, open_signed, signed_form


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
    chain = announcements(campaign, (*earlier, threshold))
    return chain[-1]


def announcements(campaign: str, thresholds: Iterable[int]) -> list[Announcement]:
    """The chain of announcements with these thresholds, one a round from round 0 on."""
    chain: list[Announcement] = []
    for number, threshold in enumerate(thresholds):
        chain.append(Announcement(campaign, number, threshold, chain[-1].id if chain else campaign))
    return chain


def sign_announcement(announcement: Announcement, manifest: Manifest, key: Ed25519PrivateKey) -> bytes:
    """The envelope as canonical JSON."""
    _check_against(announcement, manifest)
    form = signed_form(ANNOUNCEMENT, "announcement", announcement.to_dict(), key, manifest.issuer)
    return canonical(form)


def open_announcement(body: bytes, manifest: Manifest) -> Announcement:
    """The announcement, if the manifest's issuer signed it and it is one of this campaign; else WireError."""
    return announcement_of(parse_json(body, MAX_REQUEST), manifest)


def announcement_of(envelope: Any, manifest: Manifest) -> Announcement:
    """`open_announcement` of an envelope that is already parsed."""
    found = Announcement.from_dict(open_signed(ANNOUNCEMENT, "announcement", envelope, manifest.issuer))
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
