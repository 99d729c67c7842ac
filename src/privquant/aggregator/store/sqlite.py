"""What device requests need of the store on SQLite: a group of them in one transaction of the one writer."""

import asyncio
import os
import sqlite3
import threading
import time
from pathlib import Path
from secrets import SystemRandom
from typing import Any

from privquant.aggregator.campaign.states import COUNTS_REPORTS, GIVES_QUERIES
from privquant.aggregator.store import statements as sql
from privquant.aggregator.store.base import Admit, Ask, AskResult, DeviceStore, Erasure, Outcome, Pin, Spend
from privquant.messages import Query
from privquant.server.causes import Unavailable
from privquant.server.sqlite_file import OneWriter, check_integrity, connect

_PIN = """
INSERT INTO pin (campaign, id, box, lease)
SELECT ?1, ?2, ?3, ?4
WHERE EXISTS (SELECT 1 FROM token WHERE campaign = ?1 AND id = ?2 AND claim >= 0)
  AND NOT EXISTS (SELECT 1 FROM spent WHERE campaign = ?1 AND id = ?2)
ON CONFLICT DO NOTHING RETURNING (SELECT claim FROM token WHERE campaign = ?1 AND id = ?2)
"""
_KNOWN = """
SELECT EXISTS (SELECT 1 FROM spent WHERE campaign = ?1 AND id = ?2),
  (SELECT box FROM pin WHERE campaign = ?1 AND id = ?2), (SELECT claim FROM token WHERE campaign = ?1 AND id = ?2)
"""
_KEEP = "UPDATE token SET claim = 0 WHERE campaign = ? AND id = ?"
_IS_FLYING = "SELECT 1 FROM flight WHERE campaign = ? AND id = ?"
_TAKE_OFF = f"INSERT INTO flight (campaign, id, age) VALUES (?, ?, {sql.FRESH}) ON CONFLICT DO NOTHING"
_FLY_ON = f"UPDATE flight SET age = {sql.FRESH} WHERE campaign = ? AND id = ?"
_LAND = "DELETE FROM flight WHERE campaign = ? AND id = ?"
_SPEND = "INSERT INTO spent (campaign, id) VALUES (?, ?) ON CONFLICT DO NOTHING"
_UNPIN = "DELETE FROM pin WHERE campaign = ? AND id = ?"
_REPORT = "INSERT INTO tail (campaign, phase, arm, coin, threshold, bit) VALUES (?, ?, ?, ?, ?, ?)"
_IS_FULL = "SELECT taken >= places FROM link WHERE campaign = ?"
_TAKE = "UPDATE link SET taken = taken + 1 WHERE campaign = ?"
_ADMIT = """
INSERT INTO token (campaign, id, claim) VALUES (?1, ?2, ?3) ON CONFLICT (campaign, id) DO UPDATE SET claim = ?3
"""
_MAY_EXPIRE = "SELECT EXISTS (SELECT 1 FROM token WHERE campaign = ? AND claim > 0)"
_OVERDUE = "SELECT count(*) FROM token t WHERE t.campaign = link.campaign AND t.claim > 0 AND t.claim < ?1"
_TICK = ("UPDATE flight SET age = age - 1", "DELETE FROM flight WHERE age < 1")
_EXPIRE = (
    f"UPDATE link SET taken = taken - ({_OVERDUE})",
    "UPDATE token SET claim = -1 WHERE claim > 0 AND claim < ?1",
)
_STATE = "SELECT state FROM campaign WHERE no = ?"

# SQLite's random() is ChaCha20, keyed by the operating system.
_SEAL = (sql.LOG_TAIL.format(random="random()"), sql.COUNT_TAIL, "DELETE FROM tail")


