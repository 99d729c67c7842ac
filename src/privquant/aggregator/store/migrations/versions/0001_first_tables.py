"""The first tables (see aggregator.store.schema for what each is for)."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from privquant.aggregator.store.migrations import Serial, campaign_no, needed

revision = "0001"
down_revision = None

_QUERY: dict[str, Any] = {"phase": sa.Integer, "arm": sa.Integer, "coin": sa.BigInteger, "threshold": sa.BigInteger}


def _number() -> sa.Column[int]:
    return sa.Column("no", Serial, primary_key=True, autoincrement=True)


def upgrade() -> None:
    op.create_table(
        "campaign",
        sa.Column("no", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        *needed(envelope=sa.LargeBinary, state=sa.Text, created=sa.Integer),
    )
    of_pins: dict[str, Any] = {"box": sa.LargeBinary, "lease": sa.Integer}
    for name, more in {"token": {}, "spent": {}, "pin": of_pins}.items():
        identity = sa.Column("id", sa.LargeBinary, primary_key=True)
        op.create_table(name, campaign_no(), identity, *needed(**more), sqlite_with_rowid=False)
    for name in ("tail", "log"):
        op.create_table(name, _number(), campaign_no(False), *needed(**_QUERY, bit=sa.SmallInteger))
    counted = needed(answered=sa.BigInteger, ones=sa.BigInteger)
    op.create_table("count", campaign_no(), *needed(True, **_QUERY), *counted, sqlite_with_rowid=False)
    place = sa.Column("place", sa.Integer, primary_key=True)
    op.create_table("published", campaign_no(), place, *needed(**_QUERY, users=sa.Integer))
    op.create_table(
        "link", campaign_no(), *needed(secret=sa.LargeBinary, places=sa.BigInteger, taken=sa.BigInteger)
    )
    op.create_table(
        "operator",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("token", sa.LargeBinary, nullable=False, unique=True),
        *needed(role=sa.Text, created=sa.Integer),
    )
    op.create_table(
        "audit",
        _number(),
        *needed(at=sa.Integer, operator=sa.Text, act=sa.Text),
        sa.Column("campaign", sa.Text),
        *needed(detail=sa.Text),
    )


def downgrade() -> None:
    for name in ("audit", "operator", "link", "published", "count", "log", "tail", "pin", "spent", "token"):
        op.drop_table(name)
    op.drop_table("campaign")
