"""What `sweep` finds: one campaign a cell, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from stresstest.model.request import Decoding
from stresstest.model.result import Threshold
from stresstest.model.words import Subject

_NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of values. None: not measured.

    values: parameter → value as given. generations: of the certifying sample; failed: degenerate ones; kinds:
    symptom → generations. onset_unit: median number of the unit in which it begins. first_foreign: earliest
    token of a foreign sentence, warnings included. completed: share that ended in health with all the units
    asked for; finished: the same, in health or not (not measured where an answer was aborted). diversity:
    median share of distinct words in 50; terms: median recurring terms per 100 words. onsets: of the sample.
    quantile: 95 % interval of the length at which the risk reaches the threshold's alpha; None at an end that
    the sample does not bound.
    """

    values: Mapping[str, str]
    run_id: str
    subject: Subject
    decoding: Decoding
    threshold: Threshold
    safe_max_tokens: int | None
    generations: int
    failed: int
    kinds: Mapping[str, int] = field(default_factory=lambda: _NONE)
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


@dataclass(frozen=True, slots=True)
class Ratio:
    """How much later one subject fails than another. None: not measured, or not bounded.

    ratio: of the certified thresholds; lo, hi: 90 % interval of the ratio of the lengths at which the risk
    reaches alpha (exact, from each side's own interval). at_least: the later one never failed. onsets: ratio
    of median onsets, onsets_lo, onsets_hi: its 90 % interval (bootstrap).
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
class Sweep:
    """All cells, what they answer in sentences, and how far subjects lie apart. complete: none is missing."""

    cells: tuple[Cell, ...]
    answers: tuple[str, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    complete: bool = True
    simulated: bool = False
