"""Runs and their sessions: queries on an open connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, case, delete, func, insert, select, update

from stresstest.config.suggestions import closest_names
from stresstest.errors import StoreError, UsageError
from stresstest.model import (
    DocumentKind,
    EndpointProfile,
    Phase,
    Run,
    RunSettings,
    RunStatus,
    Subject,
    Threshold,
)
from stresstest.store import tables
from stresstest.store.documents import (
    UNREADABLE,
    clean_profile,
    clean_settings,
    clean_text,
    dump,
    load,
    require_columns,
    warn_left_out,
)
from stresstest.store.records import RunChanges, RunSummary, Session

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection
    from sqlalchemy.sql import ColumnElement

_run = tables.run.c


def create(connection: Connection, run: Run) -> None:
    """Insert a run; StoreError when its id is taken."""
    if connection.execute(select(_run.id).where(_run.id == run.id)).first():
        raise StoreError(f"Run {run.id} is already in the store.")
    subject = run.settings.subject
    values = {
        "id": run.id,
        "model": clean_text(subject.model),
        "task": clean_text(subject.task),
        "language": clean_text(subject.language, 35),
        "status": run.status.value,
        "simulated": run.profile.simulated,
        "created": run.created,
        "ended": run.ended,
        "tool_version": clean_text(run.tool_version, 64),
        "prompts_digest": None if run.prompts_digest is None else clean_text(run.prompts_digest, 128),
        "note": None if run.note is None else clean_text(run.note),
        "settings": dump(clean_settings(run.settings)),
        "profile": dump(clean_profile(run.profile)),
    }
    connection.execute(insert(tables.run).values(values))


def change(connection: Connection, run_id: str, changes: RunChanges) -> None:
    """Set the given columns; UsageError when there is no such run."""
    values: dict[str, Any] = dict(changes)
    if "status" in changes:
        values["status"] = changes["status"].value
    if "note" in changes:
        values["note"] = None if changes["note"] is None else clean_text(changes["note"])
    if "settings" in changes:
        values["settings"] = dump(clean_settings(changes["settings"]))
    if "profile" in changes:
        values["profile"] = dump(clean_profile(changes["profile"]))
    if not values:
        require(connection, run_id)
        return
    if connection.execute(update(tables.run).where(_run.id == run_id).values(values)).rowcount == 0:
        raise _unknown(connection, run_id)


def remove(connection: Connection, run_id: str) -> None:
    """Delete a run with all that belongs to it; UsageError when there is no such run."""
    if connection.execute(delete(tables.run).where(_run.id == run_id)).rowcount == 0:
        raise _unknown(connection, run_id)


def require(connection: Connection, run_id: str) -> None:
    """UsageError when there is no run with exactly this id.

    In a write transaction the run is locked: SQLite has one writer anyway, PostgreSQL would let two look for
    the same key at once, and both insert it.
    """
    query = select(_run.id).where(_run.id == run_id)
    if connection.get_execution_options().get("stresstest_write"):
        query = query.with_for_update()
    if connection.execute(query).first() is None:
        raise _unknown(connection, run_id)


def find(connection: Connection, reference: str) -> Run:
    """The run with this id, or the only one whose id begins so; UsageError otherwise."""
    run_id = find_id(connection, reference)
    row = connection.execute(select(tables.run).where(_run.id == run_id)).one()
    try:
        return _read(row)
    except UNREADABLE as error:
        raise StoreError(
            f"Run {run_id} cannot be read. {str(error)[:400]}",
            hint=f"Restore the store from a backup, or delete the run: stresstest runs delete {run_id}",
        ) from error


def find_id(connection: Connection, reference: str) -> str:
    """The id of the same run, which need not be readable."""
    ids = _ids(connection)
    matches = [reference] if reference in ids else [i for i in ids if reference and i.startswith(reference)]
    if not matches:
        raise _unknown(connection, reference)
    if len(matches) > 1:
        raise UsageError(
            f"{reference!r} is the beginning of {len(matches)} runs: {_some(matches)}.",
            hint="Give more characters of the id.",
        )
    return matches[0]


def summaries(connection: Connection, subject: Subject | None) -> list[RunSummary]:
    """One line a run, newest first; a warning names those that cannot be read."""
    gen = tables.generation.c
    counts = (
        select(
            gen.run_id,
            func.count().label("generations"),
            func.count(gen.onset).label("degenerate"),
            func.sum(case((gen.failure.is_not(None), 1), else_=0)).label("lost"),
            func.sum(gen.output_tokens).label("output_tokens"),
        )
        .where(gen.phase != Phase.DIAGNOSE.value, tables.ENDED)
        .group_by(gen.run_id)
        .subquery()
    )
    result = tables.threshold.c
    query = (
        select(tables.run, counts, result.body.label("threshold"), result.safe_max_tokens)
        .outerjoin(counts, counts.c.run_id == _run.id)
        .outerjoin(tables.threshold, result.run_id == _run.id)
        .order_by(*newest_first())
    )
    if subject is not None:
        query = query.where(_of(subject))
    rows = connection.execute(query).all()
    cells = _cells(connection)
    found, left_out = [], []
    for row in rows:
        try:
            seconds = sum(s.seconds for s in sessions(connection, row.id))
            found.append(_summary(row, seconds, cells.get(row.id)))
        except UNREADABLE:
            left_out.append(row.id)
    warn_left_out(left_out)
    return found


def newest_first() -> tuple[ColumnElement[Any], ...]:
    """How to order a query on runs: by their first session, whose ids cannot go back as a clock can."""
    table = tables.session.c
    first = select(func.min(table.id)).where(table.run_id == _run.id).scalar_subquery()
    return func.coalesce(first, 0).desc(), _run.created.desc(), _run.id.desc()


def last_measured_first() -> tuple[ColumnElement[Any], ...]:
    """How to order a query on results: the last measured first, by the newest answer of each sample. A
    resumed run may have begun before another and been measured after it."""
    table = tables.generation.c
    own = (table.run_id == _run.id) & (table.phase == Phase.CERTIFY.value)
    last = select(func.max(table.id)).where(own).scalar_subquery()
    return func.coalesce(last, 0).desc(), *newest_first()


def begin_session(connection: Connection, run_id: str, started: float) -> int:
    """Insert a session and return its id."""
    require(connection, run_id)
    result = connection.execute(insert(tables.session).values(run_id=run_id, started=started))
    key = result.inserted_primary_key
    assert key is not None  # a single-row insert always has one
    return int(key[0])


def finish_session(connection: Connection, session_id: int, ended: float) -> None:
    """Record a session's end; StoreError when there is no such session."""
    session = tables.session
    found = connection.execute(update(session).where(session.c.id == session_id).values(ended=ended))
    if found.rowcount == 0:
        raise StoreError(f"There is no session {session_id} in the store.")


