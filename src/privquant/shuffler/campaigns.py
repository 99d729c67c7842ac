"""What a shuffler's operator does: agree to a campaign, list, look, invite, close, delete, back up and restore.

A manifest is read, accounted for and signed before a single token exists. The operator sees the question, the table
of rounds and what every round keeps by exact accounting, and the local epsilon that is left if shuffler and
aggregator work together. A table that does not keep what the manifest says is refused whoever agrees.

Tokens are issued on this side: an aggregator that issued them could fill a batch with fakes. What is stored of a
token is an HMAC under a secret derived from the shuffler's key; the token itself is nowhere but in the invite.

The books of a shuffler: reports acknowledged to devices = held in the open round + forwarded + in rounds shown as
dropped. An aggregator's `verify` lists the same batches by the same ids.

A backup does not know what came after it: which tokens were spent, which reports joined a round, how one was mixed.
A restored shuffler that went on from there would take a token twice, and forward a round a second time in another
mixture, from which the aggregator could tell who came before the copy and who after. So a copy is settled as it is
made: rounds that still take reports or are being mixed are dropped for good, their reports and everybody's places
erased, open links withdrawn, and every campaign is closed. A batch that lies ready is kept: sent again it has the
same id and the same bytes, and counts once.
"""

import json
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privquant import wire
from privquant.errors import InvalidInput
from privquant.server.keys import KeyRing
from privquant.server.sqlite_file import connect, copy_out, put_back, read_only
from privquant.server.token_ids import CHUNK, TokenIds, new_invites, new_link
from privquant.shuffler.rounds import LONGEST_ROUND, OVER, Event, State, drop, share_of, states_before
from privquant.shuffler.settings import Settings
from privquant.shuffler.store import CAMPAIGN_TABLES, CLOSED, OPEN, transaction
from privquant.wire.shuffle_promise import check_rounds, promise

MOST_INVITES = 10_000_000
_GOING_ON = f"SELECT campaign, round FROM round WHERE state IN {tuple(map(str, states_before(Event.SETTLE)))}"
_SHOWN = "round, state, held, extended, batch, closes"


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
    return [Joined(no, id, bytes(e), a, s, state, _manifest_of(bytes(e))) for no, id, e, a, s, state in rows]


def _manifest_of(envelope: bytes) -> wire.Manifest:
    """The manifest of a stored envelope, with both signatures checked."""
    manifest = wire.Manifest.from_dict(wire.parse_json(envelope, wire.MAX_MANIFEST)["manifest"])
    return wire.open_envelope(envelope, campaign_id=manifest.id, key_fingerprint=wire.fingerprint(manifest.issuer))


def find(db: sqlite3.Connection, start: str) -> Joined:
    """The campaign whose id begins so."""
    found = [each for each in joined(db) if start and each.id.startswith(start)]
    if len(found) != 1:
        raise InvalidInput(
            f"{len(found) or 'no'} campaigns have an id that starts with {start!r}; "
            "`privquant shuffler list` shows them"
        )
    return found[0]


def token_ids_of(keys: KeyRing, manifest: wire.Manifest) -> TokenIds:
    return TokenIds(keys.campaign_secret(wire.terms_of(manifest).key, manifest.id))


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


def invite(db: sqlite3.Connection, keys: KeyRing, campaign: Joined, number: int) -> list[str]:
    """Fresh one-time invites. Their tokens are nowhere but in what this returns."""
    _check_open(campaign)
    token_ids, address = token_ids_of(keys, campaign.manifest), wire.terms_of(campaign.manifest).address
    ids, urls = new_invites(number, MOST_INVITES, token_ids, address, campaign.manifest)
    for start in range(0, number, CHUNK):
        with transaction(db):
            rows = [(campaign.no, id) for id in ids[start : start + CHUNK]]
            db.executemany("INSERT INTO token (campaign, id) VALUES (?, ?)", rows)
    return urls


def open_link(db: sqlite3.Connection, campaign: Joined, places: int, coded: bool = False) -> tuple[str, str | None]:
    """One link for many, with the code it needs if `coded`. A second one replaces it and keeps the places taken."""
    _check_open(campaign)
    stored, url, code = new_link(places, coded, wire.terms_of(campaign.manifest).address, campaign.manifest)
    with transaction(db):
        db.execute(
            "INSERT INTO link (campaign, secret, places, taken) VALUES (?, ?, ?, 0)"
            " ON CONFLICT (campaign) DO UPDATE SET secret = excluded.secret, places = excluded.places",
            (campaign.no, stored, places),
        )
    return url, code


