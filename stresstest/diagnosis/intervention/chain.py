"""Decides the plane of a link from the outcomes of its arms: the first plane that clears. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from statistics import median

from stresstest.diagnosis.evidence.server import is_lost
from stresstest.diagnosis.intervention.arms import ALONE, BOTH, CONTEXT, UNCHANGED
from stresstest.diagnosis.intervention.exact import (
    LOOK_SIZES,
    SIGNIFICANCE_LEVEL,
    can_still_clear,
    compare_with_unchanged,
    homogeneity_p,
    prompts_needed,
)
from stresstest.diagnosis.intervention.forks import MAX_FORKS, Fork, select_failing, symptom_family
from stresstest.diagnosis.intervention.wording import link_sentence
from stresstest.model import Arm, ArmResult, Basis, CauseLink, GenerationRecord, Plane, SymptomKind

MIN_REPRODUCED_SHARE = 0.5
"""Minimum share of the forks that must fail again unchanged; with fewer, no arm can be assessed."""


@dataclass(frozen=True, slots=True)
class ForkOutcome:
    """One fork under one arm. onset: 1-based token of the whole answer, None without one.

    short: it ended normally before the position where the original failed, with fewer units than requested,
    so it is not informative.
    """

    failed: bool
    onset: int | None
    symptom: SymptomKind | None
    short: bool = False


@dataclass(slots=True)
class ArmOutcome:
    """An arm's answers so far, by fork. early: stopped because it can no longer clear. tokens: output
    tokens. lost: forks without an answer (service failures)."""

    arm: Arm
    answers: dict[str, ForkOutcome] = field(default_factory=dict)
    early: bool = False
    tokens: int = 0
    lost: int = 0

    @property
    def failures(self) -> dict[str, bool]:
        """Whether the answer failed, by fork, without short answers."""
        return {key: answer.failed for key, answer in self.answers.items() if not answer.short}

    @property
    def short(self) -> set[str]:
        """Forks with a short answer."""
        return {key for key, answer in self.answers.items() if answer.short}

    @property
    def symptoms(self) -> Counter[str]:
        return Counter(str(a.symptom) for a in self.answers.values() if a.failed)

    @property
    def median_onset(self) -> float | None:
        onsets = [a.onset for a in self.answers.values() if a.failed and a.onset is not None]
        return median(onsets) if onsets else None

    @property
    def families(self) -> Counter[str]:
        return Counter(symptom_family(a.symptom) for a in self.answers.values() if a.failed)


def assess_continuation(fork: Fork, generation: GenerationRecord, *, truncated: bool = False) -> ForkOutcome:
    """The outcome of a continuation. Its tokens are counted from the fork's cut, whatever context was kept.

    truncated: its prompt contained the last units only.
    """
    onset = generation.verdict.onset
    whole = None if onset is None else fork.cut + onset
    failed = whole is not None and whole <= fork.window
    return ForkOutcome(
        failed, whole, generation.verdict.symptom, not failed and _short(fork, generation, truncated)
    )


def _short(fork: Fork, generation: GenerationRecord, truncated: bool) -> bool:
    if generation.finish_reason != "stop" or fork.cut + generation.verdict.tokens >= fork.onset:
        return False
    asked, got = generation.job.units, generation.verdict.units
    unseen = fork.units_before if truncated else 0
    return asked is None or got is None or got + unseen < asked


def arm_result(outcome: ArmOutcome, unchanged: ArmOutcome, arms: int) -> ArmResult:
    """The arm's result against the unchanged arm. arms: number declared, without the unchanged one."""
    found = compare_with_unchanged(unchanged.failures, outcome.failures, arms=arms)
    baseline = outcome.arm.plane is None
    return ArmResult(
        name=outcome.arm.name,
        plane=outcome.arm.plane,
        changed=outcome.arm.changed,
        n=found.n,
        failed=found.failed,
        unchanged_failed=found.unchanged_failed,
        p=found.p,
        upper=found.upper,
        clears=found.clears and not baseline,
        decided_early=outcome.early,
        symptoms=dict(outcome.symptoms.most_common()),
        median_onset=outcome.median_onset,
        tokens=outcome.tokens,
        lost=outcome.lost,
        short=len(outcome.short),
    )


