"""Open the database for operators, creating and migrating it first."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, TypeVar

from sqlalchemy import Connection, event, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from privquant.aggregator.settings import Settings
from privquant.errors import InvalidInput, PrivquantError
from privquant.server.sqlite_file import PRAGMAS

T = TypeVar("T")

# Any fixed number will do; it only has to be the same in every process.
MIGRATION_LOCK = 0x7071_0001
PUBLISHER_LOCK = 0x7071_0002
PACE_LOCK = 0x7071_0003

HEAD = "0005_keep"
"""The newest migration; a test holds it to what the folder says."""

OLDEST_SQLITE = (3, 35, 0)
"""The first with RETURNING."""


class SchemaTooNew(PrivquantError):
    """The tables were made by a newer version."""


def open_engine(settings: Settings) -> AsyncEngine:
    """An engine whose transactions are real ones: on SQLite reads see one snapshot and writes start as writes."""
    if settings.database:
        import asyncpg

        async def connect() -> Any:
            # The driver reads the address, as in PostgresDeviceStore.
            return await asyncpg.connect(settings.database, timeout=5)

        return create_async_engine(
            "postgresql+asyncpg://", async_creator=connect, pool_size=4, max_overflow=4, pool_pre_ping=True
        )
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise InvalidInput(
            f"SQLite 3.35 or newer is needed, this Python has {sqlite3.sqlite_version}; or use --database postgresql://"
        )
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not settings.sqlite_file.exists():
        os.close(os.open(settings.sqlite_file, os.O_CREAT | os.O_RDWR, 0o600))
    engine = create_async_engine(f"sqlite+aiosqlite:///{settings.sqlite_file}")

    @event.listens_for(engine.sync_engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver's own transactions start too late to be snapshots
        cursor = connection.cursor()
        for pragma in PRAGMAS:
            cursor.execute(pragma)
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def on_begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


@asynccontextmanager
async def untouched(settings: Settings) -> AsyncIterator[AsyncEngine]:
    """The database of these settings as it is, for the length of a block."""
    engine = open_engine(settings)
    try:
        yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[AsyncEngine]:
    """The database of these settings, with its tables brought to this version, for the length of a block."""
    async with untouched(settings) as engine:
        await migrate(engine)
        yield engine


def on_store(settings: Settings, work: Callable[[AsyncEngine], Awaitable[T]]) -> T:
    """What the work returns that is done on the database of these settings, for callers without an event loop."""

    async def run() -> T:
        async with opened(settings) as engine:
            return await work(engine)

    return asyncio.run(run())


async def migrate(engine: AsyncEngine) -> None:
    """Bring the tables to this version; several processes may do so at once."""
    async with engine.execution_options(writes=True).begin() as connection:
        if engine.dialect.name == "postgresql":
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
        if await connection.run_sync(_found) != HEAD:
            await connection.run_sync(_upgrade)


def _found(connection: Connection) -> str | None:
    """The schema that the tables have, found out without loading Alembic: restarts are to be quick."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _upgrade(connection: Connection) -> None:
    from alembic import command

    found, known = _revisions(connection)
    if found is not None and found not in known:
        raise SchemaTooNew(
            f"the tables are of schema {found}, which this version does not know: it knows up to {HEAD}. They were "
            "made by a newer version: start that one, or turn them back with it (docs/production.md)"
        )
    command.upgrade(_config(connection), "head")


async def schema_of(engine: AsyncEngine) -> tuple[str | None, list[str]]:
    """The schema the tables have (None: there are none), and those this version knows, oldest first."""
    async with engine.connect() as connection:
        return await connection.run_sync(_revisions)


async def turn_back(engine: AsyncEngine, target: str) -> None:
    """Bring the tables back to an older schema, for an older version to use. What they held beyond it is lost."""
    from alembic import command

    found, known = await schema_of(engine)
    older = known[: known.index(found)] if found in known else []
    if target not in older:
        possible = ", ".join(older) or "nothing older"
        raise InvalidInput(f"the tables are of schema {found}; they can be turned back to {possible}")
    async with engine.execution_options(writes=True).begin() as connection:
        await connection.run_sync(lambda c: command.downgrade(_config(c), target))


def _revisions(connection: Connection) -> tuple[str | None, list[str]]:
    from alembic.script import ScriptDirectory

    known = [each.revision for each in ScriptDirectory.from_config(_config(connection)).walk_revisions()]
    return _found(connection), known[::-1]


def _config(connection: Connection) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(files("privquant.aggregator.store") / "migrations"))
    config.attributes["connection"] = connection
    return config
