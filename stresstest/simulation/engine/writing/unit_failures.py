"""Failures of structured answers: units that say nothing new, and units that never end."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from math import exp

from stresstest.model import SymptomKind
from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.grammar import load_grammar
from stresstest.simulation.engine.writing.failures import TextChunk, TextFailure
from stresstest.simulation.engine.writing.structured import StructuredLayout, Unit
from stresstest.simulation.engine.writing.token_emitter import FUNCTION, ClassifiedPieces, heading_pieces

FORMS: Mapping[SymptomKind, tuple[str, ...]] = {
    SymptomKind.NEAR_LOOP: ("counter", "renamed", "shuffled"),
    SymptomKind.STRUCTURE_BREAK: ("blanks", "value", "list"),
}
"""Forms that a symptom takes in a structured answer.

counter: one unit again and again, its number counted on. renamed: one unit under new names. shuffled: a few
units in any order, numbered on. blanks: line breaks or indentation without end in a unit that has begun.
value: a text value in which a few words come without end. list: a list of a few words that never closes.
"""
_BLANKS = ("\n", "\n\n", "    ", " ", "\n    ")
_WORDS = ("null", "N/A", "data", "value", "lorem ipsum", "test")
_TAKING_TURNS = 4


class RecurringUnits(TextFailure):
    """Units that were written before."""

    kind = SymptomKind.NEAR_LOOP

    def __init__(self, page: StructuredLayout, rng: random.Random, *, ends: bool, form: str) -> None:
        super().__init__(page, rng, ends=ends)
        self._page, self._form = page, form
        self._before: ClassifiedPieces = []
        self._source: list[Unit] = []

    def can_begin(self) -> bool:
        """There must be units to repeat."""
        return not self._page.closed and len(self._page.written) >= (
            _TAKING_TURNS if self._form == "shuffled" else 1
        )

    def begin(self) -> int:
        """The last units come back; the first copy begins after what separates it from them."""
        self._source = self._page.written[-(_TAKING_TURNS if self._form == "shuffled" else 1) :]
        self._before = self._page.separator()
        return -len(self._before)

    def text_chunks(self) -> Iterator[TextChunk]:
        """Copy after copy, ever surer."""
        page, language = self._page, self.layout.language
        copies = self.rng.randint(14, 24) if self.ends else 1 << 60
        for copy in range(1, copies + 1):
            page.number += 1
            unit, name = self.rng.choice(self._source), None
            if self._form == "renamed":
                name = page.units.name()
            elif self._form == "counter" and page.brief.task == "code":
                name = f"{unit.name}_{copy + 1}"
            before, self._before = self._before or page.separator(), []
            yield TextChunk(before + unit.pieces(page.number, language, name), 0.35 * exp(-copy / 3.0) + 0.01)


class EndlessUnit(TextFailure):
    """A unit that begins and never ends."""

    kind = SymptomKind.STRUCTURE_BREAK

    def __init__(self, page: StructuredLayout, rng: random.Random, *, ends: bool, form: str) -> None:
        super().__init__(page, rng, ends=ends)
        self._page, self._form = page, form
        self._before: list[int] = []
        self._period: list[int] = []

    def can_begin(self) -> bool:
        """There must be a unit to be broken."""
        return not self._page.closed and bool(self._page.written)

    def begin(self) -> int:
        """A unit is begun; the onset is the second of what then comes without end."""
        page, rng = self._page, self.rng
        words = [rng.choice(_WORDS)]
        flooding = load_grammar(page.language).flooding_words
        if rng.random() < 0.5:
            words = rng.sample(list(flooding), rng.randint(1, 3))
        begun, period = {
            "blanks": (page.units.torso, rng.choice(_BLANKS)),
            "value": (page.units.torso, " ".join(words) + rng.choice((" ", ", "))),
            "list": (page.units.listing, "".join(f'{word}", "' for word in words)),
        }[self._form]
        if self._form == "list" and page.brief.task == "catalogue":
            period = "".join(f"{word}, " for word in words)
        page.number += 1
        self._before = [each for each, _ in page.separator()] + vocabulary.encode(begun(page.number))
        self._period = vocabulary.encode(period)
        return -(len(self._before) + len(self._period))

    def text_chunks(self) -> Iterator[TextChunk]:
        """The beginning of a unit, then its filling without end."""
        yield TextChunk([(each, FUNCTION) for each in self._before])
        left = self.rng.randint(400, 800) if self.ends else 1 << 60
        made = 0
        while left > 0:
            yield TextChunk([(each, FUNCTION) for each in self._period], 0.5 * exp(-made / 30.0) + 1e-4)
            made += len(self._period)
            left -= len(self._period)
        yield TextChunk(heading_pieces('"'), last=True)


_FAILURES: Mapping[SymptomKind, Callable[..., TextFailure]] = {
    SymptomKind.NEAR_LOOP: RecurringUnits,
    SymptomKind.STRUCTURE_BREAK: EndlessUnit,
}


def make_unit_failure(
    kind: SymptomKind, page: StructuredLayout, rng: random.Random, *, ends: bool, form: str | None
) -> TextFailure | None:
    """The failure of this kind and form; without a form one of its kind's. None for one of no form."""
    if kind not in FORMS:
        return None
    chosen = form or rng.choice(FORMS[kind])
    return _FAILURES[kind](page, rng, ends=ends, form=chosen)