@dataclass(frozen=True, slots=True)
class PlaneDecision:
    """The plane of a link. arm: the one that cleared it. lacking: why no plane was found."""

    plane: Plane | None
    basis: Basis | None
    arm: Arm | None = None
    lacking: str | None = None
    note: str | None = None


def decide_plane(
    outcomes: Mapping[str, ArmOutcome], *, arms: int, forks: int, order: Sequence[str] = ()
) -> PlaneDecision:
    """The first plane that clears, of system, decoding and context; otherwise both changes combined, or none.

    outcomes: by name, of the arms that were run. arms: number declared, without the unchanged one. forks:
    number of failing prompts. order: the keys of the forks as they were continued.
    """
    needed = prompts_needed(arms)
    if forks < needed:
        return PlaneDecision(None, None, lacking=f"{needed} failing prompts are needed, {forks} are there")
    unchanged = outcomes[UNCHANGED]
    alone = outcomes.get(ALONE)
    if alone is not None and arm_result(alone, unchanged, arms).clears:
        return PlaneDecision(Plane.SYSTEM, Basis.CONFIRMED, alone.arm)
    if (changed := _changed_meanwhile(unchanged, order)) is not None:
        return PlaneDecision(None, None, lacking=changed)
    failed = sum(unchanged.failures.values())
    rate = failed / len(unchanged.failures) if unchanged.failures else 0.0
    if rate < MIN_REPRODUCED_SHARE or failed < needed:
        return PlaneDecision(None, None, lacking=_unreproduced(unchanged, rate, needed))
    for outcome in outcomes.values():
        if outcome.arm.plane is Plane.DECODING and arm_result(outcome, unchanged, arms).clears:
            return PlaneDecision(Plane.DECODING, Basis.CONFIRMED, outcome.arm)
    context = outcomes.get(CONTEXT)
    if context is not None and arm_result(context, unchanged, arms).clears:
        return PlaneDecision(Plane.CONTEXT, Basis.CONFIRMED, context.arm)
    return clears_only_combined(outcomes, arms) or PlaneDecision(
        None, None, lacking=_nothing_clears(outcomes, arms, needed, rate)
    )


def likeliest_decoding(outcomes: Mapping[str, ArmOutcome]) -> ArmOutcome | None:
    """The decoding for the arm with both changes.

    It is the one with the largest share of answers that are healthy or fail differently from the unchanged
    arm. None if that share is at most half for every decoding.
    """
    usual = outcomes[UNCHANGED].families.most_common(1)
    if not usual:
        return None
    found = []
    for outcome in outcomes.values():
        if outcome.arm.plane is Plane.DECODING and outcome.failures:
            other = sum(n for kind, n in outcome.families.items() if kind != usual[0][0])
            healthy = sum(not failed for failed in outcome.failures.values())
            found.append(((other + healthy) / len(outcome.failures), outcome))
    best = max(found, key=lambda pair: pair[0], default=None)
    return best[1] if best is not None and best[0] > 0.5 else None


def clears_only_combined(outcomes: Mapping[str, ArmOutcome], arms: int) -> PlaneDecision | None:
    """The decision if failures on two planes coincide, so that each change helps only with the other.

    Each plane is confirmed by the same rule with the other change in place: decoding by comparing the context
    arm with both changes, context by comparing the decoding arm with both changes. If both are confirmed, the
    plane whose symptom the unchanged forks show comes first.
    """
    both, context = outcomes.get(BOTH), outcomes.get(CONTEXT)
    if both is None or context is None:
        return None
    decodings = (o for o in outcomes.values() if o.arm.plane is Plane.DECODING)
    decoded = next((o for o in decodings if o.arm.decoding == both.arm.decoding), None)
    if decoded is None:
        return None
    heals_decoding = compare_with_unchanged(context.failures, both.failures, arms=arms).clears
    heals_context = compare_with_unchanged(decoded.failures, both.failures, arms=arms).clears
    if not (heals_decoding or heals_context):
        return None
    usual = outcomes[UNCHANGED].families.most_common(1)[0][0]
    decoding_first = context.families[usual] >= decoded.families[usual]
    note = "two failures close together: a changed decoding and a short context help only in combination"
    if heals_decoding and (decoding_first or not heals_context):
        return PlaneDecision(Plane.DECODING, Basis.CONFIRMED, decoded.arm, note=note)
    return PlaneDecision(Plane.CONTEXT, Basis.CONFIRMED, both.arm, note=note)


