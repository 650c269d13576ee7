"""Flooding: one word or a handful fill a whole window of the output, white space or one figure far more.

It catches what an exact loop misses: "no no yes no yes yes no …" has no period and no content. Natural prose
never comes near the bound (four words making up nine tenths of sixty-four), so the work is in what must *not*
count: rulers, tables, number lists, answer keys and formulas.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from math import ceil

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.flooding.blank_end import BlankEnd, blank_ending
from stresstest.detectors.flooding.few_words import FEW_BOUNDS, FewWords, WordWindow
from stresstest.detectors.flooding.one_sign import OneSign, sole_sign
from stresstest.detectors.flooding.run import FloodRun, WindowWord, flood_start
from stresstest.detectors.flooding.stutter import Stutter
from stresstest.detectors.flooding.tags import TagRun
from stresstest.detectors.flooding.typographic import TypographicFloods
from stresstest.detectors.text.requested_repetition import UNCOUNTED_LIMIT, requested_repetition
from stresstest.detectors.text.tokens import is_symbol
from stresstest.model import Symptom, SymptomKind, Token

WINDOW = 64
"""Words examined together, about three sentences: shorter windows meet chants and interjections."""

MAX_FLOOD_WORDS = 4
FLOOD_SHARE = 0.9
"""At most this number of distinct words that make up at least this share of a window flood it."""

MIN_WORD_SHARE = 0.08

MAX_FIGURE_SHARE, LISTED_FIGURE_SHARE = 0.15, 0.12
"""Share of digits and cell borders among a window's tokens from which on it is a table or a numbered list;
from the second on it may be a list of verdicts, which floods from `UNCOUNTED_LIMIT` words on."""

MAX_FEW_FIGURE_SHARE = 0.03
"""The same for a flood of a few words in any order: songs and drills that count have few by nature."""

MIN_TEXT_SHARE = 0.4
"""Share of words among a window's tokens below which it is formulas or markup: \\frac, \\left, begin, end."""

LIST_SHARE = 0.9
"""Share of words on a line of their own, or between commas, from which on they are a list: of labels,
answers, moves. It floods from `UNCOUNTED_LIMIT` words on, like a repetition requested without a count. So do
the statements of a module, which may be a test of few words."""

_SHOWN_WORDS = 6
OPEN_WORDS = 24
"""A flooded tail of so many words may yet become a flooded window."""

END_SHARE = 0.5
MIN_FLOOD_COUNT = ceil(WINDOW * FLOOD_SHARE)
MOST_DISTINCT = WINDOW - MIN_FLOOD_COUNT + MAX_FLOOD_WORDS
WORD, FIGURE, _OTHER, BREAK = 1, 2, 0, 3
_BREAKS = frozenset("\n,;،、，")
_SIGNS = frozenset("\\{}<>$_^=")
_IDENTIFIER = re.compile(r"_*[^\W\d_]{2,}(?:_+[^\W\d_]*)*_*")
"""A name in code, which is a word like another, and an emphasised one; not the `x_i` of a formula."""


