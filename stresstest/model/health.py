"""What `doctor` finds: one check a line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """ok · degraded: works, with a loss · missing: not there · failed: in the way of any measurement ·
    unknown: could not be told."""

    OK = "ok"
    DEGRADED = "degraded"
    MISSING = "missing"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. found: what is there. cost: what its absence costs. mend: what mends it."""

    name: str
    state: State
    found: str
    cost: str | None = None
    mend: str | None = None
