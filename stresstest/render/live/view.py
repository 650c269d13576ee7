"""The live terminal view of a campaign: ladder, onsets, server state, certifying sample."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stresstest.campaign.execution.events import AttemptRetried, GenerationEvent
from stresstest.campaign.ladder import CertifyStep, ClimbStep, PlanSummary
from stresstest.campaign.progress import Progress
from stresstest.model import (
    RIGORS,
    EndpointProfile,
    GenerationLoader,
    GenerationRecord,
    GpuSample,
    Observation,
    RunSettings,
    ServerSample,
    Threshold,
)
from stresstest.render.glyphs import glyphs_for
from stresstest.render.live.draw import live_view_lines
from stresstest.render.live.live_state import LiveState
from stresstest.render.plain_progress import plan_line, retry_line, stage_line, start_lines
from stresstest.render.text import single_line
from stresstest.statistics import MAX_LOOKS, certify, deduplicate

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


class ProvisionalThreshold:
    """The threshold of the sample so far; recomputed only after the sample has grown."""

    def __init__(self, settings: RunSettings) -> None:
        self.rigor = RIGORS[settings.rigor]
        self._looks = MAX_LOOKS if settings.tighten else 1
        self._temperature = settings.decoding.temperature
        self._sample: list[Observation] = []
        self._seen = 0
        self._threshold_cache: Threshold | None = None

    def update(self, sample: Sequence[Observation]) -> None:
        """sample: all observations so far, in the order of their arrival."""
        fresh = sample[self._seen :]
        if fresh:
            self._seen += len(fresh)
            self._sample += fresh
            self._threshold_cache = None

    def threshold(self) -> Threshold:
        """The threshold that the sample so far would certify."""
        if self._threshold_cache is None:
            self._threshold_cache = certify(
                deduplicate(self._sample, self._temperature), self.rigor, self._looks
            )
        return self._threshold_cache


def preload_statistics() -> None:
    """Import scipy before the measurement, as importing it later would block the event loop."""
    from scipy.special import betaincinv

    betaincinv(1, 22, 0.9)


REFRESH_HZ = 4


class LiveProgress(Progress):
    """A Rich live view on stderr, with messages scrolling above it.

    A thread redraws it four times a second; it is removed at the end. Events only update counters, so a
    stream of tokens never waits for the terminal.
    """

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self._glyphs = glyphs_for(console)
        self._board = LiveState()
        self._sample: ProvisionalThreshold | None = None
        self._live = Live(console=console, get_renderable=self._draw, auto_refresh=False, transient=True)
        # Rich draws what is printed and what its own thread refreshes apart: one could overwrite the other.
        self._drawing = threading.Lock()
        self._closed = threading.Event()
        self._live.start()
        self._refresher = threading.Thread(target=self._refresh, name="live view", daemon=True)
        self._refresher.start()

    def _refresh(self) -> None:
        while not self._closed.wait(1 / REFRESH_HZ):
            with self._drawing:
                self._live.refresh()

    def _print(self, text: str, style: str = "") -> None:
        from rich.text import Text

        with self._drawing:
            self._console.print(Text(single_line(text), style=style))

    def started(self, run_id: str, settings: RunSettings, profile: EndpointProfile) -> None:
        preload_statistics()
        self._board.started(settings)
        self._sample = ProvisionalThreshold(settings)
        first, *rest = start_lines(run_id, settings, profile)
        self._print(first, "bold")
        for line in rest:
            self._print(line, "yellow")

    def planned(self, plan: PlanSummary) -> None:
        self._board.planned(plan)
        self._print(plan_line(plan))

    def resumed(self, finished: Sequence[GenerationRecord], load: GenerationLoader, /) -> None:
        self._board.resumed(finished, load)
        self._print(f"resuming: {len(finished)} stored answers are not repeated")

    def gpus(self, readings: Sequence[GpuSample]) -> None:
        self._board.gpus(readings)

    def stage(self, step: ClimbStep | CertifyStep) -> None:
        self._board.stage(step)
        if isinstance(step, CertifyStep):
            # The view shows the climb's rungs, but not the reason for the sample's size.
            self._print(stage_line(step), "bold")

    def measuring(self, what: str, total: int, cuts: Mapping[str, int] | None = None) -> None:
        self._board.measuring(what, total, cuts)
        self._print(what, "bold")

    def event(self, event: GenerationEvent) -> None:
        self._board.event(event)
        if isinstance(event, AttemptRetried):
            self._print(retry_line(event), "yellow")

    def sample(self, sample: ServerSample) -> None:
        self._board.sample(sample)

    def note(self, text: str) -> None:
        self._print(text, "yellow")

    def close(self) -> None:
        self._closed.set()
        self._refresher.join()
        self._live.stop()

    def _draw(self) -> RenderableType:
        """Called while something is drawn, by either thread."""
        from rich.console import Group

        picture, sample = self._board.snapshot(), self._sample
        judged = None
        if sample is not None:
            sample.update(picture.certifying)
            if picture.sample_size is not None:
                judged = (sample.rigor, sample.threshold())
        width, height = self._console.size
        return Group(*live_view_lines(picture, judged, width, height, self._glyphs))
