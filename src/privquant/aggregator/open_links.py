"""What a server, aggregator or shuffler, keeps of an open link."""

from __future__ import annotations

import hashlib
import secrets

from privquant.wire import Claim


def hash_link(secret: str, code: str | None = None) -> bytes:
    """What is stored of an open link; with a code only both together match it."""
    label = b"privquant/link/1\x00" if code is None else b"privquant/link/2\x00"
    return hashlib.sha256(label + (secret + (code or "")).encode("ascii")).digest()


def link_matches(claim: Claim, stored: bytes) -> bool:
    return secrets.compare_digest(hash_link(claim.link, claim.code), stored)
