"""Loss of sense: another language, no language, broken structure, a shift of entropy, a sudden end."""

from __future__ import annotations

import random
from collections.abc import Iterator

from stresstest.model import SymptomKind
from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.grammar import common_words, load_grammar
from stresstest.simulation.engine.writing.composer import SentenceComposer
from stresstest.simulation.engine.writing.failures import TextChunk, TextFailure
from stresstest.simulation.engine.writing.layout import UNIT_BREAK, AnswerLayout
from stresstest.simulation.engine.writing.loops import LoopFailure
from stresstest.simulation.engine.writing.token_emitter import (
    CONTENT,
    FRAME,
    OPEN,
    SURE,
    ClassifiedPieces,
    classify_pieces,
)


def _is_elided_article(found: tuple[int, int]) -> bool:
    """Whether the piece is an article that its word must follow closely: "l'"."""
    return vocabulary.token_bytes(found[0]).endswith((b"'", "’".encode()))


class LanguageDriftFailure(TextFailure):
    """Single foreign words, then whole sentences in the other language; the structure stays."""

    kind = SymptomKind.LANGUAGE_DRIFT
    foreshadow = 120

    def __init__(self, page: AnswerLayout, rng: random.Random, *, ends: bool) -> None:
        super().__init__(page, rng, ends=ends)
        self._to = rng.choice(load_grammar(page.language).drifts_to)
        self._words = [word for word in common_words(self._to)[30:600] if len(word) > 3]

    def foreshadow_segment(self, found: ClassifiedPieces, room: int) -> TextChunk:
        """A content word gives way to a foreign one now and then; the token count stays, so that the
        sentence still ends where it was to end."""
        del room
        shown = list(found)
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            self._insert_foreign_word(shown)
        return TextChunk(shown)

    def _insert_foreign_word(self, shown: ClassifiedPieces) -> None:
        starts = [
            i
            for i in range(4, len(shown) - 3)
            if shown[i][1] == CONTENT and not _is_elided_article(shown[i - 1])
        ]
        if not starts:
            return
        at = self.rng.choice(starts)
        end = at + 1
        while end < len(shown) and shown[end][1] == SURE:
            end += 1
        for _ in range(40):
            ids = vocabulary.encode(" " + self.rng.choice(self._words))
            if len(ids) == end - at:
                shown[at:end] = [(each, CONTENT if i == 0 else SURE) for i, each in enumerate(ids)]
                return

    def text_chunks(self) -> Iterator[TextChunk]:
        """Foreign sentences in the same layout; a short way back where it ends."""
        self.layout.writer = SentenceComposer(self._to, self.rng)
        sentences = self.rng.randint(6, 14) if self.ends else 1 << 60
        while sentences:
            found = self.layout.next_segment()
            if found is None:
                yield TextChunk([], last=True)
                return
            sentences -= 1
            yield TextChunk(found, 0.95)
        self.layout.writer = self.layout.composer


_CHINESE = (
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道"
)
_CYRILLIC = "абвгдежзиклмнопрстуфхцчшщыэюя"
_SALAD = "#@%&*+=~^{}[]<>|\\/_$§°…–"


class GibberishFailure(TextFailure):
    """No language any more: mixed scripts, invented words, or a salad of characters."""

    kind = SymptomKind.GIBBERISH
    any_position = True

    def __init__(self, page: AnswerLayout, rng: random.Random, *, ends: bool) -> None:
        super().__init__(page, rng, ends=ends)
        self._style = rng.choices(("mixed", "invented", "salad"), (50, 35, 15))[0]
        self._words = [word.lower() for word in common_words(page.language) if len(word) > 4]

    def text_chunks(self) -> Iterator[TextChunk]:
        """Some ten words at a time, at a high entropy."""
        left = self.rng.randint(80, 200) if self.ends else 1 << 60
        while left > 0:
            text = "".join(self.next_word() for _ in range(self.rng.randint(6, 14)))
            if self._style != "salad":
                text += self.rng.choice((".", ".", ",", "", " -", ":", "\n"))
            shown = [(each, OPEN) for each in vocabulary.encode(text)]
            left -= len(shown)
            yield TextChunk(shown, self.rng.uniform(1.5, 2.1), last=left <= 0 and self.rng.random() < 0.5)

    def next_word(self) -> str:
        """The next word with the blank before it."""
        draw, rng = self.rng.random(), self.rng
        if self._style == "invented":
            return " " + (self.invented_word() if draw < 0.85 else rng.choice(self._words))
        if self._style == "salad":
            letters = "".join(rng.choice("bcdfghjklmnpqrstvwxz" + _SALAD) for _ in range(rng.randint(1, 5)))
            return (" " if draw < 0.5 else "") + letters
        if draw < 0.32:
            return "".join(rng.choice(_CHINESE) for _ in range(rng.randint(1, 4)))
        if draw < 0.5:
            return " " + "".join(rng.choice(_CYRILLIC) for _ in range(rng.randint(2, 7)))
        if draw < 0.8:
            return " " + self.invented_word()
        return " " + rng.choice(self._words)[: rng.randint(2, 9)]

    def invented_word(self) -> str:
        """A word that never was, from the pieces of some that are."""
        rng = self.rng
        head, tail = rng.choice(self._words), rng.choice(self._words)
        middle = rng.choice(self._words)[1:4] if rng.random() < 0.5 else ""
        return head[: rng.randint(2, 4)] + middle + tail[-rng.randint(3, 5) :]


