"""An SQLite file as both servers write it: one connection, one transaction at a time, WAL with synchronous=FULL;
and a consistent copy of it and of the keys beside it, in a folder of its own, and the way back.

Statements run on the event loop's own thread: each takes microseconds and SQLite gives up the interpreter lock
around every one of them, so on a second thread each would queue for that lock behind the event loop. Only what
waits for the disk (COMMIT, sealing, checkpoints) runs on the writer thread.
"""

import asyncio
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote

from privquant.errors import InvalidInput
from privquant.server.causes import DAMAGED, Unavailable, cause_of

T = TypeVar("T")
OnCopy = Callable[[Path], None]

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


def copy_out(name: str, file: Path, keys: Path, target: Path, settle: OnCopy = lambda copy: None) -> None:
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


def put_back(name: str, source: Path, file: Path, keys: Path, check: OnCopy = lambda copy: None) -> None:
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
