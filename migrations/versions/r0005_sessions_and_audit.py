"""Let browsers sign in, and keep who changed what."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(26), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("key_id", sa.String(26), nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("expires_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
        sa.UniqueConstraint("digest", name="uq_sessions_digest"),
        sa.ForeignKeyConstraint(
            ["key_id"], ["api_keys.id"], name="fk_sessions_key_id_api_keys", ondelete="CASCADE"
        ),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.String(26), nullable=False),
        sa.Column("at", moment, nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("key_id", sa.String(26)),
        sa.Column("action", sa.String(60), nullable=False),
        sa.Column("target", sa.String(100)),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("address", sa.String(100), nullable=False),
        sa.Column("request_id", sa.String(64)),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    for table, columns in (("sessions", ("key_id", "expires_at")), ("audit", ("at", "owner", "target"))):
        for column in columns:
            op.create_index(f"ix_{table}_{column}", table, [column])


def downgrade() -> None:
    """Drop them."""
    op.drop_table("audit")
    op.drop_table("sessions")
