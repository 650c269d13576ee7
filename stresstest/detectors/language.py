"""Language drift: the answer goes on in another language than the one it was asked in.

Sentences are stripped of what may be foreign (see `prose`), cut where they are long, joined to passages
where they are short, and judged one by one (see `langid`). Titles and names, terms, labels (see `terms`),
parallel texts (see `bilingual`) and sentences of the prompt say nothing. What the foreign passages come to
is told by `drift`.
"""

from __future__ import annotations

import re

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.bilingual import LOOK_BACK, is_bilingual, turns
from stresstest.detectors.drift import LONG_PASSAGE, Drift, Passage
from stresstest.detectors.function_words import LISTED, quickly, words_of
from stresstest.detectors.langid import glance, judge, normalised, screen
from stresstest.detectors.prose import ProseFilter
from stresstest.detectors.readable import spelled
from stresstest.detectors.scripts import in_script, is_latin, letters, own_letters, plainly_latin, size
from stresstest.detectors.segment import LONG_SENTENCE, Span, TextFeed, pieces
from stresstest.detectors.terms import ITEM_GRAMMAR, TITLE, are_labels, says_nothing
from stresstest.model import Symptom, Token

__all__ = ["ITEM_GRAMMAR", "LONG_PASSAGE", "PASSAGE", "TITLE", "LanguageDetector"]

QUICK = 200
"""Characters of a sentence that are enough to pass it."""
PASSAGE = 60
"""Characters that a verdict on a language needs; shorter sentences are joined with their neighbours."""
SENTENCE, SENTENCE_WORDS = 30, 5
"""A sentence of its own of so many characters and words needs no neighbours."""
RUN_ON = 2 * LONG_SENTENCE
"""A sentence of more characters is a text without full stops."""
SHORTEST_TAIL = 30
"""At the end of an answer, less than this is not judged."""

_OPTION = re.compile(r"\W*[a-zA-Z][.)]\s")
_LEVELS = tuple(re.compile(level) for level in (r"[IVX]+\.\s", r"[A-Z]\.\s", r"\d+\.\s", r"[-*•]\s"))
_ITEM = re.compile(r"\s*(?:[-*+•–·]|\(?\d{1,3}[.):]|[a-zA-Z][.)])\s")


