"""What a shuffler agrees to: a campaign's manifest, read, accounted for and signed before a single token exists.

The shuffler's operator sees the question, the table of rounds and what every round keeps by exact accounting, and
the local epsilon that is left if shuffler and aggregator work together. A table that does not keep what the
manifest says is refused whoever agrees.
"""

from __future__ import annotations

import json
import sqlite3
import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privquant import wire
from privquant.errors import InvalidInput
from privquant.shuffler.database import OPEN, transaction
from privquant.shuffler.rounds import LONGEST_ROUND, share_of
from privquant.wire.shuffle_promise import check_rounds


def read_manifest(envelope: bytes, *, campaign_id: str, key_fingerprint: str) -> wire.Manifest:
    """The manifest that the aggregator's operator named, by its hash and by the fingerprint of its issuer's key."""
    try:
        manifest = wire.open_issued(_issued(envelope), campaign_id=campaign_id, key_fingerprint=key_fingerprint)
    except wire.WireError as error:
        raise InvalidInput(f"this is not the manifest that was named: {error}") from error
    wire.terms_of(manifest)
    return manifest


def _issued(envelope: bytes) -> bytes:
    """Without an acceptance, as another copy of this shuffler may serve it."""
    form = wire.parse_json(envelope, wire.MAX_MANIFEST)
    if isinstance(form, dict):
        form.pop("accepted", None)
    return json.dumps(form).encode()


def check_manifest(manifest: wire.Manifest, key: Ed25519PrivateKey, address: str) -> None:
    """InvalidInput if this shuffler must not accept the manifest."""
    terms = wire.terms_of(manifest)
    if terms.key != (own := wire.public_key_of(key)):
        raise InvalidInput(
            f"the manifest names the shuffler {wire.fingerprint(terms.key)}, and this one is "
            f"{wire.fingerprint(own)}: the aggregator's operator is to give `privquant shuffler key`"
        )
    if terms.address != address:
        raise InvalidInput(
            f"the manifest sends devices to {terms.address}, and this shuffler is at {address} (--public-url)"
        )
    if manifest.deadline <= time.time():
        raise InvalidInput("the campaign's deadline has passed")
    check_rounds(manifest)


def join(
    db: sqlite3.Connection,
    envelope: bytes,
    manifest: wire.Manifest,
    key: Ed25519PrivateKey,
    *,
    aggregator: str,
    round_seconds: int | None = None,
) -> None:
    """Accept a checked manifest and shuffle it from now on."""
    seconds = share_of(manifest) if round_seconds is None else round_seconds
    if not 1 <= seconds <= LONGEST_ROUND:
        raise InvalidInput(f"a round has 1 to {LONGEST_ROUND} seconds, got {seconds}")
    mark = wire.fingerprint(manifest.issuer)
    accepted = wire.accept_manifest(_issued(envelope), key, campaign_id=manifest.id, key_fingerprint=mark)
    with transaction(db):
        if db.execute("SELECT 1 FROM campaign WHERE id = ?", (manifest.id,)).fetchone() is not None:
            raise InvalidInput("this campaign was joined before")
        db.execute(
            "INSERT INTO campaign (id, envelope, aggregator, round_seconds, state, joined)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (manifest.id, accepted, aggregator, seconds, OPEN, int(time.time())),
        )