def sessions(connection: Connection, run_id: str) -> list[Session]:
    """The sessions of a run in the order of their start.

    One without an end was killed: it lasted until its last committed generation, which is the last
    one that ended before the next session began.
    """
    table, gen = tables.session.c, tables.generation.c
    rows = connection.execute(
        select(table.id, table.started, table.ended)
        .where(table.run_id == run_id)
        .order_by(table.started, table.id)
    ).all()
    for row in rows:
        require_columns(row, "session", times="started ended")
    found = []
    for position, row in enumerate(rows):
        seen = row.ended
        if seen is None:
            mine = [gen.run_id == run_id, gen.ended >= row.started]
            if position + 1 < len(rows):
                mine.append(gen.ended < rows[position + 1].started)
            seen = connection.execute(select(func.max(gen.ended)).where(and_(*mine))).scalar()
        last_seen = row.started if seen is None else max(seen, row.started)
        found.append(Session(row.id, run_id, row.started, row.ended, last_seen))
    return found


def _of(subject: Subject) -> ColumnElement[bool]:
    return and_(
        _run.model == clean_text(subject.model),
        _run.task == clean_text(subject.task),
        _run.language == clean_text(subject.language, 35),
    )


def _read(row: Any) -> Run:
    require_columns(row, "run", texts="id status tool_version prompts_digest note", times="created ended")
    return Run(
        id=row.id,
        settings=load(row.settings, RunSettings),
        profile=load(row.profile, EndpointProfile),
        status=RunStatus(row.status),
        created=row.created,
        ended=row.ended,
        tool_version=row.tool_version,
        prompts_digest=row.prompts_digest,
        note=row.note,
    )


def _cells(connection: Connection) -> dict[str, str]:
    """Of each run that is a cell of a sweep, the newest such sweep."""
    kept, link = tables.document.c, tables.document_run.c
    query = (
        select(link.run_id, kept.id)
        .join(tables.document, kept.id == link.document_id)
        .where(kept.kind == DocumentKind.SWEEP.value)
        .order_by(kept.saved, kept.id)
    )
    return {row.run_id: row.id for row in connection.execute(query)}


def _summary(row: Any, seconds: float, sweep: str | None) -> RunSummary:
    require_columns(
        row, "run", texts="id status note", times="created ended output_tokens", counts="safe_max_tokens"
    )
    settings = load(row.settings, RunSettings)
    load(row.profile, EndpointProfile)  # what is listed can be looked up, as "latest" is
    return RunSummary(
        id=row.id,
        subject=settings.subject,
        decoding=settings.decoding,
        rigor=settings.rigor,
        status=RunStatus(row.status),
        simulated=row.simulated,
        created=row.created,
        ended=row.ended,
        seconds=seconds,
        generations=row.generations or 0,
        degenerate=row.degenerate or 0,
        lost=int(row.lost or 0),
        output_tokens=int(row.output_tokens or 0),
        threshold=None if row.threshold is None else load(row.threshold, Threshold),
        safe_max_tokens=row.safe_max_tokens,
        note=row.note,
        concurrency=settings.in_flight,
        holds_up_to=settings.holds_up_to,
        parent=settings.parent,
        sweep=sweep,
    )


def _ids(connection: Connection) -> list[str]:
    """All ids, newest first."""
    return list(connection.execute(select(_run.id).order_by(*newest_first())).scalars())


def _unknown(connection: Connection, reference: str) -> UsageError:
    ids = _ids(connection)
    if not ids:
        return UsageError(f"Run {reference!r} was not found: the store is empty.")
    close = closest_names(reference, ids, most=3)
    hint = f"Did you mean {_some(close)}?" if close else f"The newest are {_some(ids)}."
    return UsageError(f"Run {reference!r} was not found in the store.", hint=hint)


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "")
