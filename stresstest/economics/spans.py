"""A streamed generation as the economics see it."""

from __future__ import annotations

from stresstest.model import Generation
from stresstest.model.cost import LOOP_SYMPTOMS, CostArm, Span

EVERY = 8
"""Of so many tokens one is kept as a mark."""
TAIL, COPIES = 15, 4


def span_of(
    generation: Generation, *, batch: str, arm: CostArm, pair: int, planted_at: int | None = None
) -> Span:
    """One request of a measured batch.

    planted_at: the healthy length after which a stand-in for a loop runs on by request; None for a natural
    request. Its onset is the first token after that length, or what the panel saw before.
    """
    verdict = generation.verdict
    tokens = generation.tokens
    onset = verdict.onset
    if planted_at is not None and generation.output_tokens > planted_at:
        onset = min(planted_at + 1, onset or planted_at + 1)
    capped = generation.finish_reason == "length"
    failure = generation.failure
    return Span(
        id=f"{generation.job.index}",
        submitted=generation.started,
        first_token=generation.first_token,
        end=generation.ended,
        output_tokens=generation.output_tokens,
        prompt_tokens=generation.prompt_tokens,
        max_tokens=generation.job.max_tokens,
        degenerate=None if failure is not None and onset is None else verdict.degenerate,
        loops=verdict.symptom in LOOP_SYMPTOMS,
        onset=onset,
        onset_at=_at(generation, onset),
        alarm_at=_at(generation, verdict.alarm),
        dharma=capped and tail_repeats(generation.text) if failure is None else None,
        capped=capped,
        planted=planted_at is not None,
        failure=None if failure is None else failure.message,
        batch=batch,
        arm=arm,
        pair=pair,
        cluster=generation.prompt_id,
        marks=tuple(
            (i, token.arrived)
            for i, token in enumerate(tokens, 1)
            if i == 1 or i == len(tokens) or i % EVERY == 0
        ),
    )


def tail_repeats(text: str) -> bool:
    """The source's rule on text: its last fifteen characters occur four times or more."""
    return len(text) >= TAIL and text.count(text[-TAIL:]) >= COPIES


def _at(generation: Generation, token: int | None) -> float | None:
    if token is None or not 1 <= token <= len(generation.tokens):
        return None
    return generation.tokens[token - 1].arrived
