"""What device requests need of the store on PostgreSQL: the same transaction, as statements over arrays.

Several processes run these at once. Rows are inserted in the order of their keys, so two groups with the same
tokens queue up rather than lock each other out; should the database still see a deadlock, the group is run again.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from secrets import SystemRandom
from typing import Any

import asyncpg

from privquant.aggregator.campaign.states import COUNTS_REPORTS, GIVES_QUERIES
from privquant.aggregator.store import statements as sql
from privquant.aggregator.store.base import Admit, Ask, AskResult, DeviceStore, Erasure, Outcome, Pin, Spend
from privquant.aggregator.store.migrate import PACE_LOCK, PUBLISHER_LOCK
from privquant.aggregator.store.postgres_erase import TABLES, Renewed, rewrite
from privquant.messages import Query
from privquant.server.causes import Unavailable

# Of the pins that are made, those with a limit take off.
_PIN = f"""
WITH made AS (
  INSERT INTO pin (campaign, id, box, lease)
  SELECT g.campaign, g.id, g.box, g.lease
  FROM unnest($1::int[], $2::bytea[], $3::bytea[], $4::int[]) AS g(campaign, id, box, lease)
  WHERE EXISTS (SELECT 1 FROM token t WHERE t.campaign = g.campaign AND t.id = g.id AND t.claim >= 0)
    AND NOT EXISTS (SELECT 1 FROM spent s WHERE s.campaign = g.campaign AND s.id = g.id)
  ORDER BY g.campaign, g.id
  ON CONFLICT DO NOTHING RETURNING campaign, id
), taken_off AS (
  INSERT INTO flight (campaign, id, age)
  SELECT campaign, id, {sql.FRESH} FROM made WHERE campaign = ANY($5::int[]) ORDER BY campaign, id
  ON CONFLICT (campaign, id) DO UPDATE SET age = {sql.FRESH}
)
SELECT campaign, id FROM made
"""
_KNOWN = """
SELECT g.campaign, g.id, p.box, s.id IS NOT NULL AS spent, t.claim, f.id IS NOT NULL AS flying
FROM (SELECT DISTINCT * FROM unnest($1::int[], $2::bytea[]) AS u(campaign, id)) AS g
LEFT JOIN pin p ON p.campaign = g.campaign AND p.id = g.id
LEFT JOIN spent s ON s.campaign = g.campaign AND s.id = g.id
LEFT JOIN token t ON t.campaign = g.campaign AND t.id = g.id
LEFT JOIN flight f ON f.campaign = g.campaign AND f.id = g.id
"""
_TAKE_OFF = f"""
INSERT INTO flight (campaign, id, age) VALUES ($1, $2, {sql.FRESH})
ON CONFLICT (campaign, id) DO UPDATE SET age = {sql.FRESH}
"""
_KEEP = """
UPDATE token t SET claim = 0 FROM unnest($1::int[], $2::bytea[]) AS g(campaign, id)
WHERE t.campaign = g.campaign AND t.id = g.id AND t.claim > 0
"""
# What is counted is counted for campaigns with a limit only.
_STATES = f"""
SELECT c.no, c.state, t.heard, t.flying FROM campaign c LEFT JOIN LATERAL (
  {sql.IN_FLIGHT.replace("?1", "c.no")}
) AS t(heard, flying) ON c.no = ANY($2::int[])
WHERE c.no = ANY($1::int[]) ORDER BY c.no FOR SHARE OF c
"""
_SPEND = """
WITH g AS (
  SELECT * FROM unnest($1::int[], $2::bytea[]) AS u(campaign, id)
), landed AS (
  DELETE FROM flight f USING g WHERE f.campaign = g.campaign AND f.id = g.id
), unpinned AS (
  DELETE FROM pin p USING g WHERE p.campaign = g.campaign AND p.id = g.id
)
INSERT INTO spent (campaign, id) SELECT campaign, id FROM g ORDER BY campaign, id
ON CONFLICT DO NOTHING RETURNING campaign, id
"""
_REPORT = """
INSERT INTO tail (campaign, phase, arm, coin, threshold, bit)
SELECT * FROM unnest($1::int[], $2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::smallint[])
"""
_IS_FULL = "SELECT taken >= places FROM link WHERE campaign = $1 FOR UPDATE"
_TAKE = "UPDATE link SET taken = taken + 1 WHERE campaign = $1"
_ADMIT = """
INSERT INTO token AS t (campaign, id, claim) VALUES ($1, $2, $3)
ON CONFLICT (campaign, id) DO UPDATE SET claim = $3 WHERE t.claim < 0 RETURNING 1
"""
_MAY_EXPIRE = "SELECT EXISTS (SELECT 1 FROM token WHERE campaign = $1 AND claim > 0)"

# Rows that a group is at work on are left for the next tick: a group never waits for a tick, nor a tick for it.
_TICK = (
    """
    UPDATE flight SET age = age - 1
    WHERE (campaign, id) IN (SELECT campaign, id FROM flight FOR UPDATE SKIP LOCKED)
    """,
    """
    DELETE FROM flight
    WHERE (campaign, id) IN (SELECT campaign, id FROM flight WHERE age < 1 FOR UPDATE SKIP LOCKED)
    """,
)
_EXPIRE = """
WITH expired AS (
  UPDATE token SET claim = -1 WHERE (campaign, id) IN (
    SELECT campaign, id FROM token WHERE claim > 0 AND claim < $1 FOR UPDATE SKIP LOCKED
  ) RETURNING campaign
)
UPDATE link l SET taken = l.taken - e.places
FROM (SELECT campaign, count(*) AS places FROM expired GROUP BY campaign) AS e WHERE l.campaign = e.campaign
"""

_SEAL = (
    # gen_random_uuid() draws from the operating system; random() does not.
    sql.LOG_TAIL.format(random="gen_random_uuid()"),
    sql.COUNT_TAIL,
    # Not DELETE: a truncated table gets a new file, and what the old rows remember of their transactions goes.
    "TRUNCATE tail",
)

_AGAIN = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_GONE = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)

_PROBE_SECONDS = 5.0
# To plan a group's statements anew takes the database as long as to run them. A plan that is kept may be one of a
# moment when the tables were empty; it must not be to read them from end to end.
_PLANNER = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}

_ELSEWHERE = (
    "no byte of its rows is left in the files of tables and indexes; PostgreSQL's write-ahead log until its "
    "segments are reused, archives of it, standbys and backups may still have them"
)
_BY_HAND = "run VACUUM FULL in this database, as its owner, when nothing else uses it"

Key = tuple[int, bytes]


def _has_slot(ask: Pin, known: Any, traffic: sql.GroupTraffic) -> bool:
    """Whether a token may be given the query it was offered; if so, what is in flight counts it from now on."""
    if known["spent"] or known["box"] is not None or known["claim"] is None or known["claim"] < 0:
        return False
    if known["flying"]:
        return True
    assert ask.limit is not None
    if ask.limit.slots(*traffic[ask.campaign]) < 1:
        return False
    traffic[ask.campaign][1] += 1
    return True


def _columns(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows as the arrays that a statement takes, one a column."""
    return [list(column) for column in zip(*rows)]


