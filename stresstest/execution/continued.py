"""The verdict over a continued answer, in the continuation's own tokens.

The panel sees the whole answer, because a loop, a drift or a numbering shows only against what stood
before. What counts is what the continuation did; a symptom that was known within the history does not.
"""

from __future__ import annotations

from dataclasses import replace

from stresstest.model import Symptom, Verdict, Zone


def counts(symptom: Symptom, before: int) -> bool:
    """Whether a symptom is the continuation's doing. before: tokens of the history."""
    outlives = symptom.end is None or symptom.end > before
    return symptom.alarm > before and outlives


def known_at(verdict: Verdict, before: int) -> int | None:
    """The token, history included, at which the continuation's degeneration became certain."""
    alarms = [s.alarm for s in verdict.symptoms if s.confirmed and counts(s, before)]
    return min(alarms, default=None)


def since(verdict: Verdict, before: int) -> Verdict:
    """The verdict with positions counted from the continuation's first token, which is 1.

    An onset that the panel dates back into the history lies at 1. Units count those of the history too.
    """
    if not before:
        return verdict
    symptoms = tuple(_shifted(s, before) for s in verdict.symptoms if counts(s, before))
    confirmed = [s for s in symptoms if s.confirmed]
    first = min(confirmed, key=lambda s: (s.onset, s.alarm, s.kind), default=None)
    onset = None if first is None else first.onset
    if first is not None and verdict.symptom is first.kind and verdict.onset is not None:
        onset = max(1, min(first.onset, verdict.onset - before))
    tokens = max(0, verdict.tokens - before)
    open_ = tokens if verdict.onset is not None else max(0, verdict.observed - before)
    loops = [s for s in confirmed if s.kind in ("loop", "near_loop")]
    standing = any(s.end is None for s in loops)
    return replace(
        verdict,
        tokens=tokens,
        observed=open_ if onset is None else onset - 1,
        onset=onset,
        alarm=None if first is None else first.alarm,
        symptom=None if first is None else first.kind,
        symptoms=symptoms,
        zones=_zones(verdict, before) if onset is not None or verdict.onset is None else (),
        recovered=bool(loops) and not standing,
        loops_to_end=standing,
        score=max((s.score if s.confirmed else s.score / 2 for s in symptoms), default=0.0),
    )


def _shifted(symptom: Symptom, before: int) -> Symptom:
    return replace(
        symptom,
        onset=max(1, symptom.onset - before),
        alarm=symptom.alarm - before,
        start=None if symptom.start is None else max(1, symptom.start - before),
        end=None if symptom.end is None else symptom.end - before,
    )


def _zones(verdict: Verdict, before: int) -> tuple[Zone, ...]:
    moved = (Zone(z.kind, max(1, z.start - before), z.end - before) for z in verdict.zones)
    return tuple(zone for zone in moved if zone.end >= zone.start)
