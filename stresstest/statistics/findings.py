"""What a check finds beside its test: lower limits, new symptoms, another plane, earlier failures.

On recorded outputs the test uses the first output of each prompt and assumes a fresh sample. Neither is
planned: the omitted outputs may be the failing ones, and the candidate's outputs copies of the baseline's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from stresstest.detectors.registry import symptom_info
from stresstest.model import ComparisonSide, Finding, FindingKind, Observation, Severity
from stresstest.model.percent import percent
from stresstest.statistics.certify import clustered_interval
from stresstest.statistics.comparison import ObservationStatus, clustered_risk, log_rank, observation_status
from stresstest.statistics.sample import censor

LOG_RANK_LEVEL = 0.01
"""Two-sided. Stricter than the test, because frequent false warnings are ignored."""


def check_findings(
    baseline: ComparisonSide,
    candidate: ComparisonSide,
    *,
    max_drop: float,
    candidate_open: bool,
    p: float | None,
    earlier: bool,
    errors: Collection[FindingKind] = (),
) -> tuple[Finding, ...]:
    """What became worse. max_drop: tolerated relative decrease of the safe max_tokens.

    candidate_open: the candidate has no onset, so its threshold only reflects how far it was observed, and is
    not compared. p: of the log-rank test. earlier: the candidate fails more often per observed token. errors:
    kinds of findings that fail the check.
    """
    found = [
        (FindingKind.MAX_DROP, None if candidate_open else _drop(baseline, candidate, max_drop)),
        (FindingKind.NEW_SYMPTOMS, _new_symptoms(baseline, candidate)),
        (FindingKind.PLANE_MOVED, _plane_moved(baseline, candidate)),
        (FindingKind.SURVIVAL, _survival(p) if earlier else None),
    ]
    return tuple(
        Finding(kind, sentence, Severity.ERROR if kind in errors else Severity.WARN)
        for kind, sentence in found
        if sentence is not None
    )


def _drop(baseline: ComparisonSide, candidate: ComparisonSide, max_drop: float) -> str | None:
    what, before, after = "safe max_tokens", baseline.safe_max_tokens, candidate.safe_max_tokens
    if before is None:
        what, before = "certified length less the margin", baseline.limit_without_cap
        after = candidate.limit_without_cap if after is None else after
    if before is None:
        return None
    if after is None:
        certified = baseline.safe_max_tokens is not None and candidate.threshold is not None
        nothing = "no cap is recommended" if certified else "nothing is certified"
        return f"{nothing} for the candidate; the baseline's {what} was {before:,}"
    fall = 1.0 - after / before
    if fall <= max_drop:
        return None
    tolerated = f"tolerated: {percent(max_drop)}"
    return f"the {what} fell from {before:,} to {after:,}, by {percent(fall)} ({tolerated})"


def _new_symptoms(baseline: ComparisonSide, candidate: ComparisonSide) -> str | None:
    new = {kind: n for kind, n in candidate.symptoms.items() if kind not in baseline.symptoms}
    if not new:
        return None
    words = ", ".join(f"{symptom_info(kind).label} in {n}" for kind, n in new.items())
    return f"new symptoms: {words} of {candidate.generations} generations"


def _plane_moved(baseline: ComparisonSide, candidate: ComparisonSide) -> str | None:
    if baseline.plane is None or candidate.plane is None or baseline.plane is candidate.plane:
        return None
    return f"failures moved from the {baseline.plane} plane to the {candidate.plane} plane"


def _survival(p: float | None) -> str | None:
    if p is None or p >= LOG_RANK_LEVEL:
        return None
    return f"the candidate fails earlier over the whole length (log-rank p = {p:.2g})"


def compare_survival(
    baseline: Sequence[Observation], candidate: Sequence[Observation]
) -> tuple[float | None, bool]:
    """(log-rank p, whether the candidate fails more often per token observed)."""
    return log_rank(baseline, candidate), _hazard(candidate) > _hazard(baseline)


def _hazard(sample: Sequence[Observation]) -> float:
    found = [censor(o) for o in sample]
    exposure = sum(o.reach if o.onset is None else o.onset for o in found)
    return sum(o.onset is not None for o in found) / exposure if exposure else 0.0


@dataclass(frozen=True, slots=True)
class LeftAsideOutputs:
    """Further outputs of prompts whose first output was tested.

    at_risk, failed: n and d for T. lower: one-sided bound of their risk at T, prompts as clusters; None if
    none is at risk.
    """

    outputs: int
    at_risk: int
    failed: int
    lower: float | None


def assess_left_aside(
    tokens: int, further: Sequence[Observation], confidence: float
) -> LeftAsideOutputs | None:
    """The risk at T = `tokens` among the outputs that the test omits; None if there are none.

    confidence: one-sided, of `lower` (Clopper-Pearson at the effective sample size, Korn & Graubard 1998).
    """
    if not further:
        return None
    d, n, effective = clustered_risk(tokens, further)
    lower = clustered_interval(d, n, effective / n, 2.0 * confidence - 1.0)[0] if n else None
    return LeftAsideOutputs(len(further), n, d, lower)


def count_repeated(
    tokens: int, baseline: Iterable[Observation], candidate: Iterable[Observation]
) -> tuple[int, int]:
    """(identical to an output of the baseline, all) among the candidate's outputs that are healthy at T."""
    known = {o.digest for o in baseline if o.digest is not None}
    healthy = [o for o in candidate if observation_status(tokens, o) is ObservationStatus.HEALTHY]
    return sum(o.digest in known for o in healthy), len(healthy)
