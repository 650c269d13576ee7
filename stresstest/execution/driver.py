"""Drives works against an endpoint: a pool of workers, visible retries, one generation after the other.

Results come in completion order and nothing here depends on it. A stream that was lost after its first
token is data and is kept; a request that never got one is tried again, and every retry is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass

from stresstest import clock
from stresstest.detectors import warm_up
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.failures import FATAL, endpoint_error
from stresstest.errors import EndpointError
from stresstest.execution.attempt import Attempt, Work
from stresstest.execution.events import Event, Finished, Retried, Started
from stresstest.execution.lag import LagSampler, LagWindow
from stresstest.model import FailureKind, Generation, ServiceFailure

__all__ = ["RetryPolicy", "Work", "drive"]

_LONGEST_RETRY_AFTER = 300.0
_STOP = "stop asked for"
_REFUSED = FailureKind.BAD_REQUEST
_RESUME = "What was measured is kept; resume when the server is back."


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """attempts: tries a work gets. base, cap: seconds of the doubling wait between them.

    give_up_after: so many works in a row that failed every attempt mean that the server is gone.
    """

    attempts: int = 4
    base: float = 0.5
    cap: float = 8.0
    give_up_after: int = 8

    def wait(self, attempt: int, failure: ServiceFailure) -> float:
        """Seconds to wait after failed attempt number `attempt`; a Retry-After is honoured."""
        own = min(self.cap, self.base * 2.0 ** (attempt - 1))
        asked = min(failure.retry_after or 0.0, _LONGEST_RETRY_AFTER)
        return max(own, asked)


_DEFAULT_RETRY = RetryPolicy()


async def drive(
    endpoint: Endpoint,
    works: Sequence[Work],
    *,
    concurrency: int,
    abort: bool,
    keep_after: int = 256,
    retry: RetryPolicy = _DEFAULT_RETRY,
    on_event: Callable[[Event], None] | None = None,
    stop: asyncio.Event | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> AsyncGenerator[Generation, None]:
    """Yield each work's generation as it ends, in completion order.

    abort: close a stream once its onset is certain and `keep_after` tokens have followed the alarm.
    stop: when set, what is in flight is cancelled and dropped; what has finished is still yielded.
    should_stop: asked before each new work and each retry; True starts nothing more, but lets what is in
    flight end, because dropping the long ones would bias what remains (set `stop` for a hard end).
    Works that failed every attempt are yielded too, without tokens, once the server has shown that it
    lives; so is a request that it refuses (400), because a single prompt may be too long for it. Raises
    EndpointError, after yielding everything that finished, for what no retry mends (401, 403, 404), when
    no work of the drive got an answer, and when the server is gone.
    """
    for language in {work.spec.language for work in works if work.spec.language}:
        await asyncio.to_thread(warm_up, language)
    async with LagSampler() as lag:
        pool = _Pool(endpoint, works, keep_after if abort else None, retry, on_event, should_stop, lag)
        watched: list[asyncio.Task[None]] = [
            asyncio.create_task(pool.work()) for _ in range(max(1, min(concurrency, len(works))))
        ]
        at_work = len(watched)
        if stop is not None:
            watched.append(asyncio.create_task(_until(stop), name=_STOP))
        for task in watched:
            task.add_done_callback(pool.results.put_nowait)
        try:
            while at_work:
                item = await pool.results.get()
                if isinstance(item, Generation):
                    yield item
                elif item.get_name() == _STOP or item.cancelled() or item.exception() is not None:
                    break
                else:
                    at_work -= 1
        finally:
            for task in watched:
                task.cancel()
            outcomes = await asyncio.gather(*watched, return_exceptions=True)
        for generation in pool.finished():
            yield generation
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, asyncio.CancelledError):
                raise outcome
        if not at_work:
            for generation in pool.unanswered():
                yield generation


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()


class _Pool:
    """What the workers share: the works still to do, the results, and how the server is doing."""

    def __init__(
        self,
        endpoint: Endpoint,
        works: Sequence[Work],
        keep_after: int | None,
        retry: RetryPolicy,
        on_event: Callable[[Event], None] | None,
        should_stop: Callable[[], bool] | None,
        lag: LagSampler,
    ) -> None:
        self.results: asyncio.Queue[Generation | asyncio.Task[None]] = asyncio.Queue()
        self._endpoint = endpoint
        self._works: Iterator[Work] = iter(works)
        self._keep_after = keep_after
        self._retry = retry
        self._tell = on_event or _ignore
        self._should_stop = should_stop or _never
        self._lag = lag
        self._unanswered: list[Generation] = []
        self._lives = False

    async def work(self) -> None:
        """One worker: take the next work until there is none."""
        for work in self._works:
            if self._should_stop():
                return
            self._tell(Started(work.job.key, clock.now()))
            window = self._lag.open()
            try:
                generation = await self._do(work, window)
            finally:
                self._lag.close(window)
            if generation is None:
                return
            self._take(generation)

    def finished(self) -> Iterator[Generation]:
        """After the workers have ended: results that nobody has fetched yet."""
        while not self.results.empty():
            item = self.results.get_nowait()
            if isinstance(item, Generation):
                yield item

    def unanswered(self) -> Iterator[Generation]:
        """After an orderly end: works that never got an answer. Raises EndpointError if none got one.

        What is not yielded is asked again by a resume.
        """
        if self._unanswered and not self._lives:
            raise self._gone(self._unanswered[-1])
        for generation in self._unanswered:
            self._tell(Finished(generation))
            yield generation

    async def _do(self, work: Work, window: LagWindow) -> Generation | None:
        """The work's generation, after as many attempts as it takes or gets; None to end early."""
        number = 0
        while True:
            number += 1
            attempt = Attempt(work, keep_after=self._keep_after, on_event=self._tell)
            outcome = await attempt.run(self._endpoint)
            failure = outcome.failure
            if failure is None or outcome.first_token is not None:
                return attempt.generation(outcome, attempts=number, loop_lag=self._lag.worst(window))
            refused = failure.kind is _REFUSED
            if failure.kind in FATAL and not refused:
                raise endpoint_error(failure)
            if refused or number >= self._retry.attempts:
                return attempt.generation(outcome, attempts=number, loop_lag=self._lag.worst(window))
            wait = self._retry.wait(number, failure)
            self._tell(Retried(work.job.key, number, failure, wait))
            await asyncio.sleep(wait)
            if self._should_stop():
                return None

    def _take(self, generation: Generation) -> None:
        if generation.failure is not None and generation.first_token is None:
            self._unanswered.append(generation)
            if len(self._unanswered) >= self._retry.give_up_after:
                raise self._gone(generation)
            return
        if generation.failure is None:
            # The server lives, so what failed before was lost for reasons of its own: it is data.
            self._lives = True
            for earlier in self._unanswered:
                self._put(earlier)
            self._unanswered.clear()
        self._put(generation)

    def _gone(self, last: Generation) -> EndpointError:
        failure, lost = last.failure, len(self._unanswered)
        if failure is not None and failure.kind is _REFUSED:
            return endpoint_error(failure)
        if failure is not None and lost < self._retry.give_up_after:
            return EndpointError(failure.message, hint=endpoint_error(failure).hint or _RESUME)
        return EndpointError(
            f"The server at {self._endpoint.base_url} died or is overloaded: {lost} requests in a row failed "
            f"every attempt. Last: {failure.message if failure is not None else 'unknown'}",
            hint=_RESUME,
        )

    def _put(self, generation: Generation) -> None:
        self.results.put_nowait(generation)
        self._tell(Finished(generation))


def _ignore(event: Event) -> None:
    """No one listens."""


def _never() -> bool:
    return False
