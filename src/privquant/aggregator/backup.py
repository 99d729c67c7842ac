"""Backup and restore of an embedded store: one folder with a consistent copy of the database, and the keys.

A backup taken while the server runs is a snapshot of one moment. After a restore, reports acknowledged since the
backup are gone and their tokens are unspent again: devices do not send a second time, so only the numbers shrink.
"""

from pathlib import Path

from privquant.aggregator.settings import Settings
from privquant.errors import InvalidInput
from privquant.server.sqlite_file import copy_out, put_back


def backup(settings: Settings, target: Path) -> None:
    """Copy the store and its keys into the new folder `target`, readable by its owner alone."""
    if settings.database:
        raise InvalidInput(
            "the store is in PostgreSQL: back it up with pg_dump, and the folder "
            f"{settings.keys} beside it (docs/service.md)"
        )
    if not settings.sqlite_file.exists():
        raise InvalidInput(f"there is no store at {settings.sqlite_file}")
    copy_out("store", settings.sqlite_file, settings.keys, target)


def restore(settings: Settings, source: Path) -> None:
    """Make the backup in `source` the store of an empty data folder."""
    if settings.database:
        raise InvalidInput("the store is in PostgreSQL: restore it with pg_restore (docs/service.md)")
    put_back("store", source, settings.sqlite_file, settings.keys)
