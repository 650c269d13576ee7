"""GPU evidence for and against the system plane, in a window that ends at an onset or a loss.

Slowdowns, XIDs, uncorrected memory errors and a lost GPU raise suspicion and invalidate the tokens generated
from then on. Running at the power cap does neither, because it is normal under full load. Nor does nearly
full memory, which vLLM allocates at start; memory that *grows* until it is full belongs to another process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from stresstest.diagnosis.evidence.gpu_series import (
    MAX_READING_AGE_S,
    SLOWDOWNS,
    GpuSeries,
    memory_peak,
    memory_share,
    throttled_seconds,
)
from stresstest.diagnosis.evidence.metrics_series import increase
from stresstest.model import Evidence, GpuSample, Plane
from stresstest.model.percent import percent

MEMORY_FULL = 0.98
_NVML = "NVML"
_POWER_CAP = "sw_power_cap"
_WORDS = {  # fields whose absence leaves the system plane open
    "throttle": "throttling",
    "xids": "XIDs",
    "ecc_uncorrected": "uncorrected memory errors",
    "temperature": "temperature",
    "utilisation": "utilisation",
}
XIDS: Mapping[int, str] = {
    13: "a kernel's fault",
    31: "a kernel's page fault",
    43: "a channel was reset",
    45: "work was cancelled",
    48: "double-bit memory error",
    62: "internal halt",
    63: "a memory row was remapped",
    64: "a memory row could not be remapped",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    92: "many single-bit memory errors",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "the GPU's system processor timed out",
    120: "error of the GPU's system processor",
}
"""Descriptions of common errors from NVIDIA's XID catalogue."""


def gpu_evidence(series: GpuSeries, start: float, end: float, when: str) -> list[Evidence]:
    """Evidence from the window start..end (clock seconds), problems first; `at` is relative to `start`.

    when: describes the window in the sentences, e.g. "before the onset".
    """
    cut = series.cut(start, end)
    if not cut:
        return [_not_measured(series, when)]
    window = _GpuWindow(start, end, when)
    troubled = {gpu: window.trouble_evidence(gpu, found) for gpu, found in cut.items()}
    facts = [fact for found in troubled.values() for fact in found]
    alike: dict[frozenset[str], dict[str, list[GpuSample]]] = {}
    for gpu, found in cut.items():
        if not troubled[gpu]:
            alike.setdefault(_measured_fields(found), {})[gpu] = found
    quiet = [fact for calm in alike.values() if (fact := window.calm_evidence(calm)) is not None]
    return [*facts, *quiet, *_gaps(series, cut, when)]


def first_invalid_moment(series: GpuSeries, start: float, end: float) -> float | None:
    """The earliest time (clock seconds) at which GPU trouble may have begun in the window; None without any.

    This is the time of the last reading without trouble, or `start` if there is none.
    """
    moments = []
    for readings in series.cut(start, end).values():
        if readings[0].at < start:
            base, inside = readings[0], readings[1:]
            if _slowed(base):
                moments.append(start)
                continue
        else:
            base, inside = None, readings
        for before, after in pairwise([base, *inside]):
            if after is not None and _has_trouble(before, after):
                moments.append(start if before is None else max(start, before.at))
                break
    return min(moments, default=None)


def _has_trouble(before: GpuSample | None, after: GpuSample) -> bool:
    errors = increase((before.ecc_uncorrected, after.ecc_uncorrected)) if before is not None else None
    return bool(_slowed(after) or after.xids or after.lost or errors)


def _measured_fields(readings: Sequence[GpuSample]) -> frozenset[str]:
    """The measured fields. Only GPUs with the same ones share a sentence, so that it holds for each."""
    fields = ("throttle", "xids", "temperature", "utilisation", "memory_used")
    return frozenset(name for name in fields if any(getattr(r, name) is not None for r in readings))


def _slowed(reading: GpuSample) -> bool:
    return any(reason in SLOWDOWNS for reason in reading.throttle or ())


