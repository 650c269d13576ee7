"""Saved thresholds and diagnoses: queries on an open connection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select

from stresstest.errors import StoreError
from stresstest.model import (
    RIGORS,
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
from stresstest.store.records import StoredThreshold
from stresstest.store.runs import newest_first, require

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
        .order_by(*newest_first())
    )
    for column, wanted in ((run.model, model), (run.task, task), (run.language, language)):
        if wanted is not None:
            query = query.where(column == clean_text(wanted))
    groups: dict[object, list[StoredThreshold]] = {}
    left_out: list[str] = []
    for row in connection.execute(query):
        try:
            stored = _stored(row)
        except UNREADABLE:
            left_out.append(row.run_id)
            continue
        _require_agreement(row, stored)
        # A simulator's number never takes the place of a measured one, nor one server's or one load's that
        # of another.
        conditions = (stored.simulated, stored.base_url, stored.concurrency)
        identity = (stored.subject, stored.decoding, stored.rigor, row.prompts_digest, conditions)
        groups.setdefault(identity, []).append(stored)
    warn_left_out(left_out)
    latest, older = [], []
    for newest, *others in groups.values():  # by their newest, as the rows came
        certified = next((s.run_id for s in others if s.threshold.certified), None)
        latest.append(replace(newest, certified_before=None if newest.threshold.certified else certified))
        older += [replace(s, latest=False) for s in others]
    return _overruled(latest, [*latest, *older]) + older


def _overruled(latest: list[StoredThreshold], every: list[StoredThreshold]) -> list[StoredThreshold]:
    """The latest, each with the newest run that speaks against its limit."""
    failing: dict[object, list[StoredThreshold]] = {}
    for stored in every:
        if stored.threshold.unfit or (stored.threshold.tokens is None and stored.threshold.onsets):
            failing.setdefault(_kind(stored), []).append(stored)
    for kind, found in failing.items():
        same = [stored for stored in every if _kind(stored) == kind]
        standing = [stored for stored in found if not any(_repeats(other, stored) for other in same)]
        failing[kind] = sorted(standing, key=lambda stored: -stored.created)
    return [_unless_overruled(stored, failing.get(_kind(stored), [])) for stored in latest]


def _unless_overruled(stored: StoredThreshold, failing: list[StoredThreshold]) -> StoredThreshold:
    if not stored.safe_max_tokens:
        return stored
    against = (each.run_id for each in failing if _speaks_against(each.threshold, stored.threshold.alpha))
    return replace(stored, overruled_by=next(against, None))


def _speaks_against(threshold: Threshold, alpha: float) -> bool:
    """Whether a result that names no safe length contradicts a limit that tolerates a risk of alpha: it is
    unfit, or more than that failed at the smallest length that was examined."""
    return threshold.unfit or threshold.onsets > alpha * threshold.n


def _repeats(stored: StoredThreshold, failing: StoredThreshold) -> bool:
    """Whether a result with a limit is newer than one that found none, at its address, and under a load and
    with a sample that are no smaller."""
    return (
        stored.safe_max_tokens is not None
        and stored.created > failing.created
        and stored.base_url == failing.base_url
        and stored.concurrency >= failing.concurrency
        and _planned(stored) >= _planned(failing)
    )


def _planned(stored: StoredThreshold) -> int:
    rigor = RIGORS.get(stored.rigor)
    return 0 if rigor is None else rigor.planned


def _kind(stored: StoredThreshold) -> object:
    return stored.subject, stored.decoding, stored.simulated


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
        concurrency=settings.concurrency,
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
    """The diagnosis of a run, None without one."""
    table = tables.diagnosis.c
    body = connection.execute(select(table.body).where(table.run_id == run_id)).scalar()
    return None if body is None else load(body, Diagnosis)