def _check_open(campaign: Joined) -> None:
    if campaign.state != OPEN:
        raise InvalidInput("the campaign is closed here")


def close(db: sqlite3.Connection, campaign: Joined) -> None:
    """Take no more reports. The server drops the open round and still forwards full ones."""
    with transaction(db):
        db.execute("UPDATE campaign SET state = ? WHERE no = ?", (CLOSED, campaign.no))


def check_deletable(db: sqlite3.Connection, campaign: Joined) -> None:
    rows = db.execute("SELECT state FROM round WHERE campaign = ?", (campaign.no,)).fetchall()
    if campaign.state != CLOSED or any(state not in OVER for (state,) in rows):
        raise InvalidInput("only a closed campaign whose rounds are all over can be erased")


def delete(db: sqlite3.Connection, campaign: Joined) -> None:
    """Erase a campaign that may be deleted: tokens, rounds, everything."""
    with transaction(db):
        for table in CAMPAIGN_TABLES:
            db.execute(f"DELETE FROM {table} WHERE campaign = ?", (campaign.no,))
        db.execute("DELETE FROM campaign WHERE no = ?", (campaign.no,))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def shown(db: sqlite3.Connection, campaign: Joined) -> dict[str, Any]:
    """One campaign as JSON: every round with its state, its number and its batch's id."""

    def rows_of(columns: str, table: str, order: str = "1") -> list[Any]:
        selected = f"SELECT {columns} FROM {table} WHERE campaign = ? ORDER BY {order}"
        return db.execute(selected, (campaign.no,)).fetchall()

    terms = wire.terms_of(campaign.manifest)
    rounds = [
        {
            "round": number,
            "state": state,
            "reports": held,
            "needed": terms.rounds[number].batch,
            "extended": bool(extended),
            "batch": batch,
            "closes": None if state in OVER else closes,
        }
        for number, state, held, extended, batch, closes in rows_of(_SHOWN, "round")
    ]
    over = campaign.state == OPEN and time.time() >= campaign.manifest.deadline
    link = rows_of("places, taken", "link")
    return {
        "id": campaign.id,
        "measurement": campaign.manifest.measurement,
        "question": campaign.manifest.question,
        "state": "over" if over else campaign.state,
        "aggregator": campaign.aggregator,
        "tokens": rows_of("count(*)", "token")[0][0],
        "acknowledged": rows_of("count(*)", "spent")[0][0],
        "forwarded": sum(row["reports"] for row in rounds if row["state"] == State.FORWARDED),
        "dropped": sum(row["reports"] for row in rounds if row["state"] == State.DROPPED),
        "waiting": sum(row["reports"] for row in rounds if row["state"] not in OVER),
        "open_link": {"places": link[0][0], "taken": link[0][1]} if link else None,
        "planned_rounds": len(terms.rounds),
        "rounds": rounds,
        "incidents": [
            {"round": number, "what": what, "evidence": None if evidence is None else json.loads(evidence)}
            for number, what, evidence in rows_of("round, what, evidence", "incident", "no")
        ],
        "privacy": str(promise(campaign.manifest)),
    }


def backup(settings: Settings, target: Path) -> None:
    """Copy books, ready batches and key into the new folder `target`, also while the shuffler runs."""
    copy_out("shuffler", settings.file, settings.keys, target, _settle)


def restore(settings: Settings, source: Path) -> None:
    """Make the backup in `source` the shuffler of an empty data folder."""
    put_back("shuffler", source, settings.file, settings.keys, _check_settled)


def _settle(copy: Path) -> None:
    """Leave nothing in a copy that could go on; what is erased is not in its bytes either."""
    with closing(connect(copy)) as db:
        with transaction(db):
            for campaign, number in db.execute(_GOING_ON).fetchall():
                drop(db, campaign, number, Event.SETTLE)
            for table in ("held", "place", "link"):
                db.execute(f"DELETE FROM {table}")
            db.execute("UPDATE campaign SET state = ?", (CLOSED,))
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        db.execute("PRAGMA journal_mode=DELETE").fetchall()  # one file, without a log beside it
        db.execute("VACUUM")


def _check_settled(file: Path) -> None:
    """A plain copy of a shuffler's file is not a backup, however it was made."""
    with closing(read_only(file)) as db:
        running = db.execute("SELECT 1 FROM campaign WHERE state <> ?", (CLOSED,)).fetchone()
        going_on = db.execute(_GOING_ON).fetchone()
    if running or going_on:
        raise InvalidInput(
            f"{file} is a plain copy of a shuffler that ran on: restored, it would forward rounds and take tokens "
            "a second time; restore what `privquant shuffler backup` made"
        )
