"""From the arms' outcomes to the plane of a link: the first that clears, or what is lacking. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import median

from stresstest.diagnosis.arms import ALONE, BOTH, CONTEXT, UNCHANGED
from stresstest.diagnosis.exact import Comparison, can_still_clear, compare, prompts_needed
from stresstest.diagnosis.forks import Fork, family
from stresstest.model import Arm, ArmResult, Basis, Generation, Plane, SymptomKind

REPRODUCED = 0.5
"""Share of the forks that must fail unchanged: below it there is little for an arm to clear."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One fork under one arm. onset: 1-based token of the whole answer, None without one.

    short: it ended in good order before the place where the original failed, with less than was asked for.
    It never got there, so it tells nothing of what would have happened.
    """

    failed: bool
    onset: int | None
    symptom: SymptomKind | None
    short: bool = False


@dataclass(slots=True)
class Outcome:
    """An arm's answers by fork, as far as it has got. early: stopped because it cannot clear any more."""

    arm: Arm
    answers: dict[str, Answer] = field(default_factory=dict)
    early: bool = False
    tokens: int = 0
    lost: int = 0

    @property
    def failures(self) -> dict[str, bool]:
        """Whether it failed, by fork, of those that tell."""
        return {key: answer.failed for key, answer in self.answers.items() if not answer.short}

    @property
    def short(self) -> set[str]:
        """Forks that tell nothing."""
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
        return Counter(family(a.symptom) for a in self.answers.values() if a.failed)


def judged(fork: Fork, generation: Generation, *, truncated: bool = False) -> Answer:
    """What a continuation shows; its first token stands behind the fork's cut, whatever was kept."""
    onset = generation.verdict.onset
    whole = None if onset is None else fork.cut + onset
    failed = whole is not None and whole <= fork.window
    return Answer(
        failed, whole, generation.verdict.symptom, not failed and _short(fork, generation, truncated)
    )


def _short(fork: Fork, generation: Generation, truncated: bool) -> bool:
    if generation.finish_reason != "stop" or fork.cut + generation.verdict.tokens >= fork.onset:
        return False
    asked, got = generation.job.units, generation.verdict.units
    unseen = fork.units_before if truncated else 0
    return asked is None or got is None or got + unseen < asked


def result(outcome: Outcome, unchanged: Outcome, arms: int) -> ArmResult:
    """The arm's line of the table."""
    found = compare(unchanged.failures, outcome.failures, arms=arms)
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
class Decision:
    """The plane of a link. arm: the one that cleared it. lacking: why there is none."""

    plane: Plane | None
    basis: Basis | None
    arm: Arm | None = None
    lacking: str | None = None
    note: str | None = None


def decide(outcomes: Mapping[str, Outcome], *, arms: int, forks: int) -> Decision:
    """The first plane that clears: system, decoding, context; else both at once; else what is lacking.

    outcomes: by arm's name, those that were run. arms: how many were declared, less the unchanged one.
    """
    needed = prompts_needed(arms)
    if forks < needed:
        return Decision(None, None, lacking=f"{needed} failing prompts are needed, {forks} are there")
    unchanged = outcomes[UNCHANGED]
    alone = outcomes.get(ALONE)
    if alone is not None and result(alone, unchanged, arms).clears:
        return Decision(Plane.SYSTEM, Basis.CONFIRMED, alone.arm)
    rate = _rate(unchanged)
    if rate < REPRODUCED or sum(unchanged.failures.values()) < needed:
        return Decision(None, None, lacking=_unstable(unchanged, rate, needed))
    for outcome in outcomes.values():
        if outcome.arm.plane is Plane.DECODING and result(outcome, unchanged, arms).clears:
            return Decision(Plane.DECODING, Basis.CONFIRMED, outcome.arm)
    context = outcomes.get(CONTEXT)
    if context is not None and result(context, unchanged, arms).clears:
        return Decision(Plane.CONTEXT, Basis.CONFIRMED, context.arm)
    return two_at_once(outcomes, arms) or Decision(None, None, lacking=_nothing(outcomes, arms, needed, rate))


def candidate(outcomes: Mapping[str, Outcome]) -> Outcome | None:
    """The decoding that goes into the arm with both changes: the one whose failures are of another kind than
    the unchanged ones, and come latest. None where every decoding fails as the unchanged one does."""
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


def two_at_once(outcomes: Mapping[str, Outcome], arms: int) -> Decision | None:
    """Two planes at once: each change heals only where the other one has been made too.

    Each is proven in the other's background, by the same rule: the context arm against both changes for
    decoding, the decoding arm against both for context. Where both are proven, the first to strike is the
    one whose symptom the unchanged forks show.
    """
    both, context = outcomes.get(BOTH), outcomes.get(CONTEXT)
    if both is None or context is None:
        return None
    decoded = next((o for o in outcomes.values() if _same_decoding(o, both)), None)
    if decoded is None:
        return None
    heals_decoding = compare(context.failures, both.failures, arms=arms).clears
    heals_context = compare(decoded.failures, both.failures, arms=arms).clears
    if not (heals_decoding or heals_context):
        return None
    usual = outcomes[UNCHANGED].families.most_common(1)[0][0]
    decoding_first = context.families[usual] >= decoded.families[usual]
    note = "two failures close together: changed decoding and a short context heal only together"
    if heals_decoding and (decoding_first or not heals_context):
        return Decision(Plane.DECODING, Basis.CONFIRMED, decoded.arm, note=note)
    return Decision(Plane.CONTEXT, Basis.CONFIRMED, both.arm, note=note)


def _same_decoding(outcome: Outcome, both: Outcome) -> bool:
    return outcome.arm.plane is Plane.DECODING and outcome.arm.decoding == both.arm.decoding


def _rate(outcome: Outcome) -> float:
    return sum(outcome.failures.values()) / len(outcome.failures) if outcome.failures else 0.0


def _unstable(unchanged: Outcome, rate: float, needed: int) -> str:
    failed, n = sum(unchanged.failures.values()), len(unchanged.failures)
    if not failed:
        return f"none of {n} failing answers failed again when continued unchanged"
    more = ceil(needed / rate)
    return (
        f"only {failed} of {n} failing answers failed again when continued unchanged; about {more} failing "
        f"prompts are needed"
    )


def _nothing(outcomes: Mapping[str, Outcome], arms: int, needed: int, rate: float) -> str:
    tried = [o for o in outcomes.values() if o.arm.plane is not None]
    near = min((_comparison(o, outcomes[UNCHANGED], arms) for o in tried), key=lambda c: c.p, default=None)
    sentence = f"none of the {len(tried)} changes that were tried keeps these answers healthy"
    if ending := [o for o in tried if 2 * len(o.short) > len(o.answers)]:
        words = " and ".join(o.arm.changed for o in ending)
        sentence += f"; under {words} most answers end before the place of the failure, which proves nothing"
    if near is not None and near.better and near.p < 0.05:
        more = max(ceil(needed / rate), near.n + needed)
        sentence += (
            f"; the nearest heals {near.better} of {near.unchanged_failed} (p = {near.p:.2g}): "
            f"{more} failing prompts may decide"
        )
    return sentence


def _comparison(outcome: Outcome, unchanged: Outcome, arms: int) -> Comparison:
    return compare(unchanged.failures, outcome.failures, arms=arms)


def can_clear(outcome: Outcome, unchanged: Outcome, forks: Sequence[Fork], arms: int) -> bool:
    """Whether the arm can still clear, at whatever look."""
    keys, void = [fork.key for fork in forks], outcome.short | unchanged.short
    return can_still_clear(unchanged.failures, outcome.failures, keys, arms=arms, void=void)
