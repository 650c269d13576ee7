"""Samples the page of a GPU exporter: NVIDIA's dcgm-exporter or nvidia_gpu_exporter.

Field names and units: dcgm-exporter's default-counters.csv and NVIDIA's DCGM field identifiers (memory in
MiB, power in W, clocks in MHz); docs/METRICS.md of utkuozdemir/nvidia_gpu_exporter (bytes, W, Hz, ratios).
The values are as old as the exporter's last collection; dcgm-exporter collects every 30 s by default.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from stresstest.model import GpuDevice, GpuSample, clock_events
from stresstest.model.address import clean_url
from stresstest.telemetry.page_sampler import MAX_USED, PageSampler

if TYPE_CHECKING:
    from prometheus_client.samples import Sample


DCGM = "DCGM"
NVIDIA_SMI = "nvidia_gpu_exporter"
_PREFIXES = {"DCGM_FI_": DCGM, "nvidia_smi_": NVIDIA_SMI}
_MIB = 1 << 20
_NOT_THERE = "not on the exporter's page"
_LARGEST = 1 << 53  # larger values are implausible, and floats no longer represent every integer
_XIDS_AT_ONCE = 64
_MOST_GPUS, _LONGEST_NAME = 128, 300
"""GPUs on all pages together, parts of them that MIG makes included, and characters of what names one: all of
them are kept, and those that are lost are reported. A server has 8 GPUs of at most 7 parts."""

# Ranges of DCGM's values for "blank", "not found", "not supported" and "not permitted": dcgm_structs.h.
_BLANKS = ((2147483632.0, 2147483635.0), (140737488355328.0, 140737488355331.0), (9.2e18, math.inf))


def _mebibytes(value: float) -> int:
    return int(min(value, _LARGEST / _MIB) * _MIB)


_Convert = Callable[[float], Any]
_PLAIN: _Convert = float
_WHOLE: _Convert = int
# Field of GpuSample -> metric names in order of preference, each with its conversion to our unit.
_FIELDS: Mapping[str, Mapping[str, Sequence[tuple[str, _Convert]]]] = {
    DCGM: {
        "utilisation": [
            ("DCGM_FI_DEV_GPU_UTIL", lambda v: v / 100),
            ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", _PLAIN),  # for MIG instances
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
_COSTS = {  # reasons for missing fields that the exporter can be configured to export
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
class _GpuMetrics:
    """One GPU's metrics on a page. values: by metric name. xids: counts by XID.

    xids_watched: whether the exporter reports XIDs at all.
    """

    uuid: str | None
    index: str | None = None
    name: str | None = None
    values: dict[str, float] = field(default_factory=dict)
    xids: dict[int, float] = field(default_factory=dict)
    xids_watched: bool = False


class ExporterReader:
    """Parses successive pages of one exporter; XIDs and lost GPUs are found by comparison with the last one.

    wanted: indices, UUIDs or prefixes of UUIDs as on the page; empty for every GPU.
    """

    def __init__(self, wanted: Sequence[str] = ()) -> None:
        self._wanted = tuple(wanted)
        self._last_devices: dict[str, GpuDevice] = {}
        self._last_xid: dict[str, float] = {}
        self._xid_counts: dict[str, dict[int, float]] = {}
        self._lost: set[str] = set()

    def read(self, text: str, at: float) -> list[GpuSample] | None:
        """The readings on a page of clock second `at`; None for a page without known GPU metrics, and for one
        whose GPUs have names that are too long, or are too many with those of the pages before.

        A GPU that is no longer on the page gets a last reading with `lost` set. A page marked stale
        (nvidia_smi_last_collect_success 0) is treated as empty.
        """
        source, pages = _parse(text)
        if source is None:
            return None
        chosen = {label: page for label, page in pages.items() if self._is_wanted(label, page)}
        named = (name for label, page in chosen.items() for name in (label, page.uuid, page.name) if name)
        if (
            len(self._last_devices.keys() | chosen) > _MOST_GPUS
            or max(map(len, named), default=0) > _LONGEST_NAME
        ):
            return None
        samples = [self._sample(source, label, page, at) for label, page in sorted(chosen.items())]
        for label in sorted(set(self._last_devices) - set(chosen) - self._lost):
            self._lost.add(label)
            samples.append(GpuSample(at, label, source, lost="no longer on the exporter's page"))
        return samples

    def _is_wanted(self, label: str, page: _GpuMetrics) -> bool:
        if not self._wanted:
            return True
        uuid = (page.uuid or "").lower().removeprefix("gpu-")
        for name in self._wanted:
            begins = name.lower().removeprefix("gpu-")
            if name in (label, page.index) or (len(begins) >= 6 and uuid.startswith(begins)):
                return True
        return False

    def _sample(self, source: str, label: str, page: _GpuMetrics, at: float) -> GpuSample:
        self._lost.discard(label)
        values, missing = _values(source, page)
        xids = self._xids(source, label, page)
        if xids is None:
            missing["xids"] = _NOT_THERE
        device = GpuDevice(label, page.uuid, page.name, dict(sorted(missing.items())))
        before = self._last_devices.get(label)
        if device == before:
            return GpuSample(at, before.gpu, source, **values, xids=xids)
        self._last_devices[label] = device
        return GpuSample(at, label, source, **values, xids=xids, device=device)

    def _xids(self, source: str, label: str, page: _GpuMetrics) -> tuple[int, ...] | None:
        """XIDs since the previous page. DCGM exports only the latest, so repetitions of it are missed."""
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


def _parse(text: str) -> tuple[str | None, dict[str, _GpuMetrics]]:
    """(source, metrics by GPU label); (None, {}) for a page without known metrics."""
    from prometheus_client.parser import text_string_to_metric_families

    wanted = {name for fields in _FIELDS.values() for names in fields.values() for name, _ in names} | _ALSO
    lines = [
        line
        for line in text.replace("\r", "").split("\n")
        if line.startswith(tuple(_PREFIXES)) and line.partition("{")[0].partition(" ")[0] in wanted
    ]
    used = "\n".join(lines) + "\n"
    if len(used) > MAX_USED:
        return None, {}
    try:
        families = list(text_string_to_metric_families(used))
        samples = [s for family in families for s in family.samples if math.isfinite(s.value)]
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return None, {}
    if any(s.name == "nvidia_smi_last_collect_success" and s.value == 0 for s in samples):
        return None, {}
    sources = {_PREFIXES[prefix] for s in samples for prefix in _PREFIXES if s.name.startswith(prefix)}
    if not sources:
        return None, {}
    source = DCGM if DCGM in sources else NVIDIA_SMI
    pages = _dcgm(samples) if source == DCGM else _nvidia_smi(samples)
    return (source, pages) if pages else (None, {})


def _dcgm(samples: Sequence[Sample]) -> dict[str, _GpuMetrics]:
    pages: dict[str, _GpuMetrics] = {}
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
        page = pages.setdefault(label, _GpuMetrics(uuid, index, labels.get("modelName")))
        page.values[sample.name] = sample.value
    return pages


def _nvidia_smi(samples: Sequence[Sample]) -> dict[str, _GpuMetrics]:
    by_uuid: dict[str, _GpuMetrics] = {}
    for sample in samples:
        uuid = sample.labels.get("uuid")
        if uuid is None:
            continue
        page = by_uuid.setdefault(uuid, _GpuMetrics(uuid))
        if sample.name == "nvidia_smi_gpu_info":
            page.index, page.name = sample.labels.get("index"), sample.labels.get("name")
        elif sample.name == "nvidia_smi_xid_errors_total":
            number = sample.labels.get("xid", "")
            if number.isdecimal() and len(number) <= 6:
                page.xids[int(number)] = sample.value
        else:
            page.values[sample.name] = sample.value
    # Only the exporter's NVML backend reports XIDs, and a series appears only with its first XID.
    watched = any(s.name in {"nvidia_smi_nvml_return_code", "nvidia_smi_xid_errors_total"} for s in samples)
    for page in by_uuid.values():
        page.xids_watched = watched
    indices = [page.index for page in by_uuid.values()]
    plain = None not in indices and len(set(indices)) == len(indices)
    return {str(page.index) if plain else uuid: page for uuid, page in by_uuid.items()}


def _values(source: str, page: _GpuMetrics) -> tuple[dict[str, Any], dict[str, str]]:
    """(fields of a GpuSample, reasons for the missing ones)."""
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


# nvidia_gpu_exporter starts nvidia-smi for every page, so reading may take at most this share of the time,
# unless that would mean more than _SLOWEST seconds between readings.
_SHARE = 0.1
_SLOWEST = 30.0


def exporter_url(url: str) -> str:
    """The page's address, with `http://` and `/metrics` added where the scheme or path is missing."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") or "/metrics", parts.query, ""))


