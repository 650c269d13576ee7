"""What NVML is asked for each GPU, and what its refusals mean in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stresstest.errors import StresstestError
from stresstest.model import clock_events


class GpuUnavailableError(StresstestError):
    """No GPU can be read here: no library, no driver, no permission, or none of those asked for."""


def readers(nvml: Any) -> dict[str, Callable[[Any], Any]]:
    """Field of GpuSample -> how to read it from a handle. "memory" gives two fields."""

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
    """`newer`, or `older` where the driver or the binding does not know the newer name yet."""
    try:
        return newer()
    except AttributeError:
        return older()
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        return older()


def gone(nvml: Any) -> frozenset[int]:
    """Answers after which a GPU is not asked again."""
    return frozenset(
        {nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED, nvml.NVML_ERROR_UNINITIALIZED}
    )


def never(nvml: Any) -> frozenset[int]:
    """Answers that stay the same however often one asks."""
    return frozenset(
        {
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_INVALID_ARGUMENT,
        }
    )


def reason(nvml: Any, error: Exception) -> str:
    """Why a value is not there, in words."""
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


def unavailable(nvml: Any, error: Exception) -> GpuUnavailableError:
    """Why NVML as a whole cannot be used, and what to do."""
    code = getattr(error, "value", None)
    sentences = {
        nvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
            "There is no NVIDIA driver library here (libnvidia-ml.so.1).",
            "In a container, start it with the GPUs (docker run --gpus all).",
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
