"""The vocabulary: symptoms, planes, zones, phases, failures, and the subject."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SymptomKind(StrEnum):
    """What degenerated."""

    LOOP = "loop"
    NEAR_LOOP = "near_loop"
    FLOODING = "flooding"
    LANGUAGE_DRIFT = "language_drift"
    GIBBERISH = "gibberish"
    ENTROPY_SHIFT = "entropy_shift"
    STRUCTURE_BREAK = "structure_break"
    TRUNCATION = "truncation"


class Plane(StrEnum):
    """Where the cause lies."""

    SYSTEM = "system"
    DECODING = "decoding"
    CONTEXT = "context"


class Basis(StrEnum):
    """How a plane is known: by evidence only, or by an intervention that cleared the failure."""

    OBSERVED = "observed"
    CONFIRMED = "confirmed"


class ZoneKind(StrEnum):
    STABLE = "stable"
    DRIFTING = "drifting"
    COLLAPSED = "collapsed"


class Phase(StrEnum):
    """Which part of a campaign a generation belongs to; only `certify` certifies.

    `diagnose` ones are interventions on a finished run: they are kept apart from what the run measured.
    `cost` ones belong to no run.
    """

    CLIMB = "climb"
    CERTIFY = "certify"
    DIAGNOSE = "diagnose"
    COST = "cost"


class DocumentKind(StrEnum):
    """What is kept beside runs: findings that stand on several of them, or on none."""

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
    """Service failures: by definition the system plane."""

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


@dataclass(frozen=True, slots=True)
class Subject:
    """The triple that a threshold belongs to."""

    model: str
    task: str
    language: str

    def __str__(self) -> str:
        return f"{self.model} · {self.task} · {self.language}"
