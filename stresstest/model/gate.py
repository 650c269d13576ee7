"""What a project file asks of its cells, and what a check of all of them found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stresstest.model.comparison import Comparison, Severity
from stresstest.model.request import Decoding
from stresstest.model.result import Threshold
from stresstest.model.words import Subject


class BudgetName(StrEnum):
    """What a project may limit.

    max_degeneration: share of requests that degenerate by `at_tokens`. min_safe_tokens: the safe max_tokens.
    max_drop: share that the safe max_tokens may fall below the baseline's. max_increase: added risk at the
    baseline's threshold (the test of `check`).
    """

    MAX_DEGENERATION = "max_degeneration"
    MIN_SAFE_TOKENS = "min_safe_tokens"
    MAX_DROP = "max_drop"
    MAX_INCREASE = "max_increase"


@dataclass(frozen=True, slots=True)
class Budget:
    """One limit. level: a breach fails the check or is only told. at_tokens: of max_degeneration alone."""

    name: BudgetName
    limit: float
    level: Severity = Severity.ERROR
    at_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class CellPlan:
    """One subject under one decoding, as the project file names it. base_url None: the run option's."""

    model: str
    task: str
    language: str
    decoding_name: str
    decoding: Decoding
    budgets: tuple[Budget, ...] = ()
    base_url: str | None = None

    @property
    def name(self) -> str:
        """How a person names it; an empty model is the served one."""
        return f"{self.model or 'served model'} · {self.task} · {self.language} · {self.decoding_name}"


@dataclass(frozen=True, slots=True)
class Project:
    """A project file's [check]: every cell, and what they are compared with.

    baseline: "previous" (the newest earlier certified run of the same cell; there may be none yet), a run id,
    or a model's name (which must be there). reuse: seconds for which a finished run of a cell, at the cell's
    address, counts as measured.
    """

    cells: tuple[CellPlan, ...]
    baseline: str = "previous"
    reuse: float = 0.0
    allow_different: tuple[str, ...] = ()


class Outcome(StrEnum):
    """What is said of a budget, a cell or the whole; worst last.

    untested: nothing to compare with. missing: interrupted before it was measured. trouble: the endpoint
    failed. breach: the budget does not hold.
    """

    PASS = "pass"
    UNTESTED = "untested"
    WARNING = "warning"
    INCONCLUSIVE = "inconclusive"
    MISSING = "missing"
    TROUBLE = "trouble"
    BREACH = "breach"


_ORDER = list(Outcome)
GOOD = (Outcome.PASS, Outcome.UNTESTED, Outcome.WARNING)
"""What lets a gate pass."""


def worst(outcomes: list[Outcome]) -> Outcome:
    """The worst of them; pass when there is none."""
    return max(outcomes, key=_ORDER.index, default=Outcome.PASS)


@dataclass(frozen=True, slots=True)
class BudgetOutcome:
    """One budget of one cell. measured: in the budget's own unit, None when it was not."""

    budget: Budget
    outcome: Outcome
    sentence: str
    measured: float | None = None


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """One cell. key: identifies what is measured. run_id None: nothing was begun. trouble: the endpoint's."""

    plan: CellPlan
    subject: Subject
    key: str = ""
    run_id: str | None = None
    threshold: Threshold | None = None
    safe_max_tokens: int | None = None
    baseline: str | None = None
    baseline_safe: int | None = None
    budgets: tuple[BudgetOutcome, ...] = ()
    comparison: Comparison | None = None
    trouble: str | None = None
    simulated: bool = False
    reused: bool = False
    tokens: int = 0
    seconds: float = 0.0

    @property
    def outcome(self) -> Outcome:
        """The worst of its budgets; a cell without budgets passes when its threshold is certified."""
        if self.trouble is not None:
            return Outcome.TROUBLE
        if self.threshold is None:
            return Outcome.MISSING
        if not self.budgets:
            return Outcome.PASS if self.threshold.certified else Outcome.INCONCLUSIVE
        return worst([each.outcome for each in self.budgets])


@dataclass(frozen=True, slots=True)
class Gate:
    """A check of a whole project. complete: no cell is missing."""

    cells: tuple[CellOutcome, ...]
    id: str | None = None

    @property
    def complete(self) -> bool:
        return not any(cell.outcome is Outcome.MISSING for cell in self.cells)

    @property
    def outcome(self) -> Outcome:
        return worst([cell.outcome for cell in self.cells])

    @property
    def simulated(self) -> bool:
        return any(cell.simulated for cell in self.cells)
