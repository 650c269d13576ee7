"""A campaign at one moment, as the live view draws it: frozen, so that two threads may share it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stresstest.model import Generation, ServerSample


@dataclass(frozen=True, slots=True)
class Row:
    """One rung of the ladder, or one arm of a diagnosis. target: tokens asked for, None if it is no rung.

    key: which one it is; name: what it is called. earliest: first onset. tokens: output tokens of what is
    done.
    """

    key: str
    name: str
    total: int
    target: int | None = None
    done: int = 0
    degenerate: int = 0
    lost: int = 0
    earliest: int | None = None
    tokens: int = 0

    def with_one(self, generation: Generation) -> Row:
        onset = generation.verdict.onset
        known = [at for at in (self.earliest, onset) if at is not None]
        return replace(
            self,
            done=self.done + 1,
            total=max(self.total, self.done + 1),
            degenerate=self.degenerate + generation.verdict.degenerate,
            lost=self.lost + (generation.failure is not None),
            earliest=min(known, default=None),
            tokens=self.tokens + generation.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class Onset:
    """One onset as it is shown: where, what, and the text before it and from it on, as the model wrote it."""

    key: str
    symptom: str
    token: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Strip:
    """The last values of something, oldest first, two seconds each; None: not measured."""

    now: float | None
    values: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that is drawn, at one moment. ahead: targets of the rungs that the climb has not begun.
    eta: seconds to the stage's end. certifying: what the certifying sample holds so far.
    """

    rows: tuple[Row, ...]
    ahead: tuple[int, ...]
    onsets: tuple[Onset, ...]
    speed: Strip
    kv: Strip
    gpu: Strip
    gpu_memory: float | None
    running: int
    certain: int
    server: ServerSample | None
    tokens: int
    elapsed: float
    eta: float | None
    budget_tokens: int | None
    budget_seconds: float | None
    planned_at_risk: int | None
    sample_size: int | None
    certifying: tuple[Generation, ...]
