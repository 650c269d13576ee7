"""What a failure costs: requests in time, ratios, and the whole account. `stresstest cost`.

Times are seconds on one clock of any origin (clock seconds when measured here, a log's own otherwise).
``None`` means "not measured", never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from stresstest.model.words import Subject, SymptomKind

LOOP_SYMPTOMS = (SymptomKind.LOOP, SymptomKind.NEAR_LOOP, SymptomKind.FLOODING)
"""What runs on to the cap: these are capped in the counterfactual."""
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class CostArm(StrEnum):
    """Which side of a pair a batch is. A scout only tells which requests loop; it is in no ratio."""

    LOOPS = "loops"
    CAPPED = "capped"
    SCOUT = "scout"


class Known(StrEnum):
    """How a number is known."""

    MEASURED = "measured"
    MODELLED = "modelled"


@dataclass(frozen=True, slots=True)
class Span:
    """One request as the economics see it.

    id: the request; the same in both arms of a pair. submitted: sent by the client. start: taken up by the
    engine, where the log says so (a client cannot know). first_token, end: as the client saw them.
    degenerate: None where there is no text to judge. onset: 1-based output token; onset_at, alarm_at: when.
    loops: the degeneration is one of `LOOP_SYMPTOMS`. dharma: the source's production
    definition; None where it cannot be known. capped: ended by its cap (finish reason `length`).
    planted: made to run to its cap by the request itself, as a stand-in for a loop.
    marks: (output token, seconds) at some tokens, in order, first and last among them; () where not seen.
    batch: label of the batch; pair: its number, from 0. cluster: the prompt. failure: why it was lost.
    """

    id: str
    submitted: float
    end: float
    output_tokens: int
    start: float | None = None
    first_token: float | None = None
    prompt_tokens: int | None = None
    max_tokens: int | None = None
    degenerate: bool | None = None
    loops: bool = False
    onset: int | None = None
    onset_at: float | None = None
    alarm_at: float | None = None
    dharma: bool | None = None
    capped: bool = False
    planted: bool = False
    failure: str | None = None
    batch: str = ""
    arm: str = ""
    pair: int | None = None
    cluster: str = ""
    marks: tuple[tuple[int, float], ...] = ()

    @property
    def duration(self) -> float:
        """Seconds from sending to the end."""
        return self.end - self.submitted

    @property
    def healthy(self) -> bool:
        """Judged, and nothing was wrong with it."""
        return self.degenerate is False and not self.planted and self.failure is None


@dataclass(frozen=True, slots=True)
class Ratio:
    """A number with its 95 % interval. lo, hi: None where no interval is claimed. n: what it stands on
    (pairs of batches, requests, strata), method: how it was got, in words."""

    value: float
    lo: float | None = None
    hi: float | None = None
    n: int = 0
    method: str = ""


@dataclass(frozen=True, slots=True)
class Modelled:
    """A counterfactual that was computed, not measured: no coverage is claimed.

    wall_clock, counterfactual: seconds of a batch with the loops and without. share_of_time: of the observed
    time, lost; inflation: over the counterfactual. healthy_slowdown: None where the method tells none.
    """

    method: str
    wall_clock: float
    counterfactual: float
    share_of_time: float
    inflation: float
    healthy_slowdown: float | None = None


@dataclass(frozen=True, slots=True)
class Naive:
    """Healthy requests that met a live loop against those that met none: shown for contrast, never used.

    inside, outside: mean healthy seconds; n_inside, n_outside: requests. bias: what is wrong with it.
    """

    inside: float
    outside: float
    ratio: float
    n_inside: int
    n_outside: int
    bias: str


@dataclass(frozen=True, slots=True)
class Cost:
    """The account of loops. Every number is None where it was not measured.

    requests, degenerate, wasted_tokens, gpu_seconds, energy_joules and money are over all requests counted
    (each once, from the batch that let loops run); wall_clock and counterfactual are a batch's,
    geometric means over the pairs. rate, dharma_rate: shares with exact intervals.
    healthy_slowdown: what loops cost healthy requests (total_ratio, from pairs of batches), wall_clock_ratio:
    what they cost the batch. step_ratio: the engine's part. share_of_time = inflation / (1 + inflation).
    wasted_tokens: after the onset. gpu_seconds: extra GPU time that the loops cost; gpu_seconds_used: all of
    it; gpu_seconds_after_onset: the loops' own share (each moment split among the requests running).
    kv_share: of the resident tokens, held by loops after their onset, over time; kv_peak: its largest moment.
    kv_cache_tokens: size of the cache, where the server tells it.
    labels: JSON key → "measured" | "modelled". spans: the requests of all batches in the order in which
    they were sent, those of capped batches too.
    """

    requests: int
    degenerate: int | None = None
    planted: int = 0
    failed: int = 0
    batches: int = 1
    pairs: int = 0
    rate: Ratio | None = None
    dharma_rate: Ratio | None = None
    wall_clock: float | None = None
    counterfactual: float | None = None
    share_of_time: float | None = None
    inflation: float | None = None
    wall_clock_ratio: Ratio | None = None
    healthy_slowdown: Ratio | None = None
    step_ratio: Ratio | None = None
    output_tokens: int = 0
    wasted_tokens: int | None = None
    gpus: int = 1
    gpu_seconds: float | None = None
    gpu_seconds_used: float | None = None
    gpu_seconds_after_onset: float | None = None
    energy_joules: float | None = None
    gpu_hour_price: float | None = None
    money: float | None = None
    kv_share: float | None = None
    kv_peak: float | None = None
    kv_cache_tokens: int | None = None
    modelled: tuple[Modelled, ...] = ()
    naive: Naive | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)
    notes: tuple[str, ...] = ()
    subject: Subject | None = None
    source: str = ""
    simulated: bool = False
    complete: bool = True
    spans: tuple[Span, ...] = ()
