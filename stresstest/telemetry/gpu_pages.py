"""Remote GPUs from an exporter's page: NVIDIA's dcgm-exporter, or nvidia_gpu_exporter.

Field names and units: dcgm-exporter's default-counters.csv and NVIDIA's DCGM field identifiers (memory in
MiB, power in W, clocks in MHz); docs/METRICS.md of utkuozdemir/nvidia_gpu_exporter (bytes, W, Hz, ratios).
An exporter's numbers are as old as its own collection: every 30 s for dcgm-exporter unless told otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stresstest.model import GpuDevice, GpuSample, clock_events

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

DCGM = "DCGM"
NVIDIA_SMI = "nvidia_gpu_exporter"
_PREFIXES = {"DCGM_FI_": DCGM, "nvidia_smi_": NVIDIA_SMI}
_MIB = 1 << 20
_NOT_THERE = "not on the exporter's page"
_LARGEST = 1 << 53  # beyond it a page's numbers are no whole numbers any more, nor believable
_XIDS_AT_ONCE = 64

# What DCGM writes for "no value" (blank, not found, not supported, not permitted): dcgm_structs.h.
_BLANKS = ((2147483632.0, 2147483635.0), (140737488355328.0, 140737488355331.0), (9.2e18, math.inf))


def _mebibytes(value: float) -> int:
    return int(min(value, _LARGEST / _MIB) * _MIB)


_Convert = Callable[[float], Any]
_PLAIN: _Convert = float
_WHOLE: _Convert = int
# Field of GpuSample -> names on the page, the best first, and how to get to our unit.
_FIELDS: Mapping[str, Mapping[str, Sequence[tuple[str, _Convert]]]] = {
    DCGM: {
        "utilisation": [
            ("DCGM_FI_DEV_GPU_UTIL", lambda v: v / 100),
            ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", _PLAIN),  # what a MIG instance has instead
        ],
        "memory_used": [("DCGM_FI_DEV_FB_USED", _mebibytes)],
        "memory_total": [("DCGM_FI_DEV_FB_TOTAL", _mebibytes)],
        "power": [("DCGM_FI_DEV_POWER_USAGE", _PLAIN)],
        "power_limit": [
            ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", _PLAIN),
            ("DCGM_FI_DEV_POWER_MGMT_LIMIT", _PLAIN),
        ],
        "temperature": [("DCGM_FI_DEV_GPU_TEMP", _PLAIN)],
        "sm_clock": [("DCGM_FI_DEV_SM_CLOCK", _PLAIN)],
        "memory_clock": [("DCGM_FI_DEV_MEM_CLOCK", _PLAIN)],
        "throttle": [
            ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", lambda v: clock_events(int(v))),
            ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", lambda v: clock_events(int(v))),  # before DCGM 3.3
        ],
        "ecc_uncorrected": [("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", _WHOLE)],
        "pcie_replays": [("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", _WHOLE)],
    },
    NVIDIA_SMI: {
        "utilisation": [("nvidia_smi_utilization_gpu_ratio", _PLAIN)],
        "memory_used": [("nvidia_smi_memory_used_bytes", _WHOLE)],
        "memory_total": [("nvidia_smi_memory_total_bytes", _WHOLE)],
        "power": [("nvidia_smi_power_draw_watts", _PLAIN)],
        "power_limit": [
            ("nvidia_smi_enforced_power_limit_watts", _PLAIN),
            ("nvidia_smi_power_limit_watts", _PLAIN),
        ],
        "temperature": [("nvidia_smi_temperature_gpu", _PLAIN)],
        "sm_clock": [("nvidia_smi_clocks_current_sm_clock_hz", lambda v: v / 1e6)],
        "memory_clock": [("nvidia_smi_clocks_current_memory_clock_hz", lambda v: v / 1e6)],
        "throttle": [
            ("nvidia_smi_clocks_event_reasons_active", lambda v: clock_events(int(v))),
            ("nvidia_smi_clocks_throttle_reasons_active", lambda v: clock_events(int(v))),
        ],
        "ecc_uncorrected": [("nvidia_smi_ecc_errors_uncorrected_volatile_total", _WHOLE)],
        "pcie_replays": [],
    },
}
_COSTS = {  # what to do about a field that the exporter could tell but does not
    (DCGM, "throttle"): f"{_NOT_THERE}; add DCGM_FI_DEV_CLOCKS_EVENT_REASONS to its counters",
    (DCGM, "ecc_uncorrected"): f"{_NOT_THERE}; add DCGM_FI_DEV_ECC_DBE_VOL_TOTAL to its counters",
}

_ALSO = {
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_XID_ERRORS",
    "nvidia_smi_gpu_info",
    "nvidia_smi_xid_errors_total",
    "nvidia_smi_nvml_return_code",
    "nvidia_smi_last_collect_success",
}


@dataclass(slots=True)
class _Page:
    """One GPU's part of a page: values by metric, and (XID, count) series."""

    uuid: str | None
    index: str | None = None
    name: str | None = None
    values: dict[str, float] = field(default_factory=dict)
    xids: dict[int, float] = field(default_factory=dict)
    xids_watched: bool = False


