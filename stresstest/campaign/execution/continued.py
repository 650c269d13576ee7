"""The verdict over a continued answer, in the continuation's own tokens.

The suite reads the whole answer, because a loop, a drift or a numbering shows only against the text
before it. What counts is what the continuation did; a symptom that was known within the history does not.
"""

from __future__ import annotations

from dataclasses import replace

from stresstest.detectors.verdict import PositionMap, first_confirmed, loop_endings, score_of
from stresstest.model import GenerationVerdict, Symptom


def occurs_in_continuation(symptom: Symptom, before: int) -> bool:
    """Whether a symptom is the continuation's doing. before: tokens of the history."""
    outlives = symptom.end is None or symptom.end > before
    return symptom.alarm > before and outlives


def alarm_position(verdict: GenerationVerdict, before: int) -> int | None:
    """The token, history included, at which the continuation's degeneration became certain."""
    alarms = [s.alarm for s in verdict.symptoms if s.confirmed and occurs_in_continuation(s, before)]
    return min(alarms, default=None)


def continuation_verdict(verdict: GenerationVerdict, before: int) -> GenerationVerdict:
    """The verdict with positions counted from the continuation's first token, which is 1.

    An onset that is dated back into the history becomes 1. Units count those of the history too.
    """
    if not before:
        return verdict
    tokens = max(0, verdict.tokens - before)
    scale = PositionMap(
        tokens, first=lambda position: max(1, position - before), last=lambda position: position - before
    )
    symptoms = tuple(scale.symptom(s) for s in verdict.symptoms if occurs_in_continuation(s, before))
    first = first_confirmed(symptoms)
    onset = None if first is None else first.onset
    if first is not None and verdict.symptom is first.kind and verdict.onset is not None:
        onset = min(first.onset, scale.first(verdict.onset))
    open_ = tokens if verdict.onset is not None else max(0, scale.last(verdict.observed))
    recovered, to_end = loop_endings(symptoms)
    return replace(
        verdict,
        tokens=tokens,
        observed=open_ if onset is None else onset - 1,
        onset=onset,
        alarm=None if first is None else first.alarm,
        symptom=None if first is None else first.kind,
        symptoms=symptoms,
        zones=scale.zones(verdict.zones) if onset is not None or verdict.onset is None else (),
        recovered=recovered,
        loops_to_end=to_end,
        score=score_of(symptoms),
        reasoning=max(0, scale.last(verdict.reasoning)),
    )
