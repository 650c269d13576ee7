"""GPU readings of a run, by GPU: cut to windows, durations of clock limits, differences, summaries.

A reading stands until the next one, but not longer than `HOLD`: beyond that nobody looked.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from stresstest.model import GpuDevice, GpuSample, GpuSummary

HOLD = 5.0
PAUSE = 30.0
"""A longer gap between two readings is a pause between two sessions."""
IDLE = 0.01
"""A GPU that never was busier than this did not write the answers."""

SLOWDOWNS: Mapping[str, str] = {
    "hw_slowdown": "hardware slowdown",
    "sw_thermal_slowdown": "thermal slowdown",
    "hw_thermal_slowdown": "thermal slowdown",
    "hw_power_brake_slowdown": "power brake",
}
"""Clocks-event reasons that mean trouble. `sw_power_cap` does not: a GPU in full use runs at its cap."""
_SETTINGS = frozenset({"gpu_idle", "applications_clocks_setting", "display_clock_setting", "sync_boost"})


@dataclass(frozen=True, slots=True)
class GpuSeries:
    """The readings of each GPU that worked in a run, in the order of time.

    idle: the GPUs left out because all their readings show them idle: of another server, or unused.
    devices: what each GPU cannot tell, as last known.
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
        """Each GPU's readings of start..end, and the one before where it still stood at the start."""
        found = {}
        for gpu, readings in self.gpus.items():
            first = bisect_left(readings, start, key=_at)
            if first > 0 and start - readings[first - 1].at <= HOLD:
                first -= 1
            inside = list(readings[first : bisect_right(readings, end, key=_at)])
            if inside:
                found[gpu] = inside
        return found


def held(
    readings: Sequence[GpuSample], reasons: Iterable[str], start: float, end: float
) -> tuple[float, list[str]]:
    """Seconds within start..end with any of `reasons` in force, and which of them were."""
    wanted = frozenset(reasons)
    seconds = 0.0
    seen: list[str] = []
    for reading, until in zip(readings, [*(r.at for r in readings[1:]), end], strict=True):
        active = [reason for reason in reading.throttle or () if reason in wanted]
        if active:
            seconds += max(0.0, min(until, end, reading.at + HOLD) - max(reading.at, start))
            seen += [reason for reason in active if reason not in seen]
    return seconds, seen


def gained(totals: Iterable[int | None]) -> int | None:
    """By how much a counter grew; one that falls was reset and counted from 0. None below two readings."""
    known = [total for total in totals if total is not None]
    if len(known) < 2:
        return None
    return sum(after - before if after >= before else after for before, after in pairwise(known))


def summarise_gpus(samples: Iterable[GpuSample]) -> tuple[GpuSummary, ...]:
    """One summary a GPU over all readings, idle GPUs included; pauses between sessions are left out."""
    by_gpu: dict[str, list[GpuSample]] = {}
    for sample in sorted(samples, key=lambda s: s.at):
        by_gpu.setdefault(sample.gpu, []).append(sample)
    return tuple(_summary(gpu, readings) for gpu, readings in sorted(by_gpu.items()))


def _summary(gpu: str, readings: Sequence[GpuSample]) -> GpuSummary:
    device = next((r.device for r in reversed(readings) if r.device is not None), GpuDevice(gpu))
    parts = _sessions(readings)
    busy = [r.utilisation for r in readings if r.utilisation is not None]
    power = [r.power for r in readings if r.power is not None]
    warmth = [r.temperature for r in readings if r.temperature is not None]
    limits = [r.power_limit for r in readings if r.power_limit is not None]
    xids = [r.xids for r in readings if r.xids is not None]
    summary = GpuSummary(gpu, readings[0].source, device.name, len(readings), _span(parts))
    return replace(
        summary,
        utilisation=sum(busy) / len(busy) if busy else None,
        memory_peak=memory_peak(readings),
        power=sum(power) / len(power) if power else None,
        power_limit=limits[-1] if limits else None,
        temperature_min=min(warmth, default=None),
        temperature_max=max(warmth, default=None),
        throttled=_throttled(parts),
        ecc_uncorrected=_total(gained(r.ecc_uncorrected for r in part) for part in parts),
        pcie_replays=_total(gained(r.pcie_replays for r in part) for part in parts),
        xids=tuple(xid for found in xids for xid in found) if xids else None,
        lost=next((r.lost for r in reversed(readings) if r.lost), None),
        missing=device.missing,
    )


def memory_peak(readings: Iterable[GpuSample]) -> float | None:
    """The highest share of a GPU's memory in use."""
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
        reason: sum(held(part, (reason,), part[0].at, part[-1].at)[0] for part in parts) for reason in reasons
    }


def _sessions(readings: Sequence[GpuSample]) -> list[list[GpuSample]]:
    parts = [[readings[0]]]
    for before, after in pairwise(readings):
        if after.at - before.at > PAUSE:
            parts.append([])
        parts[-1].append(after)
    return parts


def _span(parts: Sequence[Sequence[GpuSample]]) -> float:
    return sum(part[-1].at - part[0].at for part in parts)


def _total(values: Iterable[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _was_idle(readings: Sequence[GpuSample]) -> bool:
    """Measured, and never busy. One that was lost or had errors is not called idle: that is news."""
    busy = [r.utilisation for r in readings if r.utilisation is not None]
    if any(r.lost or r.xids for r in readings):
        return False
    return bool(busy) and max(busy) <= IDLE


def _at(reading: GpuSample) -> float:
    return reading.at
