"""What device requests need of the store on SQLite: one writer, group commit, WAL with synchronous=FULL.

Statements run on the event loop's own thread: each takes microseconds and SQLite gives up the interpreter lock
around every one of them, so on a second thread each would queue for that lock behind the event loop. Only what
waits for the disk (COMMIT, sealing, checkpoints) runs on the writer thread.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import SystemRandom
from typing import Any, TypeVar

from privquant.aggregator.pace import Pace
from privquant.aggregator.sqlite_copy import check_integrity
from privquant.aggregator.store import statements as sql
from privquant.aggregator.store.base import (
    Admit,
    Ask,
    AskResult,
    DeviceStore,
    Erasure,
    Pin,
    Spend,
    Unavailable,
    What,
    published_rows,
)
from privquant.aggregator.store.migrate import SQLITE_PRAGMAS
from privquant.messages import Query

T = TypeVar("T")

_LONGEST_LOCK = 10.0  # seconds

_PIN = """
INSERT INTO pin (campaign, id, box, lease)
SELECT ?1, ?2, ?3, ?4
WHERE EXISTS (SELECT 1 FROM token WHERE campaign = ?1 AND id = ?2 AND claim >= 0)
  AND NOT EXISTS (SELECT 1 FROM spent WHERE campaign = ?1 AND id = ?2)
ON CONFLICT DO NOTHING RETURNING 1
"""
_PIN_OF = "SELECT box FROM pin WHERE campaign = ? AND id = ?"
_IS_SPENT = "SELECT 1 FROM spent WHERE campaign = ? AND id = ?"
_CLAIM_OF = "SELECT claim FROM token WHERE campaign = ? AND id = ?"
_KEEP = "UPDATE token SET claim = 0 WHERE campaign = ? AND id = ? AND claim > 0"
_FLYING = "SELECT count(*) FROM flight WHERE campaign = ?"
_IS_FLYING = "SELECT 1 FROM flight WHERE campaign = ? AND id = ?"
_TAKE_OFF = f"INSERT INTO flight (campaign, id, age) VALUES (?, ?, {sql.FRESH}) ON CONFLICT DO NOTHING"
_STAY_UP = f"UPDATE flight SET age = {sql.FRESH} WHERE campaign = ? AND id = ?"
_LAND = "DELETE FROM flight WHERE campaign = ? AND id = ?"
_SPEND = "INSERT INTO spent (campaign, id) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING 1"
_UNPIN = "DELETE FROM pin WHERE campaign = ? AND id = ?"
_REPORT = "INSERT INTO tail (campaign, phase, arm, coin, threshold, bit) VALUES (?, ?, ?, ?, ?, ?)"
_IS_FULL = "SELECT taken >= places FROM link WHERE campaign = ?"
_TAKE = "UPDATE link SET taken = taken + 1 WHERE campaign = ?"
_ADMIT = """
INSERT INTO token (campaign, id, claim) VALUES (?1, ?2, ?3) ON CONFLICT (campaign, id) DO UPDATE SET claim = ?3
"""
_MAY_EXPIRE = "SELECT EXISTS (SELECT 1 FROM token WHERE campaign = ? AND claim > 0)"
_OVERDUE = "SELECT count(*) FROM token t WHERE t.campaign = link.campaign AND t.claim > 0 AND t.claim < ?1"
_TICK = (
    "UPDATE flight SET age = age - 1",
    "DELETE FROM flight WHERE age < 1",
)
_EXPIRE = (
    f"UPDATE link SET taken = taken - ({_OVERDUE})",
    "UPDATE token SET claim = -1 WHERE claim > 0 AND claim < ?1",
)
_STATE = "SELECT state FROM campaign WHERE no = ?"

# SQLite's random() is ChaCha20, keyed by the operating system.
_SEAL = (sql.LOG_TAIL.format(random="random()"), sql.COUNT_TAIL, "DELETE FROM tail")


def _connect(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
    for pragma in SQLITE_PRAGMAS:
        connection.execute(pragma)
    return connection


class _Heard:
    """How many reports each campaign has, kept by the one connection that adds to them.

    To count them takes as long as some asks do. What another connection changes is seen by SQLite's own number of
    such changes, and then they are counted again.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._version = -1
        self._counted: dict[int, int] = {}

    def begin(self) -> None:
        """A transaction has begun, so nobody else changes anything until it ends."""
        (version,) = self._db.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version = version
            self._counted.clear()

    def of(self, campaign: int) -> int:
        if campaign not in self._counted:
            self._counted[campaign] = self._db.execute(sql.HEARD, (campaign,)).fetchone()[0]
        return self._counted[campaign]

    def add(self, landed: Counter[int]) -> None:
        """A transaction with so many reports was committed."""
        for campaign, reports in landed.items():
            if campaign in self._counted:
                self._counted[campaign] += reports

    def forget(self) -> None:
        """It is not known how a transaction ended."""
        self._counted.clear()


