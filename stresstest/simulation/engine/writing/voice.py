"""A voice: one answer, token by token, healthy until a plan says otherwise."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from stresstest.model import SymptomKind
from stresstest.simulation.engine.writing.decay import (
    EntropyShift,
    Gibberish,
    LanguageDrift,
    StructureBreak,
    Truncation,
)
from stresstest.simulation.engine.writing.failures import Failure, Stroke
from stresstest.simulation.engine.writing.ink import Ink
from stresstest.simulation.engine.writing.loops import Flooding, Loop, NearLoop
from stresstest.simulation.engine.writing.outline import Brief
from stresstest.simulation.engine.writing.page import FITTED, Page
from stresstest.simulation.engine.writing.shapes import Written

_FAILURES: dict[SymptomKind, type[Failure]] = {
    each.kind: each
    for each in (
        Loop,
        NearLoop,
        Flooding,
        LanguageDrift,
        Gibberish,
        StructureBreak,
        EntropyShift,
        Truncation,
    )
}


@dataclass(slots=True)
class _Plan:
    onset: int
    failure: Failure
    gate: Callable[[], bool] | None


class Voice:
    """Writes one answer. The same brief, seed, history and plans give the same tokens everywhere.

    onset: the true onset in generated tokens (from 1), by the definition of the symptom; symptom: its
    kind. Both are None until the degeneration has begun, and belong to the first one.
    """

    def __init__(self, brief: Brief, seed: int, history: Sequence[int] = ()) -> None:
        """history: token ids of the answer so far, which this voice goes on with."""
        self.onset: int | None = None
        self.symptom: str | None = None
        self._rng = random.Random(seed)
        self._page = Page(brief, self._rng, history)
        self._ink = Ink(self._page.language, brief.temperature, self._rng)
        self._plans: list[_Plan] = []
        self._active: Iterator[Stroke] | None = None
        self._buffer: list[Written] = []
        self._at = 0
        self._made = 0
        self._over = False

    def plan(
        self, kind: str, onset: int, *, gate: Callable[[], bool] | None = None, ends: bool = False
    ) -> None:
        """Degenerate as `kind` (a `SymptomKind` value) from generated token `onset` on, or from the next
        possible place after it.

        gate: asked at the onset and, while it says no, at each later sentence. ends: recovers, or ends
        the answer, some time after. Of several plans a later one takes over at its onset. ValueError for
        an unknown kind.
        """
        rng = random.Random(self._rng.getrandbits(64))
        failure = _FAILURES[SymptomKind(kind)](self._page, rng, ends=ends)
        self._plans.append(_Plan(max(onset, 1), failure, gate))
        self._plans.sort(key=lambda plan: plan.onset)

    def next(self) -> Written | None:
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
        """Write the next sentence or stroke into the buffer."""
        self._buffer, self._at = [], 0
        self._begin_what_is_due()
        due = next((plan for plan in self._plans if plan.onset - 1 > self._made), None)
        room = due.onset - 1 - self._made if due is not None else 1 << 60
        stroke = self._degenerate() if self._active is not None else None
        if stroke is None:
            stroke = self._healthy(due, room)
        if stroke is None:
            self._over = True
            return
        found, factor = stroke.pieces, stroke.factor
        cut = self._active is not None or (due is not None and due.failure.anywhere)
        if cut and 0 < room < len(found):
            found = found[:room]
        elif stroke.last:
            self._over = True
        self._page.ids += [piece for piece, _ in found]
        self._made += len(found)
        self._buffer = self._ink.write(found, factor, stroke.loose)

    def _degenerate(self) -> Stroke | None:
        """The active failure's next stroke; None when it is over and the text goes on, or ends."""
        assert self._active is not None
        stroke = next(self._active, None)
        if stroke is None:
            self._active = None
        return stroke

    def _healthy(self, due: _Plan | None, room: int) -> Stroke | None:
        if due is None or room > due.failure.foreshadow + FITTED:
            found = self._page.segment()
            return None if found is None else Stroke(found)
        failure = due.failure
        if failure.anywhere or room > FITTED:
            found = self._page.segment(cut=room if failure.anywhere else 0)
        else:
            found = self._page.fit(room, failure.closing)
        if found is None:
            return None
        if due.gate is not None:
            return Stroke(found)
        return failure.foreshadowed(found, room)

    def _begin_what_is_due(self) -> None:
        for plan in [each for each in self._plans if each.onset <= self._made + 1]:
            failure = plan.failure
            if not failure.possible() or (plan.gate is not None and not plan.gate()):
                continue
            self._plans.remove(plan)
            onset = max(self._made + 1 - failure.prepare(), 1)
            self._active = failure.strokes()
            if self.onset is None:
                self.onset, self.symptom = onset, failure.kind.value
