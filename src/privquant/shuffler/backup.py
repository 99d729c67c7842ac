"""Backup and restore of a shuffler: its key, its books, the batches that are ready, and nothing that may run twice.

A copy does not know what came after it: which tokens were spent, which reports joined a round, how one was mixed. A
restored shuffler that went on from there would take a token twice, and forward a round a second time in another
mixture, from which the aggregator could tell who came before the copy and who after. So a copy is settled as it is
made: rounds that still take reports or are being mixed are dropped for good, their reports and everybody's places
erased, open links withdrawn, and every campaign is closed. A batch that lies ready is kept: sent again it has the
same id and the same bytes, and counts once.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from privquant.errors import InvalidInput
from privquant.server.sqlite_copy import copy_out, put_back, read_only
from privquant.server.sqlite_writer import connect
from privquant.shuffler import rounds
from privquant.shuffler.rounds import Event, states_before
from privquant.shuffler.settings import Settings
from privquant.shuffler.store import CLOSED, transaction

_GOING_ON = f"SELECT campaign, round FROM round WHERE state IN {tuple(map(str, states_before(Event.SETTLE)))}"


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
                rounds.drop(db, campaign, number, Event.SETTLE)
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
