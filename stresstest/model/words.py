"""Enumerations of the vocabulary (symptoms, planes, zones, phases, failures), and the subject."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

REPETITION_REASON = "repetition"
"""The finish reason of an answer that the server's own repetition detection stopped."""

_SYMPTOM_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


class SymptomKind(StrEnum):
    """The symptoms of the built-in detectors, extensible by further detectors.

    `SymptomKind("new_name")` returns a new kind, always the same object for one name. Raises ValueError for a
    name that does not match `[a-z][a-z0-9_]{0,31}`: names are stored and serve as JSON keys.
    """

    LOOP = "loop"
    NEAR_LOOP = "near_loop"
    FLOODING = "flooding"
    LANGUAGE_DRIFT = "language_drift"
    GIBBERISH = "gibberish"
    ENTROPY_SHIFT = "entropy_shift"
    STRUCTURE_BREAK = "structure_break"
    PROMPT_ECHO = "prompt_echo"
    EXTRA_TURNS = "extra_turns"
    TRUNCATION = "truncation"

    @classmethod
    def _missing_(cls, value: object) -> SymptomKind | None:
        if not isinstance(value, str) or not _SYMPTOM_NAME.fullmatch(value):
            return None
        kind = str.__new__(cls, value)
        kind._name_, kind._value_ = value.upper(), str(value)
        known = cls._value2member_map_.setdefault(kind._value_, kind)
        assert isinstance(known, cls)
        return known


class Plane(StrEnum):
    """Where the cause of a failure lies."""

    SYSTEM = "system"
    DECODING = "decoding"
    CONTEXT = "context"


class Basis(StrEnum):
    """How a plane was established: from evidence only, or by an intervention that cleared the failure."""

    OBSERVED = "observed"
    CONFIRMED = "confirmed"


class ZoneKind(StrEnum):
    STABLE = "stable"
    DRIFTING = "drifting"
    COLLAPSED = "collapsed"


class AnswerPart(StrEnum):
    """The part of an output that a position lies in. Reasoning stands before the answer."""

    REASONING = "reasoning"
    ANSWER = "answer"


class Phase(StrEnum):
    """The part of a campaign that a generation belongs to; only `certify` generations enter the threshold.

    `diagnose` generations are interventions on a finished run, kept apart from the run's measurements. `cost`
    generations belong to no run.
    """

    CLIMB = "climb"
    CERTIFY = "certify"
    DIAGNOSE = "diagnose"
    COST = "cost"


class DocumentKind(StrEnum):
    """Documents stored beside runs: results based on several runs, or on none."""

    SWEEP = "sweep"
    CHECK = "check"
    COST = "cost"
    SCAN = "scan"


class RunStatus(StrEnum):
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    DONE = "done"


class FailureKind(StrEnum):
    """Service failures: by definition on the system plane."""

    REFUSED = "refused"
    UNAUTHORIZED = "unauthorized"
    NOT_FOUND = "not_found"
    RATE_LIMITED = "rate_limited"
    BAD_REQUEST = "bad_request"
    HTTP_ERROR = "http_error"
    TIMEOUT = "timeout"
    STALL = "stall"
    CUT = "cut"
    STREAM_ERROR = "stream_error"
    MALFORMED = "malformed"
    ABORTED_BY_SERVER = "aborted_by_server"
    CAP_IGNORED = "cap_ignored"
    INTERRUPTED = "interrupted"

    @property
    def is_refusal(self) -> bool:
        """Whether the server did not take the request, so that no model can have begun to answer it."""
        return self in _REFUSALS


_REFUSALS = frozenset(
    {
        FailureKind.REFUSED,
        FailureKind.UNAUTHORIZED,
        FailureKind.NOT_FOUND,
        FailureKind.RATE_LIMITED,
        FailureKind.BAD_REQUEST,
    }
)


@dataclass(frozen=True, slots=True)
class Subject:
    """The model, task and language that a threshold applies to."""

    model: str
    task: str
    language: str

    def __str__(self) -> str:
        return f"{self.model} · {self.task} · {self.language}"
