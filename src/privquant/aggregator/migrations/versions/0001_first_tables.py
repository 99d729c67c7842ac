"""The first tables (see aggregator.store.schema for what each is for)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_Serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _campaign_no(primary: bool = False) -> sa.Column[int]:
    return sa.Column("campaign", sa.Integer, sa.ForeignKey("campaign.no"), nullable=False, primary_key=primary)


def _query(primary: bool = False) -> list[sa.Column[int]]:
    return [
        sa.Column("phase", sa.Integer, nullable=False, primary_key=primary),
        sa.Column("arm", sa.Integer, nullable=False, primary_key=primary),
        sa.Column("coin", sa.BigInteger, nullable=False, primary_key=primary),
        sa.Column("threshold", sa.BigInteger, nullable=False, primary_key=primary),
    ]


def upgrade() -> None:
    op.create_table(
        "campaign",
        sa.Column("no", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("envelope", sa.LargeBinary, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created", sa.Integer, nullable=False),
    )
    for name in ("token", "spent"):
        op.create_table(
            name,
            _campaign_no(primary=True),
            sa.Column("id", sa.LargeBinary, primary_key=True),
            sqlite_with_rowid=False,
        )
    op.create_table(
        "pin",
        _campaign_no(primary=True),
        sa.Column("id", sa.LargeBinary, primary_key=True),
        sa.Column("box", sa.LargeBinary, nullable=False),
        sa.Column("lease", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    for name in ("tail", "log"):
        op.create_table(
            name,
            sa.Column("no", _Serial, primary_key=True, autoincrement=True),
            _campaign_no(),
            *_query(),
            sa.Column("bit", sa.SmallInteger, nullable=False),
        )
    op.create_table(
        "count",
        _campaign_no(primary=True),
        *_query(primary=True),
        sa.Column("answered", sa.BigInteger, nullable=False),
        sa.Column("ones", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "published",
        _campaign_no(primary=True),
        sa.Column("place", sa.Integer, primary_key=True),
        *_query(),
        sa.Column("users", sa.Integer, nullable=False),
    )
    op.create_table(
        "link",
        _campaign_no(primary=True),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        sa.Column("places", sa.BigInteger, nullable=False),
        sa.Column("taken", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "operator",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("token", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("created", sa.Integer, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("no", _Serial, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Integer, nullable=False),
        sa.Column("operator", sa.Text, nullable=False),
        sa.Column("act", sa.Text, nullable=False),
        sa.Column("campaign", sa.Text),
        sa.Column("detail", sa.Text, nullable=False),
    )


def downgrade() -> None:
    for name in ("audit", "operator", "link", "published", "count", "log", "tail", "pin", "spent", "token"):
        op.drop_table(name)
    op.drop_table("campaign")