class _GpuWindow:
    """Builds the evidence of one window."""

    def __init__(self, start: float, end: float, when: str) -> None:
        self.start = start
        self.end = end
        self.span = f"in the {max(0.0, end - start):.1f} s {when}"

    def trouble_evidence(self, gpu: str, readings: Sequence[GpuSample]) -> list[Evidence]:
        """All evidence of one GPU for the system plane."""
        found = (
            self._slowdown(gpu, readings),
            *self._xids(gpu, readings),
            self._memory_errors(gpu, readings),
            self._lost(gpu, readings),
            self._filled(gpu, readings),
        )
        return [fact for fact in found if fact is not None]

    def calm_evidence(self, calm: Mapping[str, Sequence[GpuSample]]) -> Evidence | None:
        """One sentence on GPUs without trouble that have the same measured fields; None without any field."""
        every = [reading for readings in calm.values() for reading in readings]
        parts = []
        capped = max(
            throttled_seconds(found, (_POWER_CAP,), self.start, self.end)[0] for found in calm.values()
        )
        if capped:
            parts.append(f"no slowdown but the power cap of full use (up to {capped:.1f} s)")
        elif any(r.throttle is not None for r in every):
            parts.append("no throttling")
        if any(r.xids is not None for r in every):
            parts.append("no XID")
        warmth = [r.temperature for r in every if r.temperature is not None]
        if warmth:
            parts.append(_range(min(warmth), max(warmth), "°C"))
        busy = [r.utilisation for r in every if r.utilisation is not None]
        if busy:
            parts.append(f"utilisation {percent(sum(busy) / len(busy))}")
        memory = memory_peak(every)
        if memory is not None:
            parts.append(f"memory ≤ {percent(memory)}")
        if not parts:
            return None
        fact = f"{_names(list(calm))}: {', '.join(parts)} {self.span}"
        return Evidence(Plane.SYSTEM, False, every[0].source, fact, value=max(warmth, default=0.0))

    def _slowdown(self, gpu: str, readings: Sequence[GpuSample]) -> Evidence | None:
        seconds, reasons = throttled_seconds(readings, SLOWDOWNS, self.start, self.end)
        first = next((r for r in readings if _slowed(r)), None)
        if first is None:
            return None
        words = " and ".join(dict.fromkeys(SLOWDOWNS[reason] for reason in reasons))
        hottest = max((r.temperature for r in readings if r.temperature is not None), default=None)
        warmth = "" if hottest is None else f", up to {hottest:.0f} °C"
        fact = f"GPU {gpu}: {words} ({', '.join(reasons)}) for {seconds:.1f} s {self.span}{warmth}"
        return self._system_evidence(first, fact, seconds)

    def _xids(self, gpu: str, readings: Sequence[GpuSample]) -> list[Evidence]:
        facts = []
        for reading in readings:
            for xid in (reading.xids or ()) if reading.at >= self.start else ():
                words = f" ({XIDS[xid]})" if xid in XIDS else ""
                facts.append(
                    self._system_evidence(reading, f"GPU {gpu}: XID {xid}{words} {self.span}", float(xid))
                )
        return facts

    def _memory_errors(self, gpu: str, readings: Sequence[GpuSample]) -> Evidence | None:
        errors = increase(r.ecc_uncorrected for r in readings)
        if not errors:
            return None
        low = readings[0].ecc_uncorrected or 0
        first = next((r for r in readings if (r.ecc_uncorrected or 0) > low), readings[-1])
        return self._system_evidence(
            first, f"GPU {gpu}: {errors} uncorrected memory errors {self.span}", float(errors)
        )

    def _lost(self, gpu: str, readings: Sequence[GpuSample]) -> Evidence | None:
        last = next((r for r in readings if r.lost), None)
        if last is None:
            return None
        return self._system_evidence(last, f"GPU {gpu} was lost {self.span}: {last.lost}", None)

    def _filled(self, gpu: str, readings: Sequence[GpuSample]) -> Evidence | None:
        first, peak = memory_share(readings[0]), memory_peak(readings)
        if first is None or peak is None or first >= MEMORY_FULL or peak < MEMORY_FULL:
            return None
        full = next(r for r in readings if (memory_share(r) or 0.0) >= MEMORY_FULL)
        return self._system_evidence(
            full, f"GPU {gpu}: memory filled from {percent(first)} to {percent(peak)} {self.span}", peak
        )

    def _system_evidence(self, reading: GpuSample, fact: str, value: float | None) -> Evidence:
        at = max(0.0, reading.at - self.start)
        return Evidence(Plane.SYSTEM, True, reading.source, fact, value=value, at=at)


def _not_measured(series: GpuSeries, when: str) -> Evidence:
    if series.gpus:
        why = f" (no reading within {MAX_READING_AGE_S:.0f} s)"
    elif series.idle:
        why = f" ({_names(series.idle)} stayed idle while answers were written: not what serves them)"
    else:
        why = ""
    fact = f"not measured {when}: the GPU's state{why}; the system plane is not excluded by it"
    return Evidence(Plane.SYSTEM, False, _source(series), fact)


def _gaps(series: GpuSeries, cut: Mapping[str, Sequence[GpuSample]], when: str) -> list[Evidence]:
    """The fields that were not measured, one sentence per group of GPUs with the same fields and reasons."""
    lacking: dict[str, list[str]] = {}
    for gpu in cut:
        if ":" in gpu and gpu.partition(":")[0] in cut:
            continue  # a MIG instance: the other fields are read from the whole GPU
        device = series.devices.get(gpu)
        reasons: dict[str, list[str]] = {}
        for what, words in _WORDS.items():
            if device is not None and what in device.missing:
                reasons.setdefault(device.missing[what], []).append(words)
        if reasons:
            sentence = "; ".join(f"{', '.join(what)} ({why})" for why, what in reasons.items())
            lacking.setdefault(sentence, []).append(gpu)
    return [
        Evidence(Plane.SYSTEM, False, _source(series), f"not measured {when}: {sentence} of {_names(gpus)}")
        for sentence, gpus in lacking.items()
    ]


def _source(series: GpuSeries) -> str:
    return next((readings[0].source for readings in series.gpus.values()), _NVML)


def _names(gpus: Sequence[str]) -> str:
    if len(gpus) == 1:
        return f"GPU {gpus[0]}"
    return f"GPUs {', '.join(gpus)}" if len(gpus) <= 4 else f"{len(gpus)} GPUs ({gpus[0]} to {gpus[-1]})"


def _range(low: float, high: float, unit: str) -> str:
    return f"{low:.0f} {unit}" if round(low) == round(high) else f"{low:.0f}–{high:.0f} {unit}"