class _Connection(asyncpg.Connection):  # type: ignore[misc]
    """One of a pool, which has nothing to be reset after use: all that is set is set for a transaction."""

    def get_reset_query(self) -> str:
        return ""


class PostgresDeviceStore(DeviceStore):
    """A small pool for groups, and one connection of its own for the publisher's lock."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()
        self._random = SystemRandom()
        self._leader: asyncpg.Connection | None = None
        self._leads = False
        self._pins = Renewed("pin")

    async def _connections(self) -> asyncpg.Pool:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._dsn,
                    min_size=1,
                    max_size=4,
                    timeout=5,
                    command_timeout=30,
                    connection_class=_Connection,
                    server_settings=_PLANNER,
                )
            return self._pool

    @asynccontextmanager
    async def _connected(self, what: str, *passed: type[Exception]) -> AsyncIterator[Any]:
        """A connection for a block. `what` is said of the store if the database fails in it, except as `passed`."""
        try:
            pool = await self._connections()
            async with pool.acquire() as db:
                yield db
        except passed:
            raise
        except _GONE as error:
            raise Unavailable(f"the PostgreSQL store {what}: {type(error).__name__}") from error

    async def commit(self, asks: list[Ask]) -> list[AskResult]:
        for _ in range(5):
            try:
                async with self._connected("did not take the transaction", *_AGAIN) as db:
                    return await self._transact(db, asks)
            except _AGAIN:
                continue
        raise Unavailable("PostgreSQL gave the transaction up five times over locks")

    async def _transact(self, db: Any, asks: list[Ask]) -> list[AskResult]:
        """One transaction. First it locks the campaigns whose slots it needs, in one order, against deadlocks.

        After that no other transaction adds to what is in flight there.
        """
        limited = self._limited(asks)
        locks = "".join(f"; SELECT pg_advisory_xact_lock({PACE_LOCK}, {number})" for number in limited)
        await db.execute(f"BEGIN{locks}")  # in one trip; numbers are the store's own
        try:
            outcomes = await self._apply(db, asks, limited)
        except BaseException:
            with suppress(*_GONE):
                await db.execute("ROLLBACK")
            raise
        await db.execute("COMMIT")
        return outcomes

    async def _apply(self, db: Any, asks: list[Ask], limited: list[int]) -> list[AskResult]:
        rows = await db.fetch(_STATES, sorted({ask.campaign for ask in asks}), limited)
        states: dict[int, str] = {row[0]: row[1] for row in rows}
        traffic: sql.GroupTraffic = {row[0]: [row[2], row[3]] for row in rows if row[2] is not None}
        claims = [await self._claim(db, ask, states, traffic) for ask in asks if isinstance(ask, Admit)]
        pins = await self._pin(db, [ask for ask in asks if isinstance(ask, Pin)], traffic)
        spends = await self._spend(db, [ask for ask in asks if isinstance(ask, Spend)], states)
        results = {Admit: iter(claims), Pin: iter(pins), Spend: iter(spends)}
        return [next(results[type(ask)]) for ask in asks]

    async def _pin(self, db: Any, pins: list[Pin], traffic: sql.GroupTraffic) -> list[AskResult]:
        # Of two asks for one token in a group the first offers its box; both are answered with what is stored.
        offers: dict[Key, Pin] = {}
        for ask in pins:
            if ask.box is not None:
                offers.setdefault((ask.campaign, ask.id), ask)
        known = await self._known(db, [key for key, ask in offers.items() if ask.limit is not None])
        given = [ask for key, ask in offers.items() if ask.limit is None or _has_slot(ask, known[key], traffic)]
        made: set[Key] = set()
        if given:
            offered = _columns((a.campaign, a.id, a.box, a.lease) for a in given)
            rows = await db.fetch(_PIN, *offered, list(traffic))
            made = {(row[0], row[1]) for row in rows}
            held = sorted(key for key in made if key not in known or known[key]["claim"])
            if held:
                await db.execute(_KEEP, *_columns(held))
        keys = [(ask.campaign, ask.id) for ask in pins]
        known |= await self._known(db, [key for key in keys if key not in made and key not in known])

        def result(key: Key, ask: Pin) -> AskResult:
            if key in made:
                return AskResult(Outcome.PINNED if offers[key] is ask else Outcome.HAS, offers[key].box)
            return ask.not_given(known[key]["spent"], known[key]["box"], known[key]["claim"])

        return [result(key, ask) for key, ask in zip(keys, pins, strict=True)]

    async def _known(self, db: Any, keys: list[Key]) -> dict[Key, Any]:
        """What the tables say of these tokens."""
        if not keys:
            return {}
        rows = await db.fetch(_KNOWN, *_columns(keys))
        return {(row[0], row[1]): row for row in rows}

    async def _spend(self, db: Any, spends: list[Spend], states: dict[int, str]) -> list[AskResult]:
        # Of two asks for one token in a group the first is counted.
        live: dict[Key, Spend] = {}
        over: list[Key] = []
        for ask in spends:
            if states.get(ask.campaign) in COUNTS_REPORTS:
                live.setdefault((ask.campaign, ask.id), ask)
            else:
                over.append((ask.campaign, ask.id))
        rows = await db.fetch(_SPEND, *_columns(live)) if live else []
        fresh = [live[row[0], row[1]] for row in rows]
        if fresh:
            self._random.shuffle(fresh)
            queries = [(ask.campaign, ask.query, ask.bit) for ask in fresh]
            await db.execute(
                _REPORT, *_columns((no, q.phase, q.arm, q.coin, q.threshold, bit) for no, q, bit in queries)
            )
        counted = {id(ask) for ask in fresh}
        known = await self._known(db, over)

        def outcome(ask: Spend) -> Outcome:
            if id(ask) in counted:
                return Outcome.COUNTED
            row = known.get((ask.campaign, ask.id))
            return Outcome.SPENT if row is None or row["spent"] else Outcome.CLOSED

        return [AskResult(outcome(ask)) for ask in spends]

    async def _claim(self, db: Any, ask: Admit, states: dict[int, str], traffic: sql.GroupTraffic) -> AskResult:
        key = (ask.campaign, ask.id)
        known = (await self._known(db, [key]))[key]
        if known["claim"] is not None and known["claim"] >= 0:
            return AskResult(Outcome.HAS)
        if states.get(ask.campaign) not in GIVES_QUERIES:
            return AskResult(Outcome.CLOSED)
        if await db.fetchval(_IS_FULL, ask.campaign):
            return AskResult(Outcome.WAIT if await db.fetchval(_MAY_EXPIRE, ask.campaign) else Outcome.FULL)
        if ask.limit is not None and ask.limit.slots(*traffic[ask.campaign]) < 1:
            return AskResult(Outcome.WAIT)
        if await db.fetchval(_ADMIT, ask.campaign, ask.id, ask.term) is None:
            return AskResult(Outcome.HAS)
        await db.execute(_TAKE, ask.campaign)
        if ask.limit is not None:
            await db.execute(_TAKE_OFF, *key)
            traffic[ask.campaign][1] += 1
        return AskResult(Outcome.COUNTED)

    async def tick(self, minute: int) -> None:
        if not (await self._read(sql.TICK_DUE, minute))[0][0]:
            return
        async with self._connected("did not age what is in flight") as db, db.transaction():
            for statement in _TICK:
                await db.execute(statement)
            await db.execute(_EXPIRE, minute)

    async def seal(self, least: int) -> int:
        try:
            async with (
                self._connected("could not be sealed", asyncpg.LockNotAvailableError) as db,
                db.transaction(),
            ):
                waiting, over = await db.fetchrow(sql.WAITING)
                if waiting < max(1, least) and not over:
                    return 0
                # Writers queue behind this lock, so it is not waited for: the next call may have it.
                await db.execute("SET LOCAL lock_timeout = '100ms'")
                await db.execute("LOCK TABLE tail IN ACCESS EXCLUSIVE MODE")
                waiting, _ = await db.fetchrow(sql.WAITING)
                for statement in _SEAL:
                    await db.execute(statement)
            return int(waiting)
        except asyncpg.LockNotAvailableError:
            return 0

    async def probe(self, *, thorough: bool = False) -> None:
        async with self._connected("did not take a write") as db, asyncio.timeout(_PROBE_SECONDS), db.transaction():
            # A record in the write-ahead log that no table hears of; its commit is as durable as any.
            await db.execute("SELECT pg_logical_emit_message(true, 'privquant', '')")
            if thorough:
                await db.execute("CREATE TEMP TABLE probe ON COMMIT DROP AS SELECT generate_series(1, 10000) AS n")

    async def sweep(self) -> None:
        """Pins of spent tokens (two processes may leave one), and what erased pins left in the files."""
        async with self._connected("could not be swept") as db:
            await db.execute("DELETE FROM pin p USING spent s WHERE p.campaign = s.campaign AND p.id = s.id")
            await self._pins.renew(db)
            await db.execute("VACUUM flight")

    async def erase(self, patience: float) -> Erasure:
        try:
            left = await rewrite(self._dsn, TABLES, patience)
        except _GONE as error:
            return Erasure(False, f"the tables could not be rewritten ({type(error).__name__}); {_BY_HAND}")
        if left:
            return Erasure(
                False,
                f"bytes of its rows may remain in the files of {', '.join(left)}, because they are in use by an "
                f"older transaction, or belong to another user; {_BY_HAND}",
            )
        return Erasure(True, _ELSEWHERE)

    async def publish(self, campaign: int, queries: list[tuple[Query, int]], known: int) -> None:
        rows = sql.published_rows(campaign, queries, known)
        async with self._connected("did not take the next queries") as db, db.transaction():
            # Two publishers may overlap for a moment; the later one's queries stay.
            await db.execute("SELECT 1 FROM campaign WHERE no = $1 FOR NO KEY UPDATE", campaign)
            await db.execute(sql.for_postgres(sql.UNPUBLISH), campaign)
            await db.executemany(sql.for_postgres(sql.PUBLISH), rows)

    async def _read(self, statement: str, *values: object) -> list[Any]:
        async with self._connected("could not be read") as db:
            found: list[Any] = await db.fetch(sql.for_postgres(statement), *values)
        return found

    async def try_lead(self) -> bool:
        """The lock belongs to a connection, so it is given up by dying."""
        try:
            if self._leader is None or self._leader.is_closed():
                self._leads = False
                self._leader = await asyncpg.connect(self._dsn, timeout=5, command_timeout=10)
            if self._leads:
                await self._leader.execute("SELECT 1")
            else:  # asked again over the same connection: to open one takes as long as a hundred questions
                self._leads = await self._leader.fetchval("SELECT pg_try_advisory_lock($1)", PUBLISHER_LOCK)
            return self._leads
        except _GONE as error:
            if self._leader is not None:
                self._leader.terminate()
            self._leader = None
            raise Unavailable(f"PostgreSQL does not answer: {type(error).__name__}") from error

    async def close(self) -> None:
        if self._leader is not None:
            await self._leader.close()
        if self._pool is not None:
            self._pool.terminate()
