"""The tables, as SQLAlchemy Core, in portable types only.

Each row of `generation` carries its whole record as a JSON document (`body`) and its tokens as a
packed blob; the other columns are projections of that document, for queries and for people with a
SQL prompt. The document is what is read back, so a field added to the model needs no migration.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    or_,
)

from stresstest.model import FailureKind

SCHEMA_REVISION = "0004"
"""Head of alembic/versions; lets an up-to-date store open without loading alembic (0.4 s)."""

VERSION_TABLE = "stresstest_schema"
"""Our own name, so that a database shared with another alembic user is not mistaken for ours."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

run = Table(
    "run",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("model", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("language", String(35), nullable=False),
    Column("status", String(16), nullable=False),
    Column("simulated", Boolean, nullable=False),
    Column("created", Float(53), nullable=False, index=True),
    Column("ended", Float(53)),
    Column("tool_version", String(64), nullable=False),
    Column("prompts_digest", String(128)),
    Column("note", Text),
    Column("settings", Text, nullable=False),
    Column("profile", Text, nullable=False),
    Index("ix_run_subject", "model", "task", "language"),
)


def _run_id(*, unique: bool = False) -> Column[str]:
    reference = ForeignKey("run.id", ondelete="CASCADE")
    return Column("run_id", String(64), reference, nullable=False, unique=unique or None)


session = Table(
    "session",
    metadata,
    Column("id", Integer, primary_key=True),
    _run_id(),
    Column("started", Float(53), nullable=False),
    Column("ended", Float(53)),
    Index(None, "run_id"),
)

generation = Table(
    "generation",
    metadata,
    Column("id", Integer, primary_key=True),
    _run_id(),
    Column("key", String(64), nullable=False),
    Column("phase", String(16), nullable=False),
    Column("rung", Integer, nullable=False),
    Column("job_index", Integer, nullable=False),
    Column("prompt_id", Text, nullable=False),
    Column("finish_reason", String(64)),
    Column("failure", String(32)),
    Column("onset", Integer),
    Column("symptom", String(32)),
    Column("plane", String(16)),
    Column("output_tokens", Integer, nullable=False),
    Column("started", Float(53), nullable=False),
    Column("ended", Float(53), nullable=False),
    Column("body", Text, nullable=False),
    Column("tokens", LargeBinary, nullable=False),
    UniqueConstraint("run_id", "key"),
    Index(None, "run_id", "phase", "rung", "job_index"),
    Index(None, "onset"),
    Index(None, "symptom"),
    Index(None, "finish_reason"),
)

ENDED = or_(generation.c.failure.is_(None), generation.c.failure != FailureKind.INTERRUPTED.value)
"""Generations that have ended: one that has failed is stored before its end, as its process may be killed."""

sample = Table(
    "sample",
    metadata,
    Column("id", Integer, primary_key=True),
    _run_id(),
    Column("at", Float(53), nullable=False),
    Column("body", Text, nullable=False),
    Index(None, "run_id", "at"),
)

gpu_sample = Table(
    "gpu_sample",
    metadata,
    Column("id", Integer, primary_key=True),
    _run_id(),
    Column("at", Float(53), nullable=False),
    Column("gpu", String(96), nullable=False),
    Column("body", Text, nullable=False),
    Index(None, "run_id", "at"),
)

threshold = Table(
    "threshold",
    metadata,
    Column("id", Integer, primary_key=True),
    _run_id(unique=True),
    Column("saved", Float(53), nullable=False),
    Column("tokens", Integer),
    Column("certified", Boolean, nullable=False),
    Column("safe_max_tokens", Integer),
    Column("distinct_prompts", Integer),
    Column("body", Text, nullable=False),
    Column("verdict", Text, nullable=False),
)

diagnosis = Table(
    "diagnosis",
    metadata,
    Column("id", Integer, primary_key=True),
    _run_id(unique=True),
    Column("saved", Float(53), nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("body", Text, nullable=False),
)

document = Table(
    "document",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("saved", Float(53), nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("simulated", Boolean, nullable=False),
    Column("body", Text, nullable=False),
    Index(None, "kind", "saved"),
)

document_run = Table(
    "document_run",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("document_id", String(64), ForeignKey("document.id", ondelete="CASCADE"), nullable=False),
    _run_id(),
    UniqueConstraint("document_id", "run_id"),
    Index(None, "run_id"),
)
