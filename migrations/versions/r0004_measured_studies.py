"""Let studies measure: their trials, what happened to them, and whose turn it is to move them on."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_NEW_COLUMNS = ("refine", "outcome", "error", "profile_job", "profile", "links_job", "links", "turn")


def upgrade() -> None:
    """Add the columns and tables."""
    op.add_column("jobs", sa.Column("subject", sa.String(64)))
    op.create_index("ix_jobs_subject", "jobs", ["subject"])
    with op.batch_alter_table("studies") as studies:
        for name in ("refine", "outcome", "links"):
            studies.add_column(sa.Column(name, sa.JSON()))
        for name, length in (("error", 4000), ("profile", 64), ("turn", 32)):
            studies.add_column(sa.Column(name, sa.String(length)))
        for name in ("profile_job", "links_job"):
            studies.add_column(sa.Column(name, sa.String(26)))
            studies.create_index(f"ix_studies_{name}", [name])
        studies.add_column(sa.Column("turn_until", sa.DateTime(timezone=True)))
        studies.add_column(sa.Column("due", sa.Boolean(), nullable=False, server_default=sa.false()))
    _create_study_trials()
    _create_study_events()


def downgrade() -> None:
    """Remove them."""
    op.drop_table("study_events")
    op.drop_table("study_trials")
    with op.batch_alter_table("studies") as studies:
        for name in ("profile_job", "links_job"):
            studies.drop_index(f"ix_studies_{name}")
        for name in (*_NEW_COLUMNS, "turn_until", "due"):
            studies.drop_column(name)
    op.drop_index("ix_jobs_subject", "jobs")
    op.drop_column("jobs", "subject")


def _create_study_trials() -> None:
    op.create_table(
        "study_trials",
        sa.Column("study_id", sa.String(26), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("point", sa.String(64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(26), nullable=False),
        sa.Column("status", sa.String(40), nullable=False),
        sa.Column("configuration", sa.JSON(), nullable=False),
        sa.Column("proposal", sa.JSON(), nullable=False),
        sa.Column("result", sa.JSON()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("study_id", "number", name="pk_study_trials"),
        sa.UniqueConstraint("study_id", "point", "attempt", name="uq_study_trials_study_id_point_attempt"),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name="fk_study_trials_study_id_studies", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_study_trials_job_id", "study_trials", ["job_id"])


def _create_study_events() -> None:
    op.create_table(
        "study_events",
        sa.Column("study_id", sa.String(26), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("event", sa.String(40), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("study_id", "number", name="pk_study_events"),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name="fk_study_events_study_id_studies", ondelete="CASCADE"
        ),
    )
