"""Operators: who may act on campaigns, by a token of which only the hash is stored, and what they did."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Any

from privquant.aggregator.store import operator_queries as queries
from privquant.aggregator.store.operator_queries import Engine, reading, writing
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


async def add_operator(engine: Engine, name: str, role: str = "admin") -> str:
    """A new operator's token, shown this once."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"an operator's name is 1 to 50 of a-z 0-9 . _ -, got {name!r}")
    if role not in ROLES:
        raise InvalidInput(f"role must be one of {', '.join(ROLES)}, got {role!r}")
    token = "pqo_" + secrets.token_urlsafe(32)
    async with writing(engine) as db:
        if not await queries.insert_operator(db, name, _hashed(token), role):
            raise InvalidInput(f"there is an operator {name!r} already; remove it first")
        await queries.note(db, "local", "operator add", None, f"{name} ({role})")
    return token


async def remove_operator(engine: Engine, name: str) -> None:
    async with writing(engine) as db:
        if not await queries.delete_operator(db, name):
            raise InvalidInput(f"there is no operator {name!r}")
        await queries.note(db, "local", "operator remove", None, name)


async def list_operators(engine: Engine) -> list[dict[str, Any]]:
    async with reading(engine) as db:
        return await queries.all_operators(db)


async def who_is(engine: Engine, token: str) -> Operator | None:
    async with reading(engine) as db:
        found = await queries.operator_with(db, _hashed(token))
    return None if found is None else Operator(*found)


async def read_audit(engine: Engine, last: int = 100) -> list[dict[str, Any]]:
    """The last acts, newest first."""
    async with reading(engine) as db:
        return await queries.last_acts(db, last)
