"""Generations and samples of the server and its GPUs: queries on an open connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Table, delete, insert, select

from stresstest.errors import UsageError
from stresstest.model import (
    Generation,
    GenerationRecord,
    GpuSample,
    Phase,
    ServerSample,
    TokenColumns,
    TokenSummary,
)
from stresstest.store import tables
from stresstest.store.codec import pack_tokens, unpack_tokens
from stresstest.store.documents import clean_generation, clean_text, dump, load
from stresstest.store.records import StoredRequest
from stresstest.store.runs import require

if TYPE_CHECKING:
    from sqlalchemy import Select
    from sqlalchemy.engine import Connection

T = TypeVar("T", ServerSample, GpuSample)
_gen = tables.generation.c
_WHOLE = select(_gen.body, _gen.tokens)
_TABLES: Mapping[type, Table] = {ServerSample: tables.sample, GpuSample: tables.gpu_sample}
_PHASES = {phase.value: position for position, phase in enumerate(Phase)}


def row_of(run_id: str, generation: Generation) -> dict[str, Any]:
    """A generation as a row; done before the write lock is taken, since packing takes a while."""
    generation = clean_generation(generation)
    job, verdict, failure = generation.job, generation.verdict, generation.failure
    return {
        "run_id": run_id,
        "key": generation.key,
        "phase": job.phase.value,
        "rung": job.rung,
        "job_index": job.index,
        "prompt_id": clean_text(generation.prompt_id),
        "finish_reason": clean_text(generation.finish_reason, 64) if generation.finish_reason else None,
        "failure": failure.kind.value if failure else None,
        "onset": verdict.onset,
        "symptom": verdict.symptom.value if verdict.symptom else None,
        "plane": generation.plane.value if generation.plane else None,
        "output_tokens": generation.output_tokens,
        "started": generation.started,
        "ended": generation.ended,
        "body": dump(generation, without=("tokens", "token_summary")),
        "tokens": pack_tokens(generation.tokens),
    }


def add(connection: Connection, row: dict[str, Any]) -> bool:
    """Insert a row of `row_of` unless its key has finished before; whether it was stored."""
    require(connection, row["run_id"])
    mine = (_gen.run_id == row["run_id"], _gen.key == row["key"])
    present = connection.execute(select(_gen.failure).where(*mine)).first()
    if present is not None:
        if present.failure is None:
            return False
        connection.execute(delete(tables.generation).where(*mine))
    connection.execute(insert(tables.generation).values(row))
    return True


def remove(connection: Connection, run_id: str, keys: Sequence[str]) -> None:
    """Delete generations of a run by their keys."""
    for key in keys:
        connection.execute(delete(tables.generation).where(_gen.run_id == run_id, _gen.key == key))


def read(connection: Connection, run_id: str, *, diagnosis: bool = False) -> Iterator[Generation]:
    """The generations of a run by phase, rung and index, one in memory at a time.

    diagnosis: those of its diagnosis instead, which are no part of what the run measured.
    """
    for number in _ordered_ids(connection, run_id, diagnosis=diagnosis):
        yield _generation(connection.execute(_WHOLE.where(_gen.id == number)).one())


def read_one(connection: Connection, run_id: str, key: str) -> Generation:
    """One generation with its tokens; UsageError when it is not there."""
    return _generation(_row(connection, _WHOLE, run_id, key))


def read_tokens(connection: Connection, run_id: str, key: str) -> TokenColumns:
    """The tokens of one generation; UsageError when it is not there."""
    return unpack_tokens(_row(connection, select(_gen.tokens), run_id, key).tokens)


def read_requests(connection: Connection, run_id: str) -> list[StoredRequest]:
    """What each generation of a run was asked; no tokens are read."""
    query = select(_gen.body).where(_gen.run_id == run_id, _gen.phase != Phase.DIAGNOSE.value, tables.ENDED)
    return [load(body, StoredRequest) for body in connection.execute(query).scalars()]


def read_interrupted(connection: Connection, run_id: str) -> dict[str, GenerationRecord]:
    """What is known of the answers that did not end, by key."""
    rows = connection.execute(_WHOLE.where(_gen.run_id == run_id, ~tables.ENDED))
    return {each.key: each.to_record() for each in map(_generation, rows)}


def _ordered_ids(connection: Connection, run_id: str, *, diagnosis: bool) -> list[int]:
    """Rows of a run's generations by phase, rung and index; or those of its diagnosis."""
    arms = _gen.phase == Phase.DIAGNOSE.value
    heads = connection.execute(
        select(_gen.id, _gen.phase, _gen.rung, _gen.job_index)
        .where(_gen.run_id == run_id, arms if diagnosis else ~arms, tables.ENDED)
        .order_by(_gen.id)
    ).all()
    ordered = sorted(heads, key=lambda h: (_PHASES.get(h.phase, len(_PHASES)), h.rung, h.job_index))
    return [head.id for head in ordered]


def _row(connection: Connection, query: Select[Any], run_id: str, key: str) -> Any:
    row = connection.execute(query.where(_gen.run_id == run_id, _gen.key == key)).first()
    if row is None:
        raise UsageError(f"Run {run_id} has no generation {key!r}.")
    return row


def _generation(row: Any) -> Generation:
    tokens = unpack_tokens(row.tokens)
    return load(row.body, GenerationRecord, token_summary=TokenSummary.of(tokens)).with_tokens(tokens)


def add_samples(
    connection: Connection, run_id: str, samples: Sequence[ServerSample] | Sequence[GpuSample]
) -> None:
    """Insert readings of /metrics, or of GPUs."""
    require(connection, run_id)
    rows: list[dict[str, Any]] = []
    for sample in samples:
        row: dict[str, Any] = {"run_id": run_id, "at": sample.at}
        if isinstance(sample, GpuSample):
            row |= {"gpu": clean_text(sample.gpu, 96), "body": gpu_body(sample)}
        else:
            row["body"] = dump(sample)
        rows.append(row)
    if rows:
        connection.execute(insert(_TABLES[type(samples[0])]), rows)


def read_samples(connection: Connection, run_id: str, kind: type[T]) -> list[T]:
    """The readings of a run of one kind (ServerSample or GpuSample), in order of time."""
    table = _TABLES[kind].c
    query = select(table.body).where(table.run_id == run_id).order_by(table.at, table.id)
    return [load(body, kind) for body in connection.execute(query).scalars()]


def gpu_body(sample: GpuSample) -> str:
    """The document without unmeasured fields: four readings a second for each GPU add up."""
    absent = [f.name for f in fields(GpuSample) if getattr(sample, f.name) is f.default]
    return dump(sample, without=absent)
