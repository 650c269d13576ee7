"""Parses vLLM's /metrics page into one ServerSample.

A full page is 100–200 kB, mostly histogram buckets, and prometheus_client would take tens of
milliseconds to parse it, four times a second. So only the lines of the metrics we use are parsed. Values
of several engines (data parallel) and label sets are summed; for the KV cache usage the maximum counts.
Names by version: V1 engine 0.15 to 0.33, and the older `gpu_cache_usage_perc` and
`time_per_output_token_seconds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from stresstest.config.credentials.bound_key import require_confirmed
from stresstest.config.secrets import spellings
from stresstest.model import ServerSample
from stresstest.telemetry.page_sampler import MAX_USED, PageSampler

HISTOGRAMS = (
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "request_time_per_output_token_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
)
"""Keys of `ServerSample.histograms`; each value is (sum in seconds, count)."""

_OLD_NAMES = {  # new name -> name in older versions, used only if the new one is absent
    "kv_cache_usage_perc": "gpu_cache_usage_perc",
    "inter_token_latency_seconds_sum": "time_per_output_token_seconds_sum",
    "inter_token_latency_seconds_count": "time_per_output_token_seconds_count",
}
_PREFIX = "vllm:"
_BEGAN = "generation_tokens_created"
_NAMES = frozenset(
    _PREFIX + name
    for name in (
        "num_requests_running",
        "num_requests_waiting",
        "kv_cache_usage_perc",
        "num_preemptions_total",
        "prompt_tokens_total",
        "generation_tokens_total",
        _BEGAN,
        "request_success_total",
        *(f"{name}_{part}" for name in HISTOGRAMS for part in ("sum", "count")),
        *_OLD_NAMES.values(),
    )
)


_MAX_REASONS, _LONGEST_REASON = 16, 64
"""Finish reasons, and characters of one: vLLM has six, and every reading keeps them."""


class RecognisedMetrics(NamedTuple):
    """vLLM's metric families on a page. known: found, of those we read. absent: not found, of those we
    read. old: found under an older name. other: the number of further families."""

    known: tuple[str, ...]
    absent: tuple[str, ...]
    old: tuple[str, ...]
    other: int


def recognise_metrics(text: str) -> RecognisedMetrics:
    """Which of the metrics that we read are on a page."""
    found = {
        line.partition("{")[0].partition(" ")[0].removeprefix(_PREFIX)
        for line in text.replace("\r", "").split("\n")
        if line.startswith(_PREFIX)
    }
    old_names = set(_OLD_NAMES.values())
    wanted = {name.removeprefix(_PREFIX) for name in _NAMES} - old_names - {_BEGAN}
    replaced = {name for name, old in _OLD_NAMES.items() if name not in found and old in found}
    known = {_family(name) for name in wanted & found}
    others = {_family(name) for name in found - wanted - old_names}
    return RecognisedMetrics(
        known=tuple(sorted(known)),
        absent=tuple(sorted({_family(name) for name in wanted - found - replaced})),
        old=tuple(sorted({_family(_OLD_NAMES[name]) for name in replaced})),
        other=len(others - known - {name.removesuffix("_total") for name in known}),
    )


def _family(name: str) -> str:
    for suffix in ("_bucket", "_sum", "_count", "_created"):
        name = name.removesuffix(suffix)
    return name


class _MetricSeries(NamedTuple):
    labels: Mapping[str, str]
    value: float


def parse_metrics(
    text: str, model: str | None = None, *, at: float = 0.0, hide: Callable[[str], str] = str
) -> ServerSample | None:
    """The reading of a /metrics page at clock second `at`.

    model: selects the series with this `model_name`, if the page names several models. A single, different
    name is accepted: vLLM labels its series only with the first --served-model-name, but also serves
    aliases and LoRA adapters. hide: makes a text of the page safe to keep. Returns None for a page that
    cannot be parsed or has no known vLLM metric.
    """
    lines = text.replace("\r", "").split("\n")
    page = _read(
        line
        for line in lines
        if line.startswith(_PREFIX) and line.partition("{")[0].partition(" ")[0] in _NAMES
    )
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
        reason = hide(series.labels.get("finished_reason", ""))
        finished[reason] = finished.get(reason, 0.0) + series.value
    if len(finished) > _MAX_REASONS or any(len(reason) > _LONGEST_REASON for reason in finished):
        return None
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
        began=max(values(_BEGAN), default=None),
    )


def _read(lines: Iterable[str]) -> dict[str, list[_MetricSeries]]:
    """Series by metric name without vLLM's prefix; empty if any line is malformed, or they are too many.

    An incomplete page would give sums that are too small, which is worse than none.
    """
    from prometheus_client.parser import text_string_to_metric_families

    text = "\n".join(lines) + "\n"
    if len(text) > MAX_USED:
        return {}
    page: dict[str, list[_MetricSeries]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if math.isfinite(sample.value):
                    series = _MetricSeries(sample.labels, sample.value)
                    page.setdefault(sample.name.removeprefix(_PREFIX), []).append(series)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return {}
    return page


def _of(series: _MetricSeries, model: str) -> bool:
    return series.labels.get("model_name", model) == model


def _total(values: list[float]) -> float | None:
    return sum(values) if values else None


_SLOWEST = 16  # the largest factor by which failures in a row extend the interval


def metrics_url(base_url: str) -> str:
    """The /metrics address of an OpenAI base URL: `http://h:1/v1` → `http://h:1/metrics`."""
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/").removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, f"{path}/metrics", "", ""))


class MetricsSampler(PageSampler):
    """Reads vLLM's /metrics every `interval` seconds, less often while readings fail.

    url: of the metrics page itself. model: see `parse_metrics`. samples: the readings so far. on_sample:
    called in the event loop with each reading, so it must be fast; an exception in it ends the sampling
    and is raised by `stop`. hide: takes the server's secrets out of a text that is kept, since a server may
    echo the key of its requests. timeout: seconds for one reading. Raises UsageError for an address that the
    key may not be sent to.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None,
        api_key: str | None = None,
        interval: float = 0.25,
        timeout: float = 2.0,
        on_sample: Callable[[ServerSample], None] | None = None,
        hide: Callable[[str], str] = str,
    ) -> None:
        require_confirmed(api_key, url)
        authorization = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        super().__init__(url, {"Accept": "text/plain", **authorization}, interval=interval, timeout=timeout)
        self.samples: list[ServerSample] = []
        self._model = model
        userinfo = urlsplit(url).netloc.rpartition("@")[0]
        secrets = [secret for secret in (api_key, userinfo) if secret]
        self._secrets = [form for secret in secrets for form in spellings(secret)]
        self._on_sample = on_sample
        self._hide = hide

    def start(self) -> None:
        """Begin sampling; needs a running event loop. A second call does nothing."""
        if self._task is None:
            self._begin("metrics sampler")

    def _period(self) -> float:
        return self._interval * min(1 << self._failures_in_a_row, _SLOWEST)

    def _describe_error(self, error: Exception) -> str:
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        for secret in self._secrets:  # a library may quote the header or address that it rejected
            why = why.replace(secret, "***")
        return why

    def _add_page(self, text: str, at: float) -> str | None:
        sample = parse_metrics(text, self._model, at=at, hide=self._hide)
        if sample is None:
            return "the page holds no metrics of vLLM"
        self.samples.append(sample)
        if self._on_sample is not None:
            self._on_sample(sample)
        return None
