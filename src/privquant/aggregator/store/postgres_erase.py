"""Take the bytes of deleted rows out of PostgreSQL's files.

DELETE only marks rows, and a plain VACUUM only forgets where they lay: the bytes stay in the pages of tables and
indexes until something happens to be written over them. VACUUM FULL writes each table and its indexes anew and
drops the old files. Two things would still keep a row, and both are looked after here:

- a transaction that is older than the deletion may still need it, so VACUUM FULL copies it too. What it says of
  such rows is read, and it is run again until there are none or patience ends;
- the planner's statistics have samples of a column's values. Those of the columns that hold token ids are dropped,
  and not gathered again; nothing needs them, because ids are only ever looked up by their unique index.

Pins come and go with every device, so their table is written anew while the server runs (`Renewed`).

Not in reach from here: the write-ahead log, standbys and backups.
"""

import asyncio
import re
import time
from typing import Any

import asyncpg

IDS = ("token", "spent", "pin", "flight")
TABLES = (
    *IDS,
    *("tail", "log", "count", "snapshot", "published", "link", "shuffled_round", "batch_part", "campaign"),
)
_STATISTICS = "pg_catalog.pg_statistic"

_LOCK = "5s"  # devices queue up behind a rewrite that waits for its lock, so it does not wait long
_MOMENT = "100ms"
_REWRITE_SECONDS = 600.0
_PAUSE = 0.2


async def rewrite(dsn: str, tables: tuple[str, ...], patience: float) -> tuple[str, ...]:
    """Write these tables anew; the names of those which after `patience` seconds may have deleted rows."""
    ends = time.monotonic() + patience
    db = await asyncpg.connect(dsn, timeout=5, command_timeout=_REWRITE_SECONDS)
    try:
        await db.execute(f"SET lock_timeout = '{_LOCK}'")
        left = (*tables, _STATISTICS)
        for table in tables:
            if table in IDS and not await _without_samples(db, table):
                return left
        while True:
            left = tuple([table for table in left if not await _rewritten(db, table)])
            if not left or time.monotonic() >= ends:
                return left
            await asyncio.sleep(_PAUSE)
    finally:
        await db.close()


class Renewed:
    """A small table whose rows come and go, written anew every now and then so that those which went leave nothing.

    No request waits for it longer than a moment: if the lock is not free at once, the next call tries again. It
    takes a hundredth of the time at most.
    """

    def __init__(self, table: str) -> None:
        self._table = table
        self._deleted = -1
        self._not_before = 0.0

    async def renew(self, db: Any) -> None:
        deleted = await db.fetchval(f"SELECT pg_stat_get_tuples_deleted('{self._table}'::regclass)")
        if deleted == self._deleted or time.monotonic() < self._not_before:
            return
        began = time.monotonic()
        await db.execute(f"SET lock_timeout = '{_MOMENT}'")
        try:
            if await _rewritten(db, self._table):
                self._deleted = deleted
        finally:
            await db.execute("RESET lock_timeout")
        self._not_before = time.monotonic() + 100 * (time.monotonic() - began)


async def _without_samples(db: Any, table: str) -> bool:
    """Drop the samples of ids; the type stays what it is, and to set it is what drops them."""
    try:
        async with db.transaction():
            await db.execute(f"ALTER TABLE {table} ALTER id SET STATISTICS 0")
            await db.execute(f"ALTER TABLE {table} ALTER id TYPE bytea")
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
        return False
    return True


async def _rewritten(db: Any, table: str) -> bool:
    """Whether the table was written anew, and without any row that was deleted."""
    said: list[str] = []

    def hear(_connection: Any, message: Any) -> None:
        if message.severity_en == "INFO" and message.detail:
            said.append(message.detail)

    db.add_log_listener(hear)
    try:
        await db.execute(f"VACUUM (FULL, VERBOSE) {table}")
        await asyncio.sleep(0)  # what was said is handed on in the loop's next turn
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
        return False
    finally:
        db.remove_log_listener(hear)
    # The detail begins with how many dead rows could not be removed yet. Without one the table was skipped.
    kept = [re.search(r"\d+", detail) for detail in said]
    return bool(kept) and all(number is not None and int(number[0]) == 0 for number in kept)
