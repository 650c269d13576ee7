"""The outcome of each arm: its forks' answers, those of its control, and the comparison. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from stresstest.diagnosis.intervention.arms import NOTHING, UNCHANGED
from stresstest.diagnosis.intervention.exact import can_still_clear, compare_with_unchanged
from stresstest.diagnosis.intervention.forks import Fork, symptom_family
from stresstest.model import Arm, ArmResult, GenerationRecord, SymptomKind
from stresstest.statistics.comparison import more_failures_p

CONTROL_FORKS = 8
"""Forks that are continued unchanged beside the last answers of an arm's look."""
CONTROL_LEVEL = 0.01
"""Significance level of the comparison of an arm with its control."""


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
    tokens, those of its controls included. lost: forks without an answer (service failures). controls: of
    each look, the forks that were continued at the same time, unchanged and with a change that is none."""

    arm: Arm
    answers: dict[str, ForkOutcome] = field(default_factory=dict)
    early: bool = False
    tokens: int = 0
    lost: int = 0
    controls: list[ArmOutcome] = field(default_factory=list)

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

    @property
    def control_counts(self) -> tuple[int, int]:
        """(failed, n) of all controls."""
        return _counts(self.controls)

    @property
    def control_words(self) -> str:
        """How the forks of the controls were continued."""
        return " or ".join(dict.fromkeys(map(_continued, self.controls))) or UNCHANGED

    @property
    def weakest_control(self) -> tuple[str, int, int]:
        """How the forks of that control were continued of which the fewest failed again; failed, and n."""
        kinds: dict[str, list[ArmOutcome]] = {}
        for control in self.controls:
            kinds.setdefault(_continued(control), []).append(control)
        found = [(words, *_counts(controls)) for words, controls in kinds.items()]
        return min(found, key=lambda kind: kind[1] / max(kind[2], 1), default=(UNCHANGED, 0, 0))

    @property
    def is_controlled(self) -> bool:
        """Whether the failure was still there while the arm ran.

        At each look at least half of each control failed again, and all in all more often than under the arm
        (Fisher's exact test).
        """
        if not self.controls or any(2 * sum(c.failures.values()) < CONTROL_FORKS for c in self.controls):
            return False
        own = sum(self.failures.values()), len(self.failures)
        return more_failures_p(own, self.control_counts) <= CONTROL_LEVEL


def _counts(controls: Sequence[ArmOutcome]) -> tuple[int, int]:
    found = [failed for control in controls for failed in control.failures.values()]
    return sum(found), len(found)


def _continued(control: ArmOutcome) -> str:
    return UNCHANGED if control.arm.changed == NOTHING else control.arm.changed


def choose_control(forks: Sequence[Fork], unchanged: ArmOutcome) -> list[Fork]:
    """The forks to continue as a control beside an arm: the first that failed again unchanged before."""
    return [fork for fork in forks if unchanged.failures.get(fork.key)][:CONTROL_FORKS]


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
    control_failed, control_n = (0, 0) if outcome.early else outcome.control_counts
    return ArmResult(
        name=outcome.arm.name,
        plane=outcome.arm.plane,
        changed=outcome.arm.changed,
        n=found.n,
        failed=found.failed,
        unchanged_failed=found.unchanged_failed,
        p=found.p,
        upper=found.upper,
        clears=found.clears and outcome.arm.plane is not None and outcome.is_controlled,
        decided_early=outcome.early,
        symptoms=dict(outcome.symptoms.most_common()),
        median_onset=outcome.median_onset,
        tokens=outcome.tokens,
        lost=outcome.lost,
        short=len(outcome.short),
        control_n=control_n,
        control_failed=control_failed,
        control=outcome.control_words,
    )


def seems_to_clear(outcome: ArmOutcome, unchanged: ArmOutcome, arms: int) -> bool:
    """Whether the arm passes the test, whatever its control shows."""
    return compare_with_unchanged(unchanged.failures, outcome.failures, arms=arms).clears


def can_clear(outcome: ArmOutcome, unchanged: ArmOutcome, forks: Sequence[Fork], arms: int) -> bool:
    """Whether the arm can still clear at any look."""
    keys, void = [fork.key for fork in forks], outcome.short | unchanged.short
    return can_still_clear(unchanged.failures, outcome.failures, keys, arms=arms, void=void)
