"""vLLM's /metrics page over the simulated engine: its names, labels, types and bucket bounds.

Seconds are the engine's own (simulated) seconds. Families that nothing here feeds (multi-modal cache,
flops) are there at 0, as they are on a real server that does not use them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Many

from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stresstest.simulation.engine.scenario.spec import KV_BLOCK_TOKENS, EngineSpec
from stresstest.simulation.engine.scheduling.sequence import EngineStats, Sequence

_LATENCY = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
_PER_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_FIRST = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160,
    640, 2560,
)  # fmt: skip
_STEP = tuple(2**n for n in (0, *range(3, 15)))
_PHASES = {"queue": "WAITING", "inference": "RUNNING", "prefill": "PREFILL", "decode": "DECODE"}


def _tokens_up_to(limit: int) -> tuple[int, ...]:
    """1, 2, 5, 10 … as vLLM bounds token counts, up to the context."""
    return tuple(b for power in range(7) for n in (1, 2, 5) if (b := n * 10**power) <= limit)


class RequestHistograms:
    """vLLM's histograms, fed by the sequences as they write and end. Seconds are the engine's."""

    def __init__(self, registry: CollectorRegistry, labels: Mapping[str, str], max_model_len: int) -> None:
        tokens = _tokens_up_to(max_model_len)

        def histogram(name: str, text: str, bounds: Many[float]) -> Histogram:
            family = Histogram(f"vllm:{name}", text, tuple(labels), buckets=bounds, registry=registry)
            return family.labels(**labels)

        # In the order of vLLM's page.
        self.prompt = histogram("request_prompt_tokens", "Number of prefill tokens processed.", tokens)
        self.generated = histogram(
            "request_generation_tokens", "Number of generation tokens processed.", tokens
        )
        self.step = histogram(
            "iteration_tokens_total", "Histogram of number of tokens per engine_step.", _STEP
        )
        self.most = histogram(
            "request_max_num_generation_tokens",
            "Histogram of maximum number of requested generation tokens.",
            tokens,
        )
        self.n = histogram("request_params_n", "Histogram of the n request parameter.", (1, 2, 5, 10, 20))
        self.cap = histogram(
            "request_params_max_tokens", "Histogram of the max_tokens request parameter.", tokens
        )
        self.first = histogram(
            "time_to_first_token_seconds", "Histogram of time to first token in seconds.", _FIRST
        )
        self.gap = histogram(
            "inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", _PER_TOKEN
        )
        self.per_token = histogram(
            "request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request.",
            _PER_TOKEN,
        )
        self.whole = histogram(
            "e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", _LATENCY
        )
        self.queued, self.inference, self.prefill, self.decode = (
            histogram(
                f"request_{name}_time_seconds",
                f"Histogram of time spent in {phase} phase for request.",
                _LATENCY,
            )
            for name, phase in _PHASES.items()
        )
        self.preempted = histogram(
            "request_num_preemptions",
            "Histogram of the number of times a request was preempted.",
            (1, 2, 3, 4, 5, 10, 20),
        )
        self.prefilled = histogram(
            "request_prefill_kv_computed_tokens",
            "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
            tokens,
        )

    def on_request(self, n: int, max_tokens: int) -> None:
        """One request of `n` choices came in."""
        self.n.observe(n)
        for _ in range(n):
            self.cap.observe(max_tokens)

    def on_token(self, sequence: Sequence) -> None:
        """A step gave the sequence a token."""
        if sequence.gap is not None:
            self.gap.observe(sequence.gap)
        elif sequence.first_token is not None:
            # A paced engine may stamp a step a moment before the request that it took in.
            self.first.observe(max(0.0, sequence.first_token - sequence.arrived))

    def on_end(self, sequence: Sequence) -> None:
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


CONTENT_TYPE = CONTENT_TYPE_LATEST
REASONS = ("stop", "length", "abort", "error", "repetition")
_SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
_TIERS = ("device", "host", "p2p", "disk", "external_unspecified")
_ZEROS = (
    "estimated_flops_per_gpu", "estimated_read_bytes_per_gpu", "estimated_write_bytes_per_gpu",
    "external_prefix_cache_queries", "external_prefix_cache_hits", "mm_cache_queries", "mm_cache_hits",
)  # fmt: skip


class MetricsPage(Collector):
    """The whole page, made anew at each scrape."""

    def __init__(self, model: str, spec: EngineSpec, max_model_len: int) -> None:
        self._stats: EngineStats | None = None
        self._labels = {"engine": "0", "model_name": model}
        self._created = time.time()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self.observed = RequestHistograms(self._registry, self._labels, max_model_len)
        cache = {
            "block_size": KV_BLOCK_TOKENS,
            "cache_dtype": "auto",
            "enable_prefix_caching": spec.prefix_caching,
            "engine": 0,
            "gpu_memory_utilization": 0.92,
            "is_attention_free": False,
            "kv_cache_max_concurrency": spec.kv_cache_tokens / max_model_len,
            "kv_cache_size_tokens": spec.kv_cache_tokens,
            "num_cpu_blocks": None,
            "num_gpu_blocks": spec.blocks,
            "num_gpu_blocks_override": None,
            "sliding_window": None,
        }
        text = "Information of the LLMEngine CacheConfig"
        info = Gauge("vllm:cache_config_info", text, tuple(cache), registry=self._registry)
        info.labels(**cache).set(1.0)

    def text(self, stats: EngineStats) -> bytes:
        """The page for these counters and gauges."""
        self._stats = stats
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """The families before the histograms, in the order of vLLM's page."""
        now = self._stats
        if now is None:
            return
        cached = min(now.prefix_hits, now.prompt_tokens)
        yield from (self._counter(name, "Not simulated.", 0) for name in _ZEROS)
        yield self._gauge(
            "num_requests_running", "Number of requests in model execution batches.", now.running
        )
        yield self._gauge("num_requests_waiting", "Number of requests waiting to be processed.", now.waiting)
        yield self._gauge(
            "num_requests_waiting_by_reason",
            "Number of waiting requests by reason.",
            {"capacity": now.waiting, "deferred": 0},
            "reason",
        )
        states = {"awake": 1, "weights_offloaded": 0, "discard_all": 0}
        yield self._gauge("engine_sleep_state", "Engine sleep state.", states, "sleep_state")
        yield self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", now.kv_usage)
        yield self._counter("prefix_cache_queries", "Prefix cache queries, in tokens.", now.prefix_queries)
        yield self._counter("prefix_cache_hits", "Prefix cache hits, in tokens.", now.prefix_hits)
        yield self._counter(
            "num_preemptions", "Cumulative number of preemption from the engine.", now.preemptions
        )
        yield self._counter("prompt_tokens", "Number of prefill tokens processed.", now.prompt_tokens)
        computed = now.prompt_tokens - cached
        sources = dict(zip(_SOURCES, (computed, cached, 0), strict=True))
        yield self._counter(
            "prompt_tokens_by_source", "Number of prompt tokens by source.", sources, "source"
        )
        yield self._counter("prompt_tokens_cached", "Number of cached prompt tokens.", cached)
        tiers = {tier: cached if tier == "device" else 0 for tier in _TIERS}
        yield self._counter(
            "prompt_tokens_cached_by_source", "Prefix-cache hit tokens by tier.", tiers, "source"
        )
        yield self._counter(
            "generation_tokens", "Number of generation tokens processed.", now.generation_tokens
        )
        finished = {reason: now.finished.get(reason, 0) for reason in REASONS}
        said = "Count of successfully processed requests."
        yield self._counter("request_success", said, finished, "finished_reason")
        yield self._rejections()

    def _gauge(
        self, name: str, said: str, value: float | Mapping[str, float], label: str | None = None
    ) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"vllm:{name}", said)
        for more, number in _labelled(value, label):
            family.add_sample(f"vllm:{name}", {**self._labels, **more}, number)
        return family

    def _counter(
        self, name: str, said: str, value: float | Mapping[str, float], label: str | None = None
    ) -> CounterMetricFamily:
        family = CounterMetricFamily(f"vllm:{name}", said)
        for more, number in _labelled(value, label):
            labels = {**self._labels, **more}
            family.add_sample(f"vllm:{name}_total", labels, number)
            family.add_sample(f"vllm:{name}_created", labels, self._created)
        return family

    def _rejections(self) -> CounterMetricFamily:
        family = CounterMetricFamily("vllm:admission_rejections", "Number of admission attempts rejected.")
        for reason in ("max_num_queued_reqs", "max_num_queued_tokens"):
            labels = {"model_name": self._labels["model_name"], "reason": reason}
            family.add_sample("vllm:admission_rejections_total", labels, 0)
            family.add_sample("vllm:admission_rejections_created", labels, self._created)
        return family


def _labelled(
    value: float | Mapping[str, float], label: str | None
) -> Iterator[tuple[dict[str, str], float]]:
    if isinstance(value, Mapping):
        yield from (({label or "": key}, number) for key, number in value.items())
    else:
        yield {}, value