class ExporterPages:
    """The pages of one exporter, read in turn: XIDs and lost GPUs show only against the page before.

    wanted: indices or UUIDs (or beginnings of them) as the exporter names them; empty for every GPU.
    """

    def __init__(self, wanted: Sequence[str] = ()) -> None:
        self._wanted = tuple(wanted)
        self._told: dict[str, GpuDevice] = {}
        self._last_xid: dict[str, float] = {}
        self._xid_counts: dict[str, dict[int, float]] = {}
        self._lost: set[str] = set()

    def read(self, text: str, at: float) -> list[GpuSample] | None:
        """The readings on a page, at clock second `at`; None for a page without GPUs that we know.

        A GPU that has left the page has a last reading that says so. A page that its exporter itself
        calls stale (nvidia_smi_last_collect_success 0) counts as none.
        """
        source, pages = _parse(text)
        if source is None:
            return None
        chosen = {label: page for label, page in pages.items() if self._is_wanted(label, page)}
        samples = [self._sample(source, label, page, at) for label, page in sorted(chosen.items())]
        for label in sorted(set(self._told) - set(chosen) - self._lost):
            self._lost.add(label)
            samples.append(GpuSample(at, label, source, lost="no longer on the exporter's page"))
        return samples

    def _is_wanted(self, label: str, page: _Page) -> bool:
        if not self._wanted:
            return True
        uuid = (page.uuid or "").lower().removeprefix("gpu-")
        for name in self._wanted:
            begins = name.lower().removeprefix("gpu-")
            if name in (label, page.index) or (len(begins) >= 6 and uuid.startswith(begins)):
                return True
        return False

    def _sample(self, source: str, label: str, page: _Page, at: float) -> GpuSample:
        self._lost.discard(label)
        values, missing = _values(source, page)
        xids = self._xids(source, label, page)
        if xids is None:
            missing["xids"] = _NOT_THERE
        device = GpuDevice(label, page.uuid, page.name, dict(sorted(missing.items())))
        changed = self._told.get(label) != device
        self._told[label] = device
        return GpuSample(at, label, source, **values, xids=xids, device=device if changed else None)

    def _xids(self, source: str, label: str, page: _Page) -> tuple[int, ...] | None:
        """XIDs since the page before. DCGM shows the last one only, so the same one again is not seen."""
        if source == DCGM:
            last = page.values.get("DCGM_FI_DEV_XID_ERRORS")
            if last is None or _is_blank(last) or not 0 <= last < _LARGEST:
                return None
            before = self._last_xid.get(label)
            self._last_xid[label] = last
            return (int(last),) if before is not None and last not in (before, 0.0) else ()
        if not page.xids_watched:
            return None
        counts = self._xid_counts.get(label)
        self._xid_counts[label] = page.xids
        if counts is None:
            return ()
        gained = {xid: min(n - counts.get(xid, 0.0), _XIDS_AT_ONCE) for xid, n in sorted(page.xids.items())}
        return tuple(xid for xid, n in gained.items() for _ in range(int(n)))


