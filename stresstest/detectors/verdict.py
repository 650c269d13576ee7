"""One verdict from the symptoms of all detectors, and verdicts on other scales of positions.

Which symptom gives the onset, which warnings date it back, how far an output without an onset counts as
observed: decided here and nowhere else, online and over recorded text alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from stresstest.detectors.registry import symptom_info
from stresstest.model import AnswerPart, GenerationVerdict, Symptom, SymptomKind, Zone, ZoneKind

WARNING_LOOKBACK = 64
"""Tokens, about three sentences: an entropy change at most this long before a confirmed onset belongs to
it. A longer reach would date an onset back to a change that the text survived."""

HANDFUL = 12
"""Different words of a flood up to which it is one whatever order they come in. Of more, in a window of
hundreds, a near-loop that says them again is the better name, and begins later."""
LASTING_COPIES, LASTING_TOKENS = 8, 1000
"""Copies and repeated tokens from which on an exact loop is one by itself. A shorter one may be a stretch of
a near-loop that is exact by chance: the near-loop is then where it began, and a threshold must not lie after
it. A generation that is aborted soon after its alarm never reaches this length."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What the detectors saw of one output, beside their symptoms.

    tokens: output tokens. open_from: first tokens of what was still open at the end, by detector. numbered:
    whether the output has units. units: complete ones. headings: begun ones. sentence_from: first token of
    the first sentence that begins at a position or later. sense_lost: where a loss of sense that is known
    from a position on began (`dating`). unit_head: see `SuiteContext`. reasoning:
    tokens up to the end of the reasoning before the answer.
    """

    tokens: int
    open_from: tuple[int | None, ...] = ()
    numbered: bool = False
    units: int | None = None
    headings: int | None = None
    sentence_from: Callable[[int], int] | None = None
    sense_lost: Callable[[int], int] | None = None
    unit_head: Callable[[int], int] | None = None
    reasoning: int = 0


def conclude(found: Iterable[Symptom], seen: Observed) -> GenerationVerdict:
    """The one verdict of all detectors over one output."""
    symptoms = resolve_symptoms(list(found))
    first = first_confirmed(symptoms)
    onset = None if first is None else _date_onset(first, symptoms, seen)
    recovered, to_end = loop_endings(symptoms)
    return GenerationVerdict(
        tokens=seen.tokens,
        observed=_observed_until(symptoms, seen) if onset is None else onset - 1,
        onset=onset,
        alarm=first.alarm if first else None,
        symptom=first.kind if first else None,
        symptoms=tuple(symptoms),
        zones=derive_zones(seen.tokens, onset, symptoms),
        units=seen.units,
        headings=seen.headings,
        recovered=recovered,
        loops_to_end=to_end,
        score=score_of(symptoms),
        reasoning=seen.reasoning,
    )


def symptom_order(symptom: Symptom) -> tuple[int, int, int, str]:
    """The key by which the first of several symptoms is the one that a verdict names."""
    return symptom.onset, symptom.alarm, symptom_info(symptom.kind).precedence, symptom.kind


def first_confirmed(symptoms: Iterable[Symptom]) -> Symptom | None:
    return min((s for s in symptoms if s.confirmed), key=symptom_order, default=None)


def loop_endings(symptoms: Iterable[Symptom]) -> tuple[bool, bool]:
    """(whether loops were confirmed and all of them ended, whether one continues to the last token)."""
    loops = [s for s in symptoms if s.confirmed and symptom_info(s.kind).loop]
    to_end = any(loop.end is None for loop in loops)
    return bool(loops) and not to_end, to_end


def score_of(symptoms: Iterable[Symptom]) -> float:
    """The strongest symptom's score; that of a warning counts half."""
    return max((s.score if s.confirmed else s.score / 2 for s in symptoms), default=0.0)


def is_long_loop(loop: Symptom) -> bool:
    """Whether an exact loop went on for so long that it is one by itself. Not known of equal records, whose
    copies are not counted in tokens."""
    copies, repeated = float(loop.detail.get("exponent", 0)), int(loop.detail.get("repeated", 0))
    return copies >= LASTING_COPIES and repeated >= LASTING_TOKENS


