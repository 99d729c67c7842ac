"""The rounds of campaigns in the shuffle model, and parts of batches that are not whole yet."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004_shuffle_rounds"
down_revision = "0003_pace"
branch_labels = None
depends_on = None


def _campaign_no() -> sa.Column[int]:
    return sa.Column("campaign", sa.Integer, sa.ForeignKey("campaign.no"), nullable=False, primary_key=True)


def upgrade() -> None:
    op.create_table(
        "shuffled_round",
        _campaign_no(),
        sa.Column("round", sa.Integer, primary_key=True),
        sa.Column("threshold", sa.BigInteger, nullable=False),
        sa.Column("envelope", sa.LargeBinary, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("noted", sa.SmallInteger, nullable=False),
        sa.Column("extended", sa.SmallInteger, nullable=False),
        sa.Column("batch", sa.Text),
        sa.Column("reports", sa.BigInteger, nullable=False),
        sa.Column("answered", sa.BigInteger, nullable=False),
        sa.Column("ones", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "batch_part",
        _campaign_no(),
        sa.Column("round", sa.Integer, primary_key=True),
        sa.Column("part", sa.Integer, primary_key=True),
        sa.Column("batch", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("batch_part")
    op.drop_table("shuffled_round")
