"""Two sides to the outcome of one look: the test, what else was found, notes and evidence."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from typing import Any

from stresstest.errors import UsageError
from stresstest.features.check.later_failures import later_failures
from stresstest.features.check.reservations import (
    RecordedReservations,
    answerless_objection,
    count_unanswered,
    few_answers_objection,
    find_reservations,
    foreign_language_objection,
    other_model_objection,
    refuse_same_file,
    replayed_objection,
    reservation_notes,
)
from stresstest.features.check.sides.sample import CheckSample, counts_note
from stresstest.model import CheckVerdict, Comparison, ComparisonSide, FindingKind, Method, Observation
from stresstest.model.percent import percent
from stresstest.statistics.assessment import Assessment, CheckRule, assess_pairs, assess_risk
from stresstest.statistics.comparison import look_confidence
from stresstest.statistics.findings import check_findings, compare_survival
from stresstest.statistics.sample import UNKNOWN_OUTCOME


def compare_samples(
    baseline: CheckSample,
    candidate: CheckSample,
    fresh: CheckSample | None,
    *,
    look: tuple[int, int],
    max_increase: float | None,
    max_drop: float,
    errors: Collection[FindingKind],
) -> Comparison:
    """The baseline's threshold must be certified. look: which one, of how many declared.

    Raises UsageError where a recorded file is on both sides, and for an increase that nothing could exceed.
    """
    refuse_same_file(baseline.files, candidate.files)
    alpha = baseline.threshold.alpha
    increase = alpha if max_increase is None else max_increase
    if alpha + increase >= 1.0:
        raise UsageError(
            f"--max-increase {percent(increase, 1)} and the tolerated {percent(alpha, 1)} together are every "
            f"answer: nothing could fail this check.",
            hint="Give a smaller share, such as --max-increase 2%",
        )
    unit = "words" if baseline.unit == "words" else "tokens"
    rule = CheckRule(baseline.threshold.tokens or 0, alpha, increase, look_confidence(look[1]), unit)
    missing, doubted = count_unanswered(baseline, candidate)
    unread = [UNKNOWN_OUTCOME] * max(candidate.unread, missing if doubted else 0)
    found = _assess(candidate, fresh, rule, unread)
    nothing = (*candidate.empty, *(key for key in candidate.refused if key not in baseline.refused))
    if found.tested is CheckVerdict.PASS and nothing:
        found = _assess(_with_doubtful(candidate, nothing), fresh, rule, unread)
    reservations = find_reservations(baseline, candidate, rule)
    lacking, later_note = candidate.lacking, None
    if found.tested is CheckVerdict.PASS:
        lacking = (
            lacking
            or replayed_objection(baseline, candidate)
            or other_model_objection(baseline, candidate)
            or answerless_objection(candidate)
            or reservations.pass_objection(rule)
            or few_answers_objection(baseline, candidate)
            or foreign_language_objection(baseline, candidate, rule)
        )
        if lacking is None:
            lacking, later_note = later_failures(baseline, candidate, rule)
    if lacking is not None:
        found = replace(found, tested=CheckVerdict.INCONCLUSIVE, lacking=lacking)
    p, earlier = compare_survival(baseline.observations, candidate.observations)
    sides = baseline.to_side(), candidate.to_side(failed=found.failed, at_risk=found.at_risk)
    beside = check_findings(
        *sides,
        max_drop=max_drop,
        candidate_open=candidate.threshold.censored_at is not None,
        p=p,
        earlier=earlier,
        errors=errors,
    )
    return Comparison(
        baseline=sides[0],
        candidate=sides[1],
        at_tokens=baseline.threshold.tokens,
        alpha=alpha,
        max_increase=increase,
        tested=found.tested,
        confidence=rule.confidence,
        method=found.method,
        p_baseline=found.p_baseline,
        p_candidate=found.p_candidate,
        difference=found.difference,
        interval=found.bounds,
        pairs=found.pairs,
        looks=look[1],
        look=look[0],
        lacking=found.lacking,
        findings=beside,
        notes=(*_notes(baseline, candidate, fresh, found, reservations), *filter(None, [later_note])),
        evidence=_evidence(baseline, fresh, found, p, reservations),
    )


def _assess(
    candidate: CheckSample, fresh: CheckSample | None, rule: CheckRule, unread: Sequence[Observation]
) -> Assessment:
    paired = assess_pairs(fresh.by_prompt, candidate.by_prompt, rule) if fresh is not None else None
    return paired or assess_risk([*candidate.observations, *unread], rule)


def _with_doubtful(sample: CheckSample, prompts: Sequence[str]) -> CheckSample:
    """Empty answers, and prompts that the candidate alone refuses, show nothing: for a pass they have failed,
    and no regression follows from them."""
    return replace(
        sample,
        observations=(*sample.observations, *[UNKNOWN_OUTCOME] * len(prompts)),
        by_prompt={**sample.by_prompt, **dict.fromkeys(prompts, UNKNOWN_OUTCOME)},
    )


def uncertified_reason(baseline: CheckSample) -> str:
    """Why nothing can be compared."""
    if baseline.threshold.unfit:
        why = baseline.threshold.withheld or baseline.threshold.lacking or "its answers fail at once"
        return f"the baseline is unfit for this task and language, and what fails as early would pass: {why}"
    why = baseline.lacking or baseline.threshold.lacking or "nothing is certified"
    return f"the baseline has no certified threshold to compare at: {why}"


def undecided_comparison(
    baseline: CheckSample,
    candidate: CheckSample | None,
    name: str,
    lacking: str,
    *,
    max_increase: float | None,
) -> Comparison:
    """A check that came to no test. No candidate: it was not measured; name: what it was called."""
    alpha = baseline.threshold.alpha
    unmeasured = ComparisonSide(name or "the model served there", replace(baseline.subject, model=name))
    return Comparison(
        baseline=baseline.to_side(),
        candidate=unmeasured if candidate is None else candidate.to_side(),
        at_tokens=baseline.threshold.tokens,
        alpha=alpha,
        max_increase=alpha if max_increase is None else max_increase,
        tested=CheckVerdict.INCONCLUSIVE,
        lacking=lacking,
    )


def _notes(
    baseline: CheckSample,
    candidate: CheckSample,
    fresh: CheckSample | None,
    found: Assessment,
    reservations: RecordedReservations,
) -> tuple[str, ...]:
    """What a reader must know before the verdict is used."""
    notes = [*baseline.notes, *candidate.notes]
    if found.tolerated:
        notes.append("The candidate is certainly worse, but by less than the tolerated increase.")
    if fresh is not None and found.method is not Method.TANGO:
        notes.append(
            "The fresh baseline and the candidate have no common prompt at risk for T, so the "
            "candidate was judged alone."
        )
    common = baseline.by_prompt.keys() & candidate.by_prompt.keys()
    same = sum(
        baseline.by_prompt[name].digest == candidate.by_prompt[name].digest is not None for name in common
    )
    if 2 * same > len(common) and not reservations.mostly_same:
        notes.append(
            f"{same} of {len(common)} answers are identical to the baseline's. The sample that "
            f"determined T is tested against itself, which can only show that nothing changed."
        )
    notes += reservation_notes(baseline, candidate, reservations)
    for side, threshold in (("baseline", baseline.threshold), ("candidate", candidate.threshold)):
        if threshold.unfit:
            why = (threshold.withheld or threshold.lacking or "").rstrip(".")
            notes.append(f"The {side} is unfit for this task and language: {why}.")
        elif threshold.withheld is not None:
            notes.append(f"No cap is recommended for the {side}: {threshold.withheld.rstrip('.')}.")
    if "estimate" in baseline.unit + candidate.unit:
        notes.append(
            "Positions are estimates: tokens were distributed over the text according to completion_tokens."
        )
        if note := counts_note(baseline.tokens_a_word, candidate.tokens_a_word):
            notes.append(f"{note} T is one length in tokens, and not the same in text.")
    if candidate.threshold.censored_at is not None and baseline.safe_max_tokens and candidate.safe_max_tokens:
        notes.append(
            "No onset was seen in the candidate. Its own safe max_tokens is limited by its sample, not "
            "by failures."
        )
    return tuple(notes)


def _evidence(
    baseline: CheckSample,
    fresh: CheckSample | None,
    found: Assessment,
    p: float | None,
    reservations: RecordedReservations,
) -> dict[str, Any]:
    """The numbers behind the verdict, for a machine."""
    threshold = baseline.threshold
    return {
        "baseline_threshold": {
            "tokens": threshold.tokens,
            "n": threshold.n,
            "onsets": threshold.onsets,
            "upper": threshold.upper,
            "confidence": threshold.confidence,
        },
        "fresh_baseline": None if fresh is None or fresh.run is None else fresh.run.id,
        **found.evidence,
        "log_rank_p": p,
        "not_used": None if reservations.left_aside is None else asdict(reservations.left_aside),
        "same_as_baseline": reservations.same,
    }
