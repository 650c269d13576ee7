"""What came back: tokens, symptoms, verdicts, generations and the evidence found in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from stresstest.model.request import Job
from stresstest.model.words import FailureKind, Plane, SymptomKind, ZoneKind

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Token:
    """One output token as it arrived.

    text: its piece of the decoded text, possibly empty (a UTF-8 character may end in a later token).
    entropy: nats, lower bound from the top-k logprobs and the residual mass; None without logprobs.
    arrived: clock seconds. reasoning: from a reasoning delta, not from the answer.
    """

    text: str
    id: int | None = None
    logprob: float | None = None
    entropy: float | None = None
    arrived: float = 0.0
    reasoning: bool = False


@dataclass(frozen=True, slots=True)
class Symptom:
    """One thing that degenerated, as a detector saw it.

    onset: first degenerate token (for a loop: first token of the second copy).
    alarm: the token at which the detector could first know; >= onset.
    start: first token of the run's first copy (loops); None otherwise.
    end: last token of the degenerate span; None while it stands at the end of the output.
    score: 0-1, monotone in evidence.
    confirmed: False for a warning that proves nothing alone (entropy, a single foreign word).
    detail: detector's numbers, e.g. period, exponent, language, mean_before, mean_after.
    summary: one sentence for a person.
    """

    kind: SymptomKind
    onset: int
    alarm: int
    start: int | None = None
    end: int | None = None
    score: float = 1.0
    confirmed: bool = True
    detail: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Zone:
    """Tokens start..end (1-based, inclusive) in one state."""

    kind: ZoneKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the panel says of one generation.

    tokens: output tokens seen. onset/alarm/symptom: of the first confirmed degeneration, or None.
    observed: tokens known healthy when there is no onset: the generation counts as observed only up
    to the start of its oldest open candidate (a run that might yet have become a loop, a unit or
    sentence that could not yet be judged). With an onset: onset - 1.
    units: complete units seen (None where the task has no pattern).
    recovered: a loop that passed the bound and then ended by itself.
    loops_to_end: a loop (exact or near) still stands at the last token.
    """

    tokens: int
    observed: int
    onset: int | None = None
    alarm: int | None = None
    symptom: SymptomKind | None = None
    symptoms: tuple[Symptom, ...] = ()
    zones: tuple[Zone, ...] = ()
    units: int | None = None
    recovered: bool = False
    loops_to_end: bool = False
    score: float = 0.0

    @property
    def degenerate(self) -> bool:
        return self.onset is not None


@dataclass(frozen=True, slots=True)
class ServiceFailure:
    """Why a request was lost: kind, sentence, HTTP status and the output tokens that had arrived."""

    kind: FailureKind
    message: str
    status: int | None = None
    at_token: int = 0
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observed fact, for or against a plane.

    supports: True when it speaks for the plane, False against. source: where it was read
    ("vllm /metrics", "stream", "detector:loop", "NVML", "request"). fact: a sentence with its number.
    at: seconds since the generation's start; token: output token, where that makes sense.
    """

    plane: Plane
    supports: bool
    source: str
    fact: str
    value: float | None = None
    at: float | None = None
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """One streamed response, whole: tokens, finish reason, failure, verdict.

    tokens: as they arrived. token_source: "server" | "server (positions in chunks)" | "tokenize" |
    "tiktoken (estimate)" | "chunks".
    finish_reason: the server's word; None when the stream did not end properly.
    aborted: we closed it after a certain onset. output_tokens: as counted by `token_source`.
    started/ended: clock seconds; first_token: clock seconds of the first output token.
    loop_lag: our event loop's worst lag in seconds during the generation (spoils timings, never text).
    attempts: tries used, 1 when the first one answered.
    """

    job: Job
    prompt_id: str
    prompt_text: str
    tokens: tuple[Token, ...]
    verdict: Verdict
    finish_reason: str | None = None
    failure: ServiceFailure | None = None
    aborted: bool = False
    prompt_tokens: int | None = None
    output_tokens: int = 0
    token_source: str = "server"
    started: float = 0.0
    first_token: float | None = None
    ended: float = 0.0
    loop_lag: float | None = None
    attempts: int = 1
    invalid_from: int | None = None
    plane: Plane | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def key(self) -> str:
        return self.job.key

    @property
    def text(self) -> str:
        """The answer's text, reasoning left out."""
        return "".join(t.text for t in self.tokens if not t.reasoning)
