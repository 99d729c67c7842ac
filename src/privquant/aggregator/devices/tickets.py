"""What binds a token to the threshold it was given, without leaving a trail.

From the token hash h a device sends, and a secret only the key folder has, one campaign derives, beside the id and
the wave of `token_ids`:

    box     the query given to the token, encrypted under a key derived from secret and h. It is what is stored
            between query and report; only the token's holder coming back can have it opened.
    ticket  the query and a MAC over (h, query). A ticket is only ever made for the box that was committed first,
            so a valid ticket is the token's one and only ticket and a report needs no lookup.
    rank    as a wave, for who of those that wait is given a query first (see admission_rules). It is a hash of
            its own: from the ids in the database nobody can tell who was asked first.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from privquant.errors import PrivquantError
from privquant.messages import Query
from privquant.server.token_ids import TokenIds

_QUERY = struct.Struct(">IHQ")  # phase, arm, threshold
_MAC = 16


class Unreadable(PrivquantError):
    """A stored box that this campaign's secret does not open: the key folder is not the one that wrote it."""


class Tickets(TokenIds):
    """The tickets of one campaign. `coin` is the manifest's, the only one its queries may carry."""

    def __init__(self, secret: bytes, coin: int) -> None:
        super().__init__(secret)
        self.coin = coin

    def rank(self, token_hash: bytes) -> bytes:
        """The place of the token among those that wait: the smallest is first."""
        return self.digest(b"rank" + token_hash)

    def ticket(self, token_hash: bytes, query: Query) -> str:
        packed = _packed(query)
        return base64.urlsafe_b64encode(packed + self._mac(token_hash, packed)).rstrip(b"=").decode("ascii")

    def read(self, token_hash: bytes, ticket: str) -> Query | None:
        """The query of a ticket, or None if this campaign never gave it to this token."""
        try:
            data = base64.urlsafe_b64decode(ticket + "=" * (-len(ticket) % 4))
        except binascii.Error:
            return None
        packed, mac = data[: _QUERY.size], data[_QUERY.size :]
        if len(mac) != _MAC or not hmac.compare_digest(mac, self._mac(token_hash, packed)):
            return None
        return self._query(packed)

    def seal(self, token_hash: bytes, query: Query) -> bytes:
        nonce = os.urandom(12)
        return nonce + self._box(token_hash).encrypt(nonce, _packed(query), None)

    def unseal(self, token_hash: bytes, box: bytes) -> Query:
        try:
            return self._query(self._box(token_hash).decrypt(box[:12], box[12:], None))
        except (InvalidTag, ValueError) as error:
            raise Unreadable("a stored query does not open with this key folder's secret") from error

    def _mac(self, token_hash: bytes, packed: bytes) -> bytes:
        return self.digest(b"ticket" + token_hash + packed)[:_MAC]

    def _box(self, token_hash: bytes) -> ChaCha20Poly1305:
        return ChaCha20Poly1305(self.digest(b"box" + token_hash))

    def _query(self, packed: bytes) -> Query:
        phase, arm, threshold = _QUERY.unpack(packed)
        return Query(threshold, self.coin, phase, arm)


def _packed(query: Query) -> bytes:
    return _QUERY.pack(query.phase, query.arm, query.threshold)
