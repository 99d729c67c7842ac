"""Operators and the audit in the database. Of an operator's token only the hash is stored."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from privquant.aggregator.store import schema
from privquant.aggregator.store.operator_queries import Transaction

_operator = schema.operator


async def insert_operator(db: Transaction, name: str, hashed: bytes, role: str) -> bool:
    """False if there is an operator with this name."""
    try:
        await db.execute(insert(_operator).values(name=name, token=hashed, role=role, created=int(time.time())))
    except IntegrityError:
        return False
    return True


async def delete_operator(db: Transaction, name: str) -> bool:
    """False if there was none."""
    return bool((await db.execute(delete(_operator).where(_operator.c.name == name))).rowcount)


async def all_operators(db: Transaction) -> list[dict[str, Any]]:
    table = _operator.c
    rows = await db.execute(select(table.name, table.role, table.created).order_by(table.name))
    return [dict(row._mapping) for row in rows]


async def operator_with(db: Transaction, hashed: bytes) -> tuple[str, str] | None:
    """Name and role of the operator whose token has this hash."""
    table = _operator.c
    row = (await db.execute(select(table.name, table.role).where(table.token == hashed))).first()
    return None if row is None else (row.name, row.role)


async def note(db: Transaction, operator: str, act: str, campaign: str | None, detail: str = "") -> None:
    """Write an act down, in the transaction that does it."""
    values = {"operator": operator, "act": act, "campaign": campaign, "detail": detail}
    await db.execute(insert(schema.audit).values(at=int(time.time()), **values))


async def last_acts(db: Transaction, last: int) -> list[dict[str, Any]]:
    """Newest first."""
    table = schema.audit
    rows = await db.execute(select(table).order_by(table.c.no.desc()).limit(last))
    return [dict(row._mapping) for row in rows]
