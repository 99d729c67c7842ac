"""Everything that is not store, over SQLAlchemy: transactions, and what is read in more than one place."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import func, select, text, union_all
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from privquant.aggregator.store import schema
from privquant.aggregator.store.base import Counts
from privquant.errors import PrivquantError
from privquant.messages import Query
from privquant.wire import Manifest, fingerprint, open_envelope


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
    return open_envelope(envelope, campaign_id=manifest.id, key_fingerprint=mark)


async def read_counts(db: AsyncConnection, number: int, *, sealed_from: Any) -> list[Counts]:
    """Counts per query: from the count table, or summed anew from the log; fresh reports added."""
    keys = ("phase", "arm", "coin", "threshold")
    tail = schema.tail.c
    fresh = select(*(tail[k] for k in keys), func.count(), func.sum(tail.bit)).where(tail.campaign == number)
    fresh = fresh.group_by(*(tail[k] for k in keys))
    source = sealed_from.c
    if sealed_from is schema.count:
        sealed = select(*(source[k] for k in keys), source.answered, source.ones)
        sealed = sealed.where(source.campaign == number)
    else:
        sealed = select(*(source[k] for k in keys), func.count(), func.sum(source.bit))
        sealed = sealed.where(source.campaign == number).group_by(*(source[k] for k in keys))
    found: dict[Query, tuple[int, int]] = {}
    for phase, arm, coin, threshold, answered, ones in await db.execute(union_all(sealed, fresh)):
        query = Query(threshold, coin, phase, arm)
        n, s = found.get(query, (0, 0))
        found[query] = (n + int(answered), s + int(ones))
    return [Counts(query, n, s) for query, (n, s) in found.items()]


def as_dict(counts: list[Counts]) -> dict[Query, tuple[int, int]]:
    return {row.query: (row.answered, row.ones) for row in counts}


def published_rows(number: int, queries: list[tuple[Query, int]]) -> list[dict[str, int]]:
    return [
        {
            "campaign": number,
            "place": place,
            "phase": query.phase,
            "arm": query.arm,
            "coin": query.coin,
            "threshold": query.threshold,
            "users": users,
        }
        for place, (query, users) in enumerate(queries)
    ]


async def find_campaign(db: AsyncConnection, identity: str) -> tuple[int, str, Manifest]:
    table = schema.campaign
    row = (await db.execute(select(table).where(table.c.id == identity))).first()
    if row is None:
        raise UnknownCampaign(f"there is no campaign {identity!r:.80}")
    return row.no, row.state, manifest_of(bytes(row.envelope))


async def size_of(db: AsyncConnection, table: Any, number: int) -> int:
    found = await db.execute(select(func.count()).select_from(table).where(table.c.campaign == number))
    return int(found.scalar_one())
