"""The live terminal view of a campaign: the ladder filling, onsets as they appear, the server, the sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stresstest.execution.events import Event, Retried
from stresstest.ladder import Certify, Climb, PlanSummary
from stresstest.model import EndpointProfile, Generation, GpuSample, RunSettings, ServerSample
from stresstest.report.board import Board
from stresstest.report.board_view import board_lines
from stresstest.report.glyphs import glyphs_for
from stresstest.report.progress import plan_line, retry_line, stage_line, start_lines
from stresstest.report.provisional import Provisional, warm_up
from stresstest.report.text import flat

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

REFRESH_HZ = 4


class LiveProgress:
    """A Rich live view on stderr; what is decided and what goes wrong scrolls above it.

    It is redrawn by Rich four times a second and gone at the end. Events only change counters, so a stream of
    tokens never waits for the terminal.
    """

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self._glyphs = glyphs_for(console)
        self._board = Board()
        self._sample: Provisional | None = None
        self._live = Live(
            console=console, get_renderable=self._draw, refresh_per_second=REFRESH_HZ, transient=True
        )
        self._live.start()

    def _print(self, text: str, style: str = "") -> None:
        from rich.text import Text

        self._console.print(Text(flat(text), style=style))

    def started(self, run_id: str, settings: RunSettings, profile: EndpointProfile) -> None:
        warm_up()
        self._board.started(settings)
        self._sample = Provisional(settings)
        first, *rest = start_lines(run_id, settings, profile)
        self._print(first, "bold")
        for line in rest:
            self._print(line, "yellow")

    def planned(self, plan: PlanSummary) -> None:
        self._board.planned(plan)
        self._print(plan_line(plan))

    def resumed(self, finished: list[Generation]) -> None:
        self._board.resumed(finished)
        self._print(f"resuming: {len(finished)} generations are already stored and are not repeated")

    def gpus(self, readings: Sequence[GpuSample]) -> None:
        self._board.gpus(readings)

    def stage(self, step: Climb | Certify) -> None:
        self._board.stage(step)
        if isinstance(step, Certify):
            # The climb's rungs speak for themselves; why the sample is as it is does not.
            self._print(stage_line(step), "bold")

    def measuring(self, what: str, total: int) -> None:
        self._board.measuring(what, total)
        self._print(what, "bold")

    def event(self, event: Event) -> None:
        self._board.event(event)
        if isinstance(event, Retried):
            self._print(retry_line(event), "yellow")

    def sample(self, sample: ServerSample) -> None:
        self._board.sample(sample)

    def note(self, text: str) -> None:
        self._print(text, "yellow")

    def close(self) -> None:
        self._live.stop()

    def _draw(self) -> RenderableType:
        """Called by Rich's own thread."""
        from rich.console import Group

        picture, sample = self._board.picture(), self._sample
        judged = None
        if sample is not None:
            sample.grow(picture.certifying)
            if picture.sample_size is not None:
                judged = (sample.rigor, sample.threshold())
        width, height = self._console.size
        return Group(*board_lines(picture, judged, width, height, self._glyphs))
