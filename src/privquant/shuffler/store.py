"""The database of a shuffler, one SQLite file. No column has a bit, an address or the time of a report.

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

What devices ask of it is committed in groups: all asks of a group in ONE transaction, durable when it returns. No
more places are given out than the open round still needs; a lease that ran out gives its place to another, and a
report that comes after all is kept as long as its round is open.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from privquant.errors import InvalidInput
from privquant.server.sqlite_file import OneWriter, connect
from privquant.shuffler.rounds import State

T = TypeVar("T")

VERSION = 1

OPEN, CLOSED = "open", "closed"
"""The states of a campaign; those of a round are in `rounds`."""

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

_RECOUNT = 1.0  # seconds between two counts of the leases that still run

_IS_TOKEN = "SELECT 1 FROM token WHERE campaign = ? AND id = ?"
_IS_SPENT = "SELECT 1 FROM spent WHERE campaign = ? AND id = ?"
_PLACE_OF = "SELECT round FROM place WHERE campaign = ? AND id = ?"
_OPEN_ROUND = f"SELECT round, held FROM round WHERE campaign = ? AND state = '{State.OPEN}'"
_IN_FLIGHT = "SELECT count(*) FROM place WHERE campaign = ? AND round = ? AND until > ?"
_TAKE = "UPDATE link SET taken = taken + 1 WHERE campaign = ? AND taken < places RETURNING 1"
_HOLD = "INSERT INTO held (campaign, round, sealed) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING 1"


def prepare(file: Path) -> None:
    """Make the file and its tables, readable by their owner alone, unless they are there."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not file.exists():
        file.touch(0o600)
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
    with db:
        db.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def opened(file: Path) -> Iterator[sqlite3.Connection]:
    """The database of a shuffler, for the length of a block; an operator's command uses it beside the server."""
    prepare(file)
    with closing(connect(file)) as db:
        yield db


Outcome = Enum("Outcome", "PLACED HAS SPENT UNKNOWN OVER NONE KEPT STRAY COPY FULL CLOSED")


@dataclass(slots=True)
class AskResult:
    outcome: Outcome
    round: int = -1


Ask = partial[AskResult]
"""`place`, `keep` or `admit` of a store, with all it is asked."""


class Store(OneWriter):
    """What a running shuffler does with its file, which is prepared already."""

    _NAME = "the shuffler's database"

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._in_flight: dict[int, tuple[int, int, float]] = {}  # campaign: (round, leases, counted at)

    async def commit(self, asks: list[Ask]) -> list[AskResult]:
        """`Unavailable` when the outcome is not known; asking again is always right."""
        return await self.write(lambda: [ask() for ask in asks])

    async def write(self, work: Callable[[], T], *, aside: bool = False) -> T:
        """`work` in one transaction; aside: it takes long, so the event loop goes on meanwhile."""
        async with self._transaction("take the transaction"):
            return await self._on_writer(work) if aside else work()  # after the commit, which ends the block

    def _forget(self) -> None:
        self._in_flight.clear()

    def place(self, campaign: int, id: bytes, batches: tuple[int, ...], until: int) -> AskResult:
        """Give this token a place in the open round, unless it has one.

        -> PLACED or HAS with the round, or SPENT, UNKNOWN, OVER (its round has closed), NONE (no place now).
        batches: the number each round of the campaign is forwarded with. until: the second the lease runs out.
        """
        found, opened = self._first(_PLACE_OF, campaign, id), self._first(_OPEN_ROUND, campaign)
        if found is not None:
            still_open = opened is not None and opened[0] == found[0]
            return AskResult(Outcome.HAS if still_open else Outcome.OVER, found[0])
        if self._first(_IS_SPENT, campaign, id):
            return AskResult(Outcome.SPENT)
        if not self._first(_IS_TOKEN, campaign, id):
            return AskResult(Outcome.UNKNOWN)
        if opened is None or opened[1] + self._leases(campaign, opened[0]) >= batches[opened[0]]:
            return AskResult(Outcome.NONE)
        self.db.execute("INSERT INTO place VALUES (?, ?, ?, ?)", (campaign, id, opened[0], until))
        self._count_lease(campaign, 1)
        return AskResult(Outcome.PLACED, opened[0])

    def keep(self, campaign: int, id: bytes, round: int, sealed: bytes) -> AskResult:
        """Hold this sealed report for its round and spend the token.

        -> KEPT, or SPENT (kept before), UNKNOWN, OVER, STRAY (the token has no place in that round),
           COPY (the same sealed bytes are held already: somebody else's).
        """
        if self._first(_PLACE_OF, campaign, id) != (round,):
            if self._first(_IS_SPENT, campaign, id):
                return AskResult(Outcome.SPENT)
            return AskResult(Outcome.STRAY if self._first(_IS_TOKEN, campaign, id) else Outcome.UNKNOWN)
        opened = self._first(_OPEN_ROUND, campaign)
        if opened is None or opened[0] != round:
            return AskResult(Outcome.OVER)
        if not self._first(_HOLD, campaign, round, sealed):
            return AskResult(Outcome.COPY)
        self.db.execute("INSERT INTO spent (campaign, id) VALUES (?, ?)", (campaign, id))
        self.db.execute("DELETE FROM place WHERE campaign = ? AND id = ?", (campaign, id))
        self.db.execute("UPDATE round SET held = held + 1 WHERE campaign = ? AND round = ?", (campaign, round))
        self._count_lease(campaign, -1)
        return AskResult(Outcome.KEPT, round)

    def admit(self, campaign: int, id: bytes) -> AskResult:
        """Take a place of the open link for this token -> KEPT, or HAS (it has one), or FULL, CLOSED."""
        if self._first(_IS_TOKEN, campaign, id):
            return AskResult(Outcome.HAS)
        if self._first("SELECT state FROM campaign WHERE no = ?", campaign) != (OPEN,):
            return AskResult(Outcome.CLOSED)
        if not self._first(_TAKE, campaign):
            return AskResult(Outcome.FULL)
        self.db.execute("INSERT INTO token (campaign, id) VALUES (?, ?)", (campaign, id))
        return AskResult(Outcome.KEPT)

    def _first(self, statement: str, *values: object) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self.db.execute(statement, values).fetchone()
        return found

    def _leases(self, campaign: int, number: int) -> int:
        """Places of a round that are given out and run still; counted anew every second, because they run out."""
        known = self._in_flight.get(campaign)
        if known is None or known[0] != number or time.monotonic() - known[2] > _RECOUNT:
            (count,) = self.db.execute(_IN_FLIGHT, (campaign, number, int(time.time()))).fetchone()
            known = self._in_flight[campaign] = (number, count, time.monotonic())
        return known[1]

    def _count_lease(self, campaign: int, change: int) -> None:
        known = self._in_flight.get(campaign)
        if known is not None:
            self._in_flight[campaign] = (known[0], max(0, known[1] + change), known[2])
