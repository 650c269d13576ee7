"""vLLM's /metrics page over the simulated engine: its names, labels, types and bucket bounds.

Seconds are the engine's own (simulated) seconds. Families that nothing here feeds (multi-modal cache,
flops) are there at 0, as they are on a real server that does not use them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from stresstest.simulation.engine.scenario import BLOCK, EngineSpec
from stresstest.simulation.server.observed import Histogram, Observed

CONTENT_TYPE = CONTENT_TYPE_LATEST
REASONS = ("stop", "length", "abort", "error", "repetition")
_SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
_TIERS = ("device", "host", "p2p", "disk", "external_unspecified")
_ZEROS = (
    "estimated_flops_per_gpu", "estimated_read_bytes_per_gpu", "estimated_write_bytes_per_gpu",
    "external_prefix_cache_queries", "external_prefix_cache_hits", "mm_cache_queries", "mm_cache_hits",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Levels:
    """The engine's counters and gauges at one moment."""

    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    preemptions: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generation_tokens: int = 0
    finished: Mapping[str, int] = field(default_factory=dict)
    prefix_queries: int = 0
    prefix_hits: int = 0


class Page(Collector):
    """The whole page, made anew at each scrape."""

    def __init__(self, model: str, spec: EngineSpec, max_model_len: int) -> None:
        self.observed = Observed(max_model_len)
        self.levels = Levels()
        self._labels = {"engine": "0", "model_name": model}
        self._spec = spec
        self._context = max_model_len
        self._created = time.time()
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self, levels: Levels) -> bytes:
        """The page for one moment."""
        self.levels = levels
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """prometheus_client asks for the families in order."""
        now = self.levels
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
        computed = now.prompt_tokens - now.cached_tokens
        sources = dict(zip(_SOURCES, (computed, now.cached_tokens, 0), strict=True))
        yield self._counter(
            "prompt_tokens_by_source", "Number of prompt tokens by source.", sources, "source"
        )
        yield self._counter("prompt_tokens_cached", "Number of cached prompt tokens.", now.cached_tokens)
        tiers = {tier: now.cached_tokens if tier == "device" else 0 for tier in _TIERS}
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
        for name, said, histogram in self.observed.named():
            yield self._histogram(name, said, histogram)
        yield self._cache()

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

    def _histogram(self, name: str, said: str, histogram: Histogram) -> HistogramMetricFamily:
        family = HistogramMetricFamily(f"vllm:{name}", said, labels=tuple(self._labels))
        family.add_metric(tuple(self._labels.values()), histogram.cumulative(), histogram.total)
        family.add_sample(f"vllm:{name}_created", self._labels, self._created)
        return family

    def _cache(self) -> GaugeMetricFamily:
        spec = self._spec
        labels = {
            "block_size": str(BLOCK),
            "cache_dtype": "auto",
            "enable_prefix_caching": str(spec.prefix_caching),
            "engine": "0",
            "gpu_memory_utilization": "0.92",
            "is_attention_free": "False",
            "kv_cache_max_concurrency": str(spec.kv_cache_tokens / self._context),
            "kv_cache_size_tokens": str(spec.kv_cache_tokens),
            "num_cpu_blocks": "None",
            "num_gpu_blocks": str(spec.blocks),
            "num_gpu_blocks_override": "None",
            "sliding_window": "None",
        }
        family = GaugeMetricFamily("vllm:cache_config_info", "Information of the LLMEngine CacheConfig")
        family.add_sample("vllm:cache_config_info", labels, 1.0)
        return family


def _labelled(
    value: float | Mapping[str, float], label: str | None
) -> Iterator[tuple[dict[str, str], float]]:
    if isinstance(value, Mapping):
        yield from (({label or "": key}, number) for key, number in value.items())
    else:
        yield {}, value
