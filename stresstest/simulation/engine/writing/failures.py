"""Degenerate text. A failure foreshadows, begins, and goes on stroke by stroke until it is replaced."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from stresstest.model import SymptomKind
from stresstest.simulation.engine.writing.ink import Pieces
from stresstest.simulation.engine.writing.page import Page


@dataclass(slots=True)
class Stroke:
    """Tokens to write next. factor: of their entropies, or one a piece. loose: see `Ink.write`.

    last: the answer ends by itself after it.
    """

    pieces: Pieces
    factor: float | list[float] = 1.0
    loose: float = 1.0
    last: bool = False


class Failure:
    """One planned degeneration of a page. ends: it recovers, or ends the answer, by itself."""

    kind: SymptomKind
    foreshadow = 0
    """Tokens before the onset in which it shows."""
    anywhere = False
    """It may begin in the middle of a sentence."""
    closing = ""
    """What the last healthy sentence ends with instead of its full stop."""

    def __init__(self, page: Page, rng: random.Random, *, ends: bool) -> None:
        self.page = page
        self.rng = rng
        self.ends = ends

    def possible(self) -> bool:
        """Whether it can begin here; asked at the onset and then at every sentence."""
        return True

    def prepare(self) -> int:
        """It begins here. How many tokens ago the symptom began by its definition (0: here)."""
        return 0

    def foreshadowed(self, found: Pieces, room: int) -> Stroke:
        """A healthy segment that begins `room` tokens before the onset, with what gives the failure away."""
        del room
        return Stroke(found)

    def strokes(self) -> Iterator[Stroke]:
        """The degenerate text; where it ends the text recovers."""
        raise NotImplementedError
