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
    symptom → generations. first_foreign: earliest token of a foreign sentence, warnings included. completed:
    share that ended in health with all the units asked for. diversity: median share of distinct words in 50;
    terms: median recurring terms per 100 words. onsets: of the sample.
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
    first_foreign: int | None = None
    completed: float | None = None
    diversity: float | None = None
    terms: float | None = None
    tokens: int = 0
    onsets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ratio:
    """Median onset of one cell over another's, 90 % interval."""

    of: str
    over: str
    ratio: float
    lo: float
    hi: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """All cells, what they answer in sentences, and how far subjects lie apart. complete: none is missing."""

    cells: tuple[Cell, ...]
    answers: tuple[str, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    complete: bool = True
    simulated: bool = False
