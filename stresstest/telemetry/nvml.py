"""Reads this machine's GPUs at a fixed pace beside a measurement, in a thread of its own.

NVML's calls block, now and then for seconds (a driver that wakes up, a GPU that is dying), so they are
kept away from the event loop that receives tokens. Nothing is raised: telemetry explains a measurement,
it must not end one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from stresstest.model import GpuDevice, GpuSample
from stresstest.telemetry.nvml_fields import GpuUnavailableError
from stresstest.telemetry.nvml_reader import NvmlReader

_PATIENCE = 10.0  # seconds to open the library; waking a sleeping driver takes two or three


@dataclass(frozen=True, slots=True)
class GpuLook:
    """What a look at this machine's GPUs found. trouble/mend: why there are none, and what to do."""

    devices: tuple[GpuDevice, ...] = ()
    driver: str | None = None
    trouble: str | None = None
    mend: str | None = None


def look(wanted: Sequence[str] = ()) -> GpuLook:
    """Open NVML, read every GPU once, close it. Blocks for as long as the driver does."""
    try:
        reader = NvmlReader(wanted)
    except GpuUnavailableError as error:
        return GpuLook(trouble=str(error), mend=error.hint)
    try:
        reader.read()
        return GpuLook(reader.devices, reader.driver)
    finally:
        reader.close()


class NvmlSampler:
    """A thread that reads the chosen GPUs every `interval` seconds.

    wanted: see `NvmlReader`. patience: seconds that `stop` waits for a call that hangs. samples: grows
    while it runs, in the order of time for each GPU. After `start`, `trouble` and `mend` say why there is
    nothing to read, or are None.
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
        self.mend: str | None = None
        self._wanted = tuple(wanted)
        self._interval = interval
        self._patience = patience
        self._stopping = threading.Event()
        self._opened = threading.Event()
        # A daemon: a call that never comes back must not keep the program from ending.
        self._thread = threading.Thread(target=self._run, name="nvml sampler", daemon=True)

    async def start(self) -> None:
        """Open NVML and begin; returns when the first reading is there or there is trouble."""
        self._thread.start()
        if not await _set(self._opened, _PATIENCE):
            self._stopping.set()
            self.trouble = f"NVML did not answer within {_PATIENCE:.0f} s."

    async def stop(self) -> None:
        """Take a last reading and stop; a hanging driver is left behind. Safe to call twice."""
        deadline = monotonic() + (0.0 if self._stopping.is_set() else self._patience)
        self._stopping.set()
        while self._thread.is_alive() and monotonic() < deadline:
            await asyncio.sleep(0.005)

    def _run(self) -> None:
        try:
            reader = NvmlReader(self._wanted)
        except GpuUnavailableError as error:
            self.trouble, self.mend = str(error), error.hint
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
            # Ticks that were missed are skipped, never caught up in a burst.
            due = max(due + self._interval, monotonic())
            self._stopping.wait(due - monotonic())


async def _set(event: threading.Event, seconds: float) -> bool:
    """Whether the event is set within so many seconds; the event loop goes on meanwhile."""
    deadline = monotonic() + seconds
    while not event.is_set() and monotonic() < deadline:
        await asyncio.sleep(0.005)
    return event.is_set()
