"""Operators: who may act on campaigns, by a token of which only the hash is stored, and what they did."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from privquant.aggregator.store import schema
from privquant.aggregator.store.operator_queries import reading, writing
from privquant.errors import InvalidInput

ROLES = ("admin", "viewer")
"""admin: everything. viewer: may look, not change."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,49}")


@dataclass(frozen=True, slots=True)
class Operator:
    name: str
    role: str


def _hashed(token: str) -> bytes:
    # The token has 256 random bits, so a plain hash cannot be guessed back.
    return hashlib.sha256(b"privquant/operator/1\x00" + token.encode()).digest()


async def add_operator(engine: AsyncEngine, name: str, role: str = "admin") -> str:
    """A new operator's token, shown this once."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"an operator's name is 1 to 50 of a-z 0-9 . _ -, got {name!r}")
    if role not in ROLES:
        raise InvalidInput(f"role must be one of {', '.join(ROLES)}, got {role!r}")
    token = "pqo_" + secrets.token_urlsafe(32)
    try:
        async with writing(engine) as db:
            await db.execute(
                insert(schema.operator).values(name=name, token=_hashed(token), role=role, created=int(time.time()))
            )
            await note(db, "local", "operator add", None, f"{name} ({role})")
    except IntegrityError as error:
        raise InvalidInput(f"there is an operator {name!r} already; remove it first") from error
    return token


async def remove_operator(engine: AsyncEngine, name: str) -> None:
    async with writing(engine) as db:
        gone = await db.execute(delete(schema.operator).where(schema.operator.c.name == name))
        if gone.rowcount == 0:
            raise InvalidInput(f"there is no operator {name!r}")
        await note(db, "local", "operator remove", None, name)


async def list_operators(engine: AsyncEngine) -> list[dict[str, Any]]:
    table = schema.operator.c
    async with reading(engine) as db:
        rows = await db.execute(select(table.name, table.role, table.created).order_by(table.name))
        return [dict(row._mapping) for row in rows]


async def who_is(engine: AsyncEngine, token: str) -> Operator | None:
    table = schema.operator.c
    async with reading(engine) as db:
        found = await db.execute(select(table.name, table.role).where(table.token == _hashed(token)))
        row = found.first()
    return None if row is None else Operator(row.name, row.role)


async def note(db: AsyncConnection, operator: str, act: str, campaign: str | None, detail: str = "") -> None:
    """Write an act down, in the transaction that does it."""
    await db.execute(
        insert(schema.audit).values(
            at=int(time.time()), operator=operator, act=act, campaign=campaign, detail=detail
        )
    )


async def read_audit(engine: AsyncEngine, last: int = 100) -> list[dict[str, Any]]:
    """The last acts, newest first."""
    table = schema.audit
    async with reading(engine) as db:
        rows = await db.execute(select(table).order_by(table.c.no.desc()).limit(last))
        return [dict(row._mapping) for row in rows]
