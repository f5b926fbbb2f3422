"""Let jobs that would answer the same be found."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the fingerprint of what is asked."""
    op.add_column("jobs", sa.Column("fingerprint", sa.String(64)))
    op.create_index("ix_jobs_fingerprint", "jobs", ["fingerprint"])


def downgrade() -> None:
    """Remove it."""
    op.drop_index("ix_jobs_fingerprint", "jobs")
    op.drop_column("jobs", "fingerprint")
