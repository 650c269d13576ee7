"""Repetition: exact loops, near-loops with a counter or small edits, and floods of a few words."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from math import exp

from stresstest.model import SymptomKind
from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.grammar import load_grammar, slot_siblings
from stresstest.simulation.engine.writing.failures import TextChunk, TextFailure
from stresstest.simulation.engine.writing.layout import UNIT_BREAK, AnswerLayout
from stresstest.simulation.engine.writing.token_emitter import (
    CONTENT,
    FRAME,
    FUNCTION,
    ClassifiedPieces,
    classify_pieces,
)

MAX_PERIOD = 150
"""Tokens of the longest period."""
_SHORTEST = 6
_LOOKBACK_TOKENS = 420
"""Tokens of the text so far in which a period is looked for."""
_LOOP_ENTROPY_SHARE = 0.4
"""Share of its entropy that is left of a token when a loop closes."""
_ENTROPY_DECAY_TOKENS = 28.0
"""Repeated tokens in which the entropy of a loop falls by e."""

_STOP = vocabulary.encode(".")[0]


def _begins_word(token_id: int) -> bool:
    data = vocabulary.token_bytes(token_id)
    return data[:1] == b" " and data[1:].decode("utf-8", "replace")[:1].isalpha()


class LoopFailure(TextFailure):
    """An exact loop. Its period is a phrase, one to three sentences, or a unit of the text so far."""

    kind = SymptomKind.LOOP

    def __init__(self, page: AnswerLayout, rng: random.Random, *, ends: bool) -> None:
        super().__init__(page, rng, ends=ends)
        self.foreshadow = rng.randint(60, 150)
        self._style = rng.choices(("phrase", "sentence", "unit"), (30, 45, 25))[0]
        if self._style == "unit" and not page.outline.numbered:
            self._style = "sentence"
        if self._style == "phrase":
            self.closing = ","
        self._period: list[int] = []

    def can_begin(self) -> bool:
        """There must be something to repeat."""
        return len(self.layout.ids) >= 2 * _SHORTEST and self._available_period() > 0

    def begin(self) -> int:
        """The period is settled; the run's start is extended left over what repeats already."""
        ids = self.layout.ids
        period = self._available_period()
        self._period = ids[-period:]
        early = 0
        while (
            early + 1 < period and len(ids) > period + early and ids[-1 - early] == ids[-1 - early - period]
        ):
            early += 1
        return early

    def foreshadow_segment(self, found: ClassifiedPieces, room: int) -> TextChunk:
        """The model grows sure of what it writes before it begins to repeat it."""
        span = self.foreshadow
        factors = [
            1.0 - (1.0 - _LOOP_ENTROPY_SHARE) * min(max((span - room + i) / span, 0.0), 1.0)
            for i in range(len(found))
        ]
        return TextChunk(found, factors)

    def text_chunks(self) -> Iterator[TextChunk]:
        """Copy after copy, ever surer; a loop that ends does so well after it was one."""
        period = repeated_pieces(self._period)
        bound = max(3 * len(period), 240)
        copies = -(-(bound + self.rng.randint(0, 200)) // len(period)) if self.ends else 0
        repeated, copy = 0, 0
        while True:
            copy += 1
            last = copy == copies
            shown = period if not last else [*period[:-1], (_STOP, FUNCTION)] if self.closing else period
            factors = [
                _LOOP_ENTROPY_SHARE * exp(-(repeated + i) / _ENTROPY_DECAY_TOKENS) + 1e-4
                for i in range(len(period))
            ]
            repeated += len(period)
            if last:
                yield TextChunk(shown, factors, last=self.rng.random() < 0.5)
                return
            yield TextChunk(shown, factors)

    def _available_period(self) -> int:
        """Length of the period that the text so far offers, 0 for none."""
        ids = self.layout.ids[-_LOOKBACK_TOKENS:]
        if self._style == "phrase" and ids[-1] != _STOP:
            period = self._phrase(ids)
        elif self._style == "unit" and self.layout.outline.is_unit_complete:
            period = self._unit(ids)
        else:
            period = self._sentences(ids)
        return period or self._sentences(ids) or self._phrase(ids)

    @staticmethod
    def _phrase(ids: list[int]) -> int:
        """The tail from a word on, not the tail of a repetition that stands already."""
        for period in range(_SHORTEST, min(24, len(ids) - 1)):
            if _begins_word(ids[-period]) and ids[-period - 1] != ids[-1]:
                return period
        return 0

    def _sentences(self, ids: list[int]) -> int:
        starts = [
            i for i in range(1, len(ids)) if ids[i - 1] == _STOP and _begins_word(ids[i]) and ids[-1] == _STOP
        ]
        periods = [len(ids) - i for i in reversed(starts) if _SHORTEST <= len(ids) - i <= MAX_PERIOD]
        # A sentence that begins a unit follows its heading; across the heading the number would repeat.
        within = [p for p in periods if UNIT_BREAK not in ids[-p:]] or periods[:1]
        return self._choose_period(within[: 3 if self._style != "phrase" else 1])

    def _unit(self, ids: list[int]) -> int:
        starts = [i for i, each in enumerate(ids) if each == UNIT_BREAK]
        return self._choose_period(
            [len(ids) - i for i in reversed(starts) if 12 <= len(ids) - i <= MAX_PERIOD][:2]
        )

    def _choose_period(self, periods: list[int]) -> int:
        """One of the periods, always the same one for the same choices."""
        if not periods:
            return 0
        share = random.Random(len(periods) * 7919 + self.foreshadow).random()
        return periods[int(share * share * len(periods))]


def repeated_pieces(ids: list[int]) -> ClassifiedPieces:
    """Tokens that stood in the text before, with the classes of words repeated."""
    return [(each, CONTENT if _begins_word(each) else FUNCTION) for each in ids]


class NearLoopFailure(TextFailure):
    """One body again and again, its number counted on or a word changed at a time."""

    kind = SymptomKind.NEAR_LOOP
    foreshadow = 80

    def __init__(self, page: AnswerLayout, rng: random.Random, *, ends: bool) -> None:
        super().__init__(page, rng, ends=ends)
        self._by_unit = page.outline.numbered and rng.random() < 0.7
        self._changes = 0.0 if self._by_unit and rng.random() < 0.6 else rng.uniform(0.4, 1.0)
        self._body: list[int] = []

    def can_begin(self) -> bool:
        """There must be a whole unit or sentence."""
        return len(self._last()) >= 8

    def begin(self) -> int:
        """The unit or sentence just written is the one that comes back."""
        self._body = self._last()
        if self._by_unit:
            self.layout.outline.end_unit()
        return 0

    def foreshadow_segment(self, found: ClassifiedPieces, room: int) -> TextChunk:
        """As before a loop, less clearly."""
        return TextChunk(found, 1.0 - 0.4 * min(max(1.0 - room / self.foreshadow, 0.0), 1.0))

    def text_chunks(self) -> Iterator[TextChunk]:
        """Copies with the same body, surer as they go on."""
        copies = self.rng.randint(8, 16) if self.ends else 0
        copy, number = 0, self.layout.outline.unit
        original = vocabulary.decode(self._body)
        while not self.ends or copy < copies:
            copy += 1
            level = 0.35 * exp(-copy / 3.0) + 0.01
            body = self._replace_word(original) if self.rng.random() < self._changes else original
            shown = classify_pieces(body, self.layout.language)
            if self._by_unit:
                number += 1
                shown = [(UNIT_BREAK, FRAME), *self.layout.outline.heading(number), *shown]
            yield TextChunk(shown, level)
        self.layout.outline.unit = number

    def _last(self) -> list[int]:
        """The body of the last unit (by unit) or the last sentence, empty where there is none."""
        ids = self.layout.ids[-_LOOKBACK_TOKENS:]
        stops = [i + 1 for i in range(len(ids) - 1) if ids[i] == _STOP]
        if self._by_unit:
            breaks = [i for i, each in enumerate(ids) if each == UNIT_BREAK]
            begin = breaks[-1] if breaks else 0
            stops = [i for i in stops if i > begin][:1]
        start = stops[-1] if stops else 0
        return ids[start:] if ids and ids[-1] == _STOP and _begins_word(ids[start]) else []

    def _replace_word(self, text: str) -> str:
        """The text with one of its words replaced by another that may stand in its place."""
        words = text.split(" ")
        others = slot_siblings(self.layout.language)
        places = [i for i, word in enumerate(words) if word in others]
        if places:
            at = self.rng.choice(places)
            words[at] = self.rng.choice(others[words[at]])
        return " ".join(words)


_SIGNS = (",", ".", "\n\n", "…", "-")


class FloodingFailure(TextFailure):
    """A word or a handful own everything that follows."""

    kind = SymptomKind.FLOODING
    any_position = True

    def text_chunks(self) -> Iterator[TextChunk]:
        """Sixteen tokens at a time; what floods are little words, or words that were just written."""
        rng = self.rng
        style = rng.choices(("handful", "word", "sign"), (55, 32, 13))[0]
        little = [
            ids[0]
            for word in load_grammar(self.layout.language).flooding_words
            if len(ids := vocabulary.encode(" " + word)) == 1
        ]
        if style == "handful":
            pool = sorted({*little, *self._recent()})
            words = rng.sample(pool, rng.randint(2, min(4, len(pool))))
        elif style == "word":
            words = [rng.choice(little)]
        else:
            words = vocabulary.encode(rng.choice(_SIGNS))[:1]
        weights = [rng.uniform(0.6, 1.6) for _ in words]
        left = rng.randint(160, 400) if self.ends else 1 << 60
        made = 0
        while left > 0:
            shown = [(each, FUNCTION) for each in rng.choices(words, weights, k=16)]
            sure = 0.8 if len(words) > 1 else 0.5 * exp(-made / 30.0) + 1e-4
            made += 16
            left -= 16
            yield TextChunk(shown, sure, last=left <= 0)

    def _recent(self) -> list[int]:
        """Words of one token in the text just written."""
        ids = self.layout.ids[-160:]
        return [
            each
            for each, after in pairwise(ids)
            if _begins_word(each) and _begins_word(after) and len(vocabulary.token_bytes(each)) > 3
        ]
