"""GPU readings: queries on an open connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from sqlalchemy import insert, select

from stresstest.model import GpuSample
from stresstest.store import tables
from stresstest.store.documents import clean_text, dump, load
from stresstest.store.runs import require

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_DEFAULTS = {f.name: f.default for f in fields(GpuSample)}


def add(connection: Connection, run_id: str, samples: Sequence[GpuSample]) -> None:
    """Insert readings."""
    require(connection, run_id)
    if samples:
        rows = [
            {"run_id": run_id, "at": s.at, "gpu": clean_text(s.gpu, 96), "body": _body(s)} for s in samples
        ]
        connection.execute(insert(tables.gpu_sample), rows)


def read(connection: Connection, run_id: str) -> list[GpuSample]:
    """The readings of a run in the order of time."""
    table = tables.gpu_sample.c
    query = select(table.body).where(table.run_id == run_id).order_by(table.at, table.id)
    return [load(body, GpuSample) for body in connection.execute(query).scalars()]


def _body(sample: GpuSample) -> str:
    """The document without what is not measured: four readings a second for each GPU add up."""
    absent = [name for name, default in _DEFAULTS.items() if getattr(sample, name) is default]
    return dump(sample, without=absent)
