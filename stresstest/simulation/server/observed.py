"""vLLM's histograms over the simulated engine, in the engine's seconds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from stresstest.simulation.engine.sequence import Sequence

_LATENCY = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
_PER_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_FIRST = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160,
    640, 2560,
)  # fmt: skip
_STEP = tuple(2**n for n in (0, *range(3, 15)))


def _tokens_up_to(limit: int) -> tuple[int, ...]:
    """1, 2, 5, 10 … as vLLM bounds token counts, up to the context."""
    return tuple(b for power in range(7) for n in (1, 2, 5) if (b := n * 10**power) <= limit)


@dataclass(slots=True)
class Histogram:
    """Bucket counts, sum and count of what was observed."""

    bounds: tuple[float, ...]
    total: float = 0.0
    counts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        found, so_far = [], 0
        for bound, count in zip((*map(float, self.bounds), float("inf")), self.counts, strict=True):
            so_far += count
            found.append(("+Inf" if bound == float("inf") else str(bound), float(so_far)))
        return found


class Observed:
    """vLLM's histograms, fed by the sequences as they write and end."""

    def __init__(self, max_model_len: int) -> None:
        tokens = _tokens_up_to(max_model_len)
        self.gap = Histogram(_PER_TOKEN)
        self.first = Histogram(_FIRST)
        self.step = Histogram(_STEP)
        self.prompt, self.generated, self.cap = Histogram(tokens), Histogram(tokens), Histogram(tokens)
        self.most, self.prefilled = Histogram(tokens), Histogram(tokens)
        self.n = Histogram((1, 2, 5, 10, 20))
        self.per_token = Histogram(_PER_TOKEN)
        self.whole, self.queued, self.inference = (
            Histogram(_LATENCY),
            Histogram(_LATENCY),
            Histogram(_LATENCY),
        )
        self.prefill, self.decode = Histogram(_LATENCY), Histogram(_LATENCY)
        self.preempted = Histogram((1, 2, 3, 4, 5, 10, 20))

    def asked(self, n: int, max_tokens: int) -> None:
        """One request of `n` choices came in."""
        self.n.observe(n)
        for _ in range(n):
            self.cap.observe(max_tokens)

    def wrote(self, sequence: Sequence) -> None:
        """A step gave the sequence a token."""
        if sequence.gap is not None:
            self.gap.observe(sequence.gap)
        elif sequence.first_token is not None:
            # A paced engine may stamp a step a moment before the request that it took in.
            self.first.observe(max(0.0, sequence.first_token - sequence.arrived))

    def ended(self, sequence: Sequence) -> None:
        """The sequence is done; one that was cancelled before it began has no times to tell."""
        first, last, scheduled = sequence.first_token, sequence.last_token, sequence.scheduled
        written = len(sequence.output)
        self.prompt.observe(sequence.prompt_tokens)
        self.generated.observe(written)
        self.most.observe(written)
        self.preempted.observe(sequence.preemptions)
        self.prefilled.observe(sequence.prompt_tokens - sequence.cached_tokens)
        if first is None or last is None or scheduled is None:
            return
        self.whole.observe(max(0.0, last - sequence.arrived))
        self.queued.observe(max(0.0, scheduled - sequence.arrived))
        self.inference.observe(last - scheduled)
        self.prefill.observe(first - scheduled)
        self.decode.observe(last - first)
        self.per_token.observe((last - first) / (written - 1) if written > 1 else 0.0)

    def named(self) -> Iterator[tuple[str, str, Histogram]]:
        """(name, help, histogram) in the order of vLLM's page."""
        yield "request_prompt_tokens", "Number of prefill tokens processed.", self.prompt
        yield "request_generation_tokens", "Number of generation tokens processed.", self.generated
        yield "iteration_tokens_total", "Histogram of number of tokens per engine_step.", self.step
        yield (
            "request_max_num_generation_tokens",
            "Histogram of maximum number of requested generation tokens.",
            self.most,
        )
        yield "request_params_n", "Histogram of the n request parameter.", self.n
        yield "request_params_max_tokens", "Histogram of the max_tokens request parameter.", self.cap
        yield "time_to_first_token_seconds", "Histogram of time to first token in seconds.", self.first
        yield "inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", self.gap
        yield (
            "request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request.",
            self.per_token,
        )
        yield "e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", self.whole
        yield (
            "request_queue_time_seconds",
            "Histogram of time spent in WAITING phase for request.",
            self.queued,
        )
        yield (
            "request_inference_time_seconds",
            "Histogram of time spent in RUNNING phase for request.",
            self.inference,
        )
        yield (
            "request_prefill_time_seconds",
            "Histogram of time spent in PREFILL phase for request.",
            self.prefill,
        )
        yield (
            "request_decode_time_seconds",
            "Histogram of time spent in DECODE phase for request.",
            self.decode,
        )
        yield (
            "request_num_preemptions",
            "Histogram of the number of times a request was preempted.",
            self.preempted,
        )
        yield (
            "request_prefill_kv_computed_tokens",
            "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
            self.prefilled,
        )
