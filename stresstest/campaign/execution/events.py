"""What happens while generations are driven, as it happens; for progress displays and logs."""

from __future__ import annotations

from dataclasses import dataclass

from stresstest.model import Generation, Job, ServiceFailure


@dataclass(frozen=True, slots=True)
class GenerationStarted:
    """The first attempt of a task is sent. at: clock seconds."""

    key: str
    at: float


@dataclass(frozen=True, slots=True)
class GenerationAdvanced:
    """tokens: output tokens of this generation so far; reported every 16 tokens."""

    key: str
    tokens: int


@dataclass(frozen=True, slots=True)
class AlarmRaised:
    """A degeneration became certain. at_token: output tokens seen by then. generation: what is kept of it if
    the process is killed before its end."""

    key: str
    at_token: int
    generation: Generation | None = None


@dataclass(frozen=True, slots=True)
class AttemptRetried:
    """An attempt failed before its first token and is repeated after `wait` seconds.

    attempt: the one that failed, from 1. generation: what is kept of it if the process ends before the next
    one does; None where the service refused the request.
    """

    job: Job
    attempt: int
    failure: ServiceFailure
    wait: float
    generation: Generation | None = None


@dataclass(frozen=True, slots=True)
class AttemptUnanswered:
    """Nothing of an attempt has arrived for some time, or a stop or an error ended it before anything did.
    generation: what is kept of it for a resume."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class GenerationFinished:
    """The generation as it is kept."""

    generation: Generation


GenerationEvent = (
    GenerationStarted
    | GenerationAdvanced
    | AlarmRaised
    | AttemptRetried
    | AttemptUnanswered
    | GenerationFinished
)
