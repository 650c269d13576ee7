"""The first tables: runs, sessions, generations, samples, thresholds.

Revision: 0001, after none.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables and what queries need to be indexed."""
    op.create_table(
        "run",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("language", sa.String(35), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("simulated", sa.Boolean, nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("ended", sa.Float(53)),
        sa.Column("tool_version", sa.String(64), nullable=False),
        sa.Column("prompts_digest", sa.String(128)),
        sa.Column("note", sa.Text),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("profile", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
    )
    op.create_index("ix_run_created", "run", ["created"])
    op.create_index("ix_run_subject", "run", ["model", "task", "language"])
    op.create_table(
        "session",
        sa.Column("id", sa.Integer, nullable=False),
        _run_id(),
        sa.Column("started", sa.Float(53), nullable=False),
        sa.Column("ended", sa.Float(53)),
        _references_run("session"),
        sa.PrimaryKeyConstraint("id", name="pk_session"),
    )
    op.create_index("ix_session_run_id", "session", ["run_id"])
    _create_generation()
    op.create_table(
        "sample",
        sa.Column("id", sa.Integer, nullable=False),
        _run_id(),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        _references_run("sample"),
        sa.PrimaryKeyConstraint("id", name="pk_sample"),
    )
    op.create_index("ix_sample_run_id_at", "sample", ["run_id", "at"])
    op.create_table(
        "threshold",
        sa.Column("id", sa.Integer, nullable=False),
        _run_id(),
        sa.Column("saved", sa.Float(53), nullable=False),
        sa.Column("tokens", sa.Integer),
        sa.Column("certified", sa.Boolean, nullable=False),
        sa.Column("safe_max_tokens", sa.Integer),
        sa.Column("distinct_prompts", sa.Integer),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("verdict", sa.Text, nullable=False),
        _references_run("threshold"),
        sa.PrimaryKeyConstraint("id", name="pk_threshold"),
        sa.UniqueConstraint("run_id", name="uq_threshold_run_id"),
    )


def downgrade() -> None:
    """Drop everything: there is nothing before the first tables."""
    for name in ("threshold", "sample", "generation", "session", "run"):
        op.drop_table(name)


def _create_generation() -> None:
    op.create_table(
        "generation",
        sa.Column("id", sa.Integer, nullable=False),
        _run_id(),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("rung", sa.Integer, nullable=False),
        sa.Column("job_index", sa.Integer, nullable=False),
        sa.Column("prompt_id", sa.Text, nullable=False),
        sa.Column("finish_reason", sa.String(64)),
        sa.Column("failure", sa.String(32)),
        sa.Column("onset", sa.Integer),
        sa.Column("symptom", sa.String(32)),
        sa.Column("plane", sa.String(16)),
        sa.Column("output_tokens", sa.Integer, nullable=False),
        sa.Column("started", sa.Float(53), nullable=False),
        sa.Column("ended", sa.Float(53), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("tokens", sa.LargeBinary, nullable=False),
        _references_run("generation"),
        sa.PrimaryKeyConstraint("id", name="pk_generation"),
        sa.UniqueConstraint("run_id", "key", name="uq_generation_run_id_key"),
    )
    op.create_index(
        "ix_generation_run_id_phase_rung_job_index", "generation", ["run_id", "phase", "rung", "job_index"]
    )
    for column in ("onset", "symptom", "finish_reason"):
        op.create_index(f"ix_generation_{column}", "generation", [column])


def _run_id() -> sa.Column[str]:
    return sa.Column("run_id", sa.String(64), nullable=False)


def _references_run(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["run_id"], ["run.id"], f"fk_{table}_run_id_run", ondelete="CASCADE")
