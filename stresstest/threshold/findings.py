"""What a check says beside its test: smaller limit, new symptoms, another plane, earlier failures. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stresstest.model import Finding, FindingKind, Observation, Severity, Side
from stresstest.threshold.comparison import log_rank
from stresstest.threshold.sample import outcome

LOG_RANK_LEVEL = 0.01
"""Two-sided. Stricter than the test: a warning that comes every twentieth week is not read."""


def findings(
    baseline: Side,
    candidate: Side,
    *,
    max_drop: float,
    candidate_open: bool,
    p: float | None,
    earlier: bool,
    errors: Collection[FindingKind] = (),
) -> tuple[Finding, ...]:
    """What became worse. max_drop: tolerated fall of the safe max_tokens, a share. errors: kinds that fail.

    candidate_open: no onset was seen in it, so its limit is where its sample thins out, and has not fallen.
    p: of the log-rank test. earlier: the candidate fails more often per token observed.
    """
    found = [
        (FindingKind.MAX_DROP, None if candidate_open else _drop(baseline, candidate, max_drop)),
        (FindingKind.NEW_SYMPTOMS, _new_symptoms(baseline, candidate)),
        (FindingKind.PLANE_MOVED, _moved(baseline, candidate)),
        (FindingKind.SURVIVAL, _survival(p) if earlier else None),
    ]
    return tuple(
        Finding(kind, sentence, Severity.ERROR if kind in errors else Severity.WARN)
        for kind, sentence in found
        if sentence is not None
    )


def _drop(baseline: Side, candidate: Side, max_drop: float) -> str | None:
    before, after = baseline.safe_max_tokens, candidate.safe_max_tokens
    if before is None:
        return None
    if after is None:
        return f"nothing is certified for the candidate; the baseline's safe max_tokens was {before:,}"
    fall = 1.0 - after / before
    if fall <= max_drop:
        return None
    return f"the safe max_tokens fell from {before:,} to {after:,}, by {fall:.0%} (tolerated: {max_drop:.0%})"


def _new_symptoms(baseline: Side, candidate: Side) -> str | None:
    new = {kind: n for kind, n in candidate.symptoms.items() if kind not in baseline.symptoms}
    if not new:
        return None
    words = ", ".join(f"{kind.replace('_', ' ')} in {n}" for kind, n in new.items())
    return f"new symptoms: {words} of {candidate.generations} generations"


def _moved(baseline: Side, candidate: Side) -> str | None:
    if baseline.plane is None or candidate.plane is None or baseline.plane is candidate.plane:
        return None
    return f"failures moved from the {baseline.plane} plane to the {candidate.plane} plane"


def _survival(p: float | None) -> str | None:
    if p is None or p >= LOG_RANK_LEVEL:
        return None
    return f"the candidate fails earlier over the whole length (log-rank p = {p:.2g})"


def compared_survival(
    baseline: Sequence[Observation], candidate: Sequence[Observation]
) -> tuple[float | None, bool]:
    """(log-rank p, whether the candidate fails more often per token observed)."""
    return log_rank(baseline, candidate), _hazard(candidate) > _hazard(baseline)


def _hazard(sample: Sequence[Observation]) -> float:
    found = [outcome(o) for o in sample]
    exposure = sum(o.reach if o.onset is None else o.onset for o in found)
    return sum(o.onset is not None for o in found) / exposure if exposure else 0.0
