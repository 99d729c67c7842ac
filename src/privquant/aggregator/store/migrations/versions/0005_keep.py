"""How long a closed campaign is kept, and since when it is closed."""

import sqlalchemy as sa
from alembic import op

revision = "0005_keep"
down_revision = "0004_shuffle_rounds"


def upgrade() -> None:
    # A campaign that is there already was promised no end: it is kept until an operator deletes it.
    op.add_column("campaign", sa.Column("keep_days", sa.Integer, nullable=True))
    op.add_column("campaign", sa.Column("closed", sa.Integer, nullable=True))


def downgrade() -> None:
    op.drop_column("campaign", "closed")
    op.drop_column("campaign", "keep_days")
