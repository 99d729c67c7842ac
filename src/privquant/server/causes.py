"""Why the store or the keys fail, in words an operator can act on; never with anything a request said.

An error is looked at together with what it was raised from: a driver's error is usually wrapped once or twice.
"""

import errno
import sqlite3
from collections.abc import Iterator

from privquant.errors import PrivquantError


class Unavailable(PrivquantError):
    """The store does not answer now. Ask again: every ask is idempotent."""


FULL = "the disk of the store is full; free some space, nothing is lost that was acknowledged"
DAMAGED = "the database is damaged; stop the server and restore the last backup (docs/service.md)"
NO_WRITES = "the disk of the store does not take writes: full, over a quota, or failing"
READ_ONLY = "the store is read-only for this server; look at its owner, its mode and the mount"
BUSY = "another process keeps the store locked"
GONE = "the database does not answer"
RESTARTING = "the database is starting, stopping or was told to end the connection"

_SQLITE = {
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_IOERR: NO_WRITES,
    sqlite3.SQLITE_READONLY: READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: "the file of the store cannot be opened; was the data folder moved?",
    sqlite3.SQLITE_BUSY: BUSY,
    sqlite3.SQLITE_LOCKED: BUSY,
}
# PostgreSQL's codes, of which the first two characters are a class; the longest that fits counts.
_POSTGRES = {
    "53100": FULL,
    "XX001": DAMAGED,
    "XX002": DAMAGED,
    "58030": "the database server cannot read or write its disk",
    "53300": "the database server has too many connections",
    "25006": "the database is read-only: a standby, or told to be",
    "28": "the database does not accept this user or password",
    "3D": "there is no database of this name",
    "42501": "the database does not allow this user to do that",
    "57P": RESTARTING,
    "08": GONE,
}
_SYSTEM = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EFBIG: NO_WRITES,
    errno.EIO: NO_WRITES,
    errno.EROFS: READ_ONLY,
    errno.ENOENT: "a file of the store or its keys is missing; was the data folder moved?",
    errno.EACCES: READ_ONLY,
    errno.EPERM: READ_ONLY,
}


def cause_of(error: BaseException) -> str:
    """One line: our own words; of the store, the first cause in the chain that is known; else what kind it is."""
    if isinstance(error, PrivquantError) and not isinstance(error, Unavailable):
        return str(error)
    chain = list(_chain(error))
    known = [found for each in chain if (found := _known(each)) is not None]
    own = [str(each) for each in chain if isinstance(each, PrivquantError) and str(each)]
    return next(iter(known + own), f"unforeseen: {type(chain[-1]).__name__}")


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop(0)
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [getattr(each, "orig", None), each.__cause__, each.__context__]


def _known(error: BaseException) -> str | None:
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return _SQLITE.get(code & 0xFF)  # the rest says where, in detail nobody needs
    state = getattr(error, "sqlstate", None)
    if isinstance(state, str):
        return next((words for prefix, words in _POSTGRES.items() if state.startswith(prefix)), None)
    if isinstance(error, ConnectionError | TimeoutError):
        return GONE
    if isinstance(error, OSError) and error.errno is not None:
        return _SYSTEM.get(error.errno)
    return None