class SqliteDeviceStore(OneWriter, DeviceStore):
    """The file is created and migrated already."""

    _NAME = "the SQLite store"

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._random = SystemRandom()
        self._counter, self._counting = connect(file), threading.Lock()
        self._file = file
        found = os.stat(file)
        self._identity = (found.st_dev, found.st_ino)

    async def commit(self, asks: list[Ask]) -> list[AskResult]:
        async with self._transaction("take the transaction"):
            return self._apply(asks)  # returns after the commit, which ends the block

    async def _begin(self) -> None:
        """The file that is open must be the one at its address, or what is written will not be found again."""
        try:
            found = os.stat(self._file)
        except OSError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != self._identity:
            raise Unavailable(
                "the data folder was moved or replaced under the running server; put it back or restart"
            )
        await super()._begin()

    def _apply(self, asks: list[Ask]) -> list[AskResult]:
        run = self.db.execute
        states: dict[int, str | None] = {}
        for number in {ask.campaign for ask in asks}:
            row = run(_STATE, (number,)).fetchone()
            states[number] = None if row is None else row[0]
        traffic: sql.GroupTraffic = {n: list(run(sql.IN_FLIGHT, (n,)).fetchone()) for n in self._limited(asks)}
        results: list[AskResult] = []
        counted: list[Spend] = []
        for ask in asks:
            if isinstance(ask, Spend):
                result = self._spend(ask, states[ask.campaign])
                if result.outcome is Outcome.COUNTED:
                    counted.append(ask)
            elif isinstance(ask, Pin):
                result = self._pin(ask, traffic)
            else:
                result = self._claim(ask, states[ask.campaign], traffic)
            results.append(result)
        spent = [(ask.campaign, ask.id) for ask in counted]
        self.db.executemany(_UNPIN, spent)
        self.db.executemany(_LAND, spent)
        self._random.shuffle(counted)
        queries = [(ask.campaign, ask.query, ask.bit) for ask in counted]
        self.db.executemany(_REPORT, [(no, q.phase, q.arm, q.coin, q.threshold, bit) for no, q, bit in queries])
        return results

    def _spend(self, ask: Spend, state: str | None) -> AskResult:
        key = (ask.campaign, ask.id)
        if state not in COUNTS_REPORTS:
            return AskResult(Outcome.SPENT if self._known(key)[0] else Outcome.CLOSED)
        return AskResult(Outcome.COUNTED if self.db.execute(_SPEND, key).rowcount else Outcome.SPENT)

    def _pin(self, ask: Pin, traffic: sql.GroupTraffic) -> AskResult:
        key = (ask.campaign, ask.id)
        if ask.box is not None and self._has_slot(ask, traffic):
            row = self.db.execute(_PIN, (*key, ask.box, ask.lease)).fetchone()
            if row is not None:
                if row[0]:
                    self.db.execute(_KEEP, key)
                self._take_off(ask, traffic)
                return AskResult(Outcome.PINNED, ask.box)
        return ask.not_given(*self._known(key))

    def _known(self, key: tuple[int, bytes]) -> Any:
        """What the tables say of a token: whether it is spent, the query it was given, its claim."""
        return self.db.execute(_KNOWN, key).fetchone()

    def _claim(self, ask: Admit, state: str | None, traffic: sql.GroupTraffic) -> AskResult:
        run, key = self.db.execute, (ask.campaign, ask.id)
        _, _, claim = self._known(key)
        if claim is not None and claim >= 0:
            return AskResult(Outcome.HAS)
        if state not in GIVES_QUERIES:
            return AskResult(Outcome.CLOSED)
        if run(_IS_FULL, (ask.campaign,)).fetchone()[0]:
            return AskResult(Outcome.WAIT if run(_MAY_EXPIRE, (ask.campaign,)).fetchone()[0] else Outcome.FULL)
        if not self._has_slot(ask, traffic):
            return AskResult(Outcome.WAIT)
        run(_TAKE, (ask.campaign,))
        run(_ADMIT, (*key, ask.term))
        self._take_off(ask, traffic)
        return AskResult(Outcome.COUNTED)

    def _has_slot(self, ask: Pin | Admit, traffic: sql.GroupTraffic) -> bool:
        """Whether there is a free slot, or the token has one: its claim took it."""
        if ask.limit is None or ask.limit.slots(*traffic[ask.campaign]) > 0:
            return True
        return self.db.execute(_IS_FLYING, (ask.campaign, ask.id)).fetchone() is not None

    def _take_off(self, ask: Pin | Admit, traffic: sql.GroupTraffic) -> None:
        key = (ask.campaign, ask.id)
        if ask.limit is None:
            return
        if self.db.execute(_TAKE_OFF, key).rowcount:
            traffic[ask.campaign][1] += 1
        else:
            self.db.execute(_FLY_ON, key)

    async def tick(self, minute: int) -> None:
        if not (await self._read(sql.TICK_DUE, minute))[0][0]:
            return
        async with self._transaction("age what is in flight"):
            for statement in _TICK:
                self.db.execute(statement)
            for statement in _EXPIRE:
                self.db.execute(statement, (minute,))

    async def seal(self, least: int) -> int:
        async with self._lock:
            return await self._on_writer(lambda: self._seal(least))

    def _seal(self, least: int) -> int:
        try:
            waiting, over = self.db.execute(sql.WAITING).fetchone()
            if waiting < max(1, least) and not over:
                return 0
            self.db.execute("PRAGMA busy_timeout=10000")
            self.db.execute("BEGIN IMMEDIATE")
            for statement in _SEAL:
                self.db.execute(statement)
            self.db.execute("COMMIT")
            self._checkpoint()
        except sqlite3.Error as error:
            self.db.rollback()
            raise Unavailable(f"{self._NAME} could not be sealed: {error}") from error
        finally:
            self.db.execute("PRAGMA busy_timeout=0")
        return int(waiting)

    async def probe(self, *, thorough: bool = False) -> None:
        await super().probe()
        if thorough:
            await asyncio.to_thread(check_integrity, self._file)

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

    async def taken(self, campaign: int, minute: int) -> int:
        def count() -> int:
            with self._counting:
                return int(self._counter.execute(sql.TAKEN, (campaign, minute)).fetchone()[0])

        try:
            return await asyncio.to_thread(count)
        except sqlite3.Error as error:
            raise Unavailable(f"{self._NAME} could not be read: {error}") from error

    async def publish(self, campaign: int, queries: list[tuple[Query, int]], known: int) -> None:
        rows = sql.published_rows(campaign, queries, known)
        async with self._transaction("take the next queries"):
            self.db.execute(sql.UNPUBLISH, (campaign,))
            self.db.executemany(sql.PUBLISH, rows)

    async def _read(self, statement: str, *values: object) -> list[Any]:
        return self.read(statement, *values)

    async def try_lead(self) -> bool:
        return True

    async def close(self) -> None:
        await super().close()
        self._counter.close()
