"""HPKE (RFC 9180) written out from its pseudocode: the slow twin of the library that seals reports.

Base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, one message. Unlike the library it takes the
ephemeral key and associated data, so that vectors can be made and the RFC's own be reproduced.
"""

from __future__ import annotations

import hashlib
import hmac

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEM = b"KEM\x00\x20"
SUITE = b"HPKE\x00\x20\x00\x01\x00\x01"


def seal(public: bytes, info: bytes, aad: bytes, text: bytes, ephemeral: X25519PrivateKey) -> bytes:
    enc = ephemeral.public_key().public_bytes_raw()
    shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(public))
    key, nonce = schedule(shared, enc + public, info)
    return enc + AESGCM(key).encrypt(nonce, text, aad)


def schedule(shared: bytes, parties: bytes, info: bytes) -> tuple[bytes, bytes]:
    prk = labeled_extract(KEM, b"", b"eae_prk", shared)
    secret = labeled_expand(KEM, prk, b"shared_secret", parties, 32)
    context = (
        b"\x00" + labeled_extract(SUITE, b"", b"psk_id_hash", b"") + labeled_extract(SUITE, b"", b"info_hash", info)
    )
    prk = labeled_extract(SUITE, secret, b"secret", b"")
    return labeled_expand(SUITE, prk, b"key", context, 16), labeled_expand(SUITE, prk, b"base_nonce", context, 12)


def labeled_extract(suite: bytes, salt: bytes, label: bytes, material: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + material, hashlib.sha256)


def labeled_expand(suite: bytes, prk: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """One block of HKDF is enough for 32 bytes."""
    labeled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(prk, labeled + b"\x01", hashlib.sha256)[:length]
