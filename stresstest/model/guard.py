"""What the guard does to a request: its policies, and the rules that choose one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any


class GuardPolicy(StrEnum):
    """What the guard may do to a request. COUNT changes nothing."""

    COUNT = "count"
    ABORT = "abort"
    CAP = "cap"
    RETRY = "retry"
    END_THINKING = "end-thinking"


@dataclass(frozen=True, slots=True)
class GuardRule:
    """A policy, and the requests that it is for.

    model, route: shell patterns. language: that the answers are wanted in, None when unknown. task: whose
    certified limit caps. symptoms: that act; empty for every symptom of repetition. max_tokens: the cap in
    place of the certified one. changes: request fields of the second attempt.
    """

    model: str = "*"
    route: str = "*"
    policy: GuardPolicy = GuardPolicy.COUNT
    language: str | None = None
    task: str | None = None
    symptoms: tuple[str, ...] = ()
    max_tokens: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """The [guard] table. rules: the last that fits a request holds for it; the first fits every request.
    series: of the upstream's metrics that the guard's own page repeats."""

    rules: tuple[GuardRule, ...] = (GuardRule(),)
    series: tuple[str, ...] = ()

    def rule(self, model: str, route: str) -> GuardRule:
        """The rule that applies to a request."""
        return next(
            rule
            for rule in reversed(self.rules)
            if fnmatchcase(model, rule.model) and fnmatchcase(route, rule.route)
        )
