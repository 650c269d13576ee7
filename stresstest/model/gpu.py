"""What is known of the GPUs: one reading, who they are, and a summary over a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_EMPTY: Mapping[str, str] = MappingProxyType({})

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


def clock_events(mask: int) -> tuple[str, ...]:
    """The reasons in a bit mask, lowest bit first; a bit without a name shows as its number."""
    bits = [1 << i for i in range(mask.bit_length()) if mask >> i & 1]
    return tuple(CLOCK_EVENTS.get(bit, f"0x{bit:x}") for bit in bits)


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """Who a GPU is, and what cannot be read of it.

    gpu: short name, "0" by index, "0:mig1" for a MIG instance. missing: field of `GpuSample` -> why it is
    not measured, in words.
    """

    gpu: str
    uuid: str | None = None
    name: str | None = None
    missing: Mapping[str, str] = field(default_factory=lambda: _EMPTY)


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One reading of one GPU. Counters are totals; use differences. None: not measured.

    at: clock seconds. source: "NVML", "DCGM" or "nvidia_gpu_exporter". utilisation: 0-1, share of time
    with a kernel running. memory_used/memory_total: bytes. power/power_limit: watts. temperature: °C.
    sm_clock/memory_clock: MHz. throttle: the reasons in force for clocks below the highest, () for none.
    ecc_uncorrected: memory errors since the driver was loaded. pcie_replays: resent packets. xids: the
    driver's error numbers that arrived since the previous reading. lost: why the GPU is no longer
    sampled; its last reading. device: with the first reading, and whenever it has changed.
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

    samples: readings; seconds: span that they cover, pauses between sessions left out. memory_peak: 0-1
    of the total. throttled: seconds by reason, idling and user's settings left out.
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
    missing: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
