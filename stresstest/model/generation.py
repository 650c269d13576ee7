"""Responses of the endpoint: tokens, symptoms, verdicts, generations and evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from stresstest.model.request import Job
from stresstest.model.tokens import Token, TokenSummary
from stresstest.model.words import AnswerPart, FailureKind, Plane, SymptomKind, ZoneKind


@dataclass(frozen=True, slots=True)
class Symptom:
    """One degeneration reported by a detector.

    onset: first degenerate token (for a loop: first token of the second copy).
    alarm: the token at which the detector could first know; >= onset.
    start: first token of the run's first copy (loops); None otherwise.
    end: last token of the degenerate span; None while the span reaches the end of the output.
    score: 0-1, monotone in evidence.
    confirmed: False for a warning that proves nothing alone (entropy, a single foreign word).
    detail: the detector's numbers, e.g. period, exponent, language, mean_before, mean_after.
    summary: one sentence for the user.
    """

    kind: SymptomKind
    onset: int
    alarm: int
    start: int | None = None
    end: int | None = None
    score: float = 1.0
    confirmed: bool = True
    detail: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Zone:
    """Tokens start..end (1-based, inclusive) in one state."""

    kind: ZoneKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class GenerationVerdict:
    """The detector suite's verdict on one generation.

    tokens: output tokens seen, reasoning included. onset/alarm/symptom: of the first confirmed degeneration,
    or None.
    observed: tokens known healthy. Without an onset, up to the start of the oldest open candidate (a run
    that might have become a loop, a unit or sentence that could not be judged yet); with one, onset - 1.
    units: complete units seen (None where the task has no pattern). headings: units begun, likewise; None
    also in a verdict of an earlier version.
    recovered: a loop that passed the bound and then ended by itself.
    loops_to_end: a loop (exact or near) is still open at the last token. reasoning: output tokens up to the
    end of the reasoning before the answer; 0 without any, and in a verdict of an earlier version.
    """

    tokens: int
    observed: int
    onset: int | None = None
    alarm: int | None = None
    symptom: SymptomKind | None = None
    symptoms: tuple[Symptom, ...] = ()
    zones: tuple[Zone, ...] = ()
    units: int | None = None
    headings: int | None = None
    recovered: bool = False
    loops_to_end: bool = False
    score: float = 0.0
    reasoning: int = 0

    @property
    def degenerate(self) -> bool:
        return self.onset is not None

    @property
    def onset_in(self) -> AnswerPart | None:
        """Whether the onset lies in the reasoning or in the answer; None without an onset."""
        if self.onset is None:
            return None
        return AnswerPart.REASONING if self.onset <= self.reasoning else AnswerPart.ANSWER

    @property
    def answerless(self) -> bool:
        """Whether nothing was seen but reasoning."""
        return 0 < self.tokens <= self.reasoning

    @property
    def copy_length(self) -> int:
        """Tokens of one copy of what repeats; 0 where the first confirmed symptom is not a repetition."""
        first = next((s for s in self.symptoms if s.confirmed and s.kind is self.symptom), None)
        return 0 if first is None or first.start is None else first.onset - first.start


@dataclass(frozen=True, slots=True)
class ServiceFailure:
    """Why a request was lost. message: one sentence. status: HTTP. at_token: output tokens received until
    then. retry_after: seconds, as requested by the server."""

    kind: FailureKind
    message: str
    status: int | None = None
    at_token: int = 0
    retry_after: float | None = None


UNSEEN = "not measured"
"""The stance of what was not seen: it stands below the evidence for and against."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observed fact, for or against a plane.

    supports: True for evidence for the plane, False against it. source: "vllm /metrics", "stream",
    "detector:loop", "NVML", "request". fact: a sentence with the value; a fact on the
    system without a value says what was not measured. at: seconds since the generation's
    start; token: output token, where applicable.
    """

    plane: Plane
    supports: bool
    source: str
    fact: str
    value: float | None = None
    at: float | None = None
    token: int | None = None

    @property
    def stance(self) -> str:
        """ "for", "against", or "not measured": nothing was seen of the system, which speaks for nobody."""
        if self.plane is Plane.SYSTEM and not self.supports and self.value is None:
            return UNSEEN
        return "for" if self.supports else "against"


@dataclass(frozen=True, slots=True)
class GenerationRecord:
    """One streamed response without its tokens: what remains in memory when they are stored.

    token_summary: of the tokens that it had. token_source: "server" | "server (positions in words)" |
    "tokenize" | "tiktoken (estimate)" | "words". finish_reason: from the server; None if the stream did not
    end properly. aborted: closed by the client after a certain onset. output_tokens: counted by
    `token_source`. started/ended: clock seconds; first_token: clock seconds of the first output token.
    loop_lag: largest lag of the client's event loop in seconds (invalidates timings, never text). attempts:
    requests sent, retries included. unanswered_s: seconds of the longest earlier attempt that the server took
    and of which nothing arrived; 0 without one. redrawn: an earlier draw of this answer had failed when its
    process was killed. invalid_from: first token of an invalidated window.
    answered_by: the model that the stream named. unseen_tokens: counted by the server, and surely not in the
    text. answer_id, created: the stream's own name and Unix time, which a cache replays. fingerprint: its
    `system_fingerprint`, by which a server names its version and settings.
    """

    job: Job
    prompt_id: str
    prompt_text: str
    verdict: GenerationVerdict
    token_summary: TokenSummary
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
    unanswered_s: float = 0.0
    redrawn: bool = False
    invalid_from: int | None = None
    plane: Plane | None = None
    evidence: tuple[Evidence, ...] = ()
    answered_by: str | None = None
    unseen_tokens: int = 0
    answer_id: str | None = None
    created: int | None = None
    fingerprint: str | None = None

    @property
    def key(self) -> str:
        return self.job.key

    def with_tokens(self, tokens: Sequence[Token]) -> Generation:
        """The whole generation. tokens: the ones that the record was made from."""
        given = {name: getattr(self, name) for name in _RECORD_FIELDS if name != "token_summary"}
        return Generation(**given, tokens=tokens)


_RECORD_FIELDS = tuple(each.name for each in fields(GenerationRecord))


@dataclass(frozen=True, slots=True)
class Generation(GenerationRecord):
    """One complete streamed response. tokens: in order of arrival; columns once they come from the store."""

    token_summary: TokenSummary = field(init=False)
    tokens: Sequence[Token] = field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "token_summary", TokenSummary.of(self.tokens))

    @property
    def text(self) -> str:
        """The answer's text, without reasoning."""
        return "".join(t.text for t in self.tokens if not t.reasoning)

    @property
    def thought(self) -> str:
        """The text of its reasoning."""
        return "".join(t.text for t in self.tokens if t.reasoning)

    def to_record(self) -> GenerationRecord:
        """The generation without its tokens, which are freed once nothing else refers to them."""
        return GenerationRecord(**{name: getattr(self, name) for name in _RECORD_FIELDS})


GenerationLoader = Callable[[GenerationRecord], Generation]
"""Reads the tokens of a record from the store. Keep few of the results: each holds all of its tokens."""