class StructureBreakFailure(TextFailure):
    """Unit numbers stick, repeat or skip, and sentences lose parts."""

    kind = SymptomKind.STRUCTURE_BREAK

    def __init__(self, page: AnswerLayout, rng: random.Random, *, ends: bool) -> None:
        super().__init__(page, rng, ends=ends)
        self._number = 0

    def begin(self) -> int:
        """From a sentence or a heading on."""
        self._number = self.layout.outline.unit
        return 0

    def text_chunks(self) -> Iterator[TextChunk]:
        """Shrunken sentences; a heading every few of them, with the wrong number."""
        page, rng = self.layout, self.rng
        left = rng.randint(15, 30) if self.ends else 1 << 60
        in_unit = page.outline.sentences
        while left > 0:
            left -= 1
            shown: ClassifiedPieces = []
            if page.outline.numbered and in_unit >= rng.choice((1, 2, 2, 3)):
                self._number = self._next_number()
                shown = [(UNIT_BREAK, FRAME), *page.outline.heading(self._number)]
                in_unit = 0
            in_unit += 1
            text = " " + self._shrunk(page.writer.sentence(page.outline.register))
            shown += classify_pieces(text, page.writer.grammar.language, OPEN)
            yield TextChunk(shown, 1.3, entropy_jitter=6.0)
        page.outline.unit = max(self._number, page.outline.unit)
        page.outline.end_unit()

    def _next_number(self) -> int:
        step = self.rng.choices((0, 1, 2, -1, -3, 5), (50, 10, 12, 10, 8, 10))[0]
        return max(self._number + step, 1)

    def _shrunk(self, text: str) -> str:
        """The sentence without a third to two thirds of its words, from the middle and the beginning."""
        words = text.rstrip(".").split(" ")
        keep = max(3, round(len(words) * self.rng.uniform(0.28, 0.5)))
        head = self.rng.randint(1, keep - 1)
        tail = words[len(words) - (keep - head) :]
        kept = " ".join(words[:head]).rstrip(",") + " " + " ".join(tail)
        return kept.strip(" ,") + "."


class EntropyShiftFailure(TextFailure):
    """The level of entropy changes while the text still reads well; then the text goes too."""

    kind = SymptomKind.ENTROPY_SHIFT

    def __init__(self, page: AnswerLayout, rng: random.Random, *, ends: bool) -> None:
        super().__init__(page, rng, ends=ends)
        self._up = rng.random() < 0.75
        self._fluent = rng.randint(140, 260)

    def text_chunks(self) -> Iterator[TextChunk]:
        """Fluent at the new level, then incoherent (up) or a loop (down)."""
        made = 0
        while made < self._fluent:
            found = self.layout.next_segment()
            if found is None:
                yield TextChunk([], last=True)
                return
            made += len(found)
            yield TextChunk(found, 1.3 if self._up else 0.2, entropy_jitter=5.0 if self._up else 1.0)
        if self.ends:
            return
        yield from self._incoherent() if self._up else self._looping()

    def _looping(self) -> Iterator[TextChunk]:
        loop = LoopFailure(self.layout, self.rng, ends=False)
        if not loop.can_begin():
            return
        loop.begin()
        yield from loop.text_chunks()

    def _incoherent(self) -> Iterator[TextChunk]:
        """Words of sentences in no order, more and more invented ones among them."""
        words = GibberishFailure(self.layout, self.rng, ends=False)
        broken = 0.05
        while True:
            shuffled = self.layout.writer.sentence(self.layout.outline.register).rstrip(".?").split(" ")
            self.rng.shuffle(shuffled)
            shuffled = [words.invented_word() if self.rng.random() < broken else word for word in shuffled]
            broken = min(broken * 1.2, 0.8)
            yield TextChunk(
                classify_pieces(" " + " ".join(shuffled) + ".", self.layout.language, OPEN),
                1.5,
                entropy_jitter=7.0,
            )


class TruncationFailure(TextFailure):
    """The answer ends by itself in the middle of the sentence that begins at the onset."""

    kind = SymptomKind.TRUNCATION

    def text_chunks(self) -> Iterator[TextChunk]:
        """One sentence without its end."""
        before, register, blank = self.layout.outline.prefix()
        words = (blank + self.layout.writer.sentence(register)).rstrip(".?").split(" ")
        kept = words[: max(6, round(len(words) * self.rng.uniform(0.4, 0.7)))]
        text = " ".join(kept[:-1] if len(kept) == len(words) else kept).rstrip(",:;»«")
        yield TextChunk([*before, *classify_pieces(text, self.layout.language, OPEN)], last=True)
