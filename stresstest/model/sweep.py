"""Results of `sweep`: one campaign per cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stresstest.model.request import Decoding
from stresstest.model.result import Threshold
from stresstest.model.words import Subject

SWEEP_CONTROL = "sweep-control"
"""Beginning of the arm's name under which a control is stored beside the first cell's run."""


@dataclass(frozen=True, slots=True)
class CellLimit:
    """What is certified of a cell. safe_max_tokens, needs_no_cap: as in `SweepCell`."""

    threshold: Threshold
    safe_max_tokens: int | None
    needs_no_cap: bool = False

    @property
    def usable(self) -> bool:
        """Whether there is a safe max_tokens, or no need of one."""
        return self.safe_max_tokens is not None or self.needs_no_cap


@dataclass(frozen=True, slots=True)
class SweepCell:
    """One combination of parameter values. None: not measured.

    values: parameter → value as given. generations: size of the certifying sample; failed: degenerate ones;
    kinds: symptom → generations. onset_unit: median number of the unit that contains the onset.
    first_foreign: earliest token of a foreign sentence, warnings included. completed: share of healthy
    answers with all requested units; finished: the same including degenerate answers (None if any answer was
    aborted). diversity: median share of distinct words in windows of 50; terms: median of recurring terms per
    100 words. onsets: sorted onsets of the sample. quantile: 95 % interval of the length at which the risk
    reaches the threshold's alpha; None at an end that the sample does not bound. reached: the last healthy
    token of each answer, sorted. others: median of the requests that other clients had at the server.
    server_cap: output tokens at which the server cut answers although more were asked. answered_by: the
    models that the sample's streams name. prompts: distinct ones that the sample's answers are to. doubts:
    what speaks against the answers being of the model, the decoding and the server that are named.
    needs_no_cap: T is where its answers end by themselves, few of them fail, and no other run speaks against
    that. measured_now: the sweep began or finished the run; False for one that was complete before. joint:
    what holds of it at a confidence for all cells together, so also of the one that is chosen for its T.
    """

    values: Mapping[str, str]
    run_id: str
    subject: Subject
    decoding: Decoding
    threshold: Threshold
    safe_max_tokens: int | None
    generations: int
    failed: int
    kinds: Mapping[str, int] = field(default_factory=dict)
    median_onset: float | None = None
    onset_unit: float | None = None
    first_foreign: int | None = None
    completed: float | None = None
    finished: float | None = None
    diversity: float | None = None
    terms: float | None = None
    tokens: int = 0
    onsets: tuple[int, ...] = ()
    quantile: tuple[int | None, int | None] = (None, None)
    reached: tuple[int, ...] = ()
    others: float | None = None
    server_cap: int | None = None
    answered_by: tuple[str, ...] = ()
    prompts: int | None = None
    doubts: tuple[str, ...] = ()
    needs_no_cap: bool = False
    measured_now: bool = field(default=False, compare=False)
    joint: CellLimit | None = None

    @property
    def limit(self) -> CellLimit:
        """What is certified of it alone, whatever the other cells show."""
        return CellLimit(self.threshold, self.safe_max_tokens, self.needs_no_cap)


@dataclass(frozen=True, slots=True)
class ThresholdRatio:
    """How much later subject `of` fails than subject `over`. None: not measured, or unbounded.

    ratio: of the certified thresholds; lo, hi: 90 % interval of the ratio of the lengths at which the risk
    reaches alpha (exact, from the interval of each side). at_least: `of` never failed. onsets: ratio of
    median onsets; onsets_lo, onsets_hi: its 90 % interval (bootstrap).
    """

    of: str
    over: str
    ratio: float
    lo: float | None = None
    hi: float | None = None
    at_least: bool = False
    onsets: float | None = None
    onsets_lo: float | None = None
    onsets_hi: float | None = None


@dataclass(frozen=True, slots=True)
class SweepControl:
    """Prompts of the first cell that were asked again after the last cell.

    They show whether its failures have gone away by themselves. n: answers; kinds: symptom → answers; tokens:
    output tokens. confirms: whether they still fail more often than the cells that are said to work.
    """

    n: int
    kinds: Mapping[str, int]
    tokens: int
    confirms: bool


@dataclass(frozen=True, slots=True)
class Sweep:
    """All cells, conclusions as sentences, and ratios between subjects. complete: no cell is missing, nor the
    control. control: None where no value is said to work."""

    cells: tuple[SweepCell, ...]
    answers: tuple[str, ...] = ()
    ratios: tuple[ThresholdRatio, ...] = ()
    complete: bool = True
    simulated: bool = False
    control: SweepControl | None = None
