"""Tokens, issued on the shuffler's side: an aggregator that issued them could fill a batch with fakes.

What is stored of a token is an HMAC under a secret derived from the shuffler's key; the token itself is nowhere
but in the invite.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from privquant import wire
from privquant.errors import InvalidInput
from privquant.server.keys import KeyRing
from privquant.server.token_ids import TokenIds, hash_link, hash_of
from privquant.shuffler.database import OPEN, transaction

_CHUNK = 5_000  # tokens a transaction, so that devices never wait long for the writer
MOST_INVITES = 10_000_000


@dataclass(frozen=True, slots=True)
class Joined:
    """A campaign as the database has it."""

    no: int
    id: str
    envelope: bytes
    aggregator: str
    round_seconds: int
    state: str
    manifest: wire.Manifest


def joined(db: sqlite3.Connection) -> list[Joined]:
    """All campaigns, in the order in which they were joined."""
    rows = db.execute("SELECT no, id, envelope, aggregator, round_seconds, state FROM campaign ORDER BY no")
    return [Joined(no, id, bytes(e), a, s, state, manifest_of(bytes(e))) for no, id, e, a, s, state in rows]


def find(db: sqlite3.Connection, start: str) -> Joined:
    """The campaign whose id begins so."""
    found = [each for each in joined(db) if start and each.id.startswith(start)]
    if len(found) != 1:
        raise InvalidInput(
            f"{len(found) or 'no'} campaigns have an id that starts with {start!r}; "
            "`privquant shuffler list` shows them"
        )
    return found[0]


def manifest_of(envelope: bytes) -> wire.Manifest:
    """The manifest of a stored envelope, with both signatures checked."""
    manifest = wire.Manifest.from_dict(wire.parse_json(envelope, wire.MAX_MANIFEST)["manifest"])
    return wire.open_envelope(envelope, campaign_id=manifest.id, key_fingerprint=wire.fingerprint(manifest.issuer))


def office_of(keys: KeyRing, manifest: wire.Manifest) -> TokenIds:
    return TokenIds(keys.campaign_secret(wire.terms_of(manifest).key, manifest.id))


def invite(db: sqlite3.Connection, keys: KeyRing, campaign: Joined, number: int) -> list[str]:
    """Fresh one-time invites. Their tokens are nowhere but in what this returns."""
    if not 1 <= number <= MOST_INVITES:
        raise InvalidInput(f"1 to {MOST_INVITES} invites can be made in one call, got {number}")
    _check_open(campaign)
    office, tokens = office_of(keys, campaign.manifest), [wire.new_token() for _ in range(number)]
    rows = sorted((campaign.no, office.id(hash_of(token))) for token in tokens)
    for start in range(0, number, _CHUNK):
        with transaction(db):
            db.executemany("INSERT INTO token (campaign, id) VALUES (?, ?)", rows[start : start + _CHUNK])
    return [_invite(campaign, token=token).to_url() for token in tokens]


def open_link(
    db: sqlite3.Connection, campaign: Joined, places: int, *, coded: bool = False
) -> tuple[str, str | None]:
    """One link for many, with a limit, and the code it needs if `coded`.

    A second call replaces both and keeps the places taken.
    """
    if places < 1:
        raise InvalidInput(f"an open link has at least 1 place, got {places}")
    _check_open(campaign)
    secret, code = wire.new_token(), wire.new_code() if coded else None
    with transaction(db):
        db.execute(
            "INSERT INTO link (campaign, secret, places, taken) VALUES (?, ?, ?, 0)"
            " ON CONFLICT (campaign) DO UPDATE SET secret = excluded.secret, places = excluded.places",
            (campaign.no, hash_link(secret, code), places),
        )
    return _invite(campaign, link=secret).to_url(), code


def _invite(campaign: Joined, token: str | None = None, link: str | None = None) -> wire.Invite:
    address, mark = wire.terms_of(campaign.manifest).address, wire.fingerprint(campaign.manifest.issuer)
    return wire.Invite(address, campaign.id, mark, token=token, link=link)


def _check_open(campaign: Joined) -> None:
    if campaign.state != OPEN:
        raise InvalidInput("the campaign is closed here")
