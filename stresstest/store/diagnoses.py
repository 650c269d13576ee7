"""Saved diagnoses: queries on an open connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select

from stresstest.model import Diagnosis
from stresstest.store import tables
from stresstest.store.documents import dump, load
from stresstest.store.runs import require

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_table = tables.diagnosis


def save(connection: Connection, found: Diagnosis, saved: float) -> None:
    """Save a diagnosis in place of the one that its run had."""
    require(connection, found.run_id)
    connection.execute(delete(_table).where(_table.c.run_id == found.run_id))
    connection.execute(
        insert(_table).values(run_id=found.run_id, saved=saved, complete=found.complete, body=dump(found))
    )


def read(connection: Connection, run_id: str) -> Diagnosis | None:
    """The diagnosis of a run, None without one."""
    body = connection.execute(select(_table.c.body).where(_table.c.run_id == run_id)).scalar()
    return None if body is None else load(body, Diagnosis)
