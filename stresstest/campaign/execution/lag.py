"""How late our own event loop runs. A late loop spoils arrival times, never text."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

_PERIOD = 0.05


class LagWindow:
    """The worst lag, in seconds, while a window was open."""

    __slots__ = ("worst",)

    def __init__(self) -> None:
        self.worst = 0.0


class LagSampler:
    """A task that sleeps and measures how much too late it wakes. Use as an async context manager."""

    def __init__(self) -> None:
        self._open: set[LagWindow] = set()
        self._due = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._due = asyncio.get_running_loop().time() + _PERIOD
        self._task = asyncio.create_task(self._sample(), name="loop-lag")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def open(self) -> LagWindow:
        """Begin a window."""
        window = LagWindow()
        self._open.add(window)
        return window

    def worst(self, window: LagWindow) -> float:
        """The window's worst lag so far, an overdue wake-up included."""
        return max(window.worst, asyncio.get_running_loop().time() - self._due, 0.0)

    def close(self, window: LagWindow) -> None:
        """End a window."""
        self._open.discard(window)

    async def _sample(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._due = loop.time() + _PERIOD
            await asyncio.sleep(_PERIOD)
            lag = loop.time() - self._due
            for window in self._open:
                if lag > window.worst:
                    window.worst = lag
