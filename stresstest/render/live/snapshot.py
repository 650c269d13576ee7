"""The state of a campaign at one moment, as drawn by the live view; immutable, so shared by threads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stresstest.model import GenerationRecord, Observation, ServerSample


@dataclass(frozen=True, slots=True)
class RungProgress:
    """Progress of one rung of the ladder or one arm of a diagnosis.

    key: identifies it. name: shown to the user. total, done, degenerate, lost: generations. target:
    requested tokens, None for an arm. earliest: smallest onset, counted from the answer's first token.
    tokens: output tokens of finished generations.
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

    def with_generation(self, generation: GenerationRecord, cut: int = 0) -> RungProgress:
        """One more generation. cut: tokens of the answer that it continues."""
        onset = generation.verdict.onset
        onset = None if onset is None else cut + onset
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
class OnsetExcerpt:
    """One onset for display. name: of the answer. token: its position in the whole answer. before, after: the
    text on either side of it."""

    name: str
    symptom: str
    token: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class RecentValues:
    """The current value of a quantity, and its recent values over two seconds each, oldest first.

    None: not measured.
    """

    now: float | None
    values: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """The state that the live view draws.

    upcoming_targets: lengths in tokens of the climb's remaining rungs. running: requests in flight.
    certain: those of them that are already degenerate. elapsed: seconds. eta: seconds to the stage's end.
    run_eta: seconds to the run's end if nothing fails, while it climbs. expected_tokens: of such a run.
    certifying: the certifying sample so far.
    """

    rows: tuple[RungProgress, ...]
    upcoming_targets: tuple[int, ...]
    onsets: tuple[OnsetExcerpt, ...]
    speed: RecentValues
    kv: RecentValues
    gpu: RecentValues
    gpu_memory: float | None
    running: int
    certain: int
    server: ServerSample | None
    tokens: int
    elapsed: float
    eta: float | None
    run_eta: float | None
    expected_tokens: int | None
    budget_tokens: int | None
    budget_seconds: float | None
    planned_at_risk: int | None
    sample_size: int | None
    certifying: tuple[Observation, ...]
