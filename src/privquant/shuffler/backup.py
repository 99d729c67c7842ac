"""Backup and restore of a shuffler: its key, its books, the batches that are ready, and nothing that may run twice.

A copy does not know what came after it: which tokens were spent, which reports joined a round, how one was mixed. A
restored shuffler that went on from there would take a token twice, and forward a round a second time in another
mixture, from which the aggregator could tell who came before the copy and who after. So a copy is settled as it is
made: rounds that still take reports or are being mixed are dropped for good, their reports and everybody's places
erased, open links withdrawn, and every campaign is closed. A batch that lies ready is kept: sent again it has the
same id and the same bytes, and counts once.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from privquant.aggregator.causes import DAMAGED, cause_of
from privquant.errors import InvalidInput
from privquant.shuffler import batching
from privquant.shuffler.database import CLOSING, OPEN, connect, transaction
from privquant.shuffler.settings import Settings


def backup(settings: Settings, target: Path) -> None:
    """Copy books, ready batches and key into the new folder `target`, also while the shuffler runs."""
    if target.exists():
        raise InvalidInput(f"{target} exists already; a backup makes a new folder")
    _check(settings.file, "it is not copied")
    target.mkdir(parents=True, mode=0o700)
    try:
        copy = target / settings.file.name
        copy.touch(0o600)
        with closing(_reading(settings.file)) as source, closing(connect(copy)) as made:
            source.backup(made)
            _settle(made)
        _check(copy, "the copy is thrown away")
        shutil.copytree(settings.keys, target / "keys", copy_function=shutil.copy2)
        (target / "keys").chmod(0o700)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)  # half a backup must not pass for one
        raise


def restore(settings: Settings, source: Path) -> None:
    """Make the backup in `source` the shuffler of an empty data folder."""
    copy = source / settings.file.name
    if not copy.is_file() or not (source / "keys" / "current").is_file():
        raise InvalidInput(f"{source} is not a shuffler's backup: it lacks {copy.name} or keys/current")
    if settings.file.exists() or settings.keys.exists():
        raise InvalidInput(f"{settings.data} has a shuffler already; restore into an empty folder")
    _check(copy, "nothing is restored")
    _check_settled(copy)
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copytree(source / "keys", settings.keys, copy_function=shutil.copy2)
    settings.keys.chmod(0o700)
    shutil.copy2(copy, settings.file)
    settings.file.chmod(0o600)


def _settle(db: sqlite3.Connection) -> None:
    """Leave nothing in a copy that could go on; what is erased is not in its bytes either."""
    with transaction(db):
        db.execute("UPDATE round SET state = ? WHERE state = ?", (OPEN, CLOSING))
        for campaign, number in db.execute("SELECT campaign, round FROM round WHERE state = ?", (OPEN,)).fetchall():
            batching.drop(db, campaign, number)
        for table in ("held", "place", "link"):
            db.execute(f"DELETE FROM {table}")
        db.execute("UPDATE campaign SET state = 'closed'")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.execute("PRAGMA journal_mode=DELETE").fetchall()  # one file, without a log beside it
    db.execute("VACUUM")


def _check_settled(file: Path) -> None:
    """A plain copy of a shuffler's file is not a backup, however it was made."""
    going = "SELECT count(*) FROM round WHERE state IN (?, ?)"
    with closing(_reading(file)) as db:
        (running,) = db.execute("SELECT count(*) FROM campaign WHERE state <> 'closed'").fetchone()
        (open_rounds,) = db.execute(going, (OPEN, CLOSING)).fetchone()
    if running or open_rounds:
        raise InvalidInput(
            f"{file} is a plain copy of a shuffler that ran on: restored, it would forward rounds and take tokens "
            "a second time; restore what `privquant shuffler backup` made"
        )


def _check(file: Path, consequence: str) -> None:
    """InvalidInput, with what is wrong, if the database in this file is damaged."""
    try:
        with closing(_reading(file)) as db:
            (said,) = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        raise InvalidInput(f"{file}: {cause_of(error)}; {consequence}") from error
    if said != "ok":
        raise InvalidInput(f"{file}: {DAMAGED}; {consequence}")


def _reading(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(file.resolve()))}?mode=ro", uri=True)
