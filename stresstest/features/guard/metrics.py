"""The guard's own series for Prometheus, and those of the upstream that its page repeats."""

from __future__ import annotations

import re
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from stresstest.config.credentials.shapes import TOKEN
from stresstest.render.steering import escape_steering
from stresstest.telemetry.page_sampler import MAX_USED

MAX_MODELS = 64
"""Model names that have series of their own: names come from requests, and anybody may invent some."""
_LONGEST = 128
"""Characters of such a name."""
OTHER = "other"
_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
_SECONDS = (0.0001, 0.0003, 0.001, 0.002, 0.005, 0.01, 0.03, 0.1, 0.3, 1.0)
_WHERE = ("model", "route")


class GuardMetrics:
    """All series of one guard, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._models: set[str] = set()
        self.requests = self._counter(
            "requests", "Requests for answers, by how they ended.", (*_WHERE, "outcome")
        )
        self.degenerate = self._counter(
            "degenerate", "Requests with a degenerate choice, by the first symptom.", (*_WHERE, "symptom")
        )
        self.tokens = self._counter("tokens", "Output tokens that were judged.", _WHERE)
        self.after_onset = self._counter(
            "tokens_after_onset", "Output tokens from the onset of a degeneration on.", _WHERE
        )
        self.saved = self._counter(
            "tokens_saved",
            "Tokens that were not generated because an answer was ended: up to its cap, hence at most.",
            _WHERE,
        )
        self.actions = self._counter(
            "actions",
            "What policies did, and in a dry run would have done.",
            (*_WHERE, "action", "dry_run"),
        )
        self.upstream_failures = self._counter(
            "upstream_failures", "Requests that the upstream failed.", ("reason",)
        )
        self.log_dropped = self._counter(
            "log_lines_dropped",
            "Lines of the log that nobody read in time, or that could not be written.",
            (),
        )
        self.onset = self._histogram("onset_tokens", "Output token at which a choice fails.", _WHERE, _TOKENS)
        self.alarm = self._histogram("alarm_tokens", "Output token of the alarm.", _WHERE, _TOKENS)
        self.forward = self._histogram(
            "forward_seconds", "From a request's headers to its way upstream.", (), _SECONDS
        )
        self.step = self._histogram(
            "judge_step_seconds", "One step of judging: the longest that it delays a chunk.", (), _SECONDS
        )
        self.lag = self._histogram("loop_lag_seconds", "How late the event loop runs.", (), _SECONDS)
        self.in_flight = Gauge(
            "stresstest_guard_in_flight", "Requests that are passing through.", registry=self.registry
        )
        self.waiting = Gauge(
            "stresstest_guard_answers_waiting",
            "Answers that have passed and are not judged to their end.",
            registry=self.registry,
        )

    def model(self, name: str) -> str:
        """The model's name as a label; the page may be read in a terminal."""
        if TOKEN.search(name):  # a client's key in the wrong field
            return OTHER
        name = name if len(name) > _LONGEST else escape_steering(name)
        if name not in self._models and len(self._models) < MAX_MODELS and len(name) <= _LONGEST:
            self._models.add(name)
        return name if name in self._models else OTHER

    def page(self) -> bytes:
        """The series in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, labels: Iterable[str]) -> Counter:
        return Counter(f"stresstest_guard_{name}", text, tuple(labels), registry=self.registry)

    def _histogram(
        self, name: str, text: str, labels: Iterable[str], buckets: tuple[float, ...]
    ) -> Histogram:
        return Histogram(
            f"stresstest_guard_{name}", text, tuple(labels), buckets=buckets, registry=self.registry
        )


def named_series(page: bytes, names: Iterable[str]) -> bytes:
    """The lines of an upstream's metrics page that belong to these series; none where they have more than
    `MAX_USED` bytes, as a part of them would be a wrong sum."""
    series = b"|".join(re.escape(name.encode()) for name in names)
    name = rb"(?:%b)(?:_bucket|_count|_sum|_total|_created)?(?=[{\s]|\Z)" % series
    lines = re.compile(rb"^(?:#[ \t]+\S+[ \t]+)?%b[^\n]*\n?" % name, re.MULTILINE)
    kept = bytearray()
    for line in lines.finditer(page):  # the page is not split: it may have millions of lines
        kept += line[0]
        if len(kept) > MAX_USED:
            return b""
    return bytes(kept)
