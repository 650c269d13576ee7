"""How far a scan is, on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from stresstest.records import Damaged
from stresstest.report.text import count, duration, flat

_EVERY_S = 5.0


class SilentScan:
    """``--display none``. Damaged lines and a file that is lost are named all the same: they are results."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._out = stream or sys.stderr

    def advanced(self, done: int, requests: int, degenerate: int) -> None:
        pass

    def damaged(self, damaged: Damaged) -> None:
        self._say(f"damaged: {damaged}")

    def unwritten(self, why: str) -> None:
        self._say(f"warning: {why} The scan goes on without it.")

    def close(self) -> None:
        pass

    def _say(self, text: str) -> None:
        self._out.write(f"{flat(text)}\n")
        self._out.flush()


class PlainScan(SilentScan):
    """A line every five seconds, no control sequences."""

    def __init__(
        self,
        total: int | None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream)
        self._total = total
        self._clock = clock
        self._began = self._said = clock()

    def advanced(self, done: int, requests: int, degenerate: int) -> None:
        now = self._clock()
        if now - self._said >= _EVERY_S:
            self._said = now
            self._say(progress_line(done, self._total, requests, degenerate, now - self._began))


class LiveScan(SilentScan):
    """A bar of bytes with the counts so far; it is gone when the scan has ended."""

    def __init__(self, total: int | None) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = Console(stderr=True, highlight=False)
        self._bar = Progress(
            BarColumn(bar_width=None),
            DownloadColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("scan", total=total, counts="")
        self._bar.start()

    def advanced(self, done: int, requests: int, degenerate: int) -> None:
        counts = f"{count(requests)} requests, {count(degenerate)} degenerate"
        self._bar.update(self._task, completed=done, counts=counts)

    def close(self) -> None:
        self._bar.stop()

    def _say(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(flat(text), style="yellow"), soft_wrap=True)


def progress_line(done: int, total: int | None, requests: int, degenerate: int, elapsed: float) -> str:
    """One line: share of the bytes, counts, time left."""
    counts = f"{count(requests)} requests, {count(degenerate)} degenerate"
    if not total or not done:
        return f"{counts}, {duration(elapsed)} so far"
    size = f"{total / 1e6:.0f}" if total >= 1e7 else f"{total / 1e6:.1f}"
    if done >= total:
        return f"all {size} MB, {counts}, {duration(elapsed)} so far"
    left = elapsed / done * (total - done)
    return f"{100 * done / total:.0f} % of {size} MB, {counts}, ends in {duration(left)}"
