"""Reads the chosen GPUs through NVML, the driver's management library.

Blocking and not thread-safe. A field that a GPU does not support is recorded as missing with the reason
and not read again; a field that fails temporarily is read again next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from stresstest.clock import now
from stresstest.errors import StresstestError
from stresstest.model import GpuDevice, GpuSample, clock_events


class GpuUnavailableError(StresstestError):
    """No GPU can be read: no library, driver or permission, or none of the requested GPUs exists."""


def readers(nvml: Any) -> dict[str, Callable[[Any], Any]]:
    """Field of GpuSample -> function that reads it from a handle. "memory" returns a dict of two fields."""

    def memory(handle: Any) -> dict[str, int]:
        found = nvml.nvmlDeviceGetMemoryInfo(handle)
        return {"memory_used": int(found.used), "memory_total": int(found.total)}

    def temperature(handle: Any) -> float:
        return float(
            _first(
                nvml,
                lambda: nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU),
                lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            )
        )

    def throttle(handle: Any) -> tuple[str, ...]:
        mask = _first(
            nvml,
            lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
            lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        )
        return clock_events(int(mask))

    uncorrected, volatile = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    return {
        "utilisation": lambda h: nvml.nvmlDeviceGetUtilizationRates(h).gpu / 100,
        "memory": memory,
        "power": lambda h: nvml.nvmlDeviceGetPowerUsage(h) / 1000,
        "power_limit": lambda h: nvml.nvmlDeviceGetEnforcedPowerLimit(h) / 1000,
        "temperature": temperature,
        "sm_clock": lambda h: float(nvml.nvmlDeviceGetClockInfo(h, nvml.NVML_CLOCK_SM)),
        "memory_clock": lambda h: float(nvml.nvmlDeviceGetClockInfo(h, nvml.NVML_CLOCK_MEM)),
        "throttle": throttle,
        "ecc_uncorrected": lambda h: int(nvml.nvmlDeviceGetTotalEccErrors(h, uncorrected, volatile)),
        "pcie_replays": lambda h: int(nvml.nvmlDeviceGetPcieReplayCounter(h)),
    }


def _first(nvml: Any, newer: Callable[[], Any], older: Callable[[], Any]) -> Any:
    """The result of `newer`, or of `older` if the driver or the binding does not have the newer function."""
    try:
        return newer()
    except AttributeError:
        return older()
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        return older()


def gone_errors(nvml: Any) -> frozenset[int]:
    """Error codes that mean the GPU is lost."""
    return frozenset(
        {nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED, nvml.NVML_ERROR_UNINITIALIZED}
    )


def permanent_errors(nvml: Any) -> frozenset[int]:
    """Error codes that a later call would return again."""
    return frozenset(
        {
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_INVALID_ARGUMENT,
        }
    )


def missing_reason(nvml: Any, error: Exception) -> str:
    """Why a value is missing, for the user."""
    code = getattr(error, "value", None)
    words = {
        nvml.NVML_ERROR_NOT_SUPPORTED: "not supported by this GPU",
        nvml.NVML_ERROR_NO_PERMISSION: "not permitted to this user",
        nvml.NVML_ERROR_FUNCTION_NOT_FOUND: "not known to this driver",
        nvml.NVML_ERROR_GPU_IS_LOST: "the GPU has fallen off the bus or is inaccessible",
        nvml.NVML_ERROR_RESET_REQUIRED: "the GPU needs a reset",
        nvml.NVML_ERROR_UNINITIALIZED: "the driver was unloaded",
    }
    return words.get(code) or f"NVML: {error}"


def unavailable_error(nvml: Any, error: Exception) -> GpuUnavailableError:
    """The error for an NVML that cannot be initialised, with a hint."""
    code = getattr(error, "value", None)
    sentences = {
        nvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
            "No NVIDIA driver library was found (libnvidia-ml.so.1).",
            "If this runs in a container, start it with the GPUs (docker run --gpus all).",
        ),
        nvml.NVML_ERROR_DRIVER_NOT_LOADED: (
            "The NVIDIA driver is not loaded.",
            "Load it (modprobe nvidia), or reinstall it after a kernel update.",
        ),
        nvml.NVML_ERROR_NO_PERMISSION: (
            "This user may not talk to the NVIDIA driver.",
            "Give access to /dev/nvidia* and /dev/nvidiactl.",
        ),
        nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
            "The NVIDIA library and the loaded driver differ in version.",
            "Reload the driver or reboot.",
        ),
    }
    sentence, hint = sentences.get(code, (f"NVML could not be opened: {error}.", None))
    return GpuUnavailableError(sentence, hint=hint)


NVML_SOURCE = "NVML"
# NVML does not always report a GPU that fell off the bus; after this many empty readings it counts as lost.
_SILENT = 4
_EVENTS_AT_ONCE = 64  # a storm of XIDs must not delay the readings

_MIG_PARENT = "not reported by a GPU in MIG mode"
_MIG_INSTANCE = "reported for the whole GPU only"


@dataclass(slots=True)
class _OpenGpu:
    """An open GPU or MIG instance. readers: fields still read. missing: reasons for missing fields.

    silent: readings without a value in a row. has_answered: whether any value was ever read. lost: why the
    GPU is lost, or None. xids: since the last reading.
    """

    label: str
    uuid: str | None
    name: str | None
    handle: Any
    readers: dict[str, Callable[[Any], Any]]
    missing: dict[str, str]
    last_device: GpuDevice | None = None
    silent: int = 0
    has_answered: bool = False
    lost: str | None = None
    xids: list[int] = field(default_factory=list)

    def device(self) -> GpuDevice:
        return GpuDevice(self.label, self.uuid, self.name, dict(sorted(self.missing.items())))


class NvmlReader:
    """An initialised NVML. wanted: indices ("0"), UUIDs or prefixes of UUIDs; empty for every GPU.

    Raises GpuUnavailableError. Close it in the thread that opened it.
    """

    def __init__(self, wanted: Sequence[str] = ()) -> None:
        try:
            import pynvml
        except ImportError:
            raise GpuUnavailableError(
                "The Python package nvidia-ml-py is missing.", hint="pip install nvidia-ml-py"
            ) from None
        self._nvml: Any = pynvml
        self._events: Any = None
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise unavailable_error(pynvml, error) from None
        try:
            self.driver = self._text(pynvml.nvmlSystemGetDriverVersion)
            self._gpus = self._choose(wanted)
            self._watch_events()
        except BaseException:
            self.close()
            raise

    @property
    def devices(self) -> tuple[GpuDevice, ...]:
        """The chosen GPUs and MIG instances, with the fields known to be missing so far."""
        return tuple(gpu.device() for gpu in self._gpus)

    @property
    def exhausted(self) -> bool:
        """Whether no GPU has any readable field left."""
        return not any(gpu.lost is None and gpu.readers for gpu in self._gpus)

    def read(self) -> list[GpuSample]:
        """One reading of each available GPU. A GPU lost since the last call gets a last one, with `lost`."""
        readings = [(gpu, *self._values(gpu)) for gpu in self._gpus if gpu.lost is None and gpu.readers]
        # A GPU that could not be opened gets one reading; it is not lost, as it was never available.
        readings += [(gpu, {}, now()) for gpu in self._gpus if gpu.handle is None and gpu.last_device is None]
        self._drain_events()
        samples = [self._sample(gpu, values, at) for gpu, values, at in readings]
        if self._events is not None and any(sample.lost for sample in samples):
            # An event set with a lost GPU keeps failing; the other GPUs need a new one.
            self._free_events()
            self._watch_events()
        return samples

    def close(self) -> None:
        """Shut NVML down, ignoring errors."""
        self._free_events()
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError:
            return

    # Choosing

    def _choose(self, wanted: Sequence[str]) -> list[_OpenGpu]:
        try:
            whole = [self._open(index) for index in range(self._nvml.nvmlDeviceGetCount())]
        except self._nvml.NVMLError as error:
            raise unavailable_error(self._nvml, error) from None
        if not whole:
            raise GpuUnavailableError("The NVIDIA driver knows no GPU here.")
        families = [(gpu, list(self._instances(gpu))) for gpu in whole]
        if not wanted:
            return [member for gpu, instances in families for member in (gpu, *instances)]
        chosen: dict[str, _OpenGpu] = {}
        for name in wanted:
            found = [m for gpu, instances in families for m in _match_name(name, gpu, instances)]
            if not found:
                have = ", ".join(m.label for gpu, instances in families for m in (gpu, *instances))
                raise GpuUnavailableError(f"GPU {name!r} was not found; the GPUs are {have}.")
            chosen.update((member.label, member) for member in found)
        return [m for gpu, instances in families for m in (gpu, *instances) if m.label in chosen]

    def _open(self, index: int) -> _OpenGpu:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:  # the other GPUs can still be read
            return _OpenGpu(str(index), None, None, None, {}, {"everything": missing_reason(nvml, error)})
        uuid, name = (self._text(f, handle) for f in (nvml.nvmlDeviceGetUUID, nvml.nvmlDeviceGetName))
        gpu = _OpenGpu(str(index), uuid, name, handle, readers(nvml), {})
        if self._in_mig_mode(handle):
            del gpu.readers["utilisation"]
            gpu.missing["utilisation"] = _MIG_PARENT
        return gpu

    def _in_mig_mode(self, handle: Any) -> bool:
        try:
            return bool(self._nvml.nvmlDeviceGetMigMode(handle)[0] == self._nvml.NVML_DEVICE_MIG_ENABLE)
        except self._nvml.NVMLError:  # not a GPU with MIG
            return False

    def _instances(self, gpu: _OpenGpu) -> Iterator[_OpenGpu]:
        """The MIG instances of a GPU; they report only their memory."""
        nvml = self._nvml
        if gpu.missing.get("utilisation") != _MIG_PARENT:
            return
        try:
            most = nvml.nvmlDeviceGetMaxMigDeviceCount(gpu.handle)
        except nvml.NVMLError:
            return
        for index in range(most):
            try:
                handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu.handle, index)
            except nvml.NVMLError:  # slots are sparse
                continue
            uuid, name = (self._text(f, handle) for f in (nvml.nvmlDeviceGetUUID, nvml.nvmlDeviceGetName))
            every = readers(nvml)
            missing = {what: _MIG_INSTANCE for what in (*every, "xids") if what != "memory"}
            memory = {"memory": every["memory"]}
            yield _OpenGpu(f"{gpu.label}:mig{index}", uuid, name, handle, memory, missing)

    def _text(self, function: Callable[..., Any], *arguments: Any) -> str | None:
        try:
            found = function(*arguments)
        except self._nvml.NVMLError:
            return None
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)

    # Reading

    def _values(self, gpu: _OpenGpu) -> tuple[dict[str, Any], float]:
        """(values of the GPU's fields, middle of the reading in clock seconds)."""
        nvml = self._nvml
        values: dict[str, Any] = {}
        before = now()
        for what, reader in list(gpu.readers.items()):
            try:
                value = reader(gpu.handle)
            except nvml.NVMLError as error:
                if error.value in gone_errors(nvml):
                    gpu.lost = missing_reason(nvml, error)
                    break
                gpu.missing[what] = missing_reason(nvml, error)
                if error.value in permanent_errors(nvml):
                    del gpu.readers[what]
                continue
            gpu.missing.pop(what, None)
            values.update(value if isinstance(value, dict) else {what: value})
        gpu.silent = 0 if values else gpu.silent + 1
        gpu.has_answered = gpu.has_answered or bool(values)
        if gpu.lost is None and gpu.has_answered and gpu.silent >= _SILENT:
            why = next(iter(gpu.missing.values()), "no reason given")
            gpu.lost = f"no answer in {_SILENT} readings ({why})"
        return values, (before + now()) / 2

    def _sample(self, gpu: _OpenGpu, values: dict[str, Any], at: float) -> GpuSample:
        xids = None if "xids" in gpu.missing or gpu.handle is None else tuple(gpu.xids)
        gpu.xids.clear()
        device = gpu.device()
        changed = device != gpu.last_device
        gpu.last_device = device
        shown = device if changed else None
        return GpuSample(at, gpu.label, NVML_SOURCE, **values, xids=xids, lost=gpu.lost, device=shown)

    # XIDs

    def _watch_events(self) -> None:
        """Let the driver queue XIDs from now on; earlier ones are not reported."""
        nvml = self._nvml
        whole = [gpu for gpu in self._gpus if gpu.lost is None and ":" not in gpu.label and gpu.handle]
        try:
            self._events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError as error:
            for gpu in whole:
                gpu.missing["xids"] = missing_reason(nvml, error)
            return
        for gpu in whole:
            try:
                nvml.nvmlDeviceRegisterEvents(gpu.handle, nvml.nvmlEventTypeXidCriticalError, self._events)
            except nvml.NVMLError as error:
                gpu.missing["xids"] = missing_reason(nvml, error)

    def _drain_events(self) -> None:
        """Collect the queued XIDs without waiting."""
        if self._events is None:
            return
        by_address = {_address(gpu.handle): gpu for gpu in self._gpus if gpu.handle}
        for _ in range(_EVENTS_AT_ONCE):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError:  # no event; the readings detect a lost GPU
                return
            gpu = by_address.get(_address(event.device))
            if gpu is not None and event.eventType & self._nvml.nvmlEventTypeXidCriticalError:
                gpu.xids.append(int(event.eventData))

    def _free_events(self) -> None:
        events, self._events = self._events, None
        if events is None:
            return
        try:
            self._nvml.nvmlEventSetFree(events)
        except self._nvml.NVMLError:
            return


def _match_name(name: str, gpu: _OpenGpu, instances: list[_OpenGpu]) -> list[_OpenGpu]:
    """The GPUs that `name` selects: a GPU with its instances, or an instance with its GPU, which reports
    the fields that the instance lacks."""
    if name == gpu.label or _begins(gpu.uuid, name):
        return [gpu, *instances]
    found = [i for i in instances if name == i.label or _begins(i.uuid, name)]
    return [gpu, *found] if found else []


def _begins(uuid: str | None, name: str) -> bool:
    return uuid is not None and len(name) >= 6 and uuid.lower().startswith(name.lower())


def _address(handle: Any) -> int | None:
    from ctypes import c_void_p, cast

    return cast(handle, c_void_p).value
