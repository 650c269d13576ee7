"""Results as test cases, the common input of JUnit XML and GitHub annotations.

An exceeded budget, a regression and an inconclusive result are failures, because the gate was not passed. A
failed measurement is an error; a comparison without a baseline is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class CaseState(StrEnum):
    """The outcome of a case, in JUnit's terms."""

    PASSED = "passed"
    FAILURE = "failure"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One test case. kind: type of the failure or error. warning: passed, but `message` is a warning."""

    name: str
    state: CaseState
    message: str = ""
    kind: str = ""
    warning: bool = False


@dataclass(frozen=True, slots=True)
class CaseSuite:
    """The test cases of one subject. properties: its provenance. name,
    classname: the same from one measurement to the next. seconds: duration of the measurement."""

    name: str
    cases: tuple[CaseResult, ...]
    classname: str
    seconds: float = 0.0
    properties: dict[str, str] = field(default_factory=dict)
