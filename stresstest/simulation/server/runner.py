"""The engine in real time: steps one after another, each as long as it takes, and who hears of them.

At a finite speed an engine second is a second of the clock; the scenario's own speed has scaled its steps.
As fast as possible, engine time moves only with the steps; the runner then waits where every listener is
full, because tokens that nobody can take yet would only be thrown away when a client hangs up.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Protocol

from aiohttp import web

from stresstest.simulation.engine.engine import Engine
from stresstest.simulation.engine.request import SimRequest, SimRequestError
from stresstest.simulation.engine.scheduling.sequence import EngineStats, Sequence
from stresstest.simulation.server.metrics import MetricsPage, RequestHistograms
from stresstest.simulation.server.refusal import RequestRejected

_LATE = 0.25
_PATIENCE = 1.0
_PAUSE = 0.002


class TokenListener(Protocol):
    """Who wants a sequence's tokens."""

    @property
    def is_full(self) -> bool:
        """It can take no more at the moment."""

    def on_token(self) -> None:
        """The sequence has a new token, or is over. Must not block."""

    def on_engine_failure(self) -> None:
        """There will be no more tokens: the engine is dead."""


class EngineRunner:
    """Runs one engine. unpaced: as fast as possible."""

    def __init__(self, engine: Engine, observed: RequestHistograms, *, unpaced: bool) -> None:
        self.engine = engine
        self.unpaced = unpaced
        self._observed = observed
        self._listeners: dict[int, TokenListener] = {}
        self._work = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._now = 0.0
        self._dead = False
        self._stats = engine.stats

    def submit(self, request: SimRequest) -> Sequence:
        """Hand a request to the engine. Raises SimRequestError."""
        if self._dead:
            raise SimRequestError(500, "The simulated engine has failed; its log says why.")
        at = self._now if self.unpaced else max(0.0, self._loop.time() - self._began)
        sequence = self.engine.submit(request, at)
        self._work.set()
        return sequence

    def subscribe(self, sequence: Sequence, listener: TokenListener) -> None:
        self._listeners[sequence.id] = listener

    def abandon(self, sequence: Sequence) -> None:
        """Nobody waits for this sequence any more: it is cancelled unless it is over."""
        self._listeners.pop(sequence.id, None)
        if not sequence.is_done:
            self.engine.cancel(sequence)
            self._observed.on_end(sequence)
            now = self.engine.stats
            self._stats = replace(
                self._stats, running=now.running, kv_usage=now.kv_usage, finished=now.finished
            )

    @property
    def stats(self) -> EngineStats:
        """The engine's gauges and counters after its latest step.

        As in vLLM, a request that has arrived since then does not count as waiting: most start with the next
        step.
        """
        return self._stats

    async def run(self) -> None:
        """Step until cancelled. An engine that fails takes its clients' connections with it."""
        try:
            await self._run()
        finally:
            self._dead = True
            for listener in list(self._listeners.values()):
                listener.on_engine_failure()

    async def _run(self) -> None:
        while True:
            if self.engine.idle:
                self._work.clear()
                await self._work.wait()
            if not self.unpaced:
                wall = self._loop.time() - self._began
                # Catch up with what one slow step cost; a server that cannot keep up runs late instead.
                if self.engine.last is None or not self._now <= wall <= self._now + _LATE:
                    self._now = wall
            duration = self.engine.step(self._now)
            self._stats = self.engine.stats
            self._now += duration
            if duration == 0.0:
                await asyncio.sleep(_PAUSE)
                continue
            late = 0.0 if self.unpaced else self._now - (self._loop.time() - self._began)
            await asyncio.sleep(max(0.0, late))
            self._notify_listeners()
            if self.unpaced:
                await self._wait_for_clients()

    def _notify_listeners(self) -> None:
        step = self.engine.last
        if step is None:
            return
        observed = self._observed
        observed.step.observe(step.tokens)
        for sequence in step.emitted:
            observed.on_token(sequence)
            listener = self._listeners.get(sequence.id)
            if listener is not None:
                listener.on_token()
        for sequence in step.finished:
            observed.on_end(sequence)

    async def _wait_for_clients(self) -> None:
        """As fast as the clients read: wait, not for ever, while all of them are full and nobody queues."""
        deadline = self._loop.time() + _PATIENCE
        while self._listeners and all(each.is_full for each in self._listeners.values()):
            if self._loop.time() > deadline or self.engine.stats.waiting:
                return
            await asyncio.sleep(_PAUSE)


@dataclass(frozen=True, slots=True)
class ServerContext:
    """One simulated server. model: the name it lists; strict: it answers to no other. created: epoch s."""

    runner: EngineRunner
    page: MetricsPage
    model: str
    strict: bool
    context: int
    fingerprint: str
    created: int

    def require_model(self, name: str | None) -> None:
        """Raises RequestRejected (404) for a model that is not served."""
        if self.strict and name and name != self.model:
            message = f"The model `{name}` does not exist. Valid aliases: {self.model}."
            raise RequestRejected(404, message, "model")


SERVER_CONTEXT_KEY = web.AppKey("site", ServerContext)
