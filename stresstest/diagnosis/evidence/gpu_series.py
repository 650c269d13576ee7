"""GPU readings of a run, by GPU: windows, durations of throttling, counter differences, summaries.

A reading is valid until the next one, but for `MAX_READING_AGE_S` seconds at most.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stresstest.diagnosis.evidence.metrics_series import increase, known_sum, sessions_of
from stresstest.model import GpuDevice, GpuSample, GpuSummary

MAX_READING_AGE_S = 5.0
MAX_IDLE_UTILISATION = 0.01
"""A GPU whose utilisation never exceeds this did not serve the requests."""

SLOWDOWNS: Mapping[str, str] = {
    "hw_slowdown": "hardware slowdown",
    "sw_thermal_slowdown": "thermal slowdown",
    "hw_thermal_slowdown": "thermal slowdown",
    "hw_power_brake_slowdown": "power brake",
}
"""Clocks-event reasons that count as trouble. `sw_power_cap` does not: it is normal under full load."""
_SETTINGS = frozenset({"gpu_idle", "applications_clocks_setting", "display_clock_setting", "sync_boost"})


@dataclass(frozen=True, slots=True)
class GpuSeries:
    """The readings of each GPU that was in use during a run, in order of time.

    idle: GPUs excluded because all their readings show them idle. devices: the latest known description of
    each GPU, with the fields that it does not provide.
    """

    gpus: Mapping[str, Sequence[GpuSample]]
    idle: tuple[str, ...]
    devices: Mapping[str, GpuDevice]

    @classmethod
    def of(cls, samples: Iterable[GpuSample]) -> GpuSeries:
        by_gpu: dict[str, list[GpuSample]] = {}
        devices: dict[str, GpuDevice] = {}
        for sample in sorted(samples, key=lambda s: s.at):
            by_gpu.setdefault(sample.gpu, []).append(sample)
            if sample.device is not None:
                devices[sample.gpu] = sample.device
        working = {gpu: found for gpu, found in by_gpu.items() if not _was_idle(found)}
        return cls(working, tuple(gpu for gpu in by_gpu if gpu not in working), devices)

    def cut(self, start: float, end: float) -> dict[str, list[GpuSample]]:
        """Each GPU's readings in start..end, and the one before if it is still valid at the start."""
        found = {}
        for gpu, readings in self.gpus.items():
            first = bisect_left(readings, start, key=_at)
            if first > 0 and start - readings[first - 1].at <= MAX_READING_AGE_S:
                first -= 1
            inside = list(readings[first : bisect_right(readings, end, key=_at)])
            if inside:
                found[gpu] = inside
        return found


def throttled_seconds(
    readings: Sequence[GpuSample], reasons: Iterable[str], start: float, end: float
) -> tuple[float, list[str]]:
    """(seconds within start..end with any of `reasons` active, those that were active)."""
    wanted = frozenset(reasons)
    seconds = 0.0
    seen: list[str] = []
    for reading, until in zip(readings, [*(r.at for r in readings[1:]), end], strict=True):
        active = [reason for reason in reading.throttle or () if reason in wanted]
        if active:
            seconds += max(0.0, min(until, end, reading.at + MAX_READING_AGE_S) - max(reading.at, start))
            seen += [reason for reason in active if reason not in seen]
    return seconds, seen


def summarise_gpus(samples: Iterable[GpuSample]) -> tuple[GpuSummary, ...]:
    """One summary per GPU over all readings, idle GPUs included, pauses between sessions excluded."""
    by_gpu: dict[str, list[GpuSample]] = {}
    for sample in sorted(samples, key=lambda s: s.at):
        by_gpu.setdefault(sample.gpu, []).append(sample)
    return tuple(_summary(gpu, readings) for gpu, readings in sorted(by_gpu.items()))


def _summary(gpu: str, readings: Sequence[GpuSample]) -> GpuSummary:
    device = next((r.device for r in reversed(readings) if r.device is not None), GpuDevice(gpu))
    parts = sessions_of(readings)
    busy = [r.utilisation for r in readings if r.utilisation is not None]
    power = [r.power for r in readings if r.power is not None]
    warmth = [r.temperature for r in readings if r.temperature is not None]
    limits = [r.power_limit for r in readings if r.power_limit is not None]
    xids = [r.xids for r in readings if r.xids is not None]
    seconds = sum(part[-1].at - part[0].at for part in parts)
    summary = GpuSummary(gpu, readings[0].source, device.name, len(readings), seconds)
    return replace(
        summary,
        utilisation=sum(busy) / len(busy) if busy else None,
        memory_peak=memory_peak(readings),
        power=sum(power) / len(power) if power else None,
        power_limit=limits[-1] if limits else None,
        temperature_min=min(warmth, default=None),
        temperature_max=max(warmth, default=None),
        throttled=_throttled(parts),
        ecc_uncorrected=known_sum(increase(r.ecc_uncorrected for r in part) for part in parts),
        pcie_replays=known_sum(increase(r.pcie_replays for r in part) for part in parts),
        xids=tuple(xid for found in xids for xid in found) if xids else None,
        lost=next((r.lost for r in reversed(readings) if r.lost), None),
        missing=device.missing,
    )


def memory_peak(readings: Iterable[GpuSample]) -> float | None:
    """The highest share of a GPU's memory in use, 0-1; None if not measured."""
    return max((s for r in readings if (s := memory_share(r)) is not None), default=None)


def memory_share(reading: GpuSample) -> float | None:
    if reading.memory_used is None or not reading.memory_total:
        return None
    return reading.memory_used / reading.memory_total


def _throttled(parts: Sequence[Sequence[GpuSample]]) -> dict[str, float] | None:
    known = [r.throttle for part in parts for r in part if r.throttle is not None]
    if not known:
        return None
    reasons = sorted({reason for found in known for reason in found} - _SETTINGS)
    return {
        reason: sum(throttled_seconds(part, (reason,), part[0].at, part[-1].at)[0] for part in parts)
        for reason in reasons
    }


def _was_idle(readings: Sequence[GpuSample]) -> bool:
    """Whether the utilisation was measured and never above idle. Lost or faulty GPUs are kept as evidence."""
    busy = [r.utilisation for r in readings if r.utilisation is not None]
    if any(r.lost or r.xids for r in readings):
        return False
    return bool(busy) and max(busy) <= MAX_IDLE_UTILISATION


def _at(reading: GpuSample) -> float:
    return reading.at
