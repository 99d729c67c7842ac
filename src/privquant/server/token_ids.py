"""Tokens and open links: what a server, aggregator or shuffler, keeps of them, and when a token may ask.

From the token hash h a device sends, and a secret only the key folder has, one campaign derives:

    id      HMAC(secret, h): how a token is named at rest. Neither token nor h is stored, so who steals the
            database cannot even tell which invite answered.
    wave    HMAC(secret, h) modulo the number of waves: a device cannot choose when it answers.
"""

import hashlib
import hmac
import secrets
import time

from privquant.errors import InvalidInput
from privquant.server.replies import RequestRefused
from privquant.wire import Claim, Invite, Manifest, fingerprint, new_code, new_token, token_hash

ID_BYTES = 16
CHUNK = 5_000  # new tokens stored in one transaction, so that devices never wait long for the writer
LONGEST_WAIT = 3_600  # Retry-After never asks for more: a device that sleeps longer may as well ask again


class TokenIds:
    """The tokens of one campaign; the key is the campaign's secret."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod="sha256")

    def digest(self, message: bytes) -> bytes:
        """HMAC-SHA256. The key is taken in once: for messages as short as these that is most of the work."""
        keyed = self._keyed.copy()
        keyed.update(message)
        return keyed.digest()

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


def new_invites(
    number: int, most: int, ids: TokenIds, address: str, manifest: Manifest
) -> tuple[list[bytes], list[str]]:
    """Fresh one-time invites: the ids of their tokens, sorted, and the invites, which are nowhere else."""
    if not 1 <= number <= most:
        raise InvalidInput(f"1 to {most} invites can be made in one call, got {number}")
    tokens, mark = [new_token() for _ in range(number)], fingerprint(manifest.issuer)
    stored = sorted(ids.id(hash_of(token)) for token in tokens)
    return stored, [Invite(address, manifest.id, mark, token=token).to_url() for token in tokens]


def new_link(places: int, coded: bool, address: str, manifest: Manifest) -> tuple[bytes, str, str | None]:
    """A fresh open link: what is stored of it, the link, and the code it needs if `coded`."""
    if places < 1:
        raise InvalidInput(f"an open link has at least 1 place, got {places}")
    secret, code = new_token(), new_code() if coded else None
    url = Invite(address, manifest.id, fingerprint(manifest.issuer), link=secret).to_url()
    return hash_link(secret, code), url, code


def hash_link(secret: str, code: str | None = None) -> bytes:
    """What is stored of an open link; with a code only both together match it."""
    label = b"privquant/link/1\x00" if code is None else b"privquant/link/2\x00"
    return hashlib.sha256(label + (secret + (code or "")).encode("ascii")).digest()


def link_matches(claim: Claim, stored: bytes) -> bool:
    return secrets.compare_digest(hash_link(claim.link, claim.code), stored)
