"""Let the checks and profiles of a model be found, the newest first."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_INDEX = "ix_documents_kind_name_created_at"


def upgrade() -> None:
    """Add the index."""
    op.create_index(_INDEX, "documents", ["kind", "name", "created_at"])


def downgrade() -> None:
    """Remove it."""
    op.drop_index(_INDEX, "documents")
