"""Whether a language that was given is likely to be the wrong one: nearly all answers drift from it."""

from __future__ import annotations

from stresstest.model import SymptomKind
from stresstest.model.scanned import ScanVerdict

_FEWEST, _SHARE = 5, 0.8


def drifts_from_given(verdict: ScanVerdict) -> bool:
    """Whether an answer drifts from the language that was given, by an option or a settings file."""
    return verdict.symptom is SymptomKind.LANGUAGE_DRIFT and verdict.language_source == "given"


def is_likely_wrong(drifts: int, answers: int) -> bool:
    """Whether so many drifts among the answers speak against the language rather than against the model."""
    return answers >= _FEWEST and drifts >= _SHARE * answers
