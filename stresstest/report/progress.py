"""What a running campaign tells whoever watches: one protocol, and the silent and plain listeners.

Progress goes to stderr; results go to stdout. The live terminal view is in :mod:`stresstest.report.live`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Protocol, TextIO

from stresstest.execution.events import Alarmed, Event, Finished, Retried
from stresstest.ladder import Certify, Climb, PlanSummary
from stresstest.model import EndpointProfile, Generation, GpuSample, RunSettings, ServerSample
from stresstest.report.text import count, duration, flat, generation_line


class Progress(Protocol):
    """Listener of a campaign. Calls come in the order of the story and must return quickly."""

    def started(self, run_id: str, settings: RunSettings, profile: EndpointProfile) -> None: ...

    def planned(self, plan: PlanSummary) -> None: ...

    def resumed(self, finished: list[Generation]) -> None: ...

    def gpus(self, readings: Sequence[GpuSample]) -> None:
        """readings: of the endpoint's GPUs; grows while the campaign runs."""

    def stage(self, step: Climb | Certify) -> None: ...

    def measuring(self, what: str, total: int) -> None: ...

    def event(self, event: Event) -> None: ...

    def sample(self, sample: ServerSample) -> None: ...

    def note(self, text: str) -> None: ...

    def close(self) -> None: ...


class SilentProgress:
    """``--display none``."""

    def started(self, run_id: str, settings: RunSettings, profile: EndpointProfile) -> None:
        pass

    def planned(self, plan: PlanSummary) -> None:
        pass

    def resumed(self, finished: list[Generation]) -> None:
        pass

    def gpus(self, readings: Sequence[GpuSample]) -> None:
        pass

    def stage(self, step: Climb | Certify) -> None:
        pass

    def measuring(self, what: str, total: int) -> None:
        pass

    def event(self, event: Event) -> None:
        pass

    def sample(self, sample: ServerSample) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


class PlainProgress(SilentProgress):
    """One line an event, no control sequences: for logs, CI and pipes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._out = stream or sys.stderr
        self._started = time.monotonic()
        self._done = 0
        self._stage_size = 0
        self._tokens = 0
        self._onsets = 0
        self._stage_began = self._started
        self._kv: float | None = None

    def _pace(self) -> str:
        """Where the stage stands: KV, onsets so far, throughput, time left."""
        elapsed = max(time.monotonic() - self._stage_began, 1e-3)
        left = elapsed / self._done * (self._stage_size - self._done)
        kv = f" · KV {self._kv:.0%}" if self._kv is not None else ""
        onsets = f" · onsets {self._onsets}"
        return f"{kv}{onsets} · {self._tokens / elapsed:.0f} tokens/s · ends in {duration(left)}"

    def _say(self, text: str) -> None:
        elapsed = int(time.monotonic() - self._started)
        self._out.write(f"[{elapsed // 60:02d}:{elapsed % 60:02d}] {flat(text)}\n")
        self._out.flush()

    def started(self, run_id: str, settings: RunSettings, profile: EndpointProfile) -> None:
        for line in start_lines(run_id, settings, profile):
            self._say(line)

    def planned(self, plan: PlanSummary) -> None:
        self._say(plan_line(plan))

    def resumed(self, finished: list[Generation]) -> None:
        self._say(f"resuming: {len(finished)} generations are already stored and are not repeated")

    def stage(self, step: Climb | Certify) -> None:
        self.measuring(stage_line(step), len(step.jobs))

    def measuring(self, what: str, total: int) -> None:
        """A stage of `total` generations begins."""
        self._done, self._tokens = 0, 0
        self._stage_began = time.monotonic()
        self._stage_size = total
        self._say(what)

    def event(self, event: Event) -> None:
        if isinstance(event, Finished):
            self._done += 1
            self._tokens += event.generation.output_tokens
            self._onsets += event.generation.verdict.degenerate
            self._say(f"{self._done}/{self._stage_size} {generation_line(event.generation)}{self._pace()}")
        elif isinstance(event, Alarmed):
            self._say(f"{event.key}: {event.symptom} from token {event.onset} (known at {event.at_token})")
        elif isinstance(event, Retried):
            self._say(retry_line(event))

    def sample(self, sample: ServerSample) -> None:
        self._kv = sample.kv_usage

    def note(self, text: str) -> None:
        self._say(text)


def start_lines(run_id: str, settings: RunSettings, profile: EndpointProfile) -> list[str]:
    """Who is measured, where, and what cannot be measured there."""
    engine = f"vLLM {profile.version}" if profile.version else "OpenAI-compatible server"
    if profile.simulated:
        engine = f"SIMULATOR {profile.version or ''}".strip()
    length = f", context {count(profile.max_model_len)}" if profile.max_model_len else ""
    lines = [f"run {run_id}: {settings.subject} on {profile.base_url} ({engine}{length})"]
    lines += [f"not available: {m.what} — {m.cost}" for m in profile.missing]
    return lines


def plan_line(plan: PlanSummary) -> str:
    """The plan's worst case, said before the first generation."""
    return (
        f"plan: {count(plan.expected_requests)} generations and {count(plan.expected_tokens)} output tokens "
        f"if nothing fails, at the very worst {count(plan.requests)} and {count(plan.worst_tokens)}"
    )


def retry_line(event: Retried) -> str:
    """What failed, and when it is tried again."""
    return f"{event.key}: try {event.attempt} failed ({event.failure.message}) again in {event.wait:.1f} s"


def stage_line(step: Climb | Certify) -> str:
    """One sentence on what comes next and why."""
    units = f"{step.rung.units} units, " if step.rung.units else ""
    what = "climb" if isinstance(step, Climb) else "certify"
    return (
        f"{what}, rung {step.rung.number} ({units}≈{count(step.rung.target_tokens)} tokens): "
        f"{len(step.jobs)} generations — {step.reason}"
    )
