"""Ed25519 signatures over labelled bytes: what is signed as one kind of message never verifies as another."""

from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from privquant.errors import InvalidInput
from privquant.wire.form import SignatureError, canonical, exact_fields, is_hex, public_key_of

MANIFEST_1 = b"privquant/manifest/1\x00"
MANIFEST_2 = b"privquant/manifest/2\x00"
ACCEPTED = b"privquant/accepted/2\x00"
ANNOUNCEMENT = b"privquant/announcement/2\x00"
BATCH = b"privquant/batch/2\x00"
NOTICE = b"privquant/notice/2\x00"


def sign(label: bytes, body: bytes, key: Ed25519PrivateKey) -> str:
    """The signature in hex."""
    return key.sign(label + body).hex()


def check_signature(label: bytes, body: bytes, signature: Any, public_key: str, what: str) -> None:
    """`SignatureError` unless the key (in hex) signed `body` as this kind of message; `what` names it."""
    if not is_hex(signature, 128):
        raise SignatureError(f"the signature of the {what} is not 128 lower-case hex digits")
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(bytes.fromhex(signature), label + body)
    except (InvalidSignature, ValueError) as error:
        raise SignatureError(f"the {what}'s signature does not verify") from error


def signed_bytes(label: bytes, name: str, form: dict[str, Any], key: Ed25519PrivateKey, owner: str) -> bytes:
    """{name: form, "signature": ..} as canonical JSON; `owner` is the public key a reader will hold it against."""
    if public_key_of(key) != owner:
        raise InvalidInput(f"the manifest names another key than the one that is to sign this {name}")
    return canonical({name: form, "signature": sign(label, canonical(form), key)})


def open_signed(label: bytes, name: str, envelope: Any, public_key: str) -> Any:
    """What `signed_bytes` signed, not yet read any further; `SignatureError` if the key did not sign it."""
    exact_fields(envelope, (name, "signature"), f"signed {name}")
    check_signature(label, canonical(envelope[name]), envelope["signature"], public_key, name)
    return envelope[name]
