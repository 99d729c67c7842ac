"""What the pace needs: its share, what is in flight, what queries follow from, and the term of a claim."""

import sqlalchemy as sa
from alembic import op

from privquant.aggregator.store.migrations import campaign_no, needed

revision = "0003_pace"
down_revision = "0002_snapshots"

_CLAIMED = sa.text("claim > 0")


def upgrade() -> None:
    # A campaign that runs already keeps to what its operator was told: no pace.
    op.add_column("campaign", sa.Column("pace", sa.Float, nullable=False, server_default="0"))
    op.add_column("published", sa.Column("heard", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("token", sa.Column("claim", sa.Integer, nullable=False, server_default="0"))
    op.create_index("token_claim", "token", ["campaign", "claim"], sqlite_where=_CLAIMED, postgresql_where=_CLAIMED)
    identity = sa.Column("id", sa.LargeBinary, primary_key=True)
    op.create_table("flight", campaign_no(), identity, *needed(age=sa.SmallInteger), sqlite_with_rowid=False)


def downgrade() -> None:
    op.drop_table("flight")
    op.drop_index("token_claim", "token")
    op.drop_column("token", "claim")
    op.drop_column("published", "heard")
    op.drop_column("campaign", "pace")