def _parse(text: str) -> tuple[str | None, dict[str, _Page]]:
    """(source, GPU label -> its part of the page); (None, …) when there is nothing of ours."""
    from prometheus_client.parser import text_string_to_metric_families

    wanted = {name for fields in _FIELDS.values() for names in fields.values() for name, _ in names} | _ALSO
    lines = [
        line
        for line in text.replace("\r", "").split("\n")
        if line.startswith(tuple(_PREFIXES)) and line.partition("{")[0].partition(" ")[0] in wanted
    ]
    try:
        families = list(text_string_to_metric_families("\n".join(lines) + "\n"))
    except (ValueError, LookupError, TypeError, AttributeError):
        return None, {}
    samples = [s for family in families for s in family.samples if math.isfinite(s.value)]
    if any(s.name == "nvidia_smi_last_collect_success" and s.value == 0 for s in samples):
        return None, {}
    sources = {_PREFIXES[prefix] for s in samples for prefix in _PREFIXES if s.name.startswith(prefix)}
    if not sources:
        return None, {}
    source = DCGM if DCGM in sources else NVIDIA_SMI
    pages = _dcgm(samples) if source == DCGM else _nvidia_smi(samples)
    return (source, pages) if pages else (None, {})


def _dcgm(samples: Sequence[Sample]) -> dict[str, _Page]:
    pages: dict[str, _Page] = {}
    several_hosts = len({s.labels["Hostname"] for s in samples if s.labels.get("Hostname")}) > 1
    for sample in samples:
        labels = sample.labels
        index = labels.get("gpu")
        if index is None or not sample.name.startswith("DCGM_"):
            continue
        instance = labels.get("GPU_I_ID")
        label = f"{index}:mig{instance}" if instance else index
        if several_hosts:
            label = f"{labels.get('Hostname', '')}/{label}"
        uuid = labels.get("UUID") or labels.get("uuid")
        page = pages.setdefault(label, _Page(uuid, index, labels.get("modelName")))
        page.values[sample.name] = sample.value
    return pages


def _nvidia_smi(samples: Sequence[Sample]) -> dict[str, _Page]:
    by_uuid: dict[str, _Page] = {}
    for sample in samples:
        uuid = sample.labels.get("uuid")
        if uuid is None:
            continue
        page = by_uuid.setdefault(uuid, _Page(uuid))
        if sample.name == "nvidia_smi_gpu_info":
            page.index, page.name = sample.labels.get("index"), sample.labels.get("name")
        elif sample.name == "nvidia_smi_xid_errors_total":
            number = sample.labels.get("xid", "")
            if number.isdecimal() and len(number) <= 6:
                page.xids[int(number)] = sample.value
        else:
            page.values[sample.name] = sample.value
    # XIDs come from the exporter's NVML backend only, and as series only once the first has arrived.
    watched = any(s.name in {"nvidia_smi_nvml_return_code", "nvidia_smi_xid_errors_total"} for s in samples)
    for page in by_uuid.values():
        page.xids_watched = watched
    indices = [page.index for page in by_uuid.values()]
    plain = None not in indices and len(set(indices)) == len(indices)
    return {str(page.index) if plain else uuid: page for uuid, page in by_uuid.items()}


def _values(source: str, page: _Page) -> tuple[dict[str, Any], dict[str, str]]:
    """Fields of a GpuSample, and why the others are missing."""
    values: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for what, names in _FIELDS[source].items():
        found = [(page.values[name], convert) for name, convert in names if name in page.values]
        told = [(v, convert) for v, convert in found if not (source == DCGM and _is_blank(v))]
        if told and 0 <= told[0][0] < _LARGEST:
            value, convert = told[0]
            values[what] = convert(value)
        elif told:
            missing[what] = "not a believable number on the exporter's page"
        else:
            missing[what] = "not supported by this GPU" if found else _COSTS.get((source, what), _NOT_THERE)
    free = page.values.get("DCGM_FI_DEV_FB_FREE")
    told_free = free is not None and free >= 0 and not _is_blank(free)
    if free is not None and told_free and "memory_used" in values and "memory_total" not in values:
        values["memory_total"] = values["memory_used"] + _mebibytes(free)
        missing.pop("memory_total", None)
    return values, missing


def _is_blank(value: float) -> bool:
    return any(low <= value <= high for low, high in _BLANKS)
