"""The envelope a manifest is served in: signed by its issuer and, in shuffle mode, accepted by its shuffler.

The issuer signs the manifest. A shuffler signs the id of a campaign that it has agreed to shuffle, under the
key that the manifest names: without it an issuer could name a shuffler who knows nothing of the campaign, and
be it itself. A device takes a shuffled campaign only with both.
"""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privquant.errors import InvalidInput
from privquant.wire.form import (
    MAX_MANIFEST,
    SHUFFLED_VERSION,
    VERSION,
    SignatureError,
    WireError,
    canonical,
    exact_fields,
    fingerprint,
    parse_json,
    public_key_of,
)
from privquant.wire.manifest import Manifest, terms_of
from privquant.wire.signing import ACCEPTED, MANIFEST_1, MANIFEST_2, check_signature, sign

_LABELS = {VERSION: MANIFEST_1, SHUFFLED_VERSION: MANIFEST_2}


def sign_manifest(manifest: Manifest, key: Ed25519PrivateKey) -> bytes:
    """The envelope {"manifest": .., "signature": ..} as canonical JSON."""
    if public_key_of(key) != manifest.issuer:
        raise InvalidInput("the manifest names another issuer than the key that is to sign it")
    signature = sign(_LABELS[manifest.version], manifest.to_bytes(), key)
    return canonical({"manifest": manifest.to_dict(), "signature": signature})


def accept_manifest(envelope: bytes, key: Ed25519PrivateKey, *, campaign_id: str, key_fingerprint: str) -> bytes:
    """The envelope that a shuffler serves: the issuer's, with the shuffler's "accepted" in it."""
    manifest = open_issued(envelope, campaign_id=campaign_id, key_fingerprint=key_fingerprint)
    if public_key_of(key) != terms_of(manifest).key:
        raise InvalidInput("the manifest names another shuffler than the key that is to accept it")
    accepted = sign(ACCEPTED, bytes.fromhex(manifest.id), key)
    return canonical(parse_json(envelope, MAX_MANIFEST) | {"accepted": accepted})


def open_envelope(body: bytes, *, campaign_id: str, key_fingerprint: str) -> Manifest:
    """The manifest of an envelope, if it is the one named and signed by the key named; else WireError.

    This is how a device reads: a campaign in shuffle mode must have been accepted by its shuffler.
    """
    form = _form(body)
    manifest = _open(form, campaign_id, key_fingerprint, accepted="accepted" in form)
    for key in manifest.acceptors:
        check_signature(ACCEPTED, bytes.fromhex(manifest.id), form.get("accepted"), key, "shuffler's acceptance")
    return manifest


def open_issued(body: bytes, *, campaign_id: str, key_fingerprint: str) -> Manifest:
    """The manifest of an envelope as its issuer signed it: how a shuffler reads a campaign that it is to accept."""
    return _open(_form(body), campaign_id, key_fingerprint, accepted=False)


def _form(body: bytes) -> dict[str, Any]:
    form = parse_json(body, MAX_MANIFEST)
    if not isinstance(form, dict):
        raise WireError(f"an envelope is a JSON object, got {type(form).__name__}")
    return form


def _open(form: dict[str, Any], campaign_id: str, key_fingerprint: str, *, accepted: bool) -> Manifest:
    exact_fields(form, ("manifest", "signature", *(("accepted",) if accepted else ())), "message")
    manifest = Manifest.from_dict(form["manifest"])
    if manifest.id != campaign_id:
        raise SignatureError(f"the manifest's hash is {manifest.id}, the invite names {campaign_id}")
    if fingerprint(manifest.issuer) != key_fingerprint:
        raise SignatureError(
            f"the manifest's issuer has the fingerprint {fingerprint(manifest.issuer)}, "
            f"the invite names {key_fingerprint}"
        )
    if accepted and not manifest.acceptors:
        raise WireError("a campaign in the local trust model has no shuffler to accept it")
    check_signature(_LABELS[manifest.version], manifest.to_bytes(), form["signature"], manifest.issuer, "manifest")
    return manifest
