"""Results of `stresstest cost`: request spans, ratios and the complete cost.

Times are seconds on one clock of any origin (the process's clock when measured here, otherwise the log's).
``None`` means "not measured", never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from stresstest.model.request import Decoding
from stresstest.model.words import Subject


class CostArm(StrEnum):
    """The side of a pair that a batch measures. A scout batch only identifies the requests that loop; it
    enters no ratio."""

    LOOPS = "loops"
    CAPPED = "capped"
    SCOUT = "scout"


class Provenance(StrEnum):
    """Whether a number was measured or computed from a model."""

    MEASURED = "measured"
    MODELLED = "modelled"


@dataclass(frozen=True, slots=True)
class RequestSpan:
    """One request in time.

    id: identifies the request; the same in both arms of a pair. submitted: when the client sent it. start:
    when the engine scheduled it, if the log records this. first_token, end: as observed by the client.
    degenerate: None without a text to judge. onset: 1-based output token; onset_at: its arrival. loops: its
    first symptom is repetition, which continues up to the cap, or it ends in one. dharma: degenerate by
    DharmaOCR's production definition; None if unknown. capped: ended by its cap (finish reason `length`).
    planted: a stand-in for a loop, made to run to its cap with `ignore_eos`. marks: (output token, seconds)
    for some tokens in order, including the first and the last; () if not observed. batch: label of the batch;
    pair: its number, from 0. cluster: identifies the prompt. failure: why the request was lost.
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
        return self.end - self.submitted

    @property
    def judged(self) -> bool:
        """Whether it is known how it went: what was lost before it failed might have failed later."""
        return self.degenerate is not None and (self.failure is None or self.degenerate)

    @property
    def endless(self) -> bool:
        """Whether only a cap, or whoever gave it up, ended it."""
        return self.capped or self.failure is not None

    @property
    def healthy(self) -> bool:
        """Whether the request was judged and neither degenerated nor failed. False for stand-ins."""
        return self.degenerate is False and not self.planted and self.failure is None


def came_at_once(begin: float, end: float, tokens: int) -> bool:
    """Whether so many tokens cannot have been written in this time (seconds): they were not streamed, but
    held back until the end, or came out of a cache."""
    return tokens - 1 > FASTEST_PACE * (end - begin)


FASTEST_PACE = 5_000.0
"""Tokens per second of one answer that nobody reaches: the fastest services write about 3,000."""


LONGEST_CONTEXT = 10_000_000
"""Tokens of the longest context of a served model (Llama 4 Scout's). A larger count of a request is wrong."""


@dataclass(frozen=True, slots=True)
class CostRatio:
    """A ratio or share with its 95 % interval; lo, hi are None where no interval is given.

    n: sample size (pairs of batches, requests or strata). method: description of the method.
    """

    value: float
    lo: float | None = None
    hi: float | None = None
    n: int = 0
    method: str = ""


@dataclass(frozen=True, slots=True)
class ModelledCost:
    """A counterfactual that was computed, not measured, and has no confidence interval.

    wall_clock, counterfactual: seconds of a batch with and without the loops. share_of_time: share of the
    observed time that is lost. inflation: increase relative to the counterfactual. healthy_slowdown: None if
    the method does not estimate it.
    """

    method: str
    wall_clock: float
    counterfactual: float
    share_of_time: float
    inflation: float
    healthy_slowdown: float | None = None


@dataclass(frozen=True, slots=True)
class NaiveComparison:
    """Healthy requests that overlapped a loop against those that did not. Shown for contrast only: biased.

    inside, outside: mean duration in seconds; n_inside, n_outside: requests. bias: describes the bias.
    """

    inside: float
    outside: float
    ratio: float
    n_inside: int
    n_outside: int
    bias: str


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of loops. A number that was not measured is None.

    requests, degenerate, wasted_tokens, gpu_seconds, energy_joules and money cover all requests, each counted
    once, in the batch with uncapped loops. wall_clock and counterfactual are seconds per batch, geometric
    means over the pairs. rate, dharma_rate: shares with exact intervals. healthy_slowdown: duration of
    healthy requests with loops over without; wall_clock_ratio: the same for the batch; step_ratio: for the
    time per token, at equal load. share_of_time = inflation / (1 + inflation). wasted_tokens: from the onset
    on. gpu_seconds: additional GPU time due to loops; gpu_seconds_used: all of it; gpu_seconds_after_onset:
    the loops' share, with each moment divided evenly among the running requests. kv_share: time-weighted
    share of the resident tokens that loops hold after their onset; kv_peak: its maximum. kv_cache_tokens:
    size of the cache, if the server reports it. labels: JSON key → "measured" | "modelled". spans: the
    requests of all batches, capped ones included, in submission order.
    """

    requests: int
    degenerate: int | None = None
    planted: int = 0
    failed: int = 0
    batches: int = 1
    pairs: int = 0
    rate: CostRatio | None = None
    dharma_rate: CostRatio | None = None
    wall_clock: float | None = None
    counterfactual: float | None = None
    share_of_time: float | None = None
    inflation: float | None = None
    wall_clock_ratio: CostRatio | None = None
    healthy_slowdown: CostRatio | None = None
    step_ratio: CostRatio | None = None
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
    modelled: tuple[ModelledCost, ...] = ()
    naive: NaiveComparison | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    subject: Subject | None = None
    decoding: Decoding | None = None
    source: str = ""
    simulated: bool = False
    complete: bool = True
    spans: tuple[RequestSpan, ...] = ()
