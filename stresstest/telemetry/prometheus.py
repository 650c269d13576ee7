"""vLLM's /metrics page as one ServerSample.

A full page is 100–200 kB, nearly all of it histogram buckets, and prometheus_client's parser would
take tens of milliseconds over it four times a second. So the lines of the metrics we use are picked
out first and only they are parsed. Several engines (data parallel) and label sets of one metric are
added up, except the KV cache usage, of which the fullest engine counts. Names by version: V1 engine
0.15 to 0.33, and the older `gpu_cache_usage_perc` and `time_per_output_token_seconds`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stresstest.model import ServerSample

HISTOGRAMS = (
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "request_time_per_output_token_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
)
"""Names under which `ServerSample.histograms` keeps (sum in seconds, count)."""

_OLD_NAMES = {  # the same quantity before it was renamed; used only where the new name is absent
    "kv_cache_usage_perc": "gpu_cache_usage_perc",
    "inter_token_latency_seconds_sum": "time_per_output_token_seconds_sum",
    "inter_token_latency_seconds_count": "time_per_output_token_seconds_count",
}
_PREFIX = "vllm:"
_NAMES = frozenset(
    _PREFIX + name
    for name in (
        "num_requests_running",
        "num_requests_waiting",
        "kv_cache_usage_perc",
        "num_preemptions_total",
        "prompt_tokens_total",
        "generation_tokens_total",
        "request_success_total",
        *(f"{name}_{part}" for name in HISTOGRAMS for part in ("sum", "count")),
        *_OLD_NAMES.values(),
    )
)


class Recognised(NamedTuple):
    """Metric families of a page. known: that we read; absent: that we read and miss; old: in use under
    an older name; other: how many vLLM families there are besides."""

    known: tuple[str, ...]
    absent: tuple[str, ...]
    old: tuple[str, ...]
    other: int


_OPTIONAL_OLD = frozenset(_OLD_NAMES.values())


def recognise(text: str) -> Recognised:
    """Which of a page's vLLM metrics we know by name."""
    found = {
        line.partition("{")[0].partition(" ")[0].removeprefix(_PREFIX)
        for line in text.replace("\r", "").split("\n")
        if line.startswith(_PREFIX)
    }
    wanted = {name.removeprefix(_PREFIX) for name in _NAMES} - _OPTIONAL_OLD
    replaced = {name for name, old in _OLD_NAMES.items() if name not in found and old in found}
    families = {
        name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count").removesuffix("_created")
        for name in found - wanted - _OPTIONAL_OLD
    }
    known = {name.removesuffix("_sum").removesuffix("_count") for name in wanted & found}
    return Recognised(
        known=tuple(sorted(known)),
        absent=tuple(
            sorted({n.removesuffix("_sum").removesuffix("_count") for n in wanted - found - replaced})
        ),
        old=tuple(
            sorted({_OLD_NAMES[name].removesuffix("_sum").removesuffix("_count") for name in replaced})
        ),
        other=len(families - known - {n.removesuffix("_total") for n in known}),
    )


class _Series(NamedTuple):
    labels: Mapping[str, str]
    value: float


def parse_metrics(text: str, model: str | None = None, *, at: float = 0.0) -> ServerSample | None:
    """One reading of a /metrics page, at clock second `at`.

    model: only series with this `model_name` count, where the page names several models. A page
    that names a single, other one is taken as ours under another name: vLLM labels its series with
    the first --served-model-name only, and answers to aliases and LoRA adapters as well.
    Returns None for a page without any metric of vLLM that we know, or one that cannot be parsed.
    """
    page = _read(_wanted(text))
    if not page:
        return None
    names = {s.labels["model_name"] for found in page.values() for s in found if "model_name" in s.labels}
    if model is not None and len(names) > 1:
        page = {name: [s for s in found if _of(s, model)] for name, found in page.items()}

    def values(name: str) -> list[float]:
        found = page.get(name) or page.get(_OLD_NAMES.get(name, ""), [])
        return [s.value for s in found]

    finished: dict[str, float] = {}
    for series in page.get("request_success_total", []):
        reason = series.labels.get("finished_reason", "")
        finished[reason] = finished.get(reason, 0.0) + series.value
    histograms = {}
    for name in HISTOGRAMS:
        seconds, count = _total(values(f"{name}_sum")), _total(values(f"{name}_count"))
        if seconds is not None and count is not None:
            histograms[name] = (seconds, count)
    return ServerSample(
        at=at,
        running=_total(values("num_requests_running")),
        waiting=_total(values("num_requests_waiting")),
        kv_usage=max(values("kv_cache_usage_perc"), default=None),
        preemptions=_total(values("num_preemptions_total")),
        prompt_tokens=_total(values("prompt_tokens_total")),
        generation_tokens=_total(values("generation_tokens_total")),
        finished=finished,
        histograms=histograms,
    )


def _wanted(text: str) -> list[str]:
    """The lines of the metrics we use."""
    return [
        line
        for line in text.replace("\r", "").split("\n")
        if line.startswith(_PREFIX) and line.partition("{")[0].partition(" ")[0] in _NAMES
    ]


def _read(lines: Iterable[str]) -> dict[str, list[_Series]]:
    """Series by metric, without vLLM's prefix; empty when any line is malformed.

    Half a page would give sums that are too small, which is worse than none.
    """
    from prometheus_client.parser import text_string_to_metric_families

    page: dict[str, list[_Series]] = {}
    try:
        for family in text_string_to_metric_families("\n".join(lines) + "\n"):
            for sample in family.samples:
                if math.isfinite(sample.value):
                    series = _Series(sample.labels, sample.value)
                    page.setdefault(sample.name.removeprefix(_PREFIX), []).append(series)
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}
    return page


def _of(series: _Series, model: str) -> bool:
    return series.labels.get("model_name", model) == model


def _total(values: list[float]) -> float | None:
    return sum(values) if values else None
