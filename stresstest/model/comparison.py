"""Results of `check`: a candidate against its baseline, and a project's cells against their budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from stresstest.model.request import Decoding
from stresstest.model.result import Threshold
from stresstest.model.words import Plane, Subject


class CheckVerdict(StrEnum):
    """The result of a check."""

    PASS = "pass"
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


class Method(StrEnum):
    """How the bounds were computed: from the candidate's risk alone, or from matched prompts."""

    CLOPPER_PEARSON = "clopper-pearson"
    TANGO = "tango"


class Severity(StrEnum):
    """Whether an additional finding is only reported, or fails the check."""

    WARN = "warn"
    ERROR = "error"


class FindingKind(StrEnum):
    """Changes that are reported in addition to the risk at T."""

    MAX_DROP = "max_drop"
    NEW_SYMPTOMS = "new_symptoms"
    PLANE_MOVED = "plane_moved"
    SURVIVAL = "survival"


@dataclass(frozen=True, slots=True)
class Finding:
    """A change reported in addition to the test; severity `error` fails the check."""

    kind: FindingKind
    sentence: str
    severity: Severity = Severity.WARN


@dataclass(frozen=True, slots=True)
class ChangedSetting:
    """Another difference between the two sides. None: not known on that side.

    allowed: the difference makes the sides incomparable, but the user has explicitly allowed it.
    """

    name: str
    before: str | None
    after: str | None
    allowed: bool = False


