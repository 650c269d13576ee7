"""The diagnosis of a run.

Revision: 0003, after 0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One row a run: the chain with its arms as a document."""
    op.create_table(
        "diagnosis",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("saved", sa.Float(53), nullable=False),
        sa.Column("complete", sa.Boolean, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], "fk_diagnosis_run_id_run", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_diagnosis"),
        sa.UniqueConstraint("run_id", name="uq_diagnosis_run_id"),
    )


def downgrade() -> None:
    """Drop the diagnoses; the runs and their verdicts stay."""
    op.drop_table("diagnosis")