class _Traffic:
    """What one transaction knows of the pace of its campaigns: counted once, then kept up to date."""

    def __init__(self, db: sqlite3.Connection, heard: _Heard) -> None:
        self._db = db
        self._heard = heard
        self._flying: dict[int, int] = {}
        self.landed: Counter[int] = Counter()  # reports of this transaction; their rows are written at its end

    def has_place(self, campaign: int, token: bytes, pace: Pace | None) -> bool:
        if pace is None:
            return True
        if campaign not in self._flying:
            self._flying[campaign] = self._db.execute(_FLYING, (campaign,)).fetchone()[0]
        if pace.places(self._heard.of(campaign) + self.landed[campaign], self._flying[campaign]) > 0:
            return True
        return self._db.execute(_IS_FLYING, (campaign, token)).fetchone() is not None

    def take_off(self, campaign: int, token: bytes) -> None:
        if self._db.execute(_TAKE_OFF, (campaign, token)).rowcount:
            self._flying[campaign] += 1
        else:
            self._db.execute(_STAY_UP, (campaign, token))

    def land(self, campaign: int, token: bytes) -> None:
        """A report was counted."""
        self.landed[campaign] += 1
        landed = self._db.execute(_LAND, (campaign, token)).rowcount
        if campaign in self._flying:
            self._flying[campaign] -= landed


