"""Language drift: the answer goes on in another language than the one it was asked in.

Sentences are stripped of what may be foreign (see `prose`), joined to passages where they are short,
and judged one by one (see `langid`). One foreign passage is a warning: a motto, a title, a citation.
Two of three consecutive ones are drift, and so is one of 200 characters, an answer that opens with a
foreign sentence ("Sure, here is …"), or one of which a fifth is foreign when it ends. Titles and names
(most words capitalised), list items without grammar and sentences of the prompt say nothing. The onset
is the first token of the first foreign passage of that majority.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, replace

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.bilingual import LOOK_BACK, is_bilingual, is_labelled
from stresstest.detectors.function_words import LISTED, count, quickly, words_of
from stresstest.detectors.langid import glance, judge, normalised, screen
from stresstest.detectors.prose import ProseFilter
from stresstest.detectors.readable import spelled
from stresstest.detectors.scripts import SCRIPTS_OF, is_latin, letters, size, weights
from stresstest.detectors.segment import Span, TextFeed
from stresstest.model import Symptom, SymptomKind, Token

QUICK = 200
"""Characters of a sentence that are enough to pass it."""
PASSAGE = 60
"""Characters that a verdict on a language needs; shorter sentences are joined with their neighbours."""
SENTENCE, SENTENCE_WORDS = 30, 5
"""A sentence of its own of so many characters and words needs no neighbours."""
TOGETHER = 90
"""Characters of the foreign passages that make a majority."""
LONG_PASSAGE = 200
"""One unquoted foreign sentence of this length is no motto any more: it confirms alone."""
SHARE = 0.15
"""An answer of which so much is foreign when it ends has drifted, however it is spread."""
SHORTEST_TAIL = 30
"""At the end of an answer, less than this is not judged."""
RECOVERY = 3
"""So many passages in the wanted language end a drift."""
TITLE = 0.6
"""Share of capitalised words that makes a title or a list of names."""
GRAMMAR, ITEM_GRAMMAR = 0.08, 0.2
"""Least share of function words in foreign prose, and in list items, where terms are at home."""

_OPTION = re.compile(r"\W*[a-zA-Z][.)]\s")
_ITEM = re.compile(r"\s*(?:[-*+•–·]|\(?\d{1,3}[.):]|[a-zA-Z][.)])\s")


@dataclass(frozen=True, slots=True)
class _Passage:
    first: int
    last: int
    language: str | None
    score: float
    chars: int
    excerpt: str


class LanguageDetector:
    """Online detector of `language_drift`; silent when the wanted language is unknown."""

    def __init__(self, spec: PanelSpec, feed: TextFeed) -> None:
        self._feed = feed
        self._wanted = normalised(spec.language) if spec.language else None
        self._prompt = _folded(spec.prompt_text)
        self._prose = ProseFilter()
        self._quick = self._wanted in LISTED and is_latin(self._wanted)
        self._read = 0
        self._parts: list[str] = []
        self._held: list[Span] = []
        self._chars = 0
        self._items = 0
        self._options = 0
        self._recent: deque[_Passage | None] = deque(maxlen=3)
        self._native_chars = 0
        self._foreign_chars = 0
        self._native_run = 0
        self._symptoms: list[Symptom] = []
        self._standing: Symptom | None = None
        self._last_foreign = 0
        self._title: int | None = None
        self._finished = False

    @property
    def open_from(self) -> int | None:
        """First token of a foreign passage that is not settled, else of the text not yet judged."""
        if self._wanted is None or self._finished:
            return None
        if self._standing is not None and not self._standing.confirmed:
            return self._standing.onset
        if self._title is not None:
            return self._title
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
        for span in self._feed.sentences[self._read :]:
            self._take(span, self._wanted)
        self._read = len(self._feed.sentences)
        # A short tail can only continue a drift, or be the whole answer.
        if self._chars >= SHORTEST_TAIL and self._native_run == 0:
            self._judge(self._wanted)
        if not self._native_chars and not self._foreign_chars:
            self._judge_all(self._wanted)
        self._weigh_the_whole()
        if finish_reason is not None and finish_reason not in ("length", "abort", "error"):
            self._held = []
            self._finished = True

    def symptoms(self) -> list[Symptom]:
        """Drifts and single foreign passages (unconfirmed), in order of onset."""
        return list(self._symptoms)

    def _take(self, span: Span, wanted: str) -> None:
        text = span.text
        long = self._quick and not self._held and len(text) >= PASSAGE
        if long and self._prose.passes(text, span.line) and quickly(text[:QUICK], wanted):
            self._on_native(len(text))
            return
        prose = self._prose(span.text, span.line)
        lettered = letters(prose)
        if lettered * 2 < len(prose) or not lettered:
            if not self._held:
                return
            prose = ""
        if self._chars >= SENTENCE and not is_latin(wanted) and prose and self._changes_script(prose):
            self._judge(wanted)
        self._parts.append(prose)
        self._held.append(span)
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
        prose = ProseFilter(quotations=False)
        for span in self._feed.sentences:
            self._parts.append(prose(span.text, span.line))
            self._held.append(span)
        self._chars = sum(map(size, self._parts))
        if self._chars < SHORTEST_TAIL:
            return
        text = " ".join(self._parts)
        own = sum(weights(text).get(script, 0) for script in SCRIPTS_OF.get(wanted, ("LATIN",)))
        if not own and sum(word.islower() for word in words_of(text)) >= SENTENCE_WORDS:
            first, last = self._held[0].first, self._held[-1].last
            language, score = screen("en").classify(text)
            self._on_foreign(_Passage(first, last, language, score, self._chars, text[:80]), whole=True)
        else:
            self._judge(wanted)

    def _changes_script(self, prose: str) -> bool:
        return "".join(self._parts).isascii() != prose.isascii()

    def _judge(self, wanted: str) -> None:
        parts = [part for part in self._parts if part]
        text = " ".join(parts)
        first, last, chars = self._held[0].first, self._held[-1].last, self._chars
        items, options = self._items, self._options
        self._parts, self._held, self._chars, self._items, self._options = [], [], 0, 0, 0
        if glance(text, wanted):
            self._on_native(chars)
            return
        drifted = self._standing is not None and self._standing.confirmed
        opinion = judge(text, wanted, sure=not drifted)
        if not opinion.foreign:
            self._on_native(chars)
            return
        if not opinion.script and not spelled(text, opinion.language):
            return  # letters that make no words are gibberish, not another language
        # The answers of a language exercise are in that language.
        exercise = options > 0 and self._native_chars > 0
        exempt = exercise or _says_nothing(text, opinion.language, items > 0) or self._from_prompt(parts)
        if exempt and not drifted:
            self._title = self._title or first
            return
        # An answer may open with its first pair: one is then enough.
        opens = not self._native_chars and not self._foreign_chars
        if not drifted and self._is_bilingual(last, wanted, pairs=1 if opens else 2):
            self._pardon(first)
            return
        self._last_foreign = last
        foreign = round(chars * opinion.share)
        passage = _Passage(self._title or first, last, opinion.language, opinion.score, foreign, text[:80])
        self._title = None
        self._on_foreign(passage, opinion.share == 1.0)
        self._native_chars += chars - foreign

    def _from_prompt(self, parts: list[str]) -> bool:
        """Whether the prompt has these sentences too: a text to translate, an instruction repeated."""
        return bool(self._prompt) and all(_folded(part) in self._prompt for part in parts)

    def _is_bilingual(self, last: int, wanted: str, pairs: int) -> bool:
        """Whether the sentences up to the token `last` are a parallel text."""
        sentences = self._feed.sentences
        end = bisect_right(sentences, last, key=lambda span: span.first)
        return is_bilingual(sentences[max(end - LOOK_BACK, 0) : end], wanted, pairs=pairs)

    def _pardon(self, first: int) -> None:
        """What was foreign so far, up to this passage, is the other half of a parallel text."""
        self._title = self._title or first
        self._recent.clear()
        self._foreign_chars = 0
        if self._standing is not None:
            self._symptoms[-1] = replace(self._standing, end=self._last_foreign)
            self._standing = None

    def _on_foreign(self, passage: _Passage, whole: bool) -> None:
        opening = whole and not self._native_chars and not self._foreign_chars
        self._native_run = 0
        self._foreign_chars += passage.chars
        self._recent.append(passage)
        standing = self._standing
        if standing is not None and standing.confirmed:
            return
        foreign = [p for p in self._recent if p is not None]
        if standing is None:
            self._standing = self._symptom(passage, confirmed=False)
            self._symptoms.append(self._standing)
        if len(foreign) >= 2 and sum(p.chars for p in foreign) >= TOGETHER:
            self._confirm(foreign[0], f"{len(foreign)} of {len(self._recent)} consecutive passages")
        elif passage.chars >= LONG_PASSAGE:
            self._confirm(passage, f"one passage of {passage.chars} characters")
        elif opening and not is_labelled(passage.excerpt):
            self._confirm(passage, "the opening sentence")

    def _on_native(self, chars: int) -> None:
        self._title = None
        self._native_chars += chars
        self._native_run += 1
        self._recent.append(None)
        standing = self._standing
        if standing is None:
            return
        # A warning is settled when no majority can include it any more.
        if self._native_run >= (RECOVERY if standing.confirmed else 2):
            self._symptoms[-1] = replace(standing, end=self._last_foreign)
            self._standing = None

    def _weigh_the_whole(self) -> None:
        """Confirm the first foreign passage of an answer that ends with too many of them."""
        if not self._symptoms or any(symptom.confirmed for symptom in self._symptoms):
            return
        if self._foreign_chars < SHARE * (self._foreign_chars + self._native_chars):
            return
        share = f"{self._foreign_chars} of {self._foreign_chars + self._native_chars} characters"
        first = self._symptoms[0]
        confirmed = replace(
            first,
            confirmed=True,
            alarm=max(self._feed.tokens, first.onset),
            detail={**first.detail, "why": share},
        )
        if self._standing is first:
            self._standing = confirmed
        self._symptoms[0] = confirmed

    def _confirm(self, passage: _Passage, why: str) -> None:
        if self._standing is None or self._standing.confirmed:
            return
        symptom = self._symptom(passage, confirmed=True, why=why)
        self._standing = self._symptoms[-1] = replace(symptom, onset=self._standing.onset)

    def _symptom(self, passage: _Passage, *, confirmed: bool, why: str = "one passage") -> Symptom:
        language = passage.language or "unknown"
        return Symptom(
            kind=SymptomKind.LANGUAGE_DRIFT,
            onset=passage.first,
            alarm=max(self._feed.tokens, passage.first),
            score=passage.score,
            confirmed=confirmed,
            detail={"wanted": self._wanted, "language": language, "excerpt": passage.excerpt, "why": why},
            summary=f"{why} in {language} instead of {self._wanted}: “{passage.excerpt}”",
        )


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _says_nothing(text: str, language: str | None, items: bool) -> bool:
    """Whether a foreign passage is but names, titles, terms or a glossary: words without one grammar."""
    counted = count(text)
    # German capitalises all its nouns.
    if language != "de" or counted.uses.get("de", 0) < ITEM_GRAMMAR * counted.words:
        long = [word for word in words_of(text) if len(word) >= 4 and word.upper() != word.lower()]
        if long and sum(word[0] != word[0].lower() for word in long) >= TITLE * len(long):
            return True
    if language not in LISTED or not is_latin(language):
        return False
    if counted.uses.get(language, 0) < (ITEM_GRAMMAR if items else GRAMMAR) * counted.words:
        return True
    own = counted.only.get(language, 0)
    return items and sum(counted.only.values()) - own > 0.5 * own
