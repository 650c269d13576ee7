"""The screen for language drift: gaps between the requested language's own function words.

In prose these words occur every few words, and a foreign passage is a gap between them. Only the sentences
around suspicious gaps are passed on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stresstest.detectors.entry import ScreenBatch, Suspicion
from stresstest.detectors.gibberish.screen import (
    EVIDENCE_SCALE,
    LONE,
    OWN,
    STRANGE,
    USED,
    WordsOfBatch,
    weigh_words,
)
from stresstest.detectors.identification.names import can_detect_drift
from stresstest.detectors.language.drift import LONG_PASSAGE
from stresstest.detectors.language.online import MIN_PASSAGE_CHARS
from stresstest.detectors.language.terms import ITEM_GRAMMAR, TITLE_SHARE
from stresstest.detectors.languages.catalog import normalize_language
from stresstest.detectors.text.features import TextFeatures
from stresstest.detectors.text.prose import holds_blocks
from stresstest.detectors.text.scripts import is_latin
from stresstest.detectors.text.windows import cusum, prefix_sums, text_index, text_starts, unmarked_gaps

MIN_GAP_WORDS = 6
"""Consecutive words without one of the requested language's own: a foreign sentence has at least five, and
its neighbours rarely begin or end with one."""
OPENING_GAP = 4
"""The same at the beginning, where one foreign sentence is proof."""
OPENING_WORDS = 2
"""Words before it: a foreign opening may begin with an own word."""
STRANGE_WORD, STRANGE_LETTER, SHARED_WORD, MOST_OF_A_NAME = 2.0, 0.3, -0.6, 0.3
"""Evidence of a gap's words for another language: function words of others, those of one letter (formulas are
full of them), those shared with others, and the limit of a capitalised word."""
LETTER_EVIDENCE_OFFSET = 0.5
"""Added to a word's letter evidence: the requested language's own words average about -0.6, those of a
language whose function words are unknown here between -0.4 and 1."""
RISE, OPENING_RISE, COMPANY_RISE = 4.5, 2.2, 1.5
"""Sum of this evidence in a gap that makes it suspicious: anywhere, at the beginning, and near another gap.
Single foreign sentences of 60 characters reach 5 and more in 95 of 100 cases; in a short answer one is
drift."""
MAX_GAP_DISTANCE = 60
"""Words between two gaps of one drift: three passages."""
WHOLE_SHARE = 0.1
"""Share of the text in gaps from which on an answer may be foreign as a whole."""
MIN_SCRIPT_SHARE = 0.4
"""Letters of other scripts than the Latin a token, below which an answer wanted in one of these is probably
in another language: the whole suite is run at once."""
_ENDS = ("\n", ". ", "! ", "? ", ": ", "… ")
_REACH = 300


def suspect_drift(batch: ScreenBatch) -> list[Suspicion | None]:
    """The sentences of each text that may have drifted away from the requested language."""
    seen = batch.features
    if batch.language is None or not can_detect_drift(batch.language):
        return [None] * len(seen.texts)
    words = batch.once(weigh_words)
    if words is None:
        beside = not is_latin(normalize_language(batch.language))
        elsewhere = beside & (seen.non_latin_letters < MIN_SCRIPT_SHARE * seen.counts)
        return [Suspicion(text, plain) for text, plain in zip(seen.texts, elsewhere.tolist(), strict=True)]
    found: list[Suspicion | None] = [
        Suspicion(text, plain) if plain or whole else None
        for text, plain, whole in zip(seen.texts, words.plain.tolist(), words.whole.tolist(), strict=True)
    ]
    for i, suspicious, others in _suspicious_gaps(seen, words):
        if found[i] is None and (passages := _passages(seen, i, suspicious, others)):
            found[i] = Suspicion(passages)
    return found


Gaps = Sequence[tuple[int, int]]


def _suspicious_gaps(seen: TextFeatures, weighed: WordsOfBatch) -> list[tuple[int, Gaps, list[int]]]:
    """(text, its suspicious gaps, where others begin that may belong to the same drift)."""
    first, end = unmarked_gaps(weighed.own, seen.word_fences, OPENING_GAP)
    rise = cusum(_foreign_evidence(seen, weighed), seen.word_fences)
    words = end - first
    foreign, capital = (
        (sums := prefix_sums(each))[end] - sums[first]
        for each in ((weighed.flags & STRANGE) != 0, seen.capital)
    )
    text = text_index(first, seen.word_fences)
    opening = first - text_starts(seen.word_fences)[text] <= OPENING_WORDS
    bounds = np.stack((first, end), axis=1).ravel()
    most = np.maximum.reduceat(rise, bounds)[::2] if len(bounds) else first
    wanting = np.where(
        opening,
        most >= OPENING_RISE * EVIDENCE_SCALE,
        (most >= RISE * EVIDENCE_SCALE) & (words >= MIN_GAP_WORDS),
    )
    # German nouns have capitals too.
    titles = (
        (capital >= TITLE_SHARE * words)
        & (foreign < ITEM_GRAMMAR * words)
        & (most < 2 * RISE * EVIDENCE_SCALE)
    )
    wanting &= ~titles
    others = ~wanting & ~titles & (words >= MIN_GAP_WORDS) & (most >= COMPANY_RISE * EVIDENCE_SCALE)
    found: list[tuple[int, Gaps, list[int]]] = []
    for i in np.unique(text[wanting]).tolist():
        a, b = np.searchsorted(text, (i, i + 1)).tolist()
        mine = np.flatnonzero(wanting[a:b]) + a
        pairs = list(zip(first[mine].tolist(), end[mine].tolist(), strict=True))
        found.append((i, pairs, first[a:b][others[a:b]].tolist()))
    return found


def _foreign_evidence(seen: TextFeatures, weighed: WordsOfBatch) -> NDArray[np.int32]:
    """The evidence of every word for another language, in thousandths; an own word resets the sum."""
    says = weighed.letters + np.int32(round(LETTER_EVIDENCE_OFFSET * EVIDENCE_SCALE))
    np.minimum(says, round(MOST_OF_A_NAME * EVIDENCE_SCALE), out=says, where=seen.capital)
    known = weighed.flags != 0
    says[known] = _KNOWN.take(weighed.flags[known])
    says[seen.starts_with_digit] = 0
    says[weighed.own] = -100 * EVIDENCE_SCALE  # it ends what was said
    return says


def _evidence_by_flags() -> NDArray[np.int32]:
    """A word's evidence by its flags; a word of no language has one letter."""
    says = np.full(16, round(LETTER_EVIDENCE_OFFSET * EVIDENCE_SCALE), np.int32)
    for kind, evidence in ((USED, SHARED_WORD), (STRANGE, STRANGE_WORD), (OWN, SHARED_WORD)):
        says[[flags for flags in range(16) if flags & kind]] = round(evidence * EVIDENCE_SCALE)
    says[STRANGE | LONE] = round(STRANGE_LETTER * EVIDENCE_SCALE)
    return says


