"""An SQLite file as both servers write it: one connection, one transaction at a time, WAL with synchronous=FULL.

Statements run on the event loop's own thread: each takes microseconds and SQLite gives up the interpreter lock
around every one of them, so on a second thread each would queue for that lock behind the event loop. Only what
waits for the disk (COMMIT, sealing, checkpoints) runs on the writer thread.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from privquant.server.causes import Unavailable

T = TypeVar("T")

PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA secure_delete=ON",
    "PRAGMA foreign_keys=ON",
    "PRAGMA busy_timeout=10000",
    "PRAGMA cache_size=-32768",
)
_LONGEST_LOCK = 10.0  # seconds


def connect(file: Path) -> sqlite3.Connection:
    """A connection to a file that is there; it begins no transaction by itself."""
    connection = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
    for pragma in PRAGMAS:
        connection.execute(pragma)
    return connection


class OneWriter:
    """The one that writes a file, which has its tables already. `_NAME`: what it is called where it fails."""

    _NAME: ClassVar[str]

    def __init__(self, file: Path) -> None:
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="privquant-writer")
        self._lock = asyncio.Lock()
        self.db, self.reader = connect(file), connect(file)
        self.db.execute("PRAGMA busy_timeout=0")  # waiting is done by the event loop

    @asynccontextmanager
    async def _transaction(self, what: str) -> AsyncIterator[None]:
        """A transaction that is durable after the block; Unavailable, with what was not done, if it cannot be."""
        async with self._lock:
            try:
                await self._begin()
                yield
                await self._on_writer(lambda: self.db.execute("COMMIT"))
            except BaseException as error:
                self._forget()
                await self._on_writer(self.db.rollback)
                if isinstance(error, sqlite3.Error):
                    raise Unavailable(f"{self._NAME} did not {what}: {error}") from error
                raise

    async def _begin(self) -> None:
        """Take the write lock. Another process (an operator's command) may have it for a moment."""
        give_up = time.monotonic() + _LONGEST_LOCK
        while True:
            try:
                self.db.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError:
                if time.monotonic() > give_up:
                    raise
                await asyncio.sleep(0.005)

    def _forget(self) -> None:
        """It is not known how a transaction ended: forget what was counted ahead of it."""

    def read(self, statement: str, *values: object) -> list[Any]:
        """Rows as of the last transaction that is durable."""
        try:
            return self.reader.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise Unavailable(f"{self._NAME} could not be read: {error}") from error

    async def probe(self) -> None:
        """Write a number that nobody reads; Unavailable if that cannot be done durably."""
        async with self._transaction("take a write"):
            (turn,) = self.db.execute("PRAGMA user_version").fetchone()
            self.db.execute(f"PRAGMA user_version={(turn + 1) % 2**31}")

    async def sweep(self) -> None:
        """Empty the write-ahead log, which remembers transactions in their order."""
        async with self._lock:
            await self._on_writer(self._checkpoint)

    def _checkpoint(self) -> bool:
        """Empty the write-ahead log; whether it is. A reader may hold it up; then the next one does it."""
        self.db.execute("PRAGMA busy_timeout=50")
        held, _, _ = self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self.db.execute("PRAGMA busy_timeout=0")
        return not held

    async def close(self) -> None:
        await self.sweep()
        async with self._lock:
            self.db.close()
            self.reader.close()
        self._writer.shutdown()

    async def _on_writer(self, work: Callable[[], T]) -> T:
        future = asyncio.get_running_loop().run_in_executor(self._writer, work)
        # A request that is cancelled must not leave the connection inside a half-run statement.
        return await asyncio.shield(future)
