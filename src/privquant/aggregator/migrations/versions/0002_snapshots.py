"""What is shown of a campaign that runs (see aggregator.snapshots)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002_snapshots"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "snapshot",
        sa.Column("campaign", sa.Integer, sa.ForeignKey("campaign.no"), nullable=False, primary_key=True),
        sa.Column("shown_heard", sa.BigInteger, nullable=False),
        sa.Column("shown", sa.LargeBinary, nullable=False),
        sa.Column("coming_heard", sa.BigInteger, nullable=False),
        sa.Column("coming", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("snapshot")
