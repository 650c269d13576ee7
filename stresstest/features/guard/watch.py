"""Judging beside the relay: bytes are kept as they pass, and read in batches when the event loop is free."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from stresstest.detectors.verdict import PositionMap
from stresstest.endpoint.wire import EventReader, LineTooLongError
from stresstest.features.guard.answer import AnswerReader, ChoiceWatch, UnreadableAnswerError
from stresstest.features.guard.faults import report
from stresstest.http_limits import MAX_REPLY_BYTES
from stresstest.model import GenerationVerdict, Token
from stresstest.model.tokens import MIN_UNSEEN_TOKENS

BATCH = 32
"""Events or words that are judged in one step, about 0.5 ms: what arrives meanwhile waits for so long."""
MAX_PENDING = 256 * 1024
"""Bytes of a stream that wait to be judged before its relay waits too. As much of an event that has not
ended always has room."""
_TOO_MUCH = "too much waits to be judged"
_FAILED = "the guard failed to judge it"


@dataclass(frozen=True, slots=True)
class JudgedChoice:
    """One choice with its verdict. tokens: of the answer. seen: those that there was something to judge of.
    unseen: those that the server counted and surely did not send; None where it counted none. texts: its
    tokens, None unless kept. broken: what followed on them could not be judged. answerless: it has ended by
    itself with nothing but reasoning, of which only repetition was judged."""

    index: int
    verdict: GenerationVerdict
    tokens: int
    finish_reason: str | None
    texts: Sequence[Token] | None = None
    seen: int = 0
    unseen: int | None = None
    broken: bool = False
    answerless: bool = False

    @property
    def hidden(self) -> bool:
        """Whether part of the answer was not seen: it could not be judged to its end, or all of it never
        arrived, or the server counted 64 tokens or more that it did not send (hidden reasoning, padding). An
        answer that visibly fails is not hidden."""
        if self.verdict.degenerate:
            return False
        if self.broken:
            return True
        return self.seen == 0 if self.unseen is None else self.unseen >= MIN_UNSEEN_TOKENS

    @property
    def unread(self) -> bool:
        """Whether nobody can say that it is healthy."""
        return self.hidden or (self.answerless and not self.verdict.degenerate)


class Backlog:
    """Bytes that have passed and wait to be judged, of whole answers and of events that have not ended; one
    answer alone always has room."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._left = asyncio.Event()

    def take(self, size: int) -> None:
        """So many bytes more wait."""
        self._size += size

    def leave(self, size: int) -> None:
        """So many bytes wait no more."""
        self._size -= size
        self._left.set()

    def is_full(self, own: int, more: int = 0) -> bool:
        """Whether there is no room for an answer of which so many bytes are counted, and more will be."""
        return self._size > own and self._size + more > self._limit

    async def wait(self, own: int, more: int, seconds: float) -> bool:
        """Wait until there is room for it, for so long at most; whether there is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.is_full(own, more):
                    self._left.clear()
                    await self._left.wait()
        return not self.is_full(own, more)


class AnswerWatch:
    """One answer passing through. The relay calls `add` and `close`; the queue calls `step`.

    acting: symptoms that trip it, empty for those of repetition, None for never. choices: requested. tripped:
    the first choice and its verdict, once every choice that has not ended is failing by an acting symptom.
    broken: why it can be judged no further; endless: because a line of the stream exceeds every limit.
    """

    def __init__(
        self,
        reader: AnswerReader,
        *,
        streamed: bool,
        acting: Sequence[str] | None = None,
        choices: int = 1,
        backlog: Backlog | None = None,
    ) -> None:
        self.reader = reader
        self.tripped: tuple[ChoiceWatch, GenerationVerdict] | None = None
        self.broken: str | None = None
        self.endless = False
        self.queued = False
        self._streamed = streamed
        self._backlog = Backlog(MAX_REPLY_BYTES) if backlog is None else backlog
        self._acting = acting
        self._choices = choices
        self._pending: list[bytes] = []
        self._size = self._counted = 0
        self._failing: dict[int, GenerationVerdict] = {}
        self._on_settled: Callable[[AnswerWatch], object] | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._steps = self._read_stream() if streamed else self._read_body()

    @property
    def is_behind(self) -> bool:
        """So much waits to be judged that the relay has to wait as well."""
        return self._streamed and self._size > MAX_PENDING

    @property
    def crowded_out(self) -> bool:
        """Whether it is judged no further since so much of other answers is held."""
        return self.broken == _TOO_MUCH

    @property
    def whole(self) -> bool:
        """Whether the answer is judged once all of it is there."""
        return not self._streamed

    @property
    def fails(self) -> bool:
        """Whether a choice is known to fail by now."""
        return any(choice.alarm is not None for choice in self.reader.choices.values())

    def add(self, data: bytes) -> bool:
        """Keep bytes that have passed; True when there are enough of them for a step."""
        if self.broken is not None:
            return self.endless
        self._pending.append(data)
        self._size += len(data)
        if self._streamed:
            return len(self._pending) >= BATCH or self._size > MAX_PENDING // 8
        self._count(self._size)
        if self._size > MAX_REPLY_BYTES:
            self._break("the body is too large to be judged")
        return self._backlog.is_full(self._counted)

    def _count(self, size: int) -> None:
        self._backlog.take(max(size - self._counted, 0))
        self._counted = max(size, self._counted)

    async def wait_for_room(self, seconds: float, size: int = 0) -> None:
        """Wait while so much of other answers is to be judged; after so long this one is left unread. size:
        bytes that it will have."""
        if await self._backlog.wait(self._counted, size, seconds):
            self._count(size)
        else:
            self._break(_TOO_MUCH)

    def close(self, on_settled: Callable[[AnswerWatch], object]) -> None:
        """Nothing more will come. on_settled: called once, when all of it was judged."""
        self._on_settled = on_settled

    async def catch_up(self) -> None:
        """Wait until all that is pending was judged. The watch must be queued."""
        self._waiting = asyncio.get_running_loop().create_future()
        await self._waiting

    def step(self) -> bool:
        """Judge one batch; whether more is left to do now."""
        more = unforeseen = True
        try:
            more = next(self._steps, False)
            unforeseen = False
        except UnreadableAnswerError as error:
            self._break(str(error))
            more = unforeseen = False
        except LineTooLongError:
            self.endless = True
            self._break("a line has no end")
            more = unforeseen = False
        finally:
            if unforeseen:  # raised further, to be reported
                self._break(_FAILED)
            if not more or unforeseen:
                self._rest()
        return more

    def outcome(self, ended: str | None = None) -> list[JudgedChoice]:
        """The verdicts of all choices; none where the guard itself failed. ended: the finish reason that it
        gave those still open."""
        if self.broken == _FAILED:
            return []
        choices = self.reader.choices
        counted = self.reader.usage[1] if len(choices) == 1 else None
        try:
            broken = self.broken is not None
            return [_judged(choices[index], counted, ended, broken=broken) for index in sorted(choices)]
        except Exception as error:  # noqa: BLE001  the request counts all the same
            self._break(_FAILED)
            report(_FAILED, error)
            return []

    def _rest(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
        settled, self._on_settled = self._on_settled, None
        if settled is not None:
            settled(self)

    def _break(self, why: str) -> None:
        self.broken = why
        self._take()

    def _take(self) -> bytes:
        data = b"".join(self._pending)
        self._pending.clear()
        self._backlog.leave(self._counted)
        self._size = self._counted = 0
        return data

    def _read_stream(self) -> Iterator[bool]:
        """One batch a time; yields whether more can be judged at once."""
        events = EventReader()
        ended = False
        while not ended:
            ended = self._on_settled is not None
            payloads = events.feed(self._take())
            if events.unfinished > MAX_PENDING:
                self._count(events.unfinished)
                if self._backlog.is_full(self._counted):
                    raise UnreadableAnswerError(_TOO_MUCH)
            for at in range(0, len(payloads), BATCH):
                for payload in payloads[at : at + BATCH]:
                    if payload != b"[DONE]":
                        self.reader.add_event(payload)
                        for _ in self.reader.judge_long(BATCH):
                            self._look()
                            yield True
                self._look()
                yield True
            yield self._on_settled is not None or bool(self._pending)
        for payload in events.finish():
            with suppress(UnreadableAnswerError):  # an event that was cut
                self.reader.add_event(payload)
                for _ in self.reader.judge_long(BATCH):
                    yield True
        self._take()
        self._look()

    def _read_body(self) -> Iterator[bool]:
        while self._on_settled is None:
            yield False
        for _ in self.reader.add_body(self._take(), BATCH):
            yield True

    def _look(self) -> None:
        """Look for alarms, which costs least where it is done after every batch."""
        choices = self.reader.choices.values()
        for choice in choices:
            if choice.alarm is None or self._acting is None or choice.index in self._failing:
                continue
            verdict = choice.acting_symptom(self._acting)
            if verdict is not None:
                self._failing[choice.index] = verdict
        if self._failing and self.tripped is None and len(choices) >= self._choices:
            going_on = [choice for choice in choices if choice.finish_reason is None]
            if going_on and all(choice.index in self._failing for choice in going_on):
                self.tripped = going_on[0], self._failing[going_on[0].index]


def _judged(choice: ChoiceWatch, counted: int | None, ended: str | None, *, broken: bool) -> JudgedChoice:
    """The choice's verdict, in tokens of the server's count where that differs from what was judged."""
    verdict = choice.finish(choice.finish_reason)
    seen = tokens = choice.tokens
    total = choice.tokens if counted is None and choice.assembler.has_ids else counted
    events = choice.event_scale()
    if events is not None:
        seen = events.length
    if events is not None and counted is None:
        verdict, tokens = events.verdict(verdict), events.length
    elif counted and not tokens:
        tokens = counted  # nothing was seen of them: there is no position to convert
    elif counted and counted != tokens:
        ratio = counted / tokens
        scale = PositionMap(
            counted,
            lambda at: min(counted, round((at - 1) * ratio) + 1),
            lambda at: min(counted, round(at * ratio)),
        )
        verdict, tokens = scale.verdict(verdict), counted
    return JudgedChoice(
        index=choice.index,
        verdict=verdict,
        tokens=tokens,
        finish_reason=choice.finish_reason or ended,
        texts=choice.texts,
        seen=seen,
        unseen=None if total is None else choice.count_unseen(total),
        answerless=choice.finish_reason == "stop" and verdict.answerless,
        broken=(broken and choice.finish_reason is None) or choice.cut_off,
    )


class JudgeQueue:
    """Runs the watches' steps, one a turn of the event loop, so that what arrives is relayed first.

    observe: called with the seconds of every step.
    """

    def __init__(self, observe: Callable[[float], object]) -> None:
        self._observe = observe
        self._loop = asyncio.get_running_loop()
        self._streams: deque[AnswerWatch] = deque()
        self._bodies: deque[AnswerWatch] = deque()
        self._body_next = False
        self._running = False

    @property
    def _waiting(self) -> list[AnswerWatch]:
        return [*self._streams, *self._bodies]

    def put(self, watch: AnswerWatch, *, again: bool = False) -> None:
        """Have the watch judge what is pending. Of whole answers, which take ten times their bytes while they
        are judged, only one is begun. again: it is not through."""
        if not watch.queued:
            watch.queued = True
            if not watch.whole:
                self._streams.append(watch)
            elif again:
                self._bodies.appendleft(watch)
            else:
                self._bodies.append(watch)
            self._schedule()

    def _next(self) -> AnswerWatch:
        """A stream and a whole answer in turn."""
        body = self._bodies and (self._body_next or not self._streams)
        self._body_next = not body
        return (self._bodies if body else self._streams).popleft()

    def _schedule(self) -> None:
        if (self._streams or self._bodies) and not self._running:
            self._running = True
            self._loop.call_soon(self._run)

    def judge_for(self, seconds: float) -> int:
        """Judge what waits, for so many seconds at most and those first that are known to fail; how many were
        not judged to their end. Nothing is judged later."""
        ends = time.perf_counter() + seconds
        left = 0
        for watch in sorted(self._waiting, key=lambda each: not each.fails):
            more = True
            while more and time.perf_counter() < ends:
                more = self._step(watch)
            left += more
        self._streams.clear()
        self._bodies.clear()
        return left

    @staticmethod
    def _step(watch: AnswerWatch) -> bool:
        try:
            return watch.step()
        except Exception as error:  # noqa: BLE001  the others are judged all the same
            report(_FAILED, error)
            return False

    def _run(self) -> None:
        if not (self._streams or self._bodies):  # judged meanwhile
            self._running = False
            return
        watch = self._next()
        began = time.perf_counter()
        self._running = watch.queued = False
        if self._step(watch):
            self.put(watch, again=True)
        self._schedule()
        self._observe(time.perf_counter() - began)

    async def empty(self) -> None:
        """Wait until everything is judged."""
        while self._streams or self._bodies:
            await asyncio.sleep(0)
