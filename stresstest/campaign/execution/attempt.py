"""One generation on the wire: a stream into a detector suite, aborted once its onset is certain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from stresstest import clock
from stresstest.campaign.execution.continued import alarm_position, continuation_verdict
from stresstest.campaign.execution.events import AlarmRaised, GenerationAdvanced, GenerationEvent
from stresstest.campaign.execution.held_text import date_at_earliest
from stresstest.campaign.execution.token_scale import TokenScale
from stresstest.campaign.execution.unseen import count_hidden_reasoning, count_unseen, observe_shown
from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import DetectorSuite, detect_answerless
from stresstest.endpoint.address import EndpointAddress
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.counting import SERVER, WORDS
from stresstest.endpoint.outcome import StreamOutcome
from stresstest.model import (
    ArrivedTokens,
    FailureKind,
    Generation,
    GenerationRequest,
    Job,
    ServiceFailure,
    Token,
)
from stresstest.model.finish_reason import LENGTH, STOP

_REPORT_EVERY = 16
"""Tokens between two events."""
_INTERRUPTED = (
    "The run was interrupted before this answer ended; it, or an attempt at it, had failed or begun by then."
)
_CHECK_EVERY = 8
"""Tokens between two checks for an alarm."""


@dataclass(frozen=True)
class GenerationTask:
    """One generation to request: the job, what is sent, what the detectors know of the prompt.

    history: the part of an answer that the prompt ends in, when it is continued. The suite reads it first;
    the generation holds, and its positions count, what came after it.
    """

    job: Job
    request: GenerationRequest
    prompt_id: str
    prompt_text: str
    spec: DetectorSpec
    history: tuple[Token, ...] = ()


class GenerationAttempt:
    """One attempt at a task. Call `run` once, then `generation` for the result.

    earlier: attempts at it before this one. unanswered_s: seconds of the longest of them of which nothing
    came.
    """

    def __init__(
        self,
        task: GenerationTask,
        *,
        keep_after: int | None,
        on_event: Callable[[GenerationEvent], None],
        earlier: int = 0,
        unanswered_s: float = 0.0,
    ) -> None:
        self.task = task
        self._suite = DetectorSuite(task.spec)
        for token in task.history:
            self._suite.update(token)
        self._tokens = ArrivedTokens()
        self._keep_after = keep_after
        self._on_event = on_event
        self._address: EndpointAddress | None = None
        self._alarm: int | None = None
        self._checked_until = 0
        self._reported_tokens = 0
        self._earlier, self._unanswered_s = earlier, unanswered_s
        self._began = clock.now()

    async def run(self, endpoint: Endpoint) -> StreamOutcome:
        """Stream to the end, the abort or the failure."""
        if endpoint.counts_only_at_end:
            # The tokens of an aborted stream would never be counted, so its onset would have no position.
            self._keep_after = None
        self._address = endpoint.address
        return await endpoint.generate(self.task.request, self._sink)

    def close_if_failed(self) -> bool:
        """Whether it has failed for certain; the next event then ends it."""
        if self._alarm is not None:
            self._keep_after = 0
        return self._alarm is not None

    def generation(
        self, outcome: StreamOutcome, *, attempts: int, unanswered_s: float, loop_lag: float | None
    ) -> Generation:
        """Everything that arrived, with the suite's verdict over all of it, positions in tokens.

        attempts, unanswered_s, loop_lag: as in `GenerationRecord`. A gateway's own retries add to them: they
        took at most the time until the first token.
        """
        reason = None if outcome.aborted else outcome.finish_reason
        failure = outcome.failure
        arrived = self._tokens.columns()
        ended = None if failure is not None else reason
        if ended == STOP and outcome.output_tokens == self.task.job.max_tokens:
            ended = LENGTH  # Triton's frontend says `stop` of every end
        whole = self._suite.finish(ended)
        if whole.reasoning:
            written = [*self.task.history, *arrived]
            whole = detect_answerless(written, whole, self.task.spec, ended)
        verdict = continuation_verdict(whole, len(self.task.history))
        if outcome.gateway_retries and outcome.first_token is not None:
            attempts += outcome.gateway_retries
            unanswered_s = max(unanswered_s, outcome.first_token - outcome.started)
        tokens: Sequence[Token] = arrived
        if self._address is not None:
            tokens, verdict = self._address.hide_in_tokens(arrived), self._address.hide_in_verdict(verdict)
        hidden = count_hidden_reasoning(tokens, outcome.reasoning_tokens or 0, outcome.event_ends)
        unseen = max(count_unseen(tokens, outcome.output_tokens, outcome.event_ends), hidden)
        if reason == LENGTH and not tokens and not unseen:
            unseen = self.task.job.max_tokens  # cut at its cap, with nothing of it shown or counted
        counted = outcome.token_source not in (SERVER, WORDS)
        if counted and tokens and outcome.output_tokens > 0:
            scale = TokenScale(tokens, outcome.output_tokens, outcome.event_ends)
            verdict, tokens = scale.verdict(verdict), scale.tokens()
        elif outcome.token_source == SERVER:
            verdict = date_at_earliest(verdict, tokens)
        if unseen:
            verdict = observe_shown(verdict, outcome.output_tokens or unseen)
        if failure is not None and failure.at_token != verdict.tokens:
            failure = replace(failure, at_token=verdict.tokens)
        return Generation(
            job=self.task.job,
            prompt_id=self.task.prompt_id,
            prompt_text=self.task.prompt_text,
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
            unanswered_s=unanswered_s,
            answered_by=outcome.answered_by,
            answer_id=outcome.answer_id,
            created=outcome.created,
            fingerprint=outcome.fingerprint,
            unseen_tokens=unseen,
        )

    def _sink(self, arrived: list[Token]) -> bool:
        update = self._suite.update
        for token in arrived:
            update(token)
        self._tokens.extend(arrived)
        seen = len(self._tokens)
        if self._alarm is None and seen - self._checked_until >= _CHECK_EVERY:
            self._checked_until = seen
            self._check_alarm(seen)
        if seen - self._reported_tokens >= _REPORT_EVERY:
            self._reported_tokens = seen
            self._on_event(GenerationAdvanced(self.task.job.key, seen))
        return (
            self._keep_after is not None
            and self._alarm is not None
            and seen - self._alarm >= self._keep_after
        )

    def _check_alarm(self, seen: int) -> None:
        if self._suite.alarm is None:
            return
        before = len(self.task.history)
        known = alarm_position(self._suite.verdict(), before) if before else self._suite.alarm
        if known is not None:
            self._alarm = known - before
            self._on_event(AlarmRaised(self.task.job.key, seen, self._unfinished(seen)))

    def unanswered(self, *, attempts: int, seconds: float) -> Generation:
        """The generation after attempts of which nothing has come, as one that its own process has lost.
        seconds: of the longest of them."""
        return replace(self._unfinished(0), attempts=attempts, unanswered_s=seconds)

    def unanswered_so_far(self, at_least: float = 0.0) -> Generation | None:
        """The same if the client ends this attempt now, which then does not count as one. None once something
        of it has arrived. at_least: seconds that it is to have lasted then."""
        if len(self._tokens):
            return None
        seconds = max(self._unanswered_s, at_least, clock.now() - self._began)
        return self.unanswered(attempts=self._earlier, seconds=seconds)

    def _unfinished(self, seen: int) -> Generation:
        """The generation without its tokens, as one that its own process has lost."""
        verdict = continuation_verdict(self._suite.verdict(), len(self.task.history))
        if self._address is not None:
            verdict = self._address.hide_in_verdict(verdict)
        return Generation(
            job=self.task.job,
            prompt_id=self.task.prompt_id,
            prompt_text=self.task.prompt_text,
            tokens=(),
            verdict=replace(verdict, tokens=seen),
            failure=ServiceFailure(FailureKind.INTERRUPTED, _INTERRUPTED, at_token=seen),
            started=clock.now(),
            ended=clock.now(),
        )
