"""Start with studies, documents and idempotency keys."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the first tables."""
    _create_studies()
    _create_documents()
    _create_idempotency_keys()


def downgrade() -> None:
    """Drop everything."""
    for table in ("idempotency_keys", "documents", "studies"):
        op.drop_table(table)


def _create_studies() -> None:
    op.create_table(
        "studies",
        sa.Column("id", sa.String(26), nullable=False),
        sa.Column("name", sa.String(200)),
        sa.Column("created_by", sa.String(200), nullable=False),
        sa.Column("status", sa.String(40), nullable=False),
        sa.Column("waiting_for", sa.String(500)),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("cluster", sa.String(200), nullable=False),
        sa.Column("devices", sa.BigInteger(), nullable=False),
        sa.Column("mini_batch_size", sa.BigInteger(), nullable=False),
        sa.Column("answer", sa.JSON()),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("plan", sa.JSON()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_studies"),
    )
    op.create_index("ix_studies_status_id", "studies", ["status", "id"])
    op.create_index("ix_studies_model_id", "studies", ["model", "id"])


def _create_documents() -> None:
    op.create_table(
        "documents",
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("created_by", sa.String(200), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("kind", "id", name="pk_documents"),
    )
    op.create_index("ix_documents_created_at", "documents", ["created_at"])


def _create_idempotency_keys() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("token", sa.String(32), nullable=False),
        sa.Column("locked_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("headers", sa.JSON()),
        sa.Column("body", sa.LargeBinary()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("owner", "key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"])