@dataclass(frozen=True, slots=True)
class ComparisonSide:
    """The baseline or the candidate. None: not known, or not measured.

    label: display name. run_ids: empty for recorded outputs. files: the files that were read. generations:
    sample size; onsets: how many of them are degenerate. at_risk, failed: n and k for T in a *fresh* sample
    (one that was not used to choose T). unit: scale of the positions, "tokens" | "tokens (estimate)" |
    "words". decoding, base_url: the run's decoding and endpoint; None for recorded outputs.
    limit_without_cap: what the margin leaves of a certified T from which no cap is recommended.
    without_onset: no failure was seen up to the threshold, so that T may be later.
    """

    label: str
    subject: Subject
    run_ids: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    generations: int = 0
    onsets: int = 0
    at_risk: int | None = None
    failed: int | None = None
    threshold: int | None = None
    safe_max_tokens: int | None = None
    symptoms: Mapping[str, int] = field(default_factory=dict)
    plane: Plane | None = None
    unit: str = "tokens"
    simulated: bool = False
    measured_now: bool = False
    decoding: Decoding | None = None
    base_url: str | None = None
    limit_without_cap: int | None = None
    without_onset: bool = False

    @property
    def rate(self) -> float | None:
        """Observed share of degenerate generations among those at risk for T."""
        if self.failed is None or not self.at_risk:
            return None
        return self.failed / self.at_risk


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome of one check. Shares are in [0, 1].

    at_tokens: the baseline's T. alpha: tolerated risk at T. max_increase: tolerated increase. confidence:
    one-sided, of each bound at each look. interval: one-sided bounds (lo, hi) of the candidate's risk at T
    (Clopper-Pearson) or of the difference, candidate minus baseline (Tango). tested: the verdict of the
    bounds alone. pairs: prompts that are at risk on both sides (Tango). looks: number of looks declared;
    look: the one that decided. lacking: what an inconclusive check still needs. tokens_spent, seconds: cost
    of the measurements made for this check.
    """

    baseline: ComparisonSide
    candidate: ComparisonSide
    at_tokens: int | None
    alpha: float
    max_increase: float
    tested: CheckVerdict
    confidence: float = 0.95
    method: Method = Method.CLOPPER_PEARSON
    p_baseline: float | None = None
    p_candidate: float | None = None
    difference: float | None = None
    interval: tuple[float, float] | None = None
    pairs: int | None = None
    looks: int = 1
    look: int = 1
    lacking: str | None = None
    findings: tuple[Finding, ...] = ()
    changed: tuple[ChangedSetting, ...] = ()
    notes: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    tokens_spent: int = 0
    seconds: float = 0.0

    @property
    def verdict(self) -> CheckVerdict:
        """The final verdict: that of the test, or a regression if a finding has severity `error`."""
        if any(finding.severity is Severity.ERROR for finding in self.findings):
            return CheckVerdict.REGRESSION
        return self.tested

    @property
    def simulated(self) -> bool:
        return self.baseline.simulated or self.candidate.simulated

    @property
    def run_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.baseline.run_ids, *self.candidate.run_ids)))


class BudgetName(StrEnum):
    """The quantities that a project can limit.

    max_degeneration: share of requests that degenerate by `at_tokens`. min_safe_tokens: the safe max_tokens.
    max_drop: relative decrease of the safe max_tokens against the baseline. max_increase: additional risk at
    the baseline's threshold (the test of `check`).
    """

    MAX_DEGENERATION = "max_degeneration"
    MIN_SAFE_TOKENS = "min_safe_tokens"
    MAX_DROP = "max_drop"
    MAX_INCREASE = "max_increase"


@dataclass(frozen=True, slots=True)
class Budget:
    """One limit. level: whether a breach fails the check or is only a warning. at_tokens: for
    max_degeneration only."""

    name: BudgetName
    limit: float
    level: Severity = Severity.ERROR
    at_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class CellPlan:
    """One subject under one decoding, from the project file. base_url None: that of the command line."""

    model: str
    task: str
    language: str
    decoding_name: str
    decoding: Decoding
    budgets: tuple[Budget, ...] = ()
    base_url: str | None = None

    @property
    def name(self) -> str:
        """Display name; an empty model means the served one."""
        return f"{self.model or 'served model'} · {self.task} · {self.language} · {self.decoding_name}"


@dataclass(frozen=True, slots=True)
class Project:
    """The [check] table of a project file: the cells and their baseline.

    baseline: "previous" (the newest earlier certified run of the same cell, if any), a run id, or the name of
    a model that has a stored run. reuse: maximum age in seconds at which a finished run of a cell, measured
    at the same base URL, is used instead of a new one.
    """

    cells: tuple[CellPlan, ...]
    baseline: str = "previous"
    reuse: float = 0.0
    allow_different: tuple[str, ...] = ()


class GateOutcome(StrEnum):
    """Outcome of a budget, a cell or the whole check, from best to worst.

    untested: no baseline to compare with. missing: interrupted before it was measured. trouble: the endpoint
    failed. breach: the budget is exceeded.
    """

    PASS = "pass"
    UNTESTED = "untested"
    WARNING = "warning"
    INCONCLUSIVE = "inconclusive"
    MISSING = "missing"
    TROUBLE = "trouble"
    BREACH = "breach"


_ORDER = list(GateOutcome)
PASSING_OUTCOMES = (GateOutcome.PASS, GateOutcome.UNTESTED, GateOutcome.WARNING)
"""Outcomes with which a gate passes."""


def worst_outcome(outcomes: list[GateOutcome]) -> GateOutcome:
    """The worst outcome; `PASS` for an empty list."""
    return max(outcomes, key=_ORDER.index, default=GateOutcome.PASS)


@dataclass(frozen=True, slots=True)
class BudgetOutcome:
    """Outcome of one budget of one cell. measured: in the budget's unit, None if not measured."""

    budget: Budget
    outcome: GateOutcome
    sentence: str
    measured: float | None = None


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """Outcome of one cell. key: identifies what is measured. run_id None: no run was started. trouble: the
    endpoint's error. uncompared: why its run cannot be compared with the baseline, unless none is there yet.
    notes: what speaks against its run's answers standing for others. generations: its run's answers, of
    which `degenerate` are."""

    plan: CellPlan
    subject: Subject
    key: str = ""
    run_id: str | None = None
    threshold: Threshold | None = None
    safe_max_tokens: int | None = None
    generations: int | None = None
    degenerate: int | None = None
    baseline: str | None = None
    baseline_safe: int | None = None
    budgets: tuple[BudgetOutcome, ...] = ()
    comparison: Comparison | None = None
    trouble: str | None = None
    uncompared: str | None = None
    notes: tuple[str, ...] = ()
    simulated: bool = False
    reused: bool = False
    tokens: int = 0
    seconds: float = 0.0

    @property
    def outcome(self) -> GateOutcome:
        """The worst outcome of its budgets; a cell without budgets passes if its threshold is certified, has
        room for one unit, and the comparison with its baseline was possible and shows no regression."""
        if self.trouble is not None:
            return GateOutcome.TROUBLE
        if self.threshold is None:
            return GateOutcome.MISSING
        if not self.budgets:
            if self.comparison is not None and self.comparison.verdict is CheckVerdict.REGRESSION:
                return GateOutcome.BREACH
            usable = self.threshold.usable and self.uncompared is None
            return GateOutcome.PASS if usable else GateOutcome.INCONCLUSIVE
        return worst_outcome([each.outcome for each in self.budgets])


@dataclass(frozen=True, slots=True)
class ProjectGate:
    """Outcome of a whole project. complete: no cell is missing."""

    cells: tuple[CellOutcome, ...]
    id: str | None = None

    @property
    def complete(self) -> bool:
        return not any(cell.outcome is GateOutcome.MISSING for cell in self.cells)

    @property
    def outcome(self) -> GateOutcome:
        return worst_outcome([cell.outcome for cell in self.cells])

    @property
    def simulated(self) -> bool:
        return any(cell.simulated for cell in self.cells)
