"""Alembic migrations of the store, run by every start and every operator command.

A version's file says what it does in full and never changes; here is only how they, and `schema`, spell columns.
"""

from typing import Any

import sqlalchemy as sa

# SQLite gives its own row number to a column of exactly this type; PostgreSQL a 64-bit sequence.
Serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def campaign_no(primary: bool = True) -> sa.Column[int]:
    return sa.Column("campaign", sa.Integer, sa.ForeignKey("campaign.no"), nullable=False, primary_key=primary)


def needed(primary: bool = False, **kinds: Any) -> list[sa.Column[Any]]:
    """Columns that always have a value, by name."""
    return [sa.Column(name, kind, nullable=False, primary_key=primary) for name, kind in kinds.items()]
