"""Generates one answer token by token, healthy until a planned failure begins."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stresstest.simulation.engine.writing.failure_types import make_failure
from stresstest.simulation.engine.writing.failures import TextChunk, TextFailure
from stresstest.simulation.engine.writing.layout import FITTING_TOKENS, AnswerBrief
from stresstest.simulation.engine.writing.structured import make_layout
from stresstest.simulation.engine.writing.token_emitter import EmittedToken, TokenEmitter


@dataclass(slots=True)
class _PlannedFailure:
    onset: int
    failure: TextFailure


class AnswerGenerator:
    """Writes one answer. The same brief, seed, history and plans give the same tokens everywhere.

    onset: the true onset in generated tokens (from 1), by the definition of the symptom; symptom: its
    kind. Both are None until the degeneration has begun, and belong to the first one.
    """

    def __init__(self, brief: AnswerBrief, seed: int, history: Sequence[int] = ()) -> None:
        """history: token ids of the answer so far, which are continued."""
        self.onset: int | None = None
        self.symptom: str | None = None
        self._rng = random.Random(seed)
        self._layout = make_layout(brief, self._rng, history)
        self._emitter = TokenEmitter(self._layout.language, brief.temperature, self._rng)
        self._plans: list[_PlannedFailure] = []
        self._active: Iterator[TextChunk] | None = None
        self._buffer: list[EmittedToken] = []
        self._at = 0
        self._generated = 0
        self._over = False

    def plan_failure(self, kind: str, onset: int, *, ends: bool = False, form: str | None = None) -> None:
        """Degenerate as `kind` (a registered symptom) from generated token `onset` on, or from the next
        possible place after it.

        ends: recovers, or ends the answer, some time after. form: in an answer of records, rows or
        functions; None: any that the symptom has there. Of several plans a later one takes over at its onset.
        Raises ValueError for an unknown kind.
        """
        rng = random.Random(self._rng.getrandbits(64))
        failure = make_failure(kind, self._layout, rng, ends=ends, form=form)
        self._plans.append(_PlannedFailure(max(onset, 1), failure))
        self._plans.sort(key=lambda plan: plan.onset)

    def next_token(self) -> EmittedToken | None:
        """The next token; None when the answer has ended by itself."""
        at = self._at
        while at >= len(self._buffer):
            if self._over:
                return None
            self._refill()
            at = 0
        self._at = at + 1
        return self._buffer[at]

    def _refill(self) -> None:
        """Fill the buffer with the next sentence or degenerate chunk."""
        self._buffer, self._at = [], 0
        self._begin_due_failure()
        due = next((plan for plan in self._plans if plan.onset - 1 > self._generated), None)
        room = due.onset - 1 - self._generated if due is not None else 1 << 60
        chunk = self._next_degenerate_chunk() if self._active is not None else None
        if chunk is None:
            chunk = self._next_healthy_segment(due, room)
        if chunk is None:
            self._over = True
            return
        found, factor = chunk.pieces, chunk.factor
        cut = self._active is not None or (due is not None and due.failure.any_position)
        if cut and 0 < room < len(found):
            found = found[:room]
        elif chunk.last:
            self._over = True
        self._layout.ids += [piece for piece, _ in found]
        self._generated += len(found)
        self._buffer = self._emitter.emit(found, factor, chunk.entropy_jitter)

    def _next_degenerate_chunk(self) -> TextChunk | None:
        """The active failure's next chunk; None when it is over and the text recovers or ends."""
        assert self._active is not None
        chunk = next(self._active, None)
        if chunk is None:
            self._active = None
        return chunk

    def _next_healthy_segment(self, due: _PlannedFailure | None, room: int) -> TextChunk | None:
        if due is None or room > due.failure.foreshadow + FITTING_TOKENS:
            found = self._layout.next_segment()
            return None if found is None else TextChunk(found)
        failure = due.failure
        if failure.any_position or room > FITTING_TOKENS:
            found = self._layout.next_segment(cut=room if failure.any_position else 0)
        else:
            found = self._layout.fit_segment(room, failure.closing)
        if found is None:
            return None
        return failure.foreshadow_segment(found, room)

    def _begin_due_failure(self) -> None:
        for plan in [each for each in self._plans if each.onset <= self._generated + 1]:
            failure = plan.failure
            if not failure.can_begin():
                continue
            self._plans.remove(plan)
            onset = max(self._generated + 1 - failure.begin(), 1)
            self._active = failure.text_chunks()
            if self.onset is None:
                self.onset, self.symptom = onset, failure.kind.value
