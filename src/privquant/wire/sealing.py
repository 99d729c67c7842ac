"""Sealing a bit to the aggregator, so that the shuffler who carries it cannot read it.

HPKE (RFC 9180) in base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, the suite every DAP party
has to know; the key travels as DAP's HpkeConfig. There is one plaintext length (1 byte, 0 or 1) and so one
sealed length: 32 bytes of ephemeral key, the byte, 16 bytes of tag.

`info` names the two roles and all that the bit is an answer to: campaign, round, threshold and coin. A report
that was sealed for another of any of these does not open. There is no associated data: all of it stands in
`info`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from privquant.errors import InvalidInput
from privquant.wire.form import WireError, check_hash, from_base64, is_hex, to_base64

# IANA's numbers of the suite, and DAP's of the roles.
KEM_ID, KDF_ID, AEAD_ID = 0x0020, 0x0001, 0x0001
CLIENT, LEADER = 0x01, 0x02

SEALED_BYTES = 32 + 1 + 16
INFO_LABEL = b"privquant/report/2\x00"

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
# DAP's HpkeConfig: id, kem, kdf, aead, and the key behind its length.
_CONFIG = struct.Struct(">BHHHH32s")
_ANSWERED = struct.Struct(">32sIQQ")


class SealError(WireError):
    """Sealed bytes that do not open: another campaign, round, threshold, coin or key, or damaged."""


@dataclass(frozen=True, slots=True)
class SealKey:
    """The aggregator's public key, as a manifest has it. config_id tells keys of one aggregator apart."""

    public_key: bytes
    config_id: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.config_id, int) or not 0 <= self.config_id <= 255:
            raise WireError(f"a seal key's id is a whole number in 0 .. 255, got {self.config_id!r:.40}")
        if not isinstance(self.public_key, bytes) or len(self.public_key) != 32:
            raise WireError("a seal key is 32 bytes of X25519")

    @classmethod
    def of(cls, key: X25519PrivateKey, config_id: int = 0) -> SealKey:
        return cls(key.public_key().public_bytes_raw(), config_id)

    def to_wire(self) -> str:
        """DAP's HpkeConfig in hex."""
        return _CONFIG.pack(self.config_id, KEM_ID, KDF_ID, AEAD_ID, 32, self.public_key).hex()

    @classmethod
    def from_wire(cls, text: Any) -> SealKey:
        if not is_hex(text, 2 * _CONFIG.size):
            raise WireError(f"a seal key is an HpkeConfig of {_CONFIG.size} bytes in lower-case hex")
        config_id, *suite, length, public_key = _CONFIG.unpack(bytes.fromhex(text))
        if (suite, length) != ([KEM_ID, KDF_ID, AEAD_ID], 32):
            raise WireError("a seal key is for X25519, HKDF-SHA256 and AES-128-GCM; this one names another suite")
        return cls(public_key, config_id)


def report_info(campaign: str, round: int, threshold: int, coin: int) -> bytes:
    """HPKE's `info` of a report: the roles, and what it answers."""
    try:
        answered = _ANSWERED.pack(bytes.fromhex(check_hash(campaign, "campaign")), round, threshold, coin)
    except struct.error as error:
        raise WireError(f"round, threshold or coin is out of range: {round!r:.40}, {threshold!r:.40}") from error
    return INFO_LABEL + bytes((CLIENT, LEADER)) + answered


def seal(bit: int, key: SealKey, info: bytes) -> bytes:
    """`SEALED_BYTES` bytes that only the aggregator can open; others each time."""
    if type(bit) is not int or bit not in (0, 1):
        raise InvalidInput(f"a bit is 0 or 1; a {type(bit).__name__} was given")
    try:
        return _SUITE.encrypt(bytes((bit,)), X25519PublicKey.from_public_bytes(key.public_key), info=info)
    except ValueError as error:  # of small order: everybody would know the secret
        raise WireError("the seal key cannot keep a secret") from error


def opener(key: X25519PrivateKey, info: bytes) -> Callable[[bytes], int]:
    """What opens the reports of a round: their bit; `SealError` if not sealed to this key under this `info`."""

    def opened(sealed: bytes) -> int:
        if len(sealed) != SEALED_BYTES:
            raise SealError(f"a sealed report has {SEALED_BYTES} bytes, got {len(sealed)}")
        try:
            text = _SUITE.decrypt(sealed, key, info=info)
        except (InvalidTag, ValueError) as error:
            raise SealError("a sealed report does not open: it was made for another question or key") from error
        if text not in (b"\x00", b"\x01"):
            raise SealError("a sealed report holds something else than a bit")
        return text[0]

    return opened


def sealed_to_wire(sealed: bytes) -> str:
    return to_base64(sealed)


def sealed_from_wire(text: Any) -> bytes:
    return from_base64(text, SEALED_BYTES, "a sealed report")
