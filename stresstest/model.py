"""The plain data that every room shares: frozen dataclasses, no library.

Token positions are 1-based output tokens throughout. Times are seconds on the
process's anchored monotonic clock (:mod:`stresstest.clock`). ``None`` means
"not measured", never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

_EMPTY: Mapping[str, Any] = MappingProxyType({})


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
    """Which part of a campaign a generation belongs to; only `certify` certifies."""

    CLIMB = "climb"
    CERTIFY = "certify"


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


@dataclass(frozen=True, slots=True)
class Decoding:
    """The sampling parameters and system prompt in force. `None`: not sent."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    system_prompt: str | None = None

    def sent(self) -> dict[str, float | int]:
        """The sampling parameters that go into the request body."""
        return {k: v for k, v in asdict(self).items() if v is not None and k != "system_prompt"}


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    content: str


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
class GenerationRequest:
    """One request as the wire needs it; either `messages` or `prompt` (text or token ids) is set."""

    model: str
    max_tokens: int
    decoding: Decoding
    messages: tuple[Message, ...] | None = None
    prompt: str | tuple[int, ...] | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One generation that the ladder asks for. `key` is stable over resumes of the same run."""

    phase: Phase
    rung: int
    index: int
    units: int | None
    prompt_index: int
    seed: int
    max_tokens: int

    @property
    def key(self) -> str:
        return f"{self.phase}/{self.rung}/{self.index}"


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
class ServerSample:
    """One reading of vLLM's /metrics. Counters are totals; use differences. None: not exposed.

    kv_usage: 0-1. finished: request_success_total by finished_reason. histograms: name ->
    (sum in seconds, count).
    """

    at: float
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    preemptions: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    finished: Mapping[str, float] = field(default_factory=lambda: _EMPTY)
    histograms: Mapping[str, tuple[float, float]] = field(default_factory=lambda: _EMPTY)


@dataclass(frozen=True, slots=True)
class ServerSummary:
    """What the server's own metrics say of a run. Peaks of gauges, differences of counters, means in seconds.

    samples: readings. seconds: span that they cover, pauses between sessions left out. finished:
    requests by reason. Other clients' requests are in these numbers too: the server does not know whose
    they are.
    """

    samples: int
    seconds: float
    kv_peak: float | None = None
    running_peak: float | None = None
    waiting_peak: float | None = None
    preemptions: float | None = None
    generated_tokens: float | None = None
    means: Mapping[str, float] = field(default_factory=lambda: _EMPTY)
    finished: Mapping[str, float] = field(default_factory=lambda: _EMPTY)


@dataclass(frozen=True, slots=True)
class Missing:
    """A capability that is not there, in plain words: what, and what that costs."""

    what: str
    cost: str


@dataclass(frozen=True, slots=True)
class EndpointProfile:
    """What the endpoint can do, asked once. `base_url` holds no credentials.

    fingerprint: the server's `system_fingerprint`. defaults: the sampling defaults in force, where the
    server reveals them.
    """

    base_url: str
    model: str
    version: str | None = None
    max_model_len: int | None = None
    root: str | None = None
    metrics: bool = False
    tokenize: bool = False
    token_ids: bool = False
    top_logprobs: int = 0
    logprobs_mode: str | None = None
    kv_cache_tokens: int | None = None
    simulated: bool = False
    fingerprint: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True)
class Rigor:
    """alpha: tolerated degeneration risk; confidence: one-sided; planned/floor: requests at risk."""

    name: str
    alpha: float
    confidence: float
    planned: int
    floor: int


RIGORS: Mapping[str, Rigor] = MappingProxyType(
    {
        "quick": Rigor("quick", 0.10, 0.90, 38, 22),
        "standard": Rigor("standard", 0.05, 0.95, 124, 59),
        "strict": Rigor("strict", 0.01, 0.95, 473, 299),
    }
)


@dataclass(frozen=True, slots=True)
class Observation:
    """What the threshold needs of one generation.

    onset: first degenerate token or None. observed: tokens known healthy. invalid_from: first token
    of an invalidated window (censors whatever the outcome). cluster: prompt id; outputs of one
    prompt are not independent. digest: hash of the output, so that identical outputs at
    temperature 0 count once. ended: ended by itself in health (the competing event of the cumulative
    incidence). unresolved: stopped by its cap with a candidate still open after `observed`, so nobody
    knows whether it was failing there: certification takes the worst case.
    """

    onset: int | None
    observed: int
    cluster: str = ""
    digest: str | None = None
    invalid_from: int | None = None
    ended: bool = False
    unresolved: bool = False


@dataclass(frozen=True, slots=True)
class Threshold:
    """The certified largest T whose degeneration risk is <= alpha at the stated confidence.

    tokens: T, or None when nothing is certified. n/onsets: at risk for T and degenerate by T (when
    nothing is certified: at the smallest T looked at). upper: the bound on q(T). censored_at: C when
    no onset was seen ("≥ C"), else None. lacking: what is missing, in words. looks: how many were declared.
    """

    alpha: float
    confidence: float
    tokens: int | None = None
    n: int = 0
    onsets: int = 0
    upper: float | None = None
    certified: bool = False
    censored_at: int | None = None
    lacking: str | None = None
    looks: int = 1


@dataclass(frozen=True, slots=True)
class PlaneVerdict:
    """Where the cause lies, as far as is known. plane/basis None when nothing fails or nothing is known."""

    plane: Plane | None
    basis: Basis | None
    sentence: str
    evidence: tuple[Evidence, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What was asked for; everything a resume needs. Holds no secret."""

    subject: Subject
    base_url: str
    task_source: str
    rigor: str = "standard"
    decoding: Decoding = field(default_factory=Decoding)
    concurrency: int = 8
    horizon: int | None = None
    margin: float = 0.10
    prompts_file: str | None = None
    budget_tokens: int | None = None
    budget_seconds: float | None = None
    tighten: bool = False
    abort: bool = True
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Run:
    """A campaign as stored. created/ended: clock seconds (Unix epoch)."""

    id: str
    settings: RunSettings
    profile: EndpointProfile
    status: RunStatus
    created: float
    ended: float | None = None
    tool_version: str = ""
    prompts_digest: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run with everything that reports draw. `threshold` is over the certifying sample only."""

    run: Run
    threshold: Threshold
    safe_max_tokens: int | None
    verdict: PlaneVerdict
    generations: tuple[Generation, ...]
    samples: tuple[ServerSample, ...] = ()
    short: int = 0
    distinct_prompts: int = 0
    tokens_spent: int = 0
    seconds: float = 0.0
    survival: tuple[tuple[float, float, float, float], ...] = ()
    server: ServerSummary | None = None
    notes: tuple[str, ...] = ()

    @property
    def certifying(self) -> tuple[Generation, ...]:
        return tuple(g for g in self.generations if g.job.phase is Phase.CERTIFY)
