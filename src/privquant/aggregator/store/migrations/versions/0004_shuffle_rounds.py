"""The rounds of campaigns in the shuffle model, and parts of batches that are not whole yet."""

import sqlalchemy as sa
from alembic import op

from privquant.aggregator.store.migrations import campaign_no, needed

revision = "0004_shuffle_rounds"
down_revision = "0003_pace"


def upgrade() -> None:
    op.create_table(
        "shuffled_round",
        campaign_no(),
        sa.Column("round", sa.Integer, primary_key=True),
        *needed(threshold=sa.BigInteger, envelope=sa.LargeBinary, state=sa.Text),
        *needed(noted=sa.SmallInteger, extended=sa.SmallInteger),
        sa.Column("batch", sa.Text),
        *needed(reports=sa.BigInteger, answered=sa.BigInteger, ones=sa.BigInteger),
    )
    op.create_table(
        "batch_part",
        campaign_no(),
        sa.Column("round", sa.Integer, primary_key=True),
        sa.Column("part", sa.Integer, primary_key=True),
        *needed(batch=sa.Text, sealed=sa.LargeBinary),
    )


def downgrade() -> None:
    op.drop_table("batch_part")
    op.drop_table("shuffled_round")
