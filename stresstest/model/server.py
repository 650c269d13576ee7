"""What is known of the server: its profile, and its metrics over a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ServerSample:
    """One reading of vLLM's /metrics. Counters are totals; use differences. None: not exposed.

    kv_usage: 0-1. finished: request_success_total by finished_reason. histograms: name ->
    (sum in seconds, count).
    """

    at: float
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    preemptions: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    finished: Mapping[str, float] = field(default_factory=lambda: _EMPTY)
    histograms: Mapping[str, tuple[float, float]] = field(default_factory=lambda: _EMPTY)


@dataclass(frozen=True, slots=True)
class ServerSummary:
    """What the server's own metrics say of a run. Peaks of gauges, differences of counters, means in seconds.

    samples: readings. seconds: span that they cover, pauses between sessions left out. finished:
    requests by reason. Other clients' requests are in these numbers too: the server does not know whose
    they are.
    """

    samples: int
    seconds: float
    kv_peak: float | None = None
    running_peak: float | None = None
    waiting_peak: float | None = None
    preemptions: float | None = None
    generated_tokens: float | None = None
    means: Mapping[str, float] = field(default_factory=lambda: _EMPTY)
    finished: Mapping[str, float] = field(default_factory=lambda: _EMPTY)


@dataclass(frozen=True, slots=True)
class Missing:
    """A capability that is not there, in plain words: what, and what that costs."""

    what: str
    cost: str


@dataclass(frozen=True, slots=True)
class EndpointProfile:
    """What the endpoint can do, asked once. `base_url` holds no credentials.

    fingerprint: the server's `system_fingerprint`. defaults: the sampling defaults in force, where the
    server reveals them.
    """

    base_url: str
    model: str
    version: str | None = None
    max_model_len: int | None = None
    root: str | None = None
    metrics: bool = False
    tokenize: bool = False
    token_ids: bool = False
    top_logprobs: int = 0
    logprobs_mode: str | None = None
    kv_cache_tokens: int | None = None
    simulated: bool = False
    fingerprint: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    missing: tuple[Missing, ...] = ()
