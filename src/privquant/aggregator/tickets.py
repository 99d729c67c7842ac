"""What binds a token to the threshold it was given, without leaving a trail.

From the token hash h a device sends, and a secret only the key folder has, one campaign derives:

    id      HMAC(secret, h): how a token is named at rest. Neither token nor h is stored, so who steals the
            database cannot even tell which invite answered.
    box     the query given to the token, encrypted under a key derived from secret and h. It is what is stored
            between query and report; only the token's holder coming back can have it opened.
    ticket  the query and a MAC over (h, query). A ticket is only ever made for the box that was committed first,
            so a valid ticket is the token's one and only ticket and a report needs no lookup.
    wave    HMAC(secret, h) modulo the number of waves: a device cannot choose when it answers.
    phase   the same for the moments at which a token has its turn (see aggregator.pace).
    lot     the same, in each turn anew, for who of those held is called first (see aggregator.waiting_room).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import struct
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from privquant.aggregator.pace import LONGEST_PERIOD
from privquant.errors import PrivquantError
from privquant.messages import Query

_QUERY = struct.Struct(">IHQ")  # phase, arm, threshold
_MAC = 16
ID_BYTES = 16


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


class Unreadable(PrivquantError):
    """A stored box that this campaign's secret does not open: the key folder is not the one that wrote it."""


@dataclass(frozen=True, slots=True)
class TicketOffice:
    """The tickets of one campaign. `coin` is the manifest's, the only one its queries may carry."""

    secret: bytes
    coin: int
    _keyed: Keyed = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_keyed", Keyed(self.secret))

    def id(self, token_hash: bytes) -> bytes:
        return self._keyed.digest(b"id" + token_hash)[:ID_BYTES]

    def wave(self, token_hash: bytes, waves: int) -> int:
        drawn = self._keyed.digest(b"wave" + token_hash)
        return int.from_bytes(drawn[:16], "big") % waves

    def phase(self, token_hash: bytes) -> float:
        """Seconds into the longest period at which the token's turn begins."""
        drawn = self._keyed.digest(b"turn" + token_hash)
        return int.from_bytes(drawn[:8], "big") / 2**64 * LONGEST_PERIOD

    def lot(self, token_hash: bytes, turn: float) -> int:
        """What the token has drawn for the turn that began then."""
        drawn = self._keyed.digest(b"lot" + round(turn).to_bytes(8, "big") + token_hash)
        return int.from_bytes(drawn[:8], "big")

    def ticket(self, token_hash: bytes, query: Query) -> str:
        packed = _QUERY.pack(query.phase, query.arm, query.threshold)
        return base64.urlsafe_b64encode(packed + self._mac(token_hash, packed)).rstrip(b"=").decode("ascii")

    def read(self, token_hash: bytes, ticket: str) -> Query | None:
        """The query of a ticket, or None if this office never gave it to this token."""
        try:
            data = base64.urlsafe_b64decode(ticket + "=" * (-len(ticket) % 4))
        except binascii.Error:
            return None
        packed, mac = data[: _QUERY.size], data[_QUERY.size :]
        if len(mac) != _MAC or not hmac.compare_digest(mac, self._mac(token_hash, packed)):
            return None
        phase, arm, threshold = _QUERY.unpack(packed)
        return Query(threshold, self.coin, phase, arm)

    def seal(self, token_hash: bytes, query: Query) -> bytes:
        nonce = os.urandom(12)
        packed = _QUERY.pack(query.phase, query.arm, query.threshold)
        return nonce + ChaCha20Poly1305(self._box_key(token_hash)).encrypt(nonce, packed, None)

    def unseal(self, token_hash: bytes, box: bytes) -> Query:
        try:
            packed = ChaCha20Poly1305(self._box_key(token_hash)).decrypt(box[:12], box[12:], None)
        except (InvalidTag, ValueError) as error:
            raise Unreadable("a stored query does not open with this key folder's secret") from error
        phase, arm, threshold = _QUERY.unpack(packed)
        return Query(threshold, self.coin, phase, arm)

    def _mac(self, token_hash: bytes, packed: bytes) -> bytes:
        return self._keyed.digest(b"ticket" + token_hash + packed)[:_MAC]

    def _box_key(self, token_hash: bytes) -> bytes:
        return self._keyed.digest(b"box" + token_hash)
