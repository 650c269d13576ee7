"""What sweeps, checks, costs and scans found.

Revision: 0004, after 0003.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One row a document, and which runs each stands on."""
    op.create_table(
        "document",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("saved", sa.Float(53), nullable=False),
        sa.Column("complete", sa.Boolean, nullable=False),
        sa.Column("simulated", sa.Boolean, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_document"),
    )
    op.create_index("ix_document_kind_saved", "document", ["kind", "saved"])
    op.create_table(
        "document_run",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("document_id", sa.String(64), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"], ["document.id"], "fk_document_run_document_id_document", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], "fk_document_run_run_id_run", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_document_run"),
        sa.UniqueConstraint("document_id", "run_id", name="uq_document_run_document_id_run_id"),
    )
    op.create_index("ix_document_run_run_id", "document_run", ["run_id"])


def downgrade() -> None:
    """Drop the documents; the runs stay."""
    op.drop_table("document_run")
    op.drop_table("document")
