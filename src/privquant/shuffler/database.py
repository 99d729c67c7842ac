"""The tables of a shuffler, in one SQLite file. No column has a bit, an address or the time of a report.

campaign   a campaign that was joined: envelope with this shuffler's signature, where its aggregator is
token      tokens issued or claimed, as HMACs under a secret of the key folder
place      the round a token was given; gone as soon as its report is kept
spent      tokens whose report was kept
link       the open link of a campaign: hash of its secret, places, places taken
round      one row an announcement: state, how many reports are held, the batch's id once there is one
held       sealed reports of the open round, by their own bytes: the table has no order of arrival
outbox     a batch in its final order, until the aggregator has counted it
notice     what the aggregator is still to be told about a round
incident   announcements that were refused, with the signed evidence; aggregators that refused a batch
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from privquant.errors import InvalidInput
from privquant.server.sqlite_writer import connect

VERSION = 1

OPEN, CLOSED = "open", "closed"
"""The states of a campaign; those of a round are in `round_states`."""

_TABLES = """
CREATE TABLE campaign (
  no INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, envelope BLOB NOT NULL, aggregator TEXT NOT NULL,
  round_seconds INTEGER NOT NULL, state TEXT NOT NULL, joined INTEGER NOT NULL);
CREATE TABLE token (campaign INTEGER NOT NULL, id BLOB NOT NULL, PRIMARY KEY (campaign, id)) WITHOUT ROWID;
CREATE TABLE spent (campaign INTEGER NOT NULL, id BLOB NOT NULL, PRIMARY KEY (campaign, id)) WITHOUT ROWID;
CREATE TABLE place (
  campaign INTEGER NOT NULL, id BLOB NOT NULL, round INTEGER NOT NULL, until INTEGER NOT NULL,
  PRIMARY KEY (campaign, id)) WITHOUT ROWID;
CREATE INDEX place_round ON place (campaign, round, until);
CREATE TABLE link (
  campaign INTEGER PRIMARY KEY, secret BLOB NOT NULL, places INTEGER NOT NULL, taken INTEGER NOT NULL);
CREATE TABLE round (
  campaign INTEGER NOT NULL, round INTEGER NOT NULL, envelope BLOB NOT NULL, threshold INTEGER NOT NULL,
  state TEXT NOT NULL, closes INTEGER NOT NULL, extended INTEGER NOT NULL, held INTEGER NOT NULL, batch TEXT,
  PRIMARY KEY (campaign, round)) WITHOUT ROWID;
CREATE TABLE held (
  campaign INTEGER NOT NULL, round INTEGER NOT NULL, sealed BLOB NOT NULL,
  PRIMARY KEY (campaign, round, sealed)) WITHOUT ROWID;
CREATE TABLE outbox (
  campaign INTEGER NOT NULL, round INTEGER NOT NULL, part INTEGER NOT NULL, sealed BLOB NOT NULL,
  PRIMARY KEY (campaign, round, part));
CREATE TABLE notice (
  campaign INTEGER NOT NULL, round INTEGER NOT NULL, status TEXT NOT NULL, reports INTEGER NOT NULL,
  PRIMARY KEY (campaign, round, status));
CREATE TABLE incident (
  no INTEGER PRIMARY KEY, campaign INTEGER NOT NULL, round INTEGER NOT NULL, what TEXT NOT NULL, evidence BLOB);
"""

CAMPAIGN_TABLES = ("token", "spent", "place", "link", "round", "held", "outbox", "notice", "incident")


def prepare(file: Path) -> None:
    """Make the file and its tables, readable by their owner alone, unless they are there."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not file.exists():
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    with closing(connect(file)) as db, transaction(db):
        found = db.execute("PRAGMA application_id").fetchone()[0]
        if found == 0 and not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in _TABLES.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id={VERSION}")
        elif found != VERSION:
            raise InvalidInput(f"{file} is not a shuffler's database of this version ({VERSION})")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """A transaction that starts as a writer and is committed at the end of the block, or rolled back."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def opened(file: Path) -> Iterator[sqlite3.Connection]:
    """The database of a shuffler, for the length of a block; an operator's command uses it beside the server."""
    prepare(file)
    with closing(connect(file)) as db:
        yield db
