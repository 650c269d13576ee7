"""What happens while generations are driven, as it happens; for progress displays and logs."""

from __future__ import annotations

from dataclasses import dataclass

from stresstest.model import Generation, ServiceFailure, SymptomKind


@dataclass(frozen=True, slots=True)
class Started:
    """The first attempt of a work goes out. at: clock seconds."""

    key: str
    at: float


@dataclass(frozen=True, slots=True)
class Advanced:
    """tokens: output tokens of this generation so far; told every 16 tokens."""

    key: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Alarmed:
    """A degeneration became certain. at_token: output tokens seen by then."""

    key: str
    symptom: SymptomKind | None
    onset: int | None
    at_token: int


@dataclass(frozen=True, slots=True)
class Retried:
    """An attempt failed before its first token and is repeated after `wait` seconds.

    attempt: the one that failed, from 1.
    """

    key: str
    attempt: int
    failure: ServiceFailure
    wait: float


@dataclass(frozen=True, slots=True)
class Finished:
    """The generation as it is kept."""

    generation: Generation


Event = Started | Advanced | Alarmed | Retried | Finished
