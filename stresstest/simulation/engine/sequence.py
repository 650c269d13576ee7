"""One request inside the engine: what it wrote, when, and the truth about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from stresstest.simulation.engine.answer import Answer
from stresstest.simulation.engine.repetition import RepetitionWatch
from stresstest.simulation.engine.request import SimRequest
from stresstest.simulation.engine.stopping import StopWatch
from stresstest.simulation.engine.writing import Written


@dataclass(frozen=True, slots=True)
class Fault:
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
    answer: Answer
    arrived: float
    max_tokens: int
    fault: Fault | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    scheduled: float | None = None
    first_token: float | None = None
    last_token: float | None = None
    gap: float | None = None
    finished: float | None = None
    output: list[Written] = field(default_factory=list)
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
    stop_watch: StopWatch | None = None
    repetition: RepetitionWatch | None = None

    @property
    def onset(self) -> int | None:
        return self.answer.onset

    @property
    def symptom(self) -> str | None:
        return self.answer.symptom

    @property
    def done(self) -> bool:
        return self.finish_reason is not None