class LanguageDetector:
    """Online detector of `language_drift`; silent when the wanted language is unknown."""

    def __init__(self, spec: PanelSpec, feed: TextFeed) -> None:
        self._feed = feed
        self._wanted = normalised(spec.language) if spec.language else None
        self._prompt = _folded(spec.prompt_text)
        self._prose = ProseFilter()
        self._drift = Drift(self._wanted, feed, self._turns)
        self._quick = self._wanted in LISTED and is_latin(self._wanted)
        self._read = 0
        self._at = 0
        self._parts: list[str] = []
        self._held: list[Span] = []
        self._chars = 0
        self._items = 0
        self._options = 0
        self._block: int | None = 0
        self._title: tuple[int, str | None] | None = None
        self._outline = False
        self._finished = False

    @property
    def open_from(self) -> int | None:
        """First token of a foreign passage that is not settled, else of the text not yet judged."""
        if self._wanted is None or self._finished:
            return None
        if (warned := self._drift.warned_from) is not None:
            return warned
        if self._title is not None:
            return self._title[0]
        return self._held[0].first if self._held else self._feed.pending_from

    def update(self, token: Token) -> None:
        """Judge the sentences that closed with this token. The feed has taken the token already."""
        del token
        sentences = self._feed.sentences
        if self._read < len(sentences) and self._wanted is not None:
            while self._read < len(sentences):
                self._take(sentences[self._read], self._wanted)
                self._read += 1

    def finish(self, finish_reason: str | None) -> None:
        """Judge what is left. An unfinished last sentence is judged too when the model chose to end."""
        if self._wanted is None or self._finished:
            return
        self._feed.close()
        self.update(Token(""))
        # A short tail can only continue a drift, or be the whole answer, unless its letters are others.
        if self._chars >= SHORTEST_TAIL and (
            self._drift.native_run == 0 or not in_script("".join(self._parts), self._wanted)
        ):
            self._judge(self._wanted)
        if not self._drift.began:
            self._judge_all(self._wanted)
        self._at = len(self._feed.sentences) - 1
        self._drift.finish(self._at)
        if finish_reason is not None and finish_reason not in ("length", "abort", "error"):
            self._held = []
            self._finished = True

    def symptoms(self) -> list[Symptom]:
        """Drifts and single foreign passages (unconfirmed), in order of onset."""
        return list(self._drift.symptoms)

    def _take(self, sentence: Span, wanted: str) -> None:
        text = sentence.text
        long = self._quick and not self._held and PASSAGE <= len(text) <= LONG_SENTENCE
        passes = long and plainly_latin(text) and self._prose.passes(text, sentence.line)
        if passes and quickly(text[:QUICK], wanted):
            self._at = self._read
            self._on_native(len(text))
            return
        for span, prose in pieces(sentence, self._prose(text, sentence.line), self._feed):
            self._take_piece(span, _squeezed(prose), wanted)

    def _take_piece(self, span: Span, prose: str, wanted: str) -> None:
        lettered = letters(prose)
        if lettered * 2 < len(prose) or not lettered:
            if not self._held:
                return
            prose = ""
        if self._parts and prose and self._changes_script(prose, wanted):
            if self._chars >= SENTENCE:
                self._judge(wanted)
            elif size(prose) >= SENTENCE:
                self._forget()  # a heading or a greeting would pass for half of what follows
        self._parts.append(prose)
        self._held.append(span)
        self._at = self._read
        self._chars += size(prose)
        item = _ITEM.match(span.text) is not None
        self._items += item
        self._options += _OPTION.match(span.text) is not None
        alone = not item and self._chars >= SENTENCE and prose.count(" ") >= SENTENCE_WORDS - 1
        if self._chars >= PASSAGE or alone:
            self._judge(wanted)

    def _judge_all(self, wanted: str) -> None:
        """Nothing spoke for either: an answer that is one quotation as a whole is judged as what it says,
        and one without a letter of the wanted script is judged whatever it is."""
        filtered = ProseFilter(quotations=False)
        sentences = self._feed.sentences
        parts = [_squeezed(filtered(span.text, span.line)) for span in sentences]
        text = " ".join(filter(None, parts))
        if size(text) < SHORTEST_TAIL or are_labels(list(filter(None, parts))):
            return
        own, _ = own_letters(text, wanted)
        if not own and sum(word.islower() for word in words_of(text)) >= SENTENCE_WORDS:
            first, last = sentences[0].first, sentences[-1].last
            language, score = screen("en").classify(text)
            self._drift.foreign(
                Passage(first, last, 0, False, language, score, size(text), text[:80]), whole=True
            )
            return
        # The headings of an outline are its own words, and no titles of works.
        levels = {level for span in sentences for level in _LEVELS if level.match(span.text)}
        self._outline = len(levels) >= 2
        self._prose, self._block = ProseFilter(quotations=False), None
        self._forget()
        self._read = 0
        self.update(Token(""))
        if self._chars >= SHORTEST_TAIL:
            self._judge(wanted)

    def _changes_script(self, prose: str, wanted: str) -> bool:
        return in_script("".join(self._parts), wanted) != in_script(prose, wanted)

    def _forget(self) -> None:
        """Nothing is held any more."""
        self._parts, self._held, self._chars, self._items, self._options = [], [], 0, 0, 0

    def _judge(self, wanted: str) -> None:
        parts = [part for part in self._parts if part]
        text = " ".join(parts)
        first, last, chars = self._held[0].first, self._held[-1].last, self._chars
        items, options = self._items, self._options
        self._forget()
        if glance(text, wanted):
            self._on_native(chars)
            return
        drift = self._drift
        opinion = judge(text, wanted, sure=not drift.drifted)
        if not opinion.foreign:
            self._on_native(chars)
            return
        if not opinion.script and not spelled(text, opinion.language):
            return  # letters that make no words are gibberish, not another language
        if not drift.drifted:
            # The answers of a language exercise are in that language, and so is an example of data.
            exercise = options > 0 and drift.native_chars > 0
            example = self._prose.block not in (0, self._block) and self._block is not None
            nothing = not self._outline and says_nothing(parts, opinion.language, items=items)
            if exercise or example or nothing or self._from_prompt(parts, wanted):
                self._title = self._title or (first, opinion.language)
                return
            # An answer may open with its first pair: one is then enough.
            if self._is_bilingual(wanted, pairs=2 if drift.began else 1):
                self._title = self._title or (first, opinion.language)
                drift.pardon()
                return
        foreign = round(chars * opinion.share)
        title, self._title = self._title, None
        onset = title[0] if title is not None and title[1] == opinion.language else first
        passage = Passage(
            onset, last, self._at, self._runs_on(), opinion.language, opinion.score, foreign, text[:80]
        )
        drift.foreign(passage, whole=opinion.share == 1.0)
        drift.native_chars += chars - foreign

    def _on_native(self, chars: int) -> None:
        self._title = None
        self._block = self._prose.block
        self._drift.native(chars, self._at)

    def _from_prompt(self, parts: list[str], wanted: str) -> bool:
        """Whether the foreign ones of these sentences are the prompt's: a text to translate, an instruction
        repeated."""
        if not self._prompt:
            return False
        own = [part for part in parts if _folded(part) not in self._prompt]
        text = " ".join(own)
        return len(own) < len(parts) and (len(text) < SHORTEST_TAIL or not judge(text, wanted).foreign)

    def _is_bilingual(self, wanted: str, pairs: int) -> bool:
        """Whether the sentences up to the last one judged are a parallel text."""
        return is_bilingual(self._up_to(self._at), wanted, pairs=pairs)

    def _turns(self, sentence: int) -> int:
        return turns(self._up_to(sentence), self._wanted) if self._wanted else 0

    def _runs_on(self) -> bool:
        return len(self._feed.sentences[self._at].text) > RUN_ON

    def _up_to(self, sentence: int) -> list[Span]:
        return self._feed.sentences[max(sentence + 1 - LOOK_BACK, 0) : sentence + 1]


def _squeezed(text: str) -> str:
    return " ".join(text.split()) if "  " in text else text.strip()


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
