"""GPU readings of a run.

Revision: 0002, after 0001.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One row a reading of a GPU, as readings of /metrics have in `sample`."""
    op.create_table(
        "gpu_sample",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("gpu", sa.String(96), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], "fk_gpu_sample_run_id_run", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_gpu_sample"),
    )
    op.create_index("ix_gpu_sample_run_id_at", "gpu_sample", ["run_id", "at"])


def downgrade() -> None:
    """Drop the readings; verdicts that were drawn from them stay."""
    op.drop_table("gpu_sample")
