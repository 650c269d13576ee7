"""One work on the wire: a stream into a panel, aborted once its onset is certain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from stresstest.detectors import Panel, PanelSpec
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.counting import CHUNKS, SERVER
from stresstest.endpoint.outcome import StreamOutcome
from stresstest.execution.continued import known_at, since
from stresstest.execution.events import Advanced, Alarmed, Event
from stresstest.execution.scale import Scale
from stresstest.model import Generation, GenerationRequest, Job, Token

_TOLD_EVERY = 16
_LOOKED_EVERY = 8


@dataclass(frozen=True)
class Work:
    """One generation to be made: what the ladder asks for, what goes out, what the panel is told.

    history: the part of an answer that the prompt ends in, when it is continued. The panel reads it first;
    the generation holds, and its positions count, what came after it.
    """

    job: Job
    request: GenerationRequest
    prompt_id: str
    prompt_text: str
    spec: PanelSpec
    history: tuple[Token, ...] = ()


class Attempt:
    """One try of a work. `run` it once, then `generation` says what became of it."""

    def __init__(self, work: Work, *, keep_after: int | None, on_event: Callable[[Event], None]) -> None:
        self.work = work
        self._panel = Panel(work.spec)
        for token in work.history:
            self._panel.update(token)
        self._tokens: list[Token] = []
        self._keep_after = keep_after
        self._on_event = on_event
        self._alarm: int | None = None
        self._looked = 0
        self._told = 0

    async def run(self, endpoint: Endpoint) -> StreamOutcome:
        """Stream to the end, the abort or the failure."""
        if endpoint.counts_at_the_end:
            # A closed stream would never be counted, and its onset would stand on no scale.
            self._keep_after = None
        return await endpoint.generate(self.work.request, self._sink)

    def generation(self, outcome: StreamOutcome, *, attempts: int, loop_lag: float | None) -> Generation:
        """Everything that arrived, with the panel's verdict over all of it, positions in tokens."""
        reason = None if outcome.aborted else outcome.finish_reason
        failure = outcome.failure
        verdict = since(self._panel.finish(None if failure is not None else reason), len(self.work.history))
        tokens = tuple(self._tokens)
        counted = outcome.token_source not in (SERVER, CHUNKS)
        if counted and tokens and outcome.output_tokens > 0:
            scale = Scale(tokens, outcome.output_tokens)
            verdict, tokens = scale.verdict(verdict), scale.tokens()
        if failure is not None and failure.at_token != verdict.tokens:
            failure = replace(failure, at_token=verdict.tokens)
        return Generation(
            job=self.work.job,
            prompt_id=self.work.prompt_id,
            prompt_text=self.work.prompt_text,
            tokens=tokens,
            verdict=verdict,
            finish_reason=reason,
            failure=failure,
            aborted=outcome.aborted,
            prompt_tokens=outcome.prompt_tokens,
            output_tokens=outcome.output_tokens,
            token_source=outcome.token_source,
            started=outcome.started,
            first_token=outcome.first_token,
            ended=outcome.ended,
            loop_lag=loop_lag,
            attempts=attempts,
        )

    def _sink(self, arrived: list[Token]) -> bool:
        update = self._panel.update
        for token in arrived:
            update(token)
        self._tokens += arrived
        seen = len(self._tokens)
        if self._alarm is None and seen - self._looked >= _LOOKED_EVERY:
            self._looked = seen
            self._look(seen)
        if seen - self._told >= _TOLD_EVERY:
            self._told = seen
            self._on_event(Advanced(self.work.job.key, seen))
        return (
            self._keep_after is not None
            and self._alarm is not None
            and seen - self._alarm >= self._keep_after
        )

    def _look(self, seen: int) -> None:
        if self._panel.alarm is None:
            return
        before = len(self.work.history)
        known = known_at(self._panel.verdict(), before) if before else self._panel.alarm
        if known is not None:
            self._alarm = known - before
            verdict = since(self._panel.verdict(), before)
            self._on_event(Alarmed(self.work.job.key, verdict.symptom, verdict.onset, seen))
