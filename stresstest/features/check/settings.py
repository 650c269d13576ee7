"""What a check is asked to compare, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from stresstest.model import FindingKind
from stresstest.scanning.job import ScanJob

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """What to compare, and how.

    baseline, candidate: one run, model or several files; no candidate: what the endpoint serves, measured
    now. fresh: a run of the baseline that did not choose T. max_increase: None for the baseline's alpha.
    extend: a second look is declared. measure: now, whatever is stored. allow: differences that are accepted.
    allow_refused: a run that regressed may be the baseline, by its id.
    errors: findings that fail the check. task, language: choose among a model's runs. rigor, margin, job: for
    recorded outputs. base_url: None for the baseline's. changed: RunSettings fields for what is measured now;
    sampling: Decoding fields. limits_margin: of both sides' safe max_tokens; None for the baseline run's.
    """

    baseline: tuple[str, ...]
    candidate: tuple[str, ...] = ()
    fresh: str | None = None
    max_increase: float | None = None
    max_drop: float = 0.10
    extend: bool = False
    measure: bool = False
    allow: frozenset[str] = frozenset()
    allow_refused: bool = False
    errors: frozenset[FindingKind] = frozenset()
    task: str | None = None
    language: str | None = None
    rigor: str = "standard"
    margin: float = 0.10
    limits_margin: float | None = None
    job: ScanJob = field(default_factory=ScanJob)
    base_url: str | None = None
    changed: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    sampling: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
