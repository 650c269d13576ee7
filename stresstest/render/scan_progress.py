"""The progress of a scan on stderr: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from stresstest.model.percent import percent
from stresstest.records import DamagedLine
from stresstest.render.text import duration, format_count, single_line

_EVERY_S = 5.0


class SilentScanProgress:
    """For ``--display none``. Still reports what is a result: damaged lines, cut logs, unwritable files."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._out = stream or sys.stderr

    def advanced(self, done: int, requests: int, degenerate: int) -> None:
        pass

    def damaged(self, damaged: DamagedLine) -> None:
        self._say(f"damaged: {damaged}")

    def noticed(self, note: str) -> None:
        self._say(f"warning: {note}")

    def unwritten(self, why: str) -> None:
        self._say(f"warning: {why} The scan continues without it.")

    def close(self) -> None:
        pass

    def _say(self, text: str) -> None:
        self._out.write(f"{single_line(text)}\n")
        self._out.flush()


class PlainScanProgress(SilentScanProgress):
    """A line every five seconds, without control sequences. total: bytes, None if unknown."""

    def __init__(
        self,
        total: int | None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream)
        self._total = total
        self._clock = clock
        self._began = self._last_line_at = clock()

    def advanced(self, done: int, requests: int, degenerate: int) -> None:
        now = self._clock()
        if now - self._last_line_at >= _EVERY_S:
            self._last_line_at = now
            self._say(progress_line(done, self._total, requests, degenerate, now - self._began))


class LiveScanProgress(SilentScanProgress):
    """A progress bar with the counts so far, removed at the end. total: bytes, None if unknown."""

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
        counts = f"{format_count(requests)} requests, {format_count(degenerate)} degenerate"
        self._bar.update(self._task, completed=done, counts=counts)

    def close(self) -> None:
        self._bar.stop()

    def _say(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(single_line(text), style="yellow"), soft_wrap=True)


def progress_line(done: int, total: int | None, requests: int, degenerate: int, elapsed: float) -> str:
    """Share of the bytes, counts and time left on one line. done, total: bytes; elapsed: seconds."""
    counts = f"{format_count(requests)} requests, {format_count(degenerate)} degenerate"
    if not total or not done:
        return f"{counts}, {duration(elapsed)} so far"
    size = f"{total / 1e6:.0f}" if total >= 1e7 else f"{total / 1e6:.1f}"
    if done >= total:
        return f"all {size} MB, {counts}, {duration(elapsed)} so far"
    left = elapsed / done * (total - done)
    return f"{percent(done / total)} of {size} MB, {counts}, ends in {duration(left)}"
