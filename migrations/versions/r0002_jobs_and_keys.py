"""Add jobs with their history and attachments, workers, and API keys."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    _create_jobs()
    _create_job_events()
    _create_job_attachments()
    _create_workers()
    _create_api_keys()


def downgrade() -> None:
    """Drop them."""
    for table in ("api_keys", "workers", "job_attachments", "job_events", "jobs"):
        op.drop_table(table)


def _create_jobs() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(26), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("status", sa.String(40), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("created_by", sa.String(200), nullable=False),
        sa.Column("study_id", sa.String(26)),
        sa.Column("pool", sa.String(100), nullable=False),
        sa.Column("devices", sa.BigInteger(), nullable=False),
        sa.Column("accelerator", sa.String(200)),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("worker_id", sa.String(26)),
        sa.Column("taken_from", sa.String(26)),
        sa.Column("lease_token", sa.String(32)),
        *(sa.Column(name, moment) for name in ("lease_expires_at", "cancel_requested_at")),
        *(sa.Column(name, sa.JSON()) for name in ("progress", "result", "error")),
        sa.Column("created_at", moment, nullable=False),
        *(sa.Column(name, moment) for name in ("started_at", "finished_at")),
        sa.Column("updated_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("lease_token", name="uq_jobs_lease_token"),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name="fk_jobs_study_id_studies", ondelete="SET NULL"
        ),
    )
    op.create_index("ix_jobs_status_priority_id", "jobs", ["status", "priority", "id"])
    for column in ("study_id", "worker_id", "finished_at"):
        op.create_index(f"ix_jobs_{column}", "jobs", [column])


def _create_job_events() -> None:
    op.create_table(
        "job_events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("job_id", sa.String(26), nullable=False),
        sa.Column("event", sa.String(40), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("worker_id", sa.String(26)),
        sa.Column("details", sa.JSON()),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_job_events"),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_job_events_job_id_jobs", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_job_events_job_id", "job_events", ["job_id"])


def _create_job_attachments() -> None:
    op.create_table(
        "job_attachments",
        sa.Column("job_id", sa.String(26), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(60), nullable=False),
        sa.Column("media_type", sa.String(100), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("cut", sa.Boolean(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt", "name", name="pk_job_attachments"),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_job_attachments_job_id_jobs", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_job_attachments_created_at", "job_attachments", ["created_at"])


def _create_workers() -> None:
    op.create_table(
        "workers",
        sa.Column("id", sa.String(26), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("inventory", sa.JSON(), nullable=False),
        sa.Column("first_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    op.create_index("ix_workers_last_seen_at", "workers", ["last_seen_at"])


def _create_api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(26), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("for_people", sa.Boolean(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created_by", sa.String(200), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("digest", name="uq_api_keys_digest"),
    )