class SqliteDeviceStore(DeviceStore):
    """One connection that writes; the file is created and migrated already."""

    def __init__(self, file: Path) -> None:
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="privquant-writer")
        self._lock = asyncio.Lock()
        self._random = SystemRandom()
        self._counting = threading.Lock()
        self._db, self._reader, self._counter = (_connect(file) for _ in range(3))
        self._file = file
        found = os.stat(file)
        self._identity = (found.st_dev, found.st_ino)
        self._heard = _Heard(self._db)
        self._db.execute("PRAGMA busy_timeout=0")  # waiting is done by the event loop

    async def commit(self, asks: list[Ask]) -> list[AskResult]:
        async with self._lock:
            try:
                self._check_place()
                await self._begin()
                traffic = _Traffic(self._db, self._heard)
                self._heard.begin()
                outcomes = self._apply(asks, traffic)
                await self._on_writer(lambda: self._db.execute("COMMIT"))
                self._heard.add(traffic.landed)
            except asyncio.CancelledError:
                self._heard.forget()
                raise
            except sqlite3.Error as error:
                self._heard.forget()
                await self._on_writer(self._roll_back)
                raise Unavailable(f"the SQLite store did not take the transaction: {error}") from error
        return outcomes

    async def _begin(self) -> None:
        """Take the write lock. Another process (an operator's command) may have it for a moment."""
        give_up = time.monotonic() + _LONGEST_LOCK
        while True:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError:
                if time.monotonic() > give_up:
                    raise
                await asyncio.sleep(0.005)

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _apply(self, asks: list[Ask], traffic: _Traffic) -> list[AskResult]:
        run = self._db.execute
        states: dict[int, str | None] = {}
        for number in {ask.campaign for ask in asks}:
            row = run(_STATE, (number,)).fetchone()
            states[number] = None if row is None else row[0]
        outcomes, rows = [], []
        for ask in asks:
            if isinstance(ask, Spend):
                outcome = self._spend(ask, states[ask.campaign], traffic)
                if outcome.what is What.COUNTED:
                    q = ask.query
                    rows.append((ask.campaign, q.phase, q.arm, q.coin, q.threshold, ask.bit))
            elif isinstance(ask, Pin):
                outcome = self._pin(ask, traffic)
            else:
                outcome = self._claim(ask, states[ask.campaign], traffic)
            outcomes.append(outcome)
        self._random.shuffle(rows)
        self._db.executemany(_REPORT, rows)
        return outcomes

    def _spend(self, ask: Spend, state: str | None, traffic: _Traffic) -> AskResult:
        key = (ask.campaign, ask.id)
        if state not in ("open", "paused"):
            spent = self._db.execute(_IS_SPENT, key).fetchone() is not None
            return AskResult(What.SPENT if spent else What.CLOSED)
        new = self._db.execute(_SPEND, key).fetchone() is not None
        if new:
            self._db.execute(_UNPIN, key)
            traffic.land(*key)
        return AskResult(What.COUNTED if new else What.SPENT)

    def _pin(self, ask: Pin, traffic: _Traffic) -> AskResult:
        run, key = self._db.execute, (ask.campaign, ask.id)
        room = ask.box is not None and traffic.has_place(*key, ask.pace)
        if room and run(_PIN, (*key, ask.box, ask.lease)).fetchone() is not None:
            run(_KEEP, key)
            if ask.pace is not None:
                traffic.take_off(*key)
            return AskResult(What.PINNED, ask.box)
        row = run(_PIN_OF, key).fetchone()
        if row is not None:
            return AskResult(What.HAS, row[0])
        if run(_IS_SPENT, key).fetchone() is not None:
            return AskResult(What.SPENT)
        claim = run(_CLAIM_OF, key).fetchone()
        if claim is None:
            return AskResult(What.UNKNOWN)
        if claim[0] < 0:
            return AskResult(What.EXPIRED)
        return AskResult(What.NONE if ask.box is None else What.WAIT)

    def _claim(self, ask: Admit, state: str | None, traffic: _Traffic) -> AskResult:
        run, key = self._db.execute, (ask.campaign, ask.id)
        claim = run(_CLAIM_OF, key).fetchone()
        if claim is not None and claim[0] >= 0:
            return AskResult(What.HAS)
        if state != "open":
            return AskResult(What.CLOSED)
        if run(_IS_FULL, (ask.campaign,)).fetchone()[0]:
            return AskResult(What.WAIT if run(_MAY_EXPIRE, (ask.campaign,)).fetchone()[0] else What.FULL)
        if not traffic.has_place(*key, ask.pace):
            return AskResult(What.WAIT)
        run(_TAKE, (ask.campaign,))
        run(_ADMIT, (*key, ask.term))
        if ask.pace is not None:
            traffic.take_off(*key)
        return AskResult(What.COUNTED)

    async def tick(self, minute: int) -> None:
        if not (await self._read(sql.TICK_DUE, minute))[0][0]:
            return
        async with self._lock:
            try:
                await self._begin()
                for statement in _TICK:
                    self._db.execute(statement)
                for statement in _EXPIRE:
                    self._db.execute(statement, (minute,))
                await self._on_writer(lambda: self._db.execute("COMMIT"))
            except sqlite3.Error as error:
                await self._on_writer(self._roll_back)
                raise Unavailable(f"the SQLite store did not age what is in flight: {error}") from error

    async def seal(self, least: int) -> int:
        async with self._lock:
            return await self._on_writer(lambda: self._seal(least))

    def _seal(self, least: int) -> int:
        try:
            waiting, over = self._db.execute(sql.WAITING).fetchone()
            if waiting < max(1, least) and not over:
                return 0
            self._db.execute("PRAGMA busy_timeout=10000")
            self._db.execute("BEGIN IMMEDIATE")
            for statement in _SEAL:
                self._db.execute(statement)
            self._db.execute("COMMIT")
            self._checkpoint()
        except sqlite3.Error as error:
            self._roll_back()
            raise Unavailable(f"the SQLite store could not be sealed: {error}") from error
        finally:
            self._db.execute("PRAGMA busy_timeout=0")
        return int(waiting)

    async def probe(self, *, thorough: bool = False) -> None:
        async with self._lock:
            try:
                self._check_place()
                await self._begin()
                turn = self._db.execute("PRAGMA user_version").fetchone()[
                    0
                ]  # a number SQLite keeps and nobody reads
                self._db.execute(f"PRAGMA user_version={(turn + 1) % 2**31}")
                await self._on_writer(lambda: self._db.execute("COMMIT"))
            except sqlite3.Error as error:
                await self._on_writer(self._roll_back)
                raise Unavailable(f"the SQLite store did not take a write: {error}") from error
        if thorough:
            await asyncio.to_thread(check_integrity, self._file)

    def _check_place(self) -> None:
        """The file that is open must be the one at its address, or what is written will not be found again."""
        try:
            found = os.stat(self._file)
        except OSError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != self._identity:
            raise Unavailable(
                "the data folder was moved or replaced under the running server; put it back or restart"
            )

    async def sweep(self) -> None:
        async with self._lock:
            await self._on_writer(self._checkpoint)

    async def erase(self, patience: float) -> Erasure:
        """`secure_delete` wrote zeros over the rows; what is left to do is to empty the write-ahead log."""
        ends = time.monotonic() + patience
        while True:
            try:
                async with self._lock:
                    if await self._on_writer(self._checkpoint):
                        return Erasure(
                            True, "no byte of its rows is left in the store's files; backups may have them"
                        )
            except Unavailable as error:
                return Erasure(False, f"the write-ahead log could not be emptied: {error}")
            if time.monotonic() >= ends:
                return Erasure(
                    False, "a reader keeps the write-ahead log from being emptied; the server does it when it ends"
                )
            await asyncio.sleep(0.1)

    def _checkpoint(self) -> bool:
        """Empty the write-ahead log; whether it is. A reader may hold it up; then the next one does it."""
        self._db.execute("PRAGMA busy_timeout=50")
        held, _, _ = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._db.execute("PRAGMA busy_timeout=0")
        return not held

    async def taken(self, campaign: int, minute: int) -> int:
        def count() -> int:
            with self._counting:
                return int(self._counter.execute(sql.TAKEN, (campaign, minute)).fetchone()[0])

        try:
            return await asyncio.to_thread(count)
        except sqlite3.Error as error:
            raise Unavailable(f"the SQLite store could not be read: {error}") from error

    async def publish(self, campaign: int, queries: list[tuple[Query, int]], known: int) -> None:
        rows = published_rows(campaign, queries, known)
        async with self._lock:
            try:
                await self._begin()
                self._db.execute(sql.UNPUBLISH, (campaign,))
                self._db.executemany(sql.PUBLISH, rows)
                await self._on_writer(lambda: self._db.execute("COMMIT"))
            except sqlite3.Error as error:
                await self._on_writer(self._roll_back)
                raise Unavailable(f"the SQLite store did not take the next queries: {error}") from error

    async def _read(self, statement: str, *values: object) -> list[Any]:
        try:
            return self._reader.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise Unavailable(f"the SQLite store could not be read: {error}") from error

    async def try_lead(self) -> bool:
        return True

    async def close(self) -> None:
        async with self._lock:
            await self._on_writer(self._checkpoint)
            for connection in (self._db, self._reader, self._counter):
                connection.close()
        self._writer.shutdown()

    async def _on_writer(self, work: Callable[[], T]) -> T:
        future = asyncio.get_running_loop().run_in_executor(self._writer, work)
        # A request that is cancelled must not leave the connection inside a half-run statement.
        return await asyncio.shield(future)
