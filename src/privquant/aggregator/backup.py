"""Backup and restore of an embedded store: one folder with a consistent copy of the database, and the keys.

A backup taken while the server runs is a snapshot of one moment. After a restore, reports acknowledged since the
backup are gone and their tokens are unspent again: devices do not send a second time, so only the numbers shrink.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from urllib.parse import quote

from privquant.aggregator.settings import Settings
from privquant.aggregator.store.base import Unavailable
from privquant.aggregator.store.sqlite import check_integrity
from privquant.errors import InvalidInput


def backup(settings: Settings, target: Path) -> None:
    """Copy the store and its keys into the new folder `target`, readable by its owner alone."""
    if settings.database:
        raise InvalidInput(
            "the store is in PostgreSQL: back it up with pg_dump, and the folder "
            f"{settings.keys} beside it (docs/service.md)"
        )
    if not settings.sqlite_file.exists():
        raise InvalidInput(f"there is no store at {settings.sqlite_file}")
    if target.exists():
        raise InvalidInput(f"{target} exists already; a backup makes a new folder")
    _check(settings.sqlite_file, "the store is not copied")
    target.mkdir(parents=True, mode=0o700)
    try:
        copy = target / settings.sqlite_file.name
        source = sqlite3.connect(f"file:{quote(str(settings.sqlite_file.resolve()))}?mode=ro", uri=True)
        made = sqlite3.connect(copy)
        try:
            source.backup(made)
        finally:
            made.close()
            source.close()
        _check(copy, "the copy is thrown away")
        copy.chmod(0o600)
        shutil.copytree(settings.keys, target / "keys", copy_function=shutil.copy2)
        (target / "keys").chmod(0o700)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)  # half a backup must not pass for one
        raise


def restore(settings: Settings, source: Path) -> None:
    """Make the backup in `source` the store of an empty data folder."""
    if settings.database:
        raise InvalidInput("the store is in PostgreSQL: restore it with pg_restore (docs/service.md)")
    if not (source / settings.sqlite_file.name).is_file() or not (source / "keys" / "current").is_file():
        raise InvalidInput(f"{source} is not a backup: it lacks {settings.sqlite_file.name} or keys/current")
    if settings.sqlite_file.exists() or settings.keys.exists():
        raise InvalidInput(f"{settings.data} has a store already; restore into an empty folder")
    _check(source / settings.sqlite_file.name, "nothing is restored")
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copytree(source / "keys", settings.keys, copy_function=shutil.copy2)
    settings.keys.chmod(0o700)
    shutil.copy2(source / settings.sqlite_file.name, settings.sqlite_file)
    settings.sqlite_file.chmod(0o600)


def _check(file: Path, consequence: str) -> None:
    try:
        check_integrity(file)
    except Unavailable as error:
        raise InvalidInput(f"{file}: {error}; {consequence}") from error
