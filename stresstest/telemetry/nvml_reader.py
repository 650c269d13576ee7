"""NVML, the driver's own library, as readings: one call reads all chosen GPUs once.

Blocking, and not for sharing between threads. What a GPU cannot tell is asked once, remembered with the
reason, and not asked again; what the driver fails to tell once is asked again at the next reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from stresstest.clock import now
from stresstest.model import GpuDevice, GpuSample
from stresstest.telemetry.nvml_fields import GpuUnavailableError, gone, never, readers, reason, unavailable

SOURCE = "NVML"
# A GPU that fell off the bus is not always named so: after this many readings without any answer it is.
_SILENT = 4
_EVENTS_AT_ONCE = 64  # an XID storm must not hold up the readings

_MIG_PARENT = "not told by a GPU in MIG mode"
_MIG_INSTANCE = "told by the whole GPU only"


@dataclass(slots=True)
class _Gpu:
    """An open GPU or MIG instance. readers: what is still asked; missing: what is not told, and why."""

    label: str
    uuid: str | None
    name: str | None
    handle: Any
    readers: dict[str, Callable[[Any], Any]]
    missing: dict[str, str]
    told: GpuDevice | None = None
    silent: int = 0
    spoke: bool = False
    lost: str | None = None
    xids: list[int] = field(default_factory=list)

    def device(self) -> GpuDevice:
        return GpuDevice(self.label, self.uuid, self.name, dict(sorted(self.missing.items())))


class NvmlReader:
    """NVML, opened. wanted: indices ("0"), UUIDs or beginnings of them; empty for every GPU.

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
            raise unavailable(pynvml, error) from None
        try:
            self.driver = self._text(pynvml.nvmlSystemGetDriverVersion)
            self._gpus = self._choose(wanted)
            self._watch_events()
        except BaseException:
            self.close()
            raise

    @property
    def devices(self) -> tuple[GpuDevice, ...]:
        """The chosen GPUs and MIG instances, with what is known to be missing so far."""
        return tuple(gpu.device() for gpu in self._gpus)

    @property
    def exhausted(self) -> bool:
        """No GPU is left that tells anything."""
        return not any(gpu.lost is None and gpu.readers for gpu in self._gpus)

    def read(self) -> list[GpuSample]:
        """One reading of each GPU that still answers. A GPU lost meanwhile has its last one here."""
        readings = [(gpu, *self._values(gpu)) for gpu in self._gpus if gpu.lost is None and gpu.readers]
        # One that could not even be opened says so once. That is no loss: it never was there in this run.
        readings += [(gpu, {}, now()) for gpu in self._gpus if gpu.handle is None and gpu.told is None]
        self._drain_events()
        samples = [self._sample(gpu, values, at) for gpu, values, at in readings]
        if self._events is not None and any(sample.lost for sample in samples):
            # A set with a lost GPU in it only fails from now on: the others get a new one.
            self._free_events()
            self._watch_events()
        return samples

    def close(self) -> None:
        """Give the library back; errors at this point concern nobody."""
        self._free_events()
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError:
            return

    # Choosing

    def _choose(self, wanted: Sequence[str]) -> list[_Gpu]:
        try:
            whole = [self._open(index) for index in range(self._nvml.nvmlDeviceGetCount())]
        except self._nvml.NVMLError as error:
            raise unavailable(self._nvml, error) from None
        if not whole:
            raise GpuUnavailableError("The NVIDIA driver knows no GPU here.")
        families = [(gpu, list(self._instances(gpu))) for gpu in whole]
        if not wanted:
            return [member for gpu, instances in families for member in (gpu, *instances)]
        chosen: dict[str, _Gpu] = {}
        for name in wanted:
            found = [m for gpu, instances in families for m in _named(name, gpu, instances)]
            if not found:
                have = ", ".join(m.label for gpu, instances in families for m in (gpu, *instances))
                raise GpuUnavailableError(f"There is no GPU {name!r} here; there are {have}.")
            chosen.update((member.label, member) for member in found)
        return [m for gpu, instances in families for m in (gpu, *instances) if m.label in chosen]

    def _open(self, index: int) -> _Gpu:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:  # the others are read all the same
            return _Gpu(str(index), None, None, None, {}, {"everything": reason(nvml, error)})
        uuid, name = (self._text(f, handle) for f in (nvml.nvmlDeviceGetUUID, nvml.nvmlDeviceGetName))
        gpu = _Gpu(str(index), uuid, name, handle, readers(nvml), {})
        if self._in_mig_mode(handle):
            del gpu.readers["utilisation"]
            gpu.missing["utilisation"] = _MIG_PARENT
        return gpu

    def _in_mig_mode(self, handle: Any) -> bool:
        try:
            return bool(self._nvml.nvmlDeviceGetMigMode(handle)[0] == self._nvml.NVML_DEVICE_MIG_ENABLE)
        except self._nvml.NVMLError:  # not a GPU with MIG
            return False

    def _instances(self, gpu: _Gpu) -> Iterator[_Gpu]:
        """The MIG instances of a GPU, which tell their memory and nothing else."""
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
            yield _Gpu(f"{gpu.label}:mig{index}", uuid, name, handle, memory, missing)

    def _text(self, function: Callable[..., Any], *arguments: Any) -> str | None:
        try:
            found = function(*arguments)
        except self._nvml.NVMLError:
            return None
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)

    # Reading

    def _values(self, gpu: _Gpu) -> tuple[dict[str, Any], float]:
        """What the GPU tells now, and the middle of the time that it took."""
        nvml = self._nvml
        values: dict[str, Any] = {}
        before = now()
        for what, reader in list(gpu.readers.items()):
            try:
                value = reader(gpu.handle)
            except nvml.NVMLError as error:
                if error.value in gone(nvml):
                    gpu.lost = reason(nvml, error)
                    break
                gpu.missing[what] = reason(nvml, error)
                if error.value in never(nvml):
                    del gpu.readers[what]
                continue
            gpu.missing.pop(what, None)
            values.update(value if isinstance(value, dict) else {what: value})
        gpu.silent = 0 if values else gpu.silent + 1
        gpu.spoke = gpu.spoke or bool(values)
        if gpu.lost is None and gpu.spoke and gpu.silent >= _SILENT:
            why = next(iter(gpu.missing.values()), "no reason given")
            gpu.lost = f"no answer in {_SILENT} readings ({why})"
        return values, (before + now()) / 2

    def _sample(self, gpu: _Gpu, values: dict[str, Any], at: float) -> GpuSample:
        xids = None if "xids" in gpu.missing or gpu.handle is None else tuple(gpu.xids)
        gpu.xids.clear()
        device = gpu.device()
        changed = device != gpu.told
        gpu.told = device
        shown = device if changed else None
        return GpuSample(at, gpu.label, SOURCE, **values, xids=xids, lost=gpu.lost, device=shown)

    # XIDs

    def _watch_events(self) -> None:
        """Ask the driver to queue XIDs from now on; earlier ones are not told."""
        nvml = self._nvml
        whole = [gpu for gpu in self._gpus if gpu.lost is None and ":" not in gpu.label and gpu.handle]
        try:
            self._events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError as error:
            for gpu in whole:
                gpu.missing["xids"] = reason(nvml, error)
            return
        for gpu in whole:
            try:
                nvml.nvmlDeviceRegisterEvents(gpu.handle, nvml.nvmlEventTypeXidCriticalError, self._events)
            except nvml.NVMLError as error:
                gpu.missing["xids"] = reason(nvml, error)

    def _drain_events(self) -> None:
        """Take what has arrived, waiting for nothing."""
        if self._events is None:
            return
        by_address = {_address(gpu.handle): gpu for gpu in self._gpus if gpu.handle}
        for _ in range(_EVENTS_AT_ONCE):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError:  # nothing there; a lost GPU is told by its readings
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


def _named(name: str, gpu: _Gpu, instances: list[_Gpu]) -> list[_Gpu]:
    """What a name means: a GPU with its instances, or an instance with the GPU that tells the rest."""
    if name == gpu.label or _begins(gpu.uuid, name):
        return [gpu, *instances]
    found = [i for i in instances if name == i.label or _begins(i.uuid, name)]
    return [gpu, *found] if found else []


def _begins(uuid: str | None, name: str) -> bool:
    return uuid is not None and len(name) >= 6 and uuid.lower().startswith(name.lower())


def _address(handle: Any) -> int | None:
    from ctypes import c_void_p, cast

    return cast(handle, c_void_p).value
