"""Everything that is not store, over SQLAlchemy: transactions, and what is read in more than one place."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from privquant.aggregator.store import schema
from privquant.aggregator.store import statements as sql
from privquant.aggregator.store.base import Counts, counts_of, published_rows
from privquant.errors import PrivquantError
from privquant.messages import Query
from privquant.wire import Manifest, fingerprint, open_issued


class UnknownCampaign(PrivquantError):
    """There is no campaign with this id."""


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A transaction whose reads all see one moment."""
    if engine.dialect.name != "postgresql":
        async with engine.connect() as db:
            yield db
        return
    async with engine.execution_options(isolation_level="REPEATABLE READ").connect() as db:
        # TRUNCATE, which sealing ends with, does not respect snapshots. Lock first: the snapshot comes after it.
        await db.execute(text("LOCK TABLE tail IN ACCESS SHARE MODE"))
        yield db


@asynccontextmanager
async def writing(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A transaction that is committed at the end of the block."""
    async with engine.execution_options(writes=True).begin() as db:
        yield db


def manifest_of(envelope: bytes) -> Manifest:
    """The manifest of a stored envelope, with its signature checked."""
    form = json.loads(envelope)
    manifest = Manifest.from_dict(form["manifest"])
    mark = fingerprint(manifest.issuer)
    return open_issued(envelope, campaign_id=manifest.id, key_fingerprint=mark)


def is_shuffled(envelope: bytes) -> bool:
    """Whether a stored envelope is of the shuffle model, told without checking it."""
    return b'"version":2' in envelope


async def read_counts(db: AsyncConnection, number: int, *, statement: str = sql.COUNTS) -> list[Counts]:
    """Counts per query; by `COUNTS_FROM_LOG` summed anew from the log."""
    return counts_of((await db.execute(text(sql.for_sqlalchemy(statement)), {"p1": number})).all())


def as_dict(counts: list[Counts]) -> dict[Query, tuple[int, int]]:
    return {row.query: (row.answered, row.ones) for row in counts}


async def publish(db: AsyncConnection, number: int, queries: list[tuple[Query, int]]) -> None:
    """The first queries of a campaign."""
    rows = [
        {f"p{place}": value for place, value in enumerate(row, 1)} for row in published_rows(number, queries, 0)
    ]
    if rows:
        await db.execute(text(sql.for_sqlalchemy(sql.PUBLISH)), rows)


async def find_campaign(db: AsyncConnection, identity: str) -> tuple[Any, Manifest]:
    """The row of a campaign, and its manifest."""
    table = schema.campaign
    row = (await db.execute(select(table).where(table.c.id == identity))).first()
    if row is None:
        raise UnknownCampaign(f"there is no campaign {identity!r:.80}")
    return row, manifest_of(bytes(row.envelope))


async def size_of(db: AsyncConnection, table: Any, number: int) -> int:
    found = await db.execute(select(func.count()).select_from(table).where(table.c.campaign == number))
    return int(found.scalar_one())


async def issuers(engine: AsyncEngine) -> list[str]:
    """Fingerprints of the keys that signed campaigns which are not closed."""
    table = schema.campaign.c
    async with reading(engine) as db:
        rows = (await db.execute(select(table.envelope).where(table.state != "closed"))).all()
    return sorted({fingerprint(manifest_of(bytes(row.envelope)).issuer) for row in rows})
