"""Kept documents and the runs that they stand on: queries on an open connection."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, insert, select

from stresstest.errors import StoreError, UsageError
from stresstest.model import DocumentKind
from stresstest.store import tables
from stresstest.store.documents import require_columns
from stresstest.store.records import StoredDocument
from stresstest.store.runs import require

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_document = tables.document.c
_link = tables.document_run.c


def save(connection: Connection, document: StoredDocument) -> None:
    """Save a document in place of one with its id; UsageError for a run that is not stored."""
    for run_id in document.runs:
        require(connection, run_id)
    connection.execute(delete(tables.document).where(_document.id == document.id))
    values = {
        "id": document.id,
        "kind": document.kind.value,
        "saved": document.saved,
        "complete": document.complete,
        "simulated": document.simulated,
        "body": json.dumps(document.body, separators=(",", ":")),
    }
    connection.execute(insert(tables.document).values(values))
    links = [{"document_id": document.id, "run_id": run_id} for run_id in dict.fromkeys(document.runs)]
    if links:
        connection.execute(insert(tables.document_run), links)


def read(connection: Connection, kind: DocumentKind | None, run: str | None) -> list[StoredDocument]:
    """Those of a kind, and of a run, newest first.

    Those that stand on runs come first, in the order in which they were saved: a clock that was set back must
    not make an old verdict the newest.
    """
    last = select(func.max(_link.id)).where(_link.document_id == _document.id).scalar_subquery()
    query = select(tables.document)
    if kind is not None or run is not None:
        query = query.order_by(func.coalesce(last, 0).desc())
    query = query.order_by(_document.saved.desc(), _document.id)
    if kind is not None:
        query = query.where(_document.kind == kind.value)
    if run is not None:
        query = query.where(_document.id.in_(select(_link.document_id).where(_link.run_id == run)))
    rows = connection.execute(query).all()
    runs = _runs(connection, [row.id for row in rows])
    return [_read(row, runs[row.id]) for row in rows]


def find(connection: Connection, reference: str) -> StoredDocument:
    """The document with this id, or the only one whose id begins so; UsageError otherwise."""
    ids = list(connection.execute(select(_document.id)).scalars())
    matches = [reference] if reference in ids else [i for i in ids if reference and i.startswith(reference)]
    if len(matches) != 1:
        many = f"is the beginning of {len(matches)} documents" if matches else "is not a stored document"
        raise UsageError(f"{reference!r} {many}.")
    row = connection.execute(select(tables.document).where(_document.id == matches[0])).one()
    return _read(row, _runs(connection, matches)[row.id])


def _runs(connection: Connection, ids: Sequence[str]) -> Mapping[str, list[str]]:
    """Of each document the runs it stands on, in the order given when it was saved."""
    found: dict[str, list[str]] = defaultdict(list)
    query = select(_link.document_id, _link.run_id).where(_link.document_id.in_(ids)).order_by(_link.id)
    for document_id, run_id in connection.execute(query):
        found[document_id].append(run_id)
    return found


def _read(row: Any, runs: Sequence[str]) -> StoredDocument:
    require_columns(row, "document", texts="id", times="saved")
    try:
        body, kind = dict(json.loads(row.body)), DocumentKind(row.kind)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"The stored document {row.id} is damaged ({error}).") from error
    return StoredDocument(row.id, kind, row.saved, row.complete, row.simulated, tuple(runs), body)
