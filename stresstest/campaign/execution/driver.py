"""Runs tasks against an endpoint: a pool of workers, visible retries, one generation after the other.

Results come in completion order and nothing here depends on it. A stream that was lost after its first
token is data and is kept; a request that never got one is tried again, and every retry is reported. No more
is asked than the caller takes in: answers never pile up behind a slow disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass

from stresstest import clock
from stresstest.campaign.execution.attempt import GenerationAttempt, GenerationTask
from stresstest.campaign.execution.events import (
    AttemptRetried,
    AttemptUnanswered,
    GenerationEvent,
    GenerationFinished,
    GenerationStarted,
)
from stresstest.campaign.execution.lag import LagSampler, LagWindow
from stresstest.detectors.identification.votes import warm_up
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.failures import FATAL_FAILURES, endpoint_error
from stresstest.endpoint.outcome import StreamOutcome
from stresstest.errors import EndpointError
from stresstest.model import FailureKind, Generation, ServiceFailure

__all__ = ["GenerationTask", "RetryPolicy", "drive"]

_LONGEST_RETRY_AFTER = 300.0
_STOP = "stop requested"
_REFUSED = FailureKind.BAD_REQUEST
_DEATHS = frozenset({FailureKind.REFUSED, FailureKind.CUT, FailureKind.HTTP_ERROR})
"""How requests fail on a server that died."""
_RESUME = "The results so far are kept; resume when the server is back."
_FIRST_WAIT, _LONGER_WAIT = 0.5, 1.25
"""Seconds without a token until the first event about it, and the factor from each such event to the next."""
_CLOSING_SECONDS = 5.0
"""How long streams that have failed may take to bring one more event, after which they are closed."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """attempts: for each task. base, cap: seconds of the doubling wait between them.

    give_up_after: this many tasks in a row that failed every attempt mean that the server is gone.
    """

    attempts: int = 4
    base: float = 0.5
    cap: float = 8.0
    give_up_after: int = 8

    def wait(self, attempt: int, failure: ServiceFailure) -> float:
        """Seconds to wait after failed attempt number `attempt`; a Retry-After is honoured."""
        own = min(self.cap, self.base * 2.0 ** (attempt - 1))
        requested = min(failure.retry_after or 0.0, _LONGEST_RETRY_AFTER)
        return max(own, requested)


_DEFAULT_RETRY = RetryPolicy()


async def drive(
    endpoint: Endpoint,
    tasks: Sequence[GenerationTask],
    *,
    concurrency: int,
    abort: bool,
    keep_after: int = 256,
    keep_failed: bool = False,
    retry: RetryPolicy = _DEFAULT_RETRY,
    on_event: Callable[[GenerationEvent], None] | None = None,
    stop: asyncio.Event | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> AsyncGenerator[Generation, None]:
    """Yield each task's generation as it ends, in completion order.

    concurrency: most generations that are in flight, or yielded before the caller has asked for the next.
    abort: close a stream once its onset is certain and `keep_after` tokens have followed the alarm.
    keep_failed: at a stop or an error, answers in flight that have failed for certain are closed and yielded:
    a resume asks again for what was dropped, and would replace failures by other draws. Of attempts of which
    nothing has arrived, an event tells.
    stop: when set, what is in flight is cancelled and dropped; what has finished is still yielded.
    should_stop: called before each new task and each retry; True starts nothing more, but lets what is in
    flight end, because dropping the long ones would bias what remains (set `stop` for a hard end).
    Tasks that failed every attempt are yielded too, without tokens, once the server has answered another;
    so is a request that it refuses (400), because a single prompt may be too long for it. Raises
    EndpointError, after yielding everything that finished, for errors that no retry can fix (401, 403,
    404), when no task got an answer, and when the server is gone.
    """
    for language in {task.spec.language for task in tasks if task.spec.language}:
        await asyncio.to_thread(warm_up, language)
    async with LagSampler() as lag:
        workers = max(1, min(concurrency, len(tasks)))
        places = asyncio.Semaphore(workers)
        pool = _WorkerPool(
            endpoint,
            tasks,
            keep_after if abort else None,
            keep_failed,
            retry,
            on_event,
            should_stop,
            lag,
            places,
        )
        watched: list[asyncio.Task[None]] = [asyncio.create_task(pool.run_worker()) for _ in range(workers)]
        running = len(watched)
        if stop is not None:
            watched.append(asyncio.create_task(_until(stop), name=_STOP))
        for each in watched:
            each.add_done_callback(pool.results.put_nowait)
        try:
            while running:
                item = await pool.results.get()
                if isinstance(item, Generation):
                    yield item
                    if not _is_unanswered(item):
                        places.release()
                elif _ends_all(item):
                    break
                else:
                    running -= 1
            await pool.close_failed()
        finally:
            for each in watched:
                each.cancel()
            outcomes = await asyncio.gather(*watched, return_exceptions=True)
        for generation in pool.finished():
            yield generation
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, asyncio.CancelledError):
                raise outcome
        if not running:
            for generation in pool.unanswered():
                yield generation


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()


class _WorkerPool:
    """What the workers share: the remaining tasks, the results, and whether the server answers."""

    def __init__(
        self,
        endpoint: Endpoint,
        tasks: Sequence[GenerationTask],
        keep_after: int | None,
        keep_failed: bool,
        retry: RetryPolicy,
        on_event: Callable[[GenerationEvent], None] | None,
        should_stop: Callable[[], bool] | None,
        lag: LagSampler,
        places: asyncio.Semaphore,
    ) -> None:
        self.results: asyncio.Queue[Generation | asyncio.Task[None]] = asyncio.Queue()
        self._endpoint = endpoint
        self._tasks: Iterator[GenerationTask] = iter(tasks)
        self._keep_after = keep_after
        self._keep_failed = keep_failed
        self._retry = retry
        self._on_event = on_event or _ignore
        self._should_stop = should_stop or _never
        self._lag = lag
        self._places = places
        self._unanswered: list[Generation] = []
        self._server_alive = False
        self._attempts: dict[asyncio.Task[None], GenerationAttempt] = {}
        self._closing = False

    async def run_worker(self) -> None:
        """One worker: take the next task until there is none. `drive` frees the place of its generation."""
        for task in self._tasks:
            await self._places.acquire()
            if self._closing or self._should_stop():
                self._places.release()
                return
            self._on_event(GenerationStarted(task.job.key, clock.now()))
            window = self._lag.open()
            try:
                generation = await self._run_task(task, window)
            finally:
                self._lag.close(window)
            if generation is None:
                self._places.release()
                return
            self._take(generation)

    async def close_failed(self) -> None:
        """Close the streams that have failed for certain, if they are kept; wait until they have ended."""
        self._closing = True
        attempts = self._attempts.items() if self._keep_failed else ()
        failed = [task for task, attempt in attempts if attempt.close_if_failed()]
        if failed:
            await asyncio.wait(failed, timeout=_CLOSING_SECONDS)
        for attempt in self._attempts.values() if self._keep_failed else ():
            unanswered = attempt.unanswered_so_far()
            if unanswered is not None:
                self._on_event(AttemptUnanswered(unanswered))

    def finished(self) -> Iterator[Generation]:
        """After the workers have ended: results that have not been fetched yet."""
        while not self.results.empty():
            item = self.results.get_nowait()
            if isinstance(item, Generation):
                yield item

    def unanswered(self) -> Iterator[Generation]:
        """After an orderly end: generations without an answer. Raises EndpointError if no task got one.

        A resume requests again what is not yielded.
        """
        if self._unanswered and not self._server_alive:
            raise self._check_server_gone(self._unanswered[-1])
        for generation in self._unanswered:
            self._on_event(GenerationFinished(generation))
            yield generation

    async def _run_task(self, task: GenerationTask, window: LagWindow) -> Generation | None:
        """The task's generation, after as many attempts as it needs or may have; None to end early."""
        number, unanswered = 0, 0.0
        while True:
            number += 1
            attempt = GenerationAttempt(
                task,
                keep_after=self._keep_after,
                on_event=self._on_event,
                earlier=number - 1,
                unanswered_s=unanswered,
            )
            outcome = await self._run(attempt)
            failure = outcome.failure
            if failure is None or outcome.first_token is not None or not self._may_retry(failure, number):
                return attempt.generation(
                    outcome, attempts=number, unanswered_s=unanswered, loop_lag=self._lag.worst(window)
                )
            known = None
            if not failure.kind.is_refusal:
                unanswered = max(unanswered, outcome.ended - outcome.started)
                known = attempt.unanswered(attempts=number, seconds=unanswered)
            wait = self._retry.wait(number, failure)
            self._on_event(AttemptRetried(task.job, number, failure, wait, known))
            await asyncio.sleep(wait)
            if self._should_stop():
                return None

    async def _run(self, attempt: GenerationAttempt) -> StreamOutcome:
        """Run an attempt where `close_failed` finds it."""
        worker = asyncio.current_task()
        assert worker is not None
        self._attempts[worker] = attempt
        waiting = asyncio.create_task(self._note_waiting(attempt)) if self._keep_failed else None
        try:
            return await attempt.run(self._endpoint)
        finally:
            del self._attempts[worker]
            if waiting is not None:
                waiting.cancel()

    async def _note_waiting(self, attempt: GenerationAttempt) -> None:
        """Tell again and again that nothing of an attempt has arrived: a process that is killed cannot. Each
        time until the next one, by which it may have been killed."""
        waited = _FIRST_WAIT
        await asyncio.sleep(waited)
        while (unanswered := attempt.unanswered_so_far(waited * _LONGER_WAIT)) is not None:
            self._on_event(AttemptUnanswered(unanswered))
            await asyncio.sleep(waited * _LONGER_WAIT - waited)
            waited *= _LONGER_WAIT

    def _may_retry(self, failure: ServiceFailure, number: int) -> bool:
        """Whether to ask again after failed attempt `number`. Raises EndpointError if it can never help."""
        if failure.kind is _REFUSED:
            return False
        if failure.kind in FATAL_FAILURES:
            raise endpoint_error(failure)
        return number < self._retry.attempts

    def _take(self, generation: Generation) -> None:
        if _is_unanswered(generation):
            self._places.release()
            self._unanswered.append(generation)
            if len(self._unanswered) >= self._retry.give_up_after:
                raise self._check_server_gone(generation)
            return
        if generation.failure is None:
            # The server answers, so earlier failures have causes of their own: they are data.
            self._server_alive = True
            for earlier in self._unanswered:
                self._put(earlier)
            self._unanswered.clear()
        self._put(generation)

    def _check_server_gone(self, last: Generation) -> EndpointError:
        failure, lost = last.failure, len(self._unanswered)
        if failure is not None and failure.kind is _REFUSED:
            return endpoint_error(failure)
        dead = failure is not None and failure.kind in _DEATHS
        cause = self._endpoint.likely_death if dead else ""
        if failure is not None and lost < self._retry.give_up_after:
            return EndpointError(failure.message + cause, hint=endpoint_error(failure).hint or _RESUME)
        return EndpointError(
            f"The server at {self._endpoint.base_url} died or is overloaded: every attempt failed for "
            f"{lost} requests in a row. Last: "
            f"{(failure.message if failure is not None else 'unknown')}{cause}",
            hint=_RESUME,
        )

    def _put(self, generation: Generation) -> None:
        self.results.put_nowait(generation)
        self._on_event(GenerationFinished(generation))


def _ends_all(task: asyncio.Task[None]) -> bool:
    """Whether it is no worker that has done its part: a stop, or an error."""
    return task.get_name() == _STOP or task.cancelled() or task.exception() is not None


def _is_unanswered(generation: Generation) -> bool:
    return generation.failure is not None and generation.first_token is None


def _ignore(event: GenerationEvent) -> None:
    """Without a listener."""


def _never() -> bool:
    return False
