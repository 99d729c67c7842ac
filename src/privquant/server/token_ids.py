"""What a server, aggregator or shuffler, keeps of tokens and open links, and when a token may ask.

From the token hash h a device sends, and a secret only the key folder has, one campaign derives:

    id      HMAC(secret, h): how a token is named at rest. Neither token nor h is stored, so who steals the
            database cannot even tell which invite answered.
    wave    HMAC(secret, h) modulo the number of waves: a device cannot choose when it answers.
"""

from __future__ import annotations

import hashlib
import secrets
import time

from privquant.server.replies import RequestRefused
from privquant.wire import Claim, Manifest, token_hash

ID_BYTES = 16
LONGEST_WAIT = 3_600
"""Retry-After never asks for more: a device that sleeps longer than this may as well ask again."""


class Keyed:
    """HMAC-SHA256 under one key, which is taken in once: for messages as short as these that is most of it."""

    def __init__(self, key: bytes) -> None:
        block = (key if len(key) <= 64 else hashlib.sha256(key).digest()).ljust(64, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def digest(self, message: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(message)
        outer.update(inner.digest())
        return outer.digest()


class TokenIds(Keyed):
    """The tokens of one campaign; the key is the campaign's secret."""

    def id(self, hashed: bytes) -> bytes:
        return self.digest(b"id" + hashed)[:ID_BYTES]

    def wave(self, hashed: bytes, waves: int) -> int:
        return int.from_bytes(self.digest(b"wave" + hashed)[:16], "big") % waves

    def check_wave(self, manifest: Manifest, hashed: bytes) -> None:
        """`RequestRefused` until the token's wave has opened."""
        waves = manifest.waves
        wave = self.wave(hashed, waves.count) if waves.count > 1 else 0
        left = manifest.opens + wave * waves.seconds - time.time()
        if left > 0:
            raise RequestRefused("not-yet", retry_after=min(int(left) + 1, LONGEST_WAIT))


def hash_of(token: str) -> bytes:
    """What a device sends of a token, as bytes."""
    return bytes.fromhex(token_hash(token))


def hash_link(secret: str, code: str | None = None) -> bytes:
    """What is stored of an open link; with a code only both together match it."""
    label = b"privquant/link/1\x00" if code is None else b"privquant/link/2\x00"
    return hashlib.sha256(label + (secret + (code or "")).encode("ascii")).digest()


def link_matches(claim: Claim, stored: bytes) -> bool:
    return secrets.compare_digest(hash_link(claim.link, claim.code), stored)
