"""What is shown of a campaign that runs (see aggregator.snapshots)."""

import sqlalchemy as sa
from alembic import op

from privquant.aggregator.store.migrations import campaign_no, needed

revision = "0002_snapshots"
down_revision = "0001"


def upgrade() -> None:
    kept = needed(shown_heard=sa.BigInteger, shown=sa.LargeBinary)
    coming = needed(coming_heard=sa.BigInteger, coming=sa.LargeBinary)
    op.create_table("snapshot", campaign_no(), *kept, *coming)


def downgrade() -> None:
    op.drop_table("snapshot")