class FloodingDetector:
    """Online counts over the last 64 words; O(1) a token, O(window) only when a flood is likely."""

    def __init__(self, spec: DetectorSpec) -> None:
        self._position = 0
        self._figures = 0
        self._tokens = 0
        self._breaks = 0
        # The fields of `WindowWord`: plain tuples are quicker.
        self._window: deque[tuple[str, int, int, int, int]] = deque()
        self._counts: dict[str, int] = {}
        self._kinds: dict[str, tuple[int, str, str, int, int]] = {}
        self._floods: list[FloodRun] = []
        self._current: FloodRun | None = None
        self._signs = TypographicFloods()
        self._end = OneSign()
        self._blank_end = BlankEnd()
        self._tags = TagRun()
        self._stutter = Stutter()
        self._ended: Symptom | None = None
        self._requests = requested_repetition(spec.requests, spec.copies)
        self._lists = spec.wants_code
        self._few = [(FewWords(bound), WordWindow(bound.words)) for bound in FEW_BOUNDS]

    def update(self, token: Token) -> None:
        self._position += 1
        text = token.text
        known = self._kinds.get(text)
        if known is None:
            known = self._kinds[text] = (*classify_token(text), *sole_sign(text), blank_ending(text))
        kind, word, sign, count, blanks = known
        if self._tags.begun or "#" in text:
            self._tags.add(text, self._position)
        self._end.add(sign, count, self._position)
        if blanks or self._blank_end.count:
            self._blank_end.add(blanks, whole=blanks == len(text), position=self._position)
        self._take_copies(text, kind, word, self._position)
        if kind != WORD:
            self._take_sign(kind, word, len(text))
            return
        self._tokens += 1
        if self._signs.rising:
            self._signs.add_other(len(word), word=True)
        counts, window = self._counts, self._window
        entry = (word, self._position, self._figures, self._tokens, self._breaks)
        window.append(entry)
        for few, last in self._few:
            different = last.add(entry)
            if not few.quiet(different):
                few.step(last.seen, self._position, different, last.words, self._allowed_words)
        counts[word] = counts.get(word, 0) + 1
        if len(window) > WINDOW:
            old = window.popleft()[0]
            if counts[old] == 1:
                del counts[old]
            else:
                counts[old] -= 1
        if self._current is not None:
            self._continue_flood(self._current, word)
        elif len(counts) <= MOST_DISTINCT and len(window) == WINDOW:
            self._check_window()

    def _take_copies(self, text: str, kind: int, word: str, position: int) -> None:
        """Follow the words that come again at once, with no sign and no line break between. In code, the type
        and the name of a parameter are one word but for a capital (`Order order`)."""
        if word or "\n" in text:
            self._stutter.add(text.strip() or "\n", position, word=kind == WORD)

    def _take_sign(self, kind: int, word: str, characters: int) -> None:
        """Take a token that is no word: a figure, a break, white space, or a sign."""
        self._breaks += kind == BREAK
        self._figures += kind == FIGURE
        if not word:
            self._signs.add_blank(characters, self._position)
            return
        self._tokens += 1
        if kind == FIGURE and word[0].isdigit():
            self._signs.add_figure(word, self._position)
        elif self._signs.rising:
            self._signs.add_other(len(word), word=False)

    def finish(self, finish_reason: str | None) -> None:
        """Every full window was checked; what is left is an end of one sign, or of white space."""
        end, blanks = self._end, self._blank_end
        if end.is_flood(finish_reason) and not self._requests.shows_sign(end.sign):
            self._ended = Symptom(
                kind=SymptomKind.FLOODING,
                onset=end.first,
                alarm=end.last,
                score=0.75,
                detail={"words": [end.sign], "count": end.count},
                summary=f"the same sign {end.count} times, to the end: “{end.sign}”",
            )
        elif blanks.is_flood(finish_reason):
            self._ended = Symptom(
                kind=SymptomKind.FLOODING,
                onset=blanks.first,
                alarm=blanks.last,
                score=0.75,
                detail={"words": ["white space"], "count": blanks.count},
                summary=f"{blanks.count} characters of white space, to the end",
            )

    @property
    def open_from(self) -> int | None:
        """First token of a requested flood, or of a tail that may yet become a flood, or an end of signs."""
        followed = self._few if self._current is None else ()
        few = (each.open_from(self._last_words, self._allowed_words) for each, _ in followed)
        others = (self._signs, self._tags, self._stutter, self._end, self._blank_end)
        starts = (self._open_words, *(each.open_from for each in others), *few)
        return min((start for start in starts if start is not None), default=None)

    @property
    def _open_words(self) -> int | None:
        """The same, of words: a flooded tail of 24 is not yet a window."""
        if self._current is not None:
            return self._current.onset if self._current.requested_count else None
        if len(self._window) < OPEN_WORDS:
            return None
        last = islice(reversed(self._window), OPEN_WORDS)
        few = _dominant_words(Counter(text for text, *_ in last), OPEN_WORDS)
        if not few:
            return None
        words = list(map(WindowWord._make, self._window))
        first = flood_start(words, few)
        if len(words) - first < OPEN_WORDS or self._is_table(words[first:]):
            return None
        return words[first].position

    def _last_words(self, count: int) -> list[WindowWord]:
        _, widest = self._few[-1]
        return widest.last(count)

    def _allowed_words(self, words: Sequence[WindowWord], few: frozenset[str]) -> int | None:
        """How many words a stretch of few in any order may have; None where it is no text."""
        tokens, figures = words[-1].tokens - words[0].tokens + 1, words[-1].figures - words[0].figures
        if is_typographic(len(words), tokens, figures, MAX_FEW_FIGURE_SHARE):
            return None
        return self._requested_count(words, few)

    def _requested_count(self, words: Sequence[WindowWord], few: frozenset[str]) -> int:
        """How many words a flood of `few` may have: those that the prompt requested, or those of a list."""
        asked = self._requests.requested_words(few)
        if asked is not None:
            return asked or UNCOUNTED_LIMIT
        listed = len(few) > 1 and (self._lists or self._is_list(words) or _is_numbered(words))
        return UNCOUNTED_LIMIT if listed else 0

    def symptoms(self) -> list[Symptom]:
        signs = [
            s for s in self._signs.symptoms() if self._requests.requested_words(s.detail["words"]) is None
        ]
        of_few = (run for few, _ in self._few for run in few.found)
        few = [run for run in of_few if not any(map(run.overlaps, self._floods))]
        others = [*self._tags.symptoms(), *self._stutter.symptoms()]
        found = [*map(_symptom, self._floods), *map(_symptom, few), *signs, *others]
        if self._ended is not None and not any(s.end is None for s in found):
            found.append(self._ended)
        return sorted(found, key=lambda s: s.onset)

    def _check_window(self) -> None:
        few = _dominant_words(self._counts, WINDOW)
        if not few:
            return
        words = list(map(WindowWord._make, self._window))
        if self._is_table(words):
            return
        first = flood_start(words, few)
        flood = FloodRun(few, words[first].position, self._position, self._position, WINDOW - first)
        flood.requested_count = self._requested_count(words[first:], few)
        self._current = flood
        self._report(flood)

    def _report(self, flood: FloodRun) -> None:
        """Report a flood once it exceeds what was requested."""
        if flood.count >= flood.requested_count:
            flood.requested_count, flood.alarm = 0, self._position
            self._floods.append(flood)

    def _is_table(self, words: list[WindowWord]) -> bool:
        """Whether the stretch up to the last token is figures, cell borders and signs rather than words."""
        tokens, figures = self._tokens - words[0].tokens + 1, self._figures - words[0].figures
        return is_typographic(len(words), tokens, figures, MAX_FIGURE_SHARE)

    @staticmethod
    def _is_list(words: Sequence[WindowWord]) -> bool:
        breaks = (after.breaks > word.breaks for word, after in pairwise(words))
        return sum(breaks) >= LIST_SHARE * (len(words) - 1)

    def _continue_flood(self, flood: FloodRun, word: str) -> None:
        """End the flood once its words no longer make up half of the window."""
        if word in flood.words:
            flood.last = self._position
            flood.count += 1
            if flood.requested_count:
                self._report(flood)
        elif sum(self._counts.get(w, 0) for w in flood.words) < WINDOW * END_SHARE:
            flood.active = False
            self._current = None


