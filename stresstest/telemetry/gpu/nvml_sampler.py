"""Samples this machine's GPUs beside a measurement, in a thread of its own.

NVML calls block, sometimes for seconds (a driver waking up, a failing GPU), so they must not run in the
event loop that receives tokens. Nothing is raised: telemetry must not end the measurement that it explains.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from stresstest.model import GpuDevice, GpuSample
from stresstest.telemetry.gpu.nvml_reader import GpuUnavailableError, NvmlReader

_PATIENCE = 10.0  # seconds to initialise NVML; waking the driver takes two or three


@dataclass(frozen=True, slots=True)
class GpuProbe:
    """This machine's GPUs. trouble, remedy: why there are none and what to do, or None."""

    devices: tuple[GpuDevice, ...] = ()
    driver: str | None = None
    trouble: str | None = None
    remedy: str | None = None


def probe_gpus(wanted: Sequence[str] = ()) -> GpuProbe:
    """Open NVML, read every GPU once, and close it. Blocks as long as the driver does."""
    try:
        reader = NvmlReader(wanted)
    except GpuUnavailableError as error:
        return GpuProbe(trouble=str(error), remedy=error.hint)
    try:
        reader.read()
        return GpuProbe(reader.devices, reader.driver)
    finally:
        reader.close()


class NvmlSampler:
    """A thread that reads the chosen GPUs every `interval` seconds.

    wanted: see `NvmlReader`. patience: seconds that `stop` waits for a hanging call. samples: grows while
    it runs, in chronological order for each GPU. trouble, remedy: after `start`, why there is nothing to
    read and what to do, or None.
    """

    def __init__(
        self,
        wanted: Sequence[str] = (),
        *,
        interval: float = 0.25,
        patience: float = 2.0,
    ) -> None:
        self.samples: list[GpuSample] = []
        self.devices: tuple[GpuDevice, ...] = ()
        self.trouble: str | None = None
        self.remedy: str | None = None
        self._wanted = tuple(wanted)
        self._interval = interval
        self._patience = patience
        self._stopping = threading.Event()
        self._opened = threading.Event()
        # A daemon, so that a call that never returns does not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="nvml sampler", daemon=True)

    async def start(self) -> None:
        """Begin sampling; returns when the first reading is done or has failed."""
        self._thread.start()
        if not await _wait_for_event(self._opened, _PATIENCE):
            self._stopping.set()
            self.trouble = f"NVML did not answer within {_PATIENCE:.0f} s."

    async def stop(self) -> None:
        """Take a last reading and stop; a hanging thread is abandoned. Idempotent."""
        deadline = monotonic() + (0.0 if self._stopping.is_set() else self._patience)
        self._stopping.set()
        while self._thread.is_alive() and monotonic() < deadline:
            await asyncio.sleep(0.005)

    def _run(self) -> None:
        try:
            reader = NvmlReader(self._wanted)
        except GpuUnavailableError as error:
            self.trouble, self.remedy = str(error), error.hint
            self._opened.set()
            return
        try:
            self._sample(reader)
        finally:
            self._opened.set()
            reader.close()

    def _sample(self, reader: NvmlReader) -> None:
        due = monotonic()
        while True:
            ending = self._stopping.is_set()
            self.samples.extend(reader.read())
            self.devices = reader.devices
            self._opened.set()
            if ending or reader.exhausted:
                return
            # Missed ticks are skipped, never made up for in a burst.
            due = max(due + self._interval, monotonic())
            self._stopping.wait(due - monotonic())


async def _wait_for_event(event: threading.Event, seconds: float) -> bool:
    """Whether the event is set within `seconds`; does not block the event loop."""
    deadline = monotonic() + seconds
    while not event.is_set() and monotonic() < deadline:
        await asyncio.sleep(0.005)
    return event.is_set()
