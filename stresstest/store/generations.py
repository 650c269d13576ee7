"""Generations and server samples: queries on an open connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select

from stresstest.errors import UsageError
from stresstest.model import Generation, Phase, ServerSample
from stresstest.store import tables
from stresstest.store.codec import pack_tokens, unpack_tokens
from stresstest.store.documents import clean_generation, clean_text, dump, load
from stresstest.store.runs import require

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_gen = tables.generation.c
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
        "body": dump(generation, without=("tokens",)),
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


def read(
    connection: Connection, run_id: str, *, tokens: bool, diagnosis: bool = False
) -> Iterator[Generation]:
    """The generations of a run by phase, rung and index; one blob in memory at a time.

    diagnosis: those of its diagnosis instead, which are no part of what the run measured.
    """
    arms = _gen.phase == Phase.DIAGNOSE.value
    heads = connection.execute(
        select(_gen.id, _gen.phase, _gen.rung, _gen.job_index)
        .where(_gen.run_id == run_id, arms if diagnosis else ~arms)
        .order_by(_gen.id)
    ).all()
    for head in sorted(heads, key=lambda h: (_PHASES.get(h.phase, len(_PHASES)), h.rung, h.job_index)):
        row = connection.execute(_select(tokens).where(_gen.id == head.id)).one()
        yield _generation(row, tokens=tokens)


def read_one(connection: Connection, run_id: str, key: str) -> Generation:
    """One generation with its tokens; UsageError when it is not there."""
    row = connection.execute(_select(True).where(_gen.run_id == run_id, _gen.key == key)).first()
    if row is None:
        raise UsageError(f"Run {run_id} has no generation {key!r}.")
    return _generation(row, tokens=True)


def add_samples(connection: Connection, run_id: str, samples: Sequence[ServerSample]) -> None:
    """Insert readings of /metrics."""
    require(connection, run_id)
    if samples:
        rows = [{"run_id": run_id, "at": s.at, "body": dump(s)} for s in samples]
        connection.execute(insert(tables.sample), rows)


def read_samples(connection: Connection, run_id: str) -> list[ServerSample]:
    """The readings of a run in the order of time."""
    table = tables.sample.c
    query = select(table.body).where(table.run_id == run_id).order_by(table.at, table.id)
    return [load(body, ServerSample) for body in connection.execute(query).scalars()]


def _select(tokens: bool) -> Any:
    return select(_gen.body, _gen.tokens) if tokens else select(_gen.body)


def _generation(row: Any, *, tokens: bool) -> Generation:
    return load(row.body, Generation, tokens=unpack_tokens(row.tokens) if tokens else ())