def _is_numbered(words: Sequence[WindowWord]) -> bool:
    """Whether the words may be those of a numbered list."""
    first, last = words[0], words[-1]
    return last.figures - first.figures >= LISTED_FIGURE_SHARE * (last.tokens - first.tokens + 1)


def is_typographic(words: int, tokens: int, figures: int, most: float) -> bool:
    """Whether a stretch has too many figures, or too few words, to be text. most: share of figures."""
    return figures >= most * tokens or words < MIN_TEXT_SHARE * tokens


@lru_cache(1 << 15)
def classify_token(text: str) -> tuple[int, str]:
    """A token's class: a word (case-folded), a figure, a break or other. A lone letter of an alphabet is no
    word: answer keys and sequences consist of them; one ideograph is, and so is an emoji."""
    word = text.strip()
    if len(word) <= 1 and not _BREAKS.isdisjoint(text):
        return BREAK, word
    if any(ch.isdigit() or ch == "|" for ch in word):
        return FIGURE, word
    if not _SIGNS.isdisjoint(word):
        return (WORD, word.casefold()) if _IDENTIFIER.fullmatch(word) else (_OTHER, word)
    letters = sum(ch.isalpha() for ch in word)
    if letters > 1 or (letters == 1 and not word.isascii() and word.upper() == word.lower()):
        return WORD, word.casefold()
    symbols = "" if word.isascii() or letters else _symbols(word)
    return (WORD, symbols) if symbols else (_OTHER, word)


def _symbols(text: str) -> str:
    """Its emoji and similar symbols, without their modifiers; a run of one symbol is reduced to it."""
    found = list(filter(is_symbol, text))
    return found[0] if len(set(found)) == 1 else "".join(found)


def _dominant_words(counts: Mapping[str, int], total: int) -> frozenset[str]:
    """The fewest words, at most four, that make up the flood share; empty if none do."""
    owned = 0
    # An owner has a share of its own: a frequent word of the prose before must not complete the four.
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_FLOOD_WORDS]
    ranked = [(word, count) for word, count in ranked if count >= MIN_WORD_SHARE * total]
    for size, (_, count) in enumerate(ranked, 1):
        owned += count
        if owned >= FLOOD_SHARE * total:
            return frozenset(word for word, _ in ranked[:size])
    return frozenset()


def _symptom(flood: FloodRun) -> Symptom:
    shown = ", ".join(f"“{word}”" for word in sorted(flood.words)[:_SHOWN_WORDS])
    if len(flood.words) > _SHOWN_WORDS:
        shown = f"{len(flood.words)} different ones ({shown} …)"
    return Symptom(
        kind=SymptomKind.FLOODING,
        onset=flood.onset,
        alarm=flood.alarm,
        end=None if flood.active else flood.last,
        score=1.0 - 0.5 * WINDOW / max(flood.count, WINDOW),
        detail={"words": sorted(flood.words), "count": flood.count},
        summary=f"{flood.count} words in a row consist of little more than {shown}",
    )
