"""Saved thresholds and diagnoses: queries on an open connection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select

from stresstest.errors import StoreError
from stresstest.model import (
    Diagnosis,
    EndpointProfile,
    PlaneVerdict,
    RunSettings,
    ThinkingBudget,
    Threshold,
)
from stresstest.store import tables
from stresstest.store.documents import (
    UNREADABLE,
    clean_text,
    dump,
    load,
    require_columns,
    warn_left_out,
)
from stresstest.store.overruling import with_overruling
from stresstest.store.records import StoredThreshold
from stresstest.store.runs import last_measured_first, require

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


@dataclass(frozen=True, slots=True)
class _BesideThreshold:
    """What the document of a threshold holds beside it."""

    thinking: ThinkingBudget | None = None


def save(
    connection: Connection,
    run_id: str,
    threshold: Threshold,
    safe_max_tokens: int | None,
    verdict: PlaneVerdict,
    *,
    distinct_prompts: int | None,
    thinking: ThinkingBudget | None,
    saved: float,
) -> None:
    """Save a run's result in place of the one it had."""
    require(connection, run_id)
    connection.execute(delete(tables.threshold).where(tables.threshold.c.run_id == run_id))
    connection.execute(
        insert(tables.threshold).values(
            run_id=run_id,
            saved=saved,
            tokens=threshold.tokens,
            certified=threshold.certified,
            safe_max_tokens=safe_max_tokens,
            distinct_prompts=distinct_prompts,
            body=dump(threshold) if thinking is None else dump(threshold, thinking=thinking),
            verdict=dump(verdict),
        )
    )


def read(
    connection: Connection, model: str | None, task: str | None, language: str | None
) -> list[StoredThreshold]:
    """Saved results: the latest of each subject, prompts, decoding and rigor first, then the others.

    The newest is in force even when it certified nothing: an older limit may be what it disproves. One that
    found no safe length overrules the limits of other rigors, loads and addresses, older and newer ones,
    until it is repeated there.
    A warning names those that cannot be read. One that contradicts itself is a StoreError: it was changed.
    """
    run, result = tables.run.c, tables.threshold.c
    query = (
        select(
            *result,
            run.settings,
            run.profile,
            run.created,
            run.tool_version,
            run.prompts_digest,
            run.model,
            run.task,
            run.language,
        )
        .join(tables.run, run.id == result.run_id)
        .order_by(*last_measured_first())
    )
    for column, wanted in ((run.model, model), (run.task, task), (run.language, language)):
        if wanted is not None:
            query = query.where(column == clean_text(wanted))
    groups: dict[object, list[StoredThreshold]] = {}
    left_out: list[str] = []
    for place, row in enumerate(connection.execute(query)):
        try:
            stored = replace(_stored(row), prompts_digest=row.prompts_digest, order=-place)
        except UNREADABLE:
            left_out.append(row.run_id)
            continue
        _require_agreement(row, stored)
        # A simulator's number never takes the place of a measured one, nor one server's or one load's that
        # of another.
        conditions = (stored.simulated, stored.base_url, stored.concurrency)
        identity = (stored.subject, stored.decoding, stored.rigor, stored.prompts_digest, conditions)
        groups.setdefault(identity, []).append(stored)
    warn_left_out(left_out)
    latest, older = [], []
    for newest, *others in groups.values():  # by their newest, as the rows came
        certified = next((s.run_id for s in others if s.threshold.certified), None)
        latest.append(replace(newest, certified_before=None if newest.threshold.certified else certified))
        older += [replace(s, latest=False) for s in others]
    return with_overruling([*latest, *older])


def _stored(row: Any) -> StoredThreshold:
    require_columns(
        row,
        "result",
        texts="run_id tool_version",
        times="created saved",
        counts="tokens safe_max_tokens distinct_prompts",
    )
    settings = load(row.settings, RunSettings)
    profile = load(row.profile, EndpointProfile)
    return StoredThreshold(
        run_id=row.run_id,
        subject=settings.subject,
        decoding=settings.decoding,
        rigor=settings.rigor,
        margin=settings.margin,
        threshold=load(row.body, Threshold),
        safe_max_tokens=row.safe_max_tokens,
        verdict=load(row.verdict, PlaneVerdict),
        created=row.created,
        saved=row.saved,
        tool_version=row.tool_version,
        server_version=profile.version,
        base_url=settings.base_url,
        concurrency=settings.in_flight,
        holds_up_to=settings.holds_up_to,
        simulated=profile.simulated,
        distinct_prompts=row.distinct_prompts,
        latest=True,
        thinking=load(row.body, _BesideThreshold).thinking,
    )


def _require_agreement(row: Any, stored: StoredThreshold) -> None:
    """StoreError for a result whose parts contradict each other: a limit must not be larger than its T."""
    subject, threshold, thinking = stored.subject, stored.threshold, stored.thinking
    safe = row.safe_max_tokens
    named = tuple(map(clean_text, (subject.model, subject.task, subject.language)))
    agreed = (
        (row.tokens, bool(row.certified)) == (threshold.tokens, threshold.certified)
        and (safe is None or safe <= (threshold.tokens or 0))
        and (thinking is None or (thinking.safe_tokens or 0) <= (thinking.threshold.tokens or 0))
        and (row.model, row.task, row.language) == (*named[:2], named[2][:35])
    )
    if not agreed:
        raise StoreError(
            f"The stored result of run {row.run_id} contradicts itself: it was changed or is damaged.",
            hint="Restore the store from a backup, or delete the run: "
            f"stresstest runs delete {row.run_id} --yes",
        )


def save_diagnosis(connection: Connection, found: Diagnosis, saved: float) -> None:
    """Save a diagnosis in place of the one that its run had."""
    table = tables.diagnosis
    require(connection, found.run_id)
    connection.execute(delete(table).where(table.c.run_id == found.run_id))
    values = {"run_id": found.run_id, "saved": saved, "complete": found.complete, "body": dump(found)}
    connection.execute(insert(table).values(values))


def read_diagnosis(connection: Connection, run_id: str) -> Diagnosis | None:
    """The diagnosis of a run, None without one; without its limit if the run that certified it is gone."""
    table, run = tables.diagnosis.c, tables.run.c
    body = connection.execute(select(table.body).where(table.run_id == run_id)).scalar()
    found = None if body is None else load(body, Diagnosis)
    if found is None or found.safe_run is None:
        return found
    if connection.execute(select(run.id).where(run.id == found.safe_run)).scalar() is not None:
        return found
    return replace(found, safe_max_tokens=None, safe_run=None)
