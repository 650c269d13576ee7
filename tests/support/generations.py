"""Generations made by hand for the deciding rooms: only what a decision reads is filled in."""

from __future__ import annotations

from stresstest.model import (
    FailureKind,
    Generation,
    GenerationRecord,
    GenerationVerdict,
    Job,
    Phase,
    ServiceFailure,
    Symptom,
    SymptomKind,
    Token,
)

PACE = 0.01  # seconds a token


def make_job(phase: Phase = Phase.CERTIFY, rung: int = 1, index: int = 0, max_tokens: int = 4096) -> Job:
    return Job(phase, rung, index, 10, index, 7, max_tokens)


def make(
    job: Job,
    tokens: int,
    onset: int | None = None,
    *,
    symptom: SymptomKind = SymptomKind.LOOP,
    observed: int | None = None,
    finish: str | None = "stop",
    lost: bool = False,
    started: float = 0.0,
    prompt_id: str | None = None,
    prompt_tokens: int | None = None,
    units: int | None = None,
    invalid_from: int | None = None,
    timed: bool = False,
    symptoms: tuple[Symptom, ...] = (),
    word: str = "w",
) -> Generation:
    """A generation of `tokens` tokens. timed: with real token objects, one every 10 ms from `started` on."""
    failure = ServiceFailure(FailureKind.CUT, "the stream was cut", at_token=tokens) if lost else None
    stream = tuple(Token(word, arrived=started + PACE * i) for i in range(1, tokens + 1)) if timed else ()
    healthy = tokens if observed is None else observed
    verdict = GenerationVerdict(
        tokens=tokens,
        observed=onset - 1 if onset is not None else healthy,
        onset=onset,
        alarm=onset + 40 if onset is not None else None,
        symptom=symptom if onset is not None else None,
        symptoms=symptoms,
        units=units,
    )
    return Generation(
        job=job,
        prompt_id=prompt_id if prompt_id is not None else f"p{job.prompt_index}",
        prompt_text="",
        tokens=stream,
        verdict=verdict,
        finish_reason=None if lost else finish,
        failure=failure,
        prompt_tokens=prompt_tokens,
        output_tokens=tokens,
        started=started,
        ended=started + PACE * (tokens + 1),
        invalid_from=invalid_from,
    )


def whole(record: GenerationRecord) -> Generation:
    """A loader for results that were made from whole generations: nothing has to be read."""
    assert isinstance(record, Generation)
    return record
