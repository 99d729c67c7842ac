"""A consistent copy of an SQLite file and of the keys beside it, in a folder of its own, and the way back."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from privquant.errors import InvalidInput
from privquant.server.causes import DAMAGED, Unavailable, cause_of


def read_only(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(file.resolve()))}?mode=ro", uri=True)


def check_integrity(file: Path) -> None:
    """Unavailable, with what is wrong, if the database in this file is damaged."""
    try:
        with closing(read_only(file)) as db:
            (said,) = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        raise Unavailable(cause_of(error)) from error
    if said != "ok":
        raise Unavailable(DAMAGED)


def check_copy(file: Path, consequence: str) -> None:
    """InvalidInput, with what is wrong and what follows, if the database in this file is damaged."""
    try:
        check_integrity(file)
    except Unavailable as error:
        raise InvalidInput(f"{file}: {error}; {consequence}") from error


def copy_out(
    name: str, file: Path, keys: Path, target: Path, settle: Callable[[Path], None] = lambda copy: None
) -> None:
    """Copy both into the new folder `target`, readable by its owner alone, also while the file is in use.

    name: what is copied, in messages. settle: what is done to the copy before it may pass for a backup.
    """
    if target.exists():
        raise InvalidInput(f"{target} exists already; a backup makes a new folder")
    check_copy(file, f"the {name} is not copied")
    target.mkdir(parents=True, mode=0o700)
    try:
        copy = target / file.name
        copy.touch(0o600)
        with closing(read_only(file)) as source, closing(sqlite3.connect(copy)) as made:
            source.backup(made)
        settle(copy)
        check_copy(copy, "the copy is thrown away")
        _copy_keys(keys, target / "keys")
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)  # half a backup must not pass for one
        raise


def put_back(
    name: str, source: Path, file: Path, keys: Path, check: Callable[[Path], None] = lambda copy: None
) -> None:
    """Make the backup in the folder `source` the file and the keys of a server that has none.

    name: what is restored, in messages. check: raises if the backup is whole and still must not be used.
    """
    copy = source / file.name
    if not copy.is_file() or not (source / "keys" / "current").is_file():
        raise InvalidInput(f"{source} is not a backup of a {name}: it lacks {copy.name} or keys/current")
    if file.exists() or keys.exists():
        raise InvalidInput(f"{file.parent} has a {name} already; restore into an empty folder")
    check_copy(copy, "nothing is restored")
    check(copy)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _copy_keys(source / "keys", keys)
    shutil.copy2(copy, file)
    file.chmod(0o600)


def _copy_keys(source: Path, target: Path) -> None:
    shutil.copytree(source, target, copy_function=shutil.copy2)
    target.chmod(0o700)
