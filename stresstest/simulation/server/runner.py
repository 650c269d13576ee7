"""The engine in real time: steps one after another, each as long as it takes, and who hears of them.

At a finite speed an engine second is a second of the clock; the scenario's own speed has scaled its steps.
As fast as possible, engine time moves only with the steps; the runner then waits where every listener is
full, because tokens that nobody can take yet would only be thrown away when a client hangs up.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Protocol

from stresstest.simulation.engine.engine import Engine
from stresstest.simulation.engine.request import SimRefused, SimRequest
from stresstest.simulation.engine.sequence import Sequence
from stresstest.simulation.server.metrics import Levels
from stresstest.simulation.server.observed import Observed

_LATE = 0.25
_PATIENCE = 1.0
_PAUSE = 0.002


class Listener(Protocol):
    """Who wants a sequence's tokens."""

    @property
    def full(self) -> bool:
        """It can take no more at the moment."""

    def advance(self) -> None:
        """The sequence has a new token, or is over. Must not block."""

    def drop(self) -> None:
        """There will be no more tokens: the engine is dead."""


class Runner:
    """Runs one engine. unpaced: as fast as possible."""

    def __init__(self, engine: Engine, observed: Observed, *, unpaced: bool) -> None:
        self.engine = engine
        self.unpaced = unpaced
        self._observed = observed
        self._listeners: dict[int, Listener] = {}
        self._work = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._now = 0.0
        self._dead = False
        self._stats = engine.stats

    def submit(self, request: SimRequest) -> Sequence:
        """Hand a request to the engine. Raises SimRefused."""
        if self._dead:
            raise SimRefused(500, "The simulated engine has failed; its log says why.")
        at = self._now if self.unpaced else max(0.0, self._loop.time() - self._began)
        sequence = self.engine.submit(request, at)
        self._work.set()
        return sequence

    def listen(self, sequence: Sequence, listener: Listener) -> None:
        self._listeners[sequence.id] = listener

    def leave(self, sequence: Sequence) -> None:
        """Nobody waits for this sequence any more: it is cancelled unless it is over."""
        self._listeners.pop(sequence.id, None)
        if not sequence.done:
            self.engine.cancel(sequence)
            self._observed.ended(sequence)
            now = self.engine.stats
            self._stats = replace(
                self._stats, running=now.running, kv_usage=now.kv_usage, finished=now.finished
            )

    def levels(self) -> Levels:
        """The engine's gauges and counters after its latest step.

        As in vLLM, a request that came in since is not yet seen waiting: most start with the next step.
        """
        stats = self._stats
        return Levels(
            running=stats.running,
            waiting=stats.waiting,
            kv_usage=stats.kv_usage,
            preemptions=stats.preemptions,
            prompt_tokens=stats.prompt_tokens,
            cached_tokens=min(stats.prefix_hits, stats.prompt_tokens),
            generation_tokens=stats.generation_tokens,
            finished=stats.finished,
            prefix_queries=stats.prefix_queries,
            prefix_hits=stats.prefix_hits,
        )

    async def run(self) -> None:
        """Step until cancelled. An engine that fails takes its clients' connections with it."""
        try:
            await self._run()
        finally:
            self._dead = True
            for listener in list(self._listeners.values()):
                listener.drop()

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
            self._tell()
            if self.unpaced:
                await self._until_taken()

    def _tell(self) -> None:
        step = self.engine.last
        if step is None:
            return
        observed = self._observed
        observed.step.observe(step.tokens)
        for sequence in step.emitted:
            observed.wrote(sequence)
            listener = self._listeners.get(sequence.id)
            if listener is not None:
                listener.advance()
        for sequence in step.finished:
            observed.ended(sequence)

    async def _until_taken(self) -> None:
        """As fast as the clients read: wait, not for ever, while all of them are full and nobody queues."""
        deadline = self._loop.time() + _PATIENCE
        while self._listeners and all(each.full for each in self._listeners.values()):
            if self._loop.time() > deadline or self.engine.stats.waiting:
                return
            await asyncio.sleep(_PAUSE)