def resolve_symptoms(symptoms: list[Symptom]) -> list[Symptom]:
    """All symptoms by onset, each failure once.

    A loop of few words floods its window from its first copy on, which is legitimate text, and an exact
    loop is a near-loop too. A near-loop that leads into an exact loop, and was not proven before that
    loop's second copy, is how the loop began: a warning. The exact onset is better known.
    """
    exact = [s for s in symptoms if s.kind is SymptomKind.LOOP and s.confirmed]
    endless = [s for s in symptoms if s.confirmed and s.end is None and symptom_info(s.kind).endless]
    near = [_demote_near_loop(s, exact) for s in symptoms if s.kind is SymptomKind.NEAR_LOOP]
    near = [s for s in near if not any(_covers(loop, s.onset) for loop in exact)]
    others = [s for s in symptoms if s.kind is not SymptomKind.NEAR_LOOP]
    proven = [s for s in symptoms if s.kind is SymptomKind.NEAR_LOOP and s.confirmed]
    kept = [s for s in others if not _explained(s, exact, proven, endless)]
    known = [_with_near_loop_alarm(s, symptoms) if s in exact else s for s in kept]
    return sorted([*known, *near], key=symptom_order)


def derive_zones(tokens: int, onset: int | None, symptoms: Sequence[Symptom]) -> tuple[Zone, ...]:
    """Stable to the first warning, drifting to the onset, collapsed from there on: covers 1..tokens."""
    if tokens == 0:
        return ()
    collapsed = tokens + 1 if onset is None else onset
    warned = min((s.onset for s in symptoms if not s.confirmed), default=collapsed)
    bounds = (
        (ZoneKind.STABLE, 1, min(warned, collapsed) - 1),
        (ZoneKind.DRIFTING, min(warned, collapsed), collapsed - 1),
        (ZoneKind.COLLAPSED, collapsed, tokens),
    )
    return tuple(Zone(kind, start, end) for kind, start, end in bounds if start <= end)


def _explained(
    symptom: Symptom, exact: Sequence[Symptom], near: Sequence[Symptom], endless: Sequence[Symptom]
) -> bool:
    """Whether another failure explains it: an exact loop, of a flood a near-loop too, or a failure in whose
    last sentence it ends."""
    info = symptom_info(symptom.kind)
    flood = symptom.kind is SymptomKind.FLOODING
    words = symptom.detail.get("words")
    loops = [*exact, *near] if flood and isinstance(words, list | tuple) and len(words) > HANDFUL else exact
    if info.caused_by_loop and any(
        _covers(loop, symptom.onset) or (flood and _is_mostly(loop, symptom)) for loop in loops
    ):
        return True
    return info.ends_answer and any(_same_ending(failure, symptom) for failure in endless)


def _is_mostly(loop: Symptom, flood: Symptom) -> bool:
    """Whether most of what was there of a flood at its alarm was the loop: a few words of the text before it,
    which the loop has too, do not make the flood older."""
    start = loop.onset if loop.start is None else loop.start
    led = start - flood.onset
    return 0 < led <= flood.alarm - start and (loop.end is None or flood.alarm <= loop.end)


def _with_near_loop_alarm(loop: Symptom, symptoms: Iterable[Symptom]) -> Symptom:
    """The exact loop, with the alarm of the near-loop that it was known as before, if it was."""
    alarms = [
        s.alarm
        for s in symptoms
        if s.kind is SymptomKind.NEAR_LOOP and s.confirmed and loop.onset <= s.alarm < loop.alarm
        if _covers(loop, s.onset) or _leads_into(s, loop)
    ]
    return replace(loop, alarm=min(alarms)) if alarms else loop


def _demote_near_loop(near: Symptom, exact: Iterable[Symptom]) -> Symptom:
    """The near-loop, as a warning if it extends into an exact loop and was proven only by it."""
    return replace(near, confirmed=False) if any(_leads_into(near, loop) for loop in exact) else near


def _leads_into(near: Symptom, loop: Symptom) -> bool:
    return near.onset < loop.onset <= near.alarm and (near.end is None or near.end >= loop.onset)


def _same_ending(failure: Symptom, truncation: Symptom) -> bool:
    """What ends the output ends it in mid-sentence: the sentence that is cut is the failure's own."""
    return (failure.onset if failure.start is None else failure.start) <= truncation.alarm