def url_without_credentials(url: str | None) -> str | None:
    """The page's address without userinfo and query, for messages and storage."""
    return None if url is None else clean_url(exporter_url(url))


class ExporterSampler(PageSampler):
    """Reads a GPU exporter every `interval` seconds; slow pages are read less often.

    wanted: see `ExporterReader`. samples: grows while it runs. trouble, remedy: after `start`, why the first
    page was unusable and what to do, or None.
    """

    def __init__(
        self, url: str, wanted: Sequence[str] = (), *, interval: float = 1.0, timeout: float = 5.0
    ) -> None:
        super().__init__(exporter_url(url), {}, interval=interval, timeout=timeout)
        self.samples: list[GpuSample] = []
        self.trouble: str | None = None
        self.remedy: str | None = None
        self._wanted = tuple(wanted)
        self._pages = ExporterReader(wanted)

    @property
    def devices(self) -> tuple[GpuDevice, ...]:
        """The GPUs seen so far, each as described last."""
        return tuple({s.device.gpu: s.device for s in self.samples if s.device is not None}.values())

    async def start(self) -> None:
        """Begin sampling; returns when the first page has been read or has failed."""
        task = self._begin("gpu exporter sampler")
        waiting = asyncio.create_task(self._first_read.wait())
        await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not self.samples:
            self.trouble = (
                f"The GPU exporter {url_without_credentials(self._url)} is of no use: {self.last_error}."
            )
            self.remedy = "Give the address of dcgm-exporter (port 9400) or nvidia_gpu_exporter (port 9835)."

    def _period(self) -> float:
        return self._reading_took + max(self._interval, min(self._reading_took / _SHARE, _SLOWEST))

    def _describe_error(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"no answer within {self._timeout:g} s"
        return type(error).__name__  # the message may quote the address with a password

    def _add_page(self, text: str, at: float) -> str | None:
        samples = self._pages.read(text, at)
        if samples is None:
            return "the page holds no GPU metrics that we know"
        if not samples:
            return f"none of its GPUs is {' or '.join(self._wanted)}"
        self.samples += samples
        return None
