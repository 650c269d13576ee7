"""One request inside the engine, one engine step, and the totals behind vLLM's metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from stresstest.simulation.engine.answer import AnswerStream
from stresstest.simulation.engine.request import SimRequest
from stresstest.simulation.engine.stopping import RepetitionStop, StopStringMatcher
from stresstest.simulation.engine.writing import EmittedToken


@dataclass(frozen=True, slots=True)
class ServiceFault:
    """A service failure that the server acts out once `at_token` output tokens are there.

    kind: "disconnect" or "stall"; seconds: how long a stall lasts.
    """

    kind: str
    at_token: int
    seconds: float


@dataclass(slots=True, eq=False)
class Sequence:
    """A request's life. Times in engine seconds, None until they happen.

    output: every token written so far, append only; an answer's own end is its last token (EOS).
    finish_reason: "stop", "length", "repetition", "abort" (cancelled), or None while it runs.
    stop_reason: the stop string or stop token id that ended it; stop_at: bytes of output before that string.
    gap: seconds between the last two tokens. onset, symptom: the truth, 1-based output token.
    """

    id: int
    request: SimRequest
    answer: AnswerStream
    arrived: float
    max_tokens: int
    fault: ServiceFault | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    scheduled: float | None = None
    first_token: float | None = None
    last_token: float | None = None
    gap: float | None = None
    finished: float | None = None
    output: list[EmittedToken] = field(default_factory=list)
    written: int = 0
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    stop_at: int | None = None
    preemptions: int = 0
    # The scheduler's own: tokens whose KV is there, tokens that the blocks hold, blocks, prompt block keys.
    tokens: int = 0
    computed: int = 0
    planned: int = 0
    capacity: int = 0
    own_blocks: int = 0
    shared: list[bytes] = field(default_factory=list)
    keys: list[bytes] | None = None
    stop_watch: StopStringMatcher | None = None
    repetition: RepetitionStop | None = None

    @property
    def onset(self) -> int | None:
        return self.answer.onset

    @property
    def symptom(self) -> str | None:
        return self.answer.symptom

    @property
    def is_done(self) -> bool:
        return self.finish_reason is not None


@dataclass(slots=True)
class EngineCounters:
    """Totals since the start. finished: by finish reason."""

    preemptions: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: dict[str, int] = field(default_factory=dict)
    refused: int = 0


@dataclass(frozen=True, slots=True)
class EngineStats:
    """A snapshot. running, waiting: sequences. kv_usage: share of blocks held, 0-1. The rest: totals.

    prefix_queries, prefix_hits: prompt tokens looked up in, and found in, the prefix cache.
    """

    running: int
    waiting: int
    kv_usage: float
    preemptions: int
    prompt_tokens: int
    generation_tokens: int
    finished: dict[str, int]
    prefix_queries: int
    prefix_hits: int


@dataclass(frozen=True, slots=True)
class EngineStep:
    """One engine step. at, duration: engine seconds. emitted: sequences that got a token, whose time is
    at + duration; finished: those of them that are over. tokens: computed in all (prompt and decode)."""

    at: float
    duration: float
    emitted: list[Sequence]
    finished: list[Sequence]
    tokens: int
    preempted: int
