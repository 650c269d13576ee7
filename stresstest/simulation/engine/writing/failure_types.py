"""Which failure the simulator writes for which symptom of the registry."""

from __future__ import annotations

import random
from collections.abc import Iterator

from stresstest.detectors.entry import SymptomInfo
from stresstest.detectors.registry import entries, symptom_info
from stresstest.model import SymptomKind
from stresstest.simulation.engine.writing.decay import (
    EntropyShiftFailure,
    GibberishFailure,
    LanguageDriftFailure,
    StructureBreakFailure,
    TruncationFailure,
)
from stresstest.simulation.engine.writing.failures import TextChunk, TextFailure
from stresstest.simulation.engine.writing.layout import AnswerLayout
from stresstest.simulation.engine.writing.loops import FloodingFailure, LoopFailure, NearLoopFailure
from stresstest.simulation.engine.writing.structured import StructuredLayout
from stresstest.simulation.engine.writing.token_emitter import OPEN, classify_pieces
from stresstest.simulation.engine.writing.unit_failures import make_unit_failure


class SpecimenFailure(TextFailure):
    """The specimen of a symptom for which the simulator has no writer of its own."""

    any_position = True

    def __init__(self, page: AnswerLayout, rng: random.Random, *, ends: bool, symptom: SymptomInfo) -> None:
        super().__init__(page, rng, ends=ends)
        self.kind = symptom.kind
        self._text = f" {symptom.specimen.strip()}"

    def text_chunks(self) -> Iterator[TextChunk]:
        """The specimen a few times where the failure ends, else without end."""
        left = self.rng.randint(3, 8) if self.ends else 1 << 60
        while left:
            left -= 1
            yield TextChunk(classify_pieces(self._text, self.layout.language, OPEN), last=not left)


_WRITERS: dict[SymptomKind, type[TextFailure]] = {
    writer.kind: writer
    for writer in (
        LoopFailure,
        NearLoopFailure,
        FloodingFailure,
        LanguageDriftFailure,
        GibberishFailure,
        StructureBreakFailure,
        EntropyShiftFailure,
        TruncationFailure,
    )
}


def text_symptoms() -> tuple[str, ...]:
    """The registered symptoms that the simulator can write: by a writer of their own, or by a specimen."""
    return tuple(entry.kind.value for entry in entries() if entry.kind in _WRITERS or entry.symptom.specimen)


def make_failure(
    kind: str, page: AnswerLayout, rng: random.Random, *, ends: bool, form: str | None = None
) -> TextFailure:
    """The failure of this kind on a page. Raises ValueError for one that cannot be written."""
    if kind not in text_symptoms():
        raise ValueError(f"{kind!r} is not a symptom that the simulator writes: {', '.join(text_symptoms())}")
    if isinstance(page, StructuredLayout):
        failure = make_unit_failure(SymptomKind(kind), page, rng, ends=ends, form=form)
        if failure is not None:
            return failure
    writer = _WRITERS.get(SymptomKind(kind))
    if writer is None:
        return SpecimenFailure(page, rng, ends=ends, symptom=symptom_info(kind))
    return writer(page, rng, ends=ends)