_KNOWN = _evidence_by_flags()


def _passages(seen: TextFeatures, text: int, suspicious: Gaps, others: list[int]) -> str:
    """The sentences around gaps that could be part of a drift: a lone foreign sentence is a motto or a
    title."""
    chars = [
        (seen.char_offset(text, int(seen.starts[a])), seen.char_offset(text, int(seen.starts[b])))
        for a, b in suspicious
    ]
    places = sorted([*(first for first, _ in suspicious), *others])
    whole = sum(end - first for first, end in chars) >= WHOLE_SHARE * len(seen.texts[text])
    opening = int(text_starts(seen.word_fences)[text]) + OPENING_WORDS
    if holds_blocks(seen.texts[text]):
        return seen.texts[text]
    kept = []
    for (first, end), span in zip(suspicious, chars, strict=True):
        near = bisect_right(places, end + MAX_GAP_DISTANCE) - bisect_left(places, first - MAX_GAP_DISTANCE)
        company = near > 1
        if whole or first <= opening or span[1] - span[0] >= LONG_PASSAGE - MIN_PASSAGE_CHARS or company:
            kept.append(span)
    return _enclosing_sentences(seen.texts[text], kept)


def _enclosing_sentences(text: str, spans: Sequence[tuple[int, int]]) -> str:
    kept: list[str] = []
    done = 0
    for first, end in spans:
        start = _sentence_start(text, first)
        stop = _sentence_end(text, end)
        if stop > done:
            kept.append(text[max(start, done) : stop].strip())
            done = stop
    return "\n\n".join(kept)  # no quotation goes on across a blank line


def _sentence_start(text: str, at: int) -> int:
    """The end of a sentence not far before `at`."""
    lowest = max(at - _REACH, 0)
    ends = [found + len(mark) for mark in _ENDS if (found := text.rfind(mark, lowest, at)) >= 0]
    return max(ends, default=lowest)


def _sentence_end(text: str, at: int) -> int:
    highest = min(at + _REACH, len(text))
    ends = [found + 1 for mark in _ENDS if (found := text.find(mark, at, highest)) >= 0]
    return min(ends, default=highest)
