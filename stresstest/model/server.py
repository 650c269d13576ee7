"""The server and its GPUs: capabilities, readings, summaries over a run, and the checks of `doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

CLOCK_EVENTS: Mapping[int, str] = MappingProxyType(
    {
        0x001: "gpu_idle",
        0x002: "applications_clocks_setting",
        0x004: "sw_power_cap",
        0x008: "hw_slowdown",
        0x010: "sync_boost",
        0x020: "sw_thermal_slowdown",
        0x040: "hw_thermal_slowdown",
        0x080: "hw_power_brake_slowdown",
        0x100: "display_clock_setting",
        0x200: "board_limit",
        0x400: "reliability",
    }
)
"""NVML's clocks-event ("throttle") reasons by bit, under nvidia-smi's names; DCGM uses the same bits."""


PROVIDER = "provider "
"""In front of the name that a gateway gives the server that answered, as OpenRouter's `provider`."""


@dataclass(frozen=True, slots=True)
class ServerSample:
    """One reading of vLLM's /metrics. Counters are totals: use differences. None: not exposed.

    kv_usage: 0-1. finished: request_success_total by finished_reason. histograms: name ->
    (sum in seconds, count). began: the server's own time, as Unix seconds, at which its counters began.
    """

    at: float
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    preemptions: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    finished: Mapping[str, float] = field(default_factory=dict)
    histograms: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    began: float | None = None


@dataclass(frozen=True, slots=True)
class ServerSummary:
    """The server's metrics over a run: peaks of gauges, differences of counters, means in seconds.

    samples: readings. seconds: time covered, pauses between sessions excluded. finished: requests by
    reason. Requests of other clients are included, because the metrics do not distinguish clients.
    """

    samples: int
    seconds: float
    kv_peak: float | None = None
    running_peak: float | None = None
    waiting_peak: float | None = None
    preemptions: float | None = None
    generated_tokens: float | None = None
    means: Mapping[str, float] = field(default_factory=dict)
    finished: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MissingCapability:
    """A capability that the endpoint lacks, the consequence, and what to do about it if that is known, as
    sentences for the user."""

    what: str
    cost: str
    remedy: str | None = None

    @property
    def thing(self) -> str:
        """What is missing, without its article: for "the server has no …"."""
        return self.what.removeprefix("a ")


UNLISTED_MODEL = "a model named"
"""How `MissingCapability.what` begins where the server lists other models, and answers to any name."""
UNCOUNTED_CHUNKS = "token counts while streaming"
PLAIN_PROMPTS_ONLY = "chat messages"
UNREAD_PARAMETERS = "a sign that it reads "
"""Beginning of a missing capability: followed by names of sampling parameters."""
"""`MissingCapability.what` of a server whose chunks do not say how many tokens they have."""
GPU_READINGS = "GPU readings"
"""`MissingCapability.what` of an endpoint whose GPUs cannot be read."""


@dataclass(frozen=True, slots=True)
class ServerClock:
    """What a fresh answer showed of the clock that dates answers.

    created: its time. ahead: seconds by which the clock is at least ahead of the client's (negative: behind).
    """

    created: int
    ahead: float


@dataclass(frozen=True, slots=True)
class EndpointProfile:
    """Capabilities of the endpoint, determined once per run. `base_url` contains no credentials.

    on_cpu: vLLM that computes on the CPU, as far as its metrics show. fingerprint: the server's
    `system_fingerprint`, or `PROVIDER` and a name. defaults: the server's sampling defaults, where it reveals
    them. replaced: what the server said otherwise of itself in the midst of the measurement; the sample is of
    two servers then. clock: of the server, by a fresh answer. model_created: the model's date in the server's
    list, as Unix seconds, where it is not that of the reply.
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
    on_cpu: bool = False
    simulated: bool = False
    fingerprint: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[MissingCapability, ...] = ()
    replaced: str | None = None
    clock: ServerClock | None = None
    model_created: int | None = None

    @property
    def is_vllm(self) -> bool:
        """Whether the server shows that it is vLLM itself. Its production stack's router has a version and
        metrics of the same names, and lists models without their context length."""
        return self.version is not None and self.metrics and self.max_model_len is not None

    @property
    def is_adapter(self) -> bool:
        """Whether the model is a LoRA adapter: its root is then "its folder on its base"."""
        return self.root is not None and " on " in self.root

    def gap(self, beginning: str) -> MissingCapability | None:
        """The missing capability whose name begins so; None if it is not missing."""
        return next((gap for gap in self.missing if gap.what.startswith(beginning)), None)


class CheckState(StrEnum):
    """degraded: works with limitations. failed: prevents any measurement. unknown: not determined."""

    OK = "ok"
    DEGRADED = "degraded"
    MISSING = "missing"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One check. found: the finding. cost: consequence of what is missing. remedy: how to fix it."""

    name: str
    state: CheckState
    found: str
    cost: str | None = None
    remedy: str | None = None


def clock_events(mask: int) -> tuple[str, ...]:
    """The reasons in a bit mask, lowest bit first; an unknown bit is returned as a hexadecimal number."""
    bits = [1 << i for i in range(mask.bit_length()) if mask >> i & 1]
    return tuple(CLOCK_EVENTS.get(bit, f"0x{bit:x}") for bit in bits)


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """Identity of a GPU, and the fields that cannot be read from it.

    gpu: short name, "0" by index, "0:mig1" for a MIG instance. missing: field of `GpuSample` -> why it is
    not measured.
    """

    gpu: str
    uuid: str | None = None
    name: str | None = None
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One reading of one GPU. Counters are totals: use differences. None: not measured.

    at: clock seconds. source: "NVML", "DCGM" or "nvidia_gpu_exporter". utilisation: 0-1, share of time
    with a kernel running. memory_used/memory_total: bytes. power/power_limit: watts. temperature: °C.
    sm_clock/memory_clock: MHz. throttle: the active clocks-event reasons, () for none. ecc_uncorrected:
    memory errors since the driver was loaded. pcie_replays: resent packets. xids: XID errors since the
    previous reading. lost: why sampling ended, in the last reading. device: with the first reading and after
    every change.
    """

    at: float
    gpu: str
    source: str
    utilisation: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature: float | None = None
    sm_clock: float | None = None
    memory_clock: float | None = None
    throttle: tuple[str, ...] | None = None
    ecc_uncorrected: int | None = None
    pcie_replays: int | None = None
    xids: tuple[int, ...] | None = None
    lost: str | None = None
    device: GpuDevice | None = None


@dataclass(frozen=True, slots=True)
class GpuSummary:
    """One GPU over a run. Means and extremes of gauges, differences of counters. None: not measured.

    samples: readings; seconds: time covered, pauses between sessions excluded. memory_peak: 0-1 of the total.
    throttled: seconds by reason, excluding idling and user settings.
    """

    gpu: str
    source: str
    name: str | None
    samples: int
    seconds: float
    utilisation: float | None = None
    memory_peak: float | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature_min: float | None = None
    temperature_max: float | None = None
    throttled: Mapping[str, float] | None = None
    ecc_uncorrected: int | None = None
    pcie_replays: int | None = None
    xids: tuple[int, ...] | None = None
    lost: str | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
