"""The live terminal view of a campaign: what is running, how fast, what was seen, how long still."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from stresstest.execution.events import Advanced, Alarmed, Event, Finished, Retried, Started
from stresstest.ladder import Certify, Climb, PlanSummary
from stresstest.model import EndpointProfile, Generation, RunSettings, ServerSample
from stresstest.report.progress import plan_line, stage_line, start_lines
from stresstest.report.text import NOT_MEASURED, clean, count, duration, generation_line, percent

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_RATE_WINDOW_S = 10.0


class LiveProgress:
    """A Rich live panel on stderr; finished generations scroll above it.

    The panel is redrawn by Rich four times a second; events only change counters, so a
    stream of tokens never waits for the terminal.
    """

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self._stage: str | None = None
        self._total = 0
        self._finished = 0
        self._stage_began = time.monotonic()
        self._running: dict[str, int] = {}
        self._certain: set[str] = set()
        self._ticks: deque[tuple[float, int]] = deque()
        self._tokens = 0
        self._onsets = 0
        self._generations = 0
        self._lost = 0
        self._sample: ServerSample | None = None
        self._live = Live(console=console, get_renderable=self._draw, refresh_per_second=4, transient=True)
        self._live.start()

    def _print(self, text: str, style: str | None = None) -> None:
        from rich.text import Text

        self._console.print(Text(clean(text), style=style or ""), soft_wrap=True)

    def started(self, run_id: str, settings: RunSettings, profile: EndpointProfile) -> None:
        first, *rest = start_lines(run_id, settings, profile)
        self._print(first, "bold")
        for line in rest:
            self._print(line, "yellow")

    def planned(self, plan: PlanSummary) -> None:
        self._print(plan_line(plan))

    def resumed(self, finished: list[Generation]) -> None:
        self._generations = len(finished)
        self._onsets = sum(1 for g in finished if g.verdict.degenerate)
        self._tokens = sum(g.output_tokens for g in finished)
        self._print(f"resuming: {len(finished)} generations are already stored and are not repeated")

    def stage(self, step: Climb | Certify) -> None:
        self.measuring(stage_line(step), len(step.jobs))
        name = "climb" if isinstance(step, Climb) else "certify"
        self._stage = f"{name} rung {step.rung.number}"

    def measuring(self, what: str, total: int) -> None:
        self._stage, self._total, self._finished = what.partition(":")[0], total, 0
        self._stage_began = time.monotonic()
        self._print(what, "bold")

    def event(self, event: Event) -> None:
        if isinstance(event, Started):
            self._running[event.key] = 0
        elif isinstance(event, Advanced):
            self._tick(event.tokens - self._running.get(event.key, 0))
            self._running[event.key] = event.tokens
        elif isinstance(event, Finished):
            self._count(event.generation)
        elif isinstance(event, Retried):
            self._print(
                f"  {event.key}: try {event.attempt} failed ({event.failure.message}) "
                f"again in {event.wait:.1f} s",
                "yellow",
            )
        elif isinstance(event, Alarmed):
            self._certain.add(event.key)

    def _count(self, generation: Generation) -> None:
        self._tick(generation.output_tokens - self._running.pop(generation.key, 0))
        self._finished += 1
        self._generations += 1
        self._onsets += generation.verdict.degenerate
        self._certain.discard(generation.key)
        self._lost += generation.failure is not None
        style = "red" if generation.verdict.degenerate else "yellow" if generation.failure else "green"
        self._print(f"  {generation_line(generation)}", style)

    def sample(self, sample: ServerSample) -> None:
        self._sample = sample

    def note(self, text: str) -> None:
        self._print(text, "yellow")

    def close(self) -> None:
        self._live.stop()

    def _tick(self, tokens: int) -> None:
        if tokens > 0:
            self._tokens += tokens
            now = time.monotonic()
            self._ticks.append((now, tokens))
            while self._ticks[0][0] < now - _RATE_WINDOW_S:
                self._ticks.popleft()

    def _rate(self) -> float:
        # Called by the display's own thread: it only reads.
        horizon = time.monotonic() - _RATE_WINDOW_S
        return sum(n for at, n in tuple(self._ticks) if at >= horizon) / _RATE_WINDOW_S

    def _eta(self) -> str:
        if not self._finished or self._finished >= self._total:
            return NOT_MEASURED
        each = (time.monotonic() - self._stage_began) / self._finished
        return duration(each * (self._total - self._finished))

    def _draw(self) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        if self._stage is None:
            return Text("asking the endpoint …", style="dim")
        sample = self._sample
        server = (
            f"KV {percent(sample.kv_usage)} · running {count(sample.running)} · "
            f"waiting {count(sample.waiting)}"
            if sample
            else f"KV {NOT_MEASURED}"
        )
        lost = f" · lost {self._lost}" if self._lost else ""
        certain = f" (+ {len(self._certain)} running)" if self._certain else ""
        status = (
            f"{clean(self._stage)} · {self._finished}/{self._total} · "
            f"{len(self._running)} running · {self._rate():.0f} tokens/s · {server}"
        )
        totals = (
            f"onsets {self._onsets} of {self._generations}{certain}{lost} · {count(self._tokens)} tokens · "
            f"this stage ends in {self._eta()}"
        )
        rows = Table.grid()
        rows.add_row(ProgressBar(total=max(self._total, 1), completed=self._finished, width=40))
        rows.add_row(Text(status, no_wrap=True, overflow="ellipsis"))
        rows.add_row(Text(totals, style="dim", no_wrap=True, overflow="ellipsis"))
        return rows