def _covers(loop: Symptom, position: int) -> bool:
    start = loop.onset if loop.start is None else loop.start
    return start <= position and (loop.end is None or position <= loop.end)


def _observed_until(symptoms: Iterable[Symptom], seen: Observed) -> int:
    """Up to the oldest open candidate, and up to a warning that has not ended where the output does."""
    opened = list(seen.open_from)
    opened += [s.onset for s in symptoms if s.end is None and _may_be_confirmed(s, seen.numbered)]
    return min((start - 1 for start in opened if start is not None), default=seen.tokens)


def _may_be_confirmed(warning: Symptom, numbered: bool) -> bool:
    """A change of entropy never is, nor are odd sentences in a text without units."""
    info = symptom_info(warning.kind)
    return not info.needs_logprobs and (numbered or not info.needs_units)


def _date_onset(first: Symptom, symptoms: Iterable[Symptom], seen: Observed) -> int:
    """The onset of the first symptom, dated back by the warnings that belong to it.

    A warning from the text itself (a shrinking sentence, a foreign passage) that leads up to the
    onset is where it began. A rise of entropy is not text: it moves the onset to the first sentence
    that begins after the change, so that no sentence is accused in which the model was still sure.
    """
    onset = first.onset
    if first.kind is SymptomKind.LOOP:
        if is_long_loop(first):
            return onset  # what led into it was drifting: the second copy is the first without new content
        led = [s.onset for s in symptoms if s.kind is SymptomKind.NEAR_LOOP and _leads_into(s, first)]
        return min([onset, *led])
    info = symptom_info(first.kind)
    dates = [onset]
    if info.gradual and seen.sense_lost is not None:
        dates.append(seen.sense_lost(onset))
    if first.kind is SymptomKind.NEAR_LOOP and seen.unit_head is not None:
        dates.append(seen.unit_head(onset))  # a copy begins with its own name or number
    if info.exact_onset:
        return min(dates)
    for warning in symptoms:
        if warning.confirmed or not onset - WARNING_LOOKBACK <= warning.onset < onset:
            continue
        if not symptom_info(warning.kind).needs_logprobs:
            if warning.end is None or warning.end >= onset - 1:
                dates.append(warning.onset)
        elif warning.detail.get("direction") == "up" and seen.sentence_from is not None:
            dates.append(seen.sentence_from(warning.onset))
    return min(dates)


@dataclass(frozen=True, slots=True)
class PositionMap:
    """From 1-based positions on one scale to those on another, both non-decreasing.

    length: positions on the new scale. first: where that begins which began at a position. last: how far
    that reaches which reached up to a position (0: nothing).
    """

    length: int
    first: Callable[[int], int]
    last: Callable[[int], int]

    def symptom(self, symptom: Symptom) -> Symptom:
        """The symptom on the new scale; alarm and end are never before its onset."""
        onset = self.first(symptom.onset)
        return replace(
            symptom,
            onset=onset,
            alarm=max(onset, self.last(symptom.alarm)),
            start=None if symptom.start is None else self.first(symptom.start),
            end=None if symptom.end is None else max(onset, self.last(symptom.end)),
        )

    def zones(self, zones: Sequence[Zone]) -> tuple[Zone, ...]:
        """The zones on the new scale, which meet without a gap: each ends where the next one begins."""
        starts = [*(self.first(zone.start) for zone in zones), self.length + 1]
        return tuple(
            Zone(zone.kind, start, after - 1)
            for zone, start, after in zip(zones, starts, starts[1:], strict=False)
            if start < after
        )

    def verdict(self, verdict: GenerationVerdict) -> GenerationVerdict:
        onset = None if verdict.onset is None else self.first(verdict.onset)
        observed, reasoning = self.last(verdict.observed), self.last(verdict.reasoning)
        if onset is not None and verdict.onset_in is AnswerPart.REASONING:
            reasoning = max(reasoning, onset)  # rounding must not move an onset out of the reasoning
        return replace(
            verdict,
            tokens=self.length,
            observed=observed if onset is None else min(observed, onset - 1),
            onset=onset,
            alarm=None if verdict.alarm is None else max(onset or 1, self.last(verdict.alarm)),
            symptoms=tuple(map(self.symptom, verdict.symptoms)),
            zones=self.zones(verdict.zones),
            reasoning=reasoning,
        )