def _changed_meanwhile(unchanged: ArmOutcome, order: Sequence[str]) -> str | None:
    """What shows that something else has changed: unchanged forks of the second look that fail far more or
    far less often than those of the first."""
    failures = unchanged.failures
    first, later = (
        [failures[key] for key in keys if key in failures]
        for keys in (order[: LOOK_SIZES[0]], order[LOOK_SIZES[0] :])
    )
    if homogeneity_p(sum(first), len(first), sum(later), len(later)) > SIGNIFICANCE_LEVEL:
        return None
    return (
        f"{sum(first)} of the first {len(first)} failing answers failed again when continued unchanged, and "
        f"{sum(later)} of the next {len(later)}: something that was not tested has changed meanwhile, such "
        "as the load of others"
    )


def _unreproduced(unchanged: ArmOutcome, rate: float, needed: int) -> str:
    failed, n = sum(unchanged.failures.values()), len(unchanged.failures)
    if not failed:
        return f"none of {n} failing answers failed again when continued unchanged"
    sentence = f"only {failed} of {n} failing answers failed again when continued unchanged"
    return f"{sentence}; {_prompts_that_decide(ceil(needed / rate))}"


def _nothing_clears(outcomes: Mapping[str, ArmOutcome], arms: int, needed: int, rate: float) -> str:
    tried = [o for o in outcomes.values() if o.arm.plane is not None]
    unchanged = outcomes[UNCHANGED].failures
    compared = [compare_with_unchanged(unchanged, o.failures, arms=arms) for o in tried]
    near = min(compared, key=lambda c: c.p, default=None)
    sentence = f"none of the {len(tried)} changes that were tried keeps these answers healthy"
    if ending := [o for o in tried if 2 * len(o.short) > len(o.answers)]:
        words = " and ".join(o.arm.changed for o in ending)
        sentence += f"; under {words} most answers end before the place of the failure, which proves nothing"
    if near is not None and near.better and near.p < 0.05:
        more = max(ceil(needed / rate), near.n + needed)
        sentence += (
            f"; the closest change clears {near.better} of {near.unchanged_failed} (p = {near.p:.2g}): "
            f"{_prompts_that_decide(more)}"
        )
    return sentence


def _prompts_that_decide(number: int) -> str:
    """How many failing prompts would settle it, and whether a diagnosis ever tests so many."""
    decide = f"about {number} failing prompts would be needed to decide"
    return decide if number <= MAX_FORKS else f"{decide}, but a diagnosis tests at most {MAX_FORKS}"


def can_clear(outcome: ArmOutcome, unchanged: ArmOutcome, forks: Sequence[Fork], arms: int) -> bool:
    """Whether the arm can still clear at any look."""
    keys, void = [fork.key for fork in forks], outcome.short | unchanged.short
    return can_still_clear(unchanged.failures, outcome.failures, keys, arms=arms, void=void)


_MIN_FAILING_SHARE = 0.1
"""Minimum share of failing generations for a further link."""


def service_link(run_id: str, generations: Sequence[GenerationRecord]) -> CauseLink | None:
    """The link of a run in which at least half of the failures are service failures; None otherwise."""
    taken = [g for g in generations if is_lost(g)]
    if not taken or len(taken) < len(select_failing(generations)):
        return None
    kinds = Counter(str(g.failure.kind) for g in taken if g.failure is not None)
    link = CauseLink(
        run_id=run_id,
        plane=Plane.SYSTEM,
        basis=Basis.OBSERVED,
        symptom=None,
        median_onset=None,
        n=len(taken),
        sentence="",
        kinds=dict(kinds),
        notes=(f"{len(taken)} of {len(generations)} generations were lost to service failures, a fact",),
    )
    return replace(link, sentence=link_sentence(link))


def has_enough_failures(generations: Sequence[GenerationRecord]) -> bool:
    """Whether enough generations of a campaign fail to form a link."""
    down = len(select_failing(generations)) + sum(is_lost(g) for g in generations)
    return down >= max(2, _MIN_FAILING_SHARE * len(generations))
