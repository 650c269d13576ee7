"""One request while it is served, and what is kept of it when it is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from stresstest.detectors.entry import DetectorSpec
from stresstest.features.guard.answer import AnswerReader
from stresstest.features.guard.asked import Asked
from stresstest.features.guard.journal import MAX_FIELD, Journal, JournalEntry, Sink, cut
from stresstest.features.guard.keys import request_keys, without_keys
from stresstest.features.guard.metrics import GuardMetrics
from stresstest.features.guard.watch import AnswerWatch, Backlog, JudgedChoice, JudgeQueue
from stresstest.model import GenerationVerdict
from stresstest.model.guard import GuardPolicy, GuardRule

ENDING = (GuardPolicy.ABORT, GuardPolicy.RETRY, GuardPolicy.END_THINKING)
"""Policies that end an answer."""
_TRACE = ("traceparent", "tracestate")
_CUT_SHORT = {"client_gone": "abort", "upstream_error": "error", "guard_failed": "error"}
"""The finish reason of an answer that has none, by how its request ended: `scan` counts it as lost."""


MAX_WAITING = 256
"""Answers that have passed and wait to be judged, from which on further requests wait too: a guard that is
killed loses these."""
LONGEST_WAIT = 5.0
"""Seconds for which a request waits for them."""


class NoRoomError(Exception):
    """What is held of other requests takes what this one needs."""


class BodyRoom:
    """The memory that all requests and the answers that are put together share. unjudged: as much again, for
    whole answers, and events that have not ended, that wait to be judged.

    A request that is alone always has room.
    """

    def __init__(self, limit: int) -> None:
        self.unjudged = Backlog(limit)
        self._limit = limit
        self._taken = 0

    def take(self, exchange: Exchange, size: int) -> None:
        """Note so many more bytes that are held of a request or its answer. Raises NoRoomError."""
        if self._taken > exchange.held and self._taken + size > self._limit:
            raise NoRoomError
        exchange.held += size
        self._taken += size

    def leave(self, exchange: Exchange) -> None:
        """The request is over."""
        self._taken -= exchange.held
        exchange.held = 0


@dataclass(slots=True)
class Exchange:
    """One request while it is served.

    began: performance counter at its arrival. room: shared with all others. route: label of a request for an
    answer, None of any other; asked: None too where that is not read. body: to send. may_end: its policy ends
    degenerate answers, not in a dry run. action: what the policy did, or in a dry run would have done. why:
    the same for the client, None where nothing was touched. ended: the finish reason that the guard gave the
    answer. counted: the action that was counted with an answer that this one replaces. response: once its
    headers were sent. given_up: the client left, or the upstream or the guard failed, while it
    was to answer. held: bytes of the body and of an answer that is put
    together.
    """

    request: web.BaseRequest
    began: float
    room: BodyRoom
    route: str | None = None
    asked: Asked | None = None
    rule: GuardRule = field(default_factory=GuardRule)
    body: Any = None
    may_end: bool = False
    action: str | None = None
    why: dict[str, Any] | None = None
    ended: str | None = None
    counted: str | None = None
    response: web.StreamResponse | None = None
    watch: AnswerWatch | None = None
    outcome: str = "answered"
    given_up: bool = False
    held: int = 0
    started: float = field(default_factory=time.time)

    def watched(self, *, streamed: bool, keep_text: bool) -> AnswerWatch:
        """A new watch on the answer. The request must be one that is judged."""
        asked, rule = self.asked, self.rule
        assert asked is not None
        spec = DetectorSpec(language=rule.language, prompt_text=asked.prompt, requested_text=asked.requested)
        reader = AnswerReader(asked.route, spec, keep_text=keep_text, most=asked.choices)
        self.watch = AnswerWatch(
            reader,
            streamed=streamed,
            acting=rule.symptoms if rule.policy in ENDING else None,
            choices=asked.choices,
            backlog=self.room.unjudged,
        )
        return self.watch


class Ledger:
    """Counts and logs what went through. sinks: told of every judged choice, beside the journal."""

    def __init__(
        self,
        metrics: GuardMetrics,
        journal: Journal,
        queue: JudgeQueue,
        *,
        dry_run: bool,
        sinks: Sequence[Sink] = (),
    ) -> None:
        self.metrics = metrics
        self.journal = journal
        self._sinks: tuple[Sink, ...] = (journal, *sinks)
        self._queue = queue
        self._dry_run = dry_run
        self._waiting = 0
        self._few_wait = asyncio.Event()
        self._few_wait.set()

    async def catch_up(self) -> None:
        """Wait while `MAX_WAITING` answers or more wait to be judged, but not for long: what passes goes
        before what is judged of it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_WAIT):
                while self._waiting >= MAX_WAITING:
                    await self._few_wait.wait()

    def _wait_for(self, answers: int) -> None:
        """So many more answers, or fewer, wait to be judged."""
        self._waiting += answers
        self.metrics.waiting.set(self._waiting)
        if self._waiting < MAX_WAITING:
            self._few_wait.set()
        else:
            self._few_wait.clear()

    def settle(self, exchange: Exchange) -> None:
        """Have the rest of the answer judged, then count it."""
        asked, watch = exchange.asked, exchange.watch
        if asked is None or watch is None:
            self._pass_by(exchange)
            return
        exchange.watch = None
        now = time.time()
        self._wait_for(1)

        def on_settled(settled: AnswerWatch) -> None:
            self._wait_for(-1)
            self._judged(exchange, asked, settled, now)

        watch.close(on_settled)
        self._queue.put(watch)

    def _pass_by(self, exchange: Exchange) -> None:
        """Count a request for an answer that was not judged."""
        asked, route, outcome = exchange.asked, exchange.route, exchange.outcome
        if route is None:
            return
        if asked is None and outcome == "answered":
            outcome = "unread"
        self._count("" if asked is None else asked.model, route, outcome)
        if asked is not None and (exchange.given_up or outcome == "unread"):
            self._log_unseen(exchange, asked, outcome)

    def _log_unseen(self, exchange: Exchange, asked: Asked, outcome: str) -> None:
        """A line for an answer of which nothing came, or nothing could be read: a loop is what clients wait
        for in vain, and proxies compress what is long."""
        reason = _CUT_SHORT.get(outcome, "error" if exchange.given_up else None)
        nothing = JudgedChoice(
            index=0,
            verdict=GenerationVerdict(tokens=0, observed=0),
            tokens=0,
            finish_reason=reason,
            texts=() if self.journal.keeps_text else None,
            broken=reason is None,
        )
        self.journal.write(self._entry(exchange, asked, time.time()), nothing)

    def _entry(
        self, exchange: Exchange, asked: Asked, now: float, reader: AnswerReader | None = None
    ) -> JournalEntry:
        """What the log has of a request beside its answer. reader: of the answer, if any of it came."""
        headers, found = exchange.request.headers, None if reader is None else reader.id
        return JournalEntry(
            asked,
            None if found is None else cut(found),
            cut(asked.model),
            start=exchange.started,
            end=now,
            prompt_tokens=None if reader is None else reader.usage[0],
            language=exchange.rule.language,
            action=exchange.action,
            dry_run=self._dry_run,
            trace={name: headers[name] for name in _TRACE if 0 < len(headers.get(name, "")) <= MAX_FIELD},
        )

    def _judged(self, exchange: Exchange, asked: Asked, watch: AnswerWatch, now: float) -> None:
        metrics, reader = self.metrics, watch.reader
        where = (metrics.model(asked.model), asked.route.value)
        tripped = watch.tripped is not None
        action = exchange.action
        if action is None and tripped and self._dry_run:
            action = exchange.rule.policy.value
        entry = replace(self._entry(exchange, asked, now, reader), action=action)
        first, ended = None, exchange.outcome
        if reader.failed and ended == "answered":
            ended = "upstream_error"
            metrics.upstream_failures.labels("error_event").inc()
        choices = watch.outcome(exchange.ended or _CUT_SHORT.get(ended))
        for choice in choices:
            unseen = choice.hidden or not choice.seen
            metrics.tokens.labels(*where).inc(choice.seen if unseen else choice.tokens)
            verdict = choice.verdict
            if verdict.onset is not None:
                first = first or verdict.symptom
                metrics.onset.labels(*where).observe(verdict.onset)
                metrics.alarm.labels(*where).observe(verdict.alarm or verdict.onset)
                metrics.after_onset.labels(*where).inc(max(0, choice.tokens - verdict.onset + 1))
            going_on = reader.choices[choice.index].finish_reason is None
            if exchange.ended and going_on and asked.cap is not None:
                metrics.saved.labels(*where).inc(max(0, asked.cap - choice.tokens))
        if first is not None:
            metrics.degenerate.labels(*where, first).inc()
        if action is not None and action != exchange.counted:
            metrics.actions.labels(*where, action, str(self._dry_run).lower()).inc()
        unread = watch.broken is not None or not choices or any(choice.unread for choice in choices)
        healthy = "unread" if unread else "healthy"
        found = "degenerate" if first is not None else healthy
        self._count(asked.model, asked.route, found if ended == "answered" else ended)
        if not choices:
            self._log_unseen(exchange, asked, ended)
        keys = request_keys(exchange.request.headers, exchange.request.query)
        for choice in choices:  # last: what is counted does not depend on who is told
            shown = without_keys(entry, choice, keys)
            for sink in self._sinks:
                sink.write(*shown)

    def _count(self, model: str, route: str, outcome: str) -> None:
        self.metrics.requests.labels(self.metrics.model(model), route, outcome).inc()
