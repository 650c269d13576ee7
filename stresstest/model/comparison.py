"""What `check` finds: whether a candidate degenerates more than its baseline, at the baseline's threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from stresstest.model.request import Decoding
from stresstest.model.words import Plane, Subject

_NONE: Mapping[str, int] = MappingProxyType({})
_EMPTY: Mapping[str, Any] = MappingProxyType({})


class CheckVerdict(StrEnum):
    """What a check says."""

    PASS = "pass"
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


class Method(StrEnum):
    """How the bounds were made: the candidate's risk alone, or the difference over matched prompts."""

    CLOPPER_PEARSON = "clopper-pearson"
    TANGO = "tango"


class Severity(StrEnum):
    """Whether a finding beside the test is told, or fails the check."""

    WARN = "warn"
    ERROR = "error"


class FindingKind(StrEnum):
    """What may have changed beside the risk at T."""

    MAX_DROP = "max_drop"
    NEW_SYMPTOMS = "new_symptoms"
    PLANE_MOVED = "plane_moved"
    SURVIVAL = "survival"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing beside the test that a reader must know; `severity` error fails the check."""

    kind: FindingKind
    sentence: str
    severity: Severity = Severity.WARN


@dataclass(frozen=True, slots=True)
class Changed:
    """What else differs between the two sides. None: not known there.

    allowed: it makes the sides incomparable, and the user said that it may.
    """

    name: str
    before: str | None
    after: str | None
    allowed: bool = False


@dataclass(frozen=True, slots=True)
class Side:
    """Baseline or candidate. None: not known, or never measured.

    label: as a person would name it. run_ids: empty for recorded outputs. files: those read. generations: in
    the sample; onsets: degenerate ones of them. at_risk, failed: n and k for T in a *fresh* sample (one that
    did not choose T). unit: scale of the positions, "tokens" | "tokens (estimate)" | "words". decoding,
    base_url: what a run was measured with, and where; None for recorded outputs.
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
    symptoms: Mapping[str, int] = field(default_factory=lambda: _NONE)
    plane: Plane | None = None
    unit: str = "tokens"
    simulated: bool = False
    measured_now: bool = False
    decoding: Decoding | None = None
    base_url: str | None = None

    @property
    def rate(self) -> float | None:
        """Observed share of degenerate ones among those at risk for T."""
        if self.failed is None or not self.at_risk:
            return None
        return self.failed / self.at_risk


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome of one check. Shares are in [0, 1].

    at_tokens: the baseline's T. alpha: tolerated risk at T. max_increase: Δ. confidence: one-sided, of each
    bound of each look. interval: one-sided bounds (lo, hi) of the candidate's risk at T (Clopper-Pearson) or
    of the difference, candidate minus baseline (Tango). tested: what the bounds alone say. pairs: prompts
    that both answered and that are at risk on both sides (Tango). looks: declared; look: the one that
    decided. lacking: what an inconclusive check needs. tokens_spent, seconds: for what was measured now.
    """

    baseline: Side
    candidate: Side
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
    changed: tuple[Changed, ...] = ()
    notes: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    tokens_spent: int = 0
    seconds: float = 0.0

    @property
    def verdict(self) -> CheckVerdict:
        """What the gate says: the test's word, or a regression where a finding counts as an error."""
        if any(finding.severity is Severity.ERROR for finding in self.findings):
            return CheckVerdict.REGRESSION
        return self.tested

    @property
    def simulated(self) -> bool:
        return self.baseline.simulated or self.candidate.simulated

    @property
    def run_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.baseline.run_ids, *self.candidate.run_ids)))
