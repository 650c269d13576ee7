"""Progress as plain lines, for logs, CI and pipes."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TextIO

from stresstest.campaign.execution.events import (
    AttemptRetried,
    GenerationAdvanced,
    GenerationEvent,
    GenerationFinished,
)
from stresstest.campaign.ladder import CertifyStep, ClimbStep, PlanSummary
from stresstest.campaign.progress import Progress
from stresstest.model import EndpointProfile, GenerationLoader, GenerationRecord, RunSettings, ServerSample
from stresstest.model.percent import percent
from stresstest.render.text import (
    answer_name,
    duration,
    format_count,
    generation_line,
    single_line,
    subject_name,
)

_SILENT_S = 60.0
"""Seconds without a line after which one says that tokens still arrive: long answers take minutes."""


class PlainProgress(Progress):
    """Writes one line per event to stderr or `stream`, without control sequences."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._out = stream or sys.stderr
        self._started = time.monotonic()
        self._done = 0
        self._stage_size = 0
        self._concurrency = 1
        self._tokens = 0
        self._degenerate = 0
        self._stage_began = self._started
        self._kv: float | None = None
        self._cuts: Mapping[str, int] = {}
        self._arrived: dict[str, int] = {}
        self._last_line = self._started

    def _status_text(self) -> str:
        """The state of the stage: KV cache usage, degenerate answers so far, throughput, time left."""
        elapsed = max(time.monotonic() - self._stage_began, 1e-3)
        to_come = self._stage_size - self._done
        # Those that run at the same time are on average half done: the first to end says little of the rest.
        passed = self._done + min(self._concurrency - 1, to_come) / 2
        left = elapsed / passed * (self._stage_size - passed)
        kv = f" · KV {percent(self._kv)}" if self._kv is not None else ""
        degenerate = f" · {self._degenerate} degenerate so far"
        return f"{kv}{degenerate} · {self._tokens / elapsed:.0f} tokens/s · ends in {duration(left)}"

    def _under_way(self) -> str:
        """Of the answers that have begun and not ended: how many, and how far the longest is."""
        number = len(self._arrived)
        longest = format_count(max(self._arrived.values(), default=0))
        answers = "1 answer has" if number == 1 else f"{number} answers have"
        of_them = "" if number == 1 else ", the longest"
        return f"{self._done}/{self._stage_size} ended; {answers} begun{of_them} with {longest} tokens so far"

    def _print_line(self, text: str) -> None:
        self._last_line = time.monotonic()
        elapsed = int(self._last_line - self._started)
        self._out.write(f"[{elapsed // 60:02d}:{elapsed % 60:02d}] {single_line(text)}\n")
        self._out.flush()

    def started(self, run_id: str, settings: RunSettings, profile: EndpointProfile) -> None:
        self._concurrency = settings.concurrency
        for line in start_lines(run_id, settings, profile):
            self._print_line(line)

    def planned(self, plan: PlanSummary) -> None:
        self._print_line(plan_line(plan))

    def resumed(self, finished: Sequence[GenerationRecord], _load: GenerationLoader, /) -> None:
        self._print_line(f"resuming: {len(finished)} stored answers are not repeated")

    def stage(self, step: ClimbStep | CertifyStep) -> None:
        self.measuring(stage_line(step), len(step.jobs))

    def measuring(self, what: str, total: int, cuts: Mapping[str, int] | None = None) -> None:
        """Begin a stage of `total` generations."""
        self._cuts = cuts or {}
        self._arrived.clear()
        self._done, self._tokens = 0, 0
        self._stage_began = time.monotonic()
        self._stage_size = total
        self._print_line(what)

    def event(self, event: GenerationEvent) -> None:
        if isinstance(event, GenerationAdvanced):
            self._arrived[event.key] = event.tokens
            if time.monotonic() - self._last_line >= _SILENT_S:
                self._print_line(self._under_way())
        elif isinstance(event, GenerationFinished):
            self._arrived.pop(event.generation.key, None)
            self._done += 1
            self._tokens += event.generation.output_tokens
            self._degenerate += event.generation.verdict.degenerate
            line = generation_line(event.generation, self._cuts.get(event.generation.key, 0))
            self._print_line(f"{self._done}/{self._stage_size} {line}{self._status_text()}")
        elif isinstance(event, AttemptRetried):
            self._print_line(retry_line(event))

    def sample(self, sample: ServerSample) -> None:
        self._kv = sample.kv_usage

    def note(self, text: str) -> None:
        self._print_line(text)


def start_lines(run_id: str, settings: RunSettings, profile: EndpointProfile) -> list[str]:
    """Lines at the start of a run: the subject, the endpoint, and the missing capabilities."""
    engine = f"vLLM {profile.version}" if profile.version else "OpenAI-compatible server"
    if profile.simulated:
        engine = f"SIMULATOR {profile.version or ''}".strip()
    length = f", context {format_count(profile.max_model_len)}" if profile.max_model_len else ""
    lines = [f"run {run_id}: {subject_name(settings.subject)} on {profile.base_url} ({engine}{length})"]
    lines += [f"not available: {m.what} — {m.cost}" for m in profile.missing]
    return lines


def plan_line(plan: PlanSummary) -> str:
    """The expected and the maximum cost of the plan, shown before the first generation."""
    return (
        f"plan: {format_count(plan.expected_requests)} answers and "
        f"{format_count(plan.expected_tokens)} output tokens if nothing fails; "
        f"at worst {format_count(plan.requests)} and {format_count(plan.worst_tokens)}. "
        "The climb asks for longer and longer answers until they fail; a rung is one length"
    )


def retry_line(event: AttemptRetried) -> str:
    """A failed attempt and the time until its retry."""
    failure = event.failure.message.rstrip(".")
    return (
        f"{answer_name(event.job)}: attempt {event.attempt} failed ({failure}); retry in {event.wait:.1f} s"
    )


def stage_line(step: ClimbStep | CertifyStep) -> str:
    """The next stage and the reason for it."""
    units = f"{step.rung.units} units, " if step.rung.units else ""
    # The certifying sample has a length of its own, which is none of the rungs that `plan` lists.
    what = f"climb, rung {step.rung.number}" if isinstance(step, ClimbStep) else "certifying sample"
    return (
        f"{what} ({units}≈{format_count(step.rung.target_tokens)} tokens): "
        f"{len(step.jobs)} answers — {step.reason}"
    )
