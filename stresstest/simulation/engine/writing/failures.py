"""Degenerate text. A failure foreshadows, begins, and continues chunk by chunk until it is replaced."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from stresstest.model import SymptomKind
from stresstest.simulation.engine.writing.layout import AnswerLayout
from stresstest.simulation.engine.writing.token_emitter import ClassifiedPieces


@dataclass(slots=True)
class TextChunk:
    """Tokens to write next. factor, entropy_jitter: see `TokenEmitter.emit`.

    last: the answer ends by itself after it.
    """

    pieces: ClassifiedPieces
    factor: float | list[float] = 1.0
    entropy_jitter: float = 1.0
    last: bool = False


class TextFailure:
    """One planned degeneration of a page. ends: it recovers, or ends the answer, by itself."""

    kind: SymptomKind
    foreshadow = 0
    """Tokens before the onset in which it shows."""
    any_position = False
    """It may begin in the middle of a sentence."""
    closing = ""
    """What the last healthy sentence ends with instead of its full stop."""

    def __init__(self, page: AnswerLayout, rng: random.Random, *, ends: bool) -> None:
        self.layout = page
        self.rng = rng
        self.ends = ends

    def can_begin(self) -> bool:
        """Whether it can begin here; asked at the onset and then at every sentence."""
        return True

    def begin(self) -> int:
        """It begins here. How many tokens ago the symptom began by its definition (0: here)."""
        return 0

    def foreshadow_segment(self, found: ClassifiedPieces, room: int) -> TextChunk:
        """A healthy segment that begins `room` tokens before the onset, with what gives the failure away."""
        del room
        return TextChunk(found)

    def text_chunks(self) -> Iterator[TextChunk]:
        """The degenerate text; where it ends the text recovers."""
        raise NotImplementedError
