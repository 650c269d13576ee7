"""The screen for language drift and gibberish. See :mod:`stresstest.detectors.screen`.

Language needs no look at every sentence: in prose the wanted language's own function words stand every few
words, and a foreign passage is a gap between them. Only the sentences around suspicious gaps are read. What
words say for gibberish is added up over the whole text, as the detector does it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from stresstest.detectors.asking import listened
from stresstest.detectors.base import Detector, PanelSpec
from stresstest.detectors.features import Features, climbs, gaps
from stresstest.detectors.function_words import LISTED
from stresstest.detectors.gibberish import BOUNDS, GibberishDetector
from stresstest.detectors.langid import can_judge, normalised
from stresstest.detectors.language import ITEM_GRAMMAR, LONG_PASSAGE, PASSAGE, TITLE, LanguageDetector
from stresstest.detectors.scripts import is_latin
from stresstest.detectors.segment import TextFeed
from stresstest.detectors.word_table import OWN, STRANGE, USED, word_table

SHORTEST_GAP = 6
"""Words in a row of which none is the wanted language's own: a foreign sentence has at least five, and its
neighbours rarely begin or end with one."""
OPENING_GAP = 4
"""The same at the beginning, where one foreign sentence is proof."""
OPENING = 2
"""Words before it: a foreign opening may begin with one that is not."""
STRANGE_IN_GAP = 2
"""Function words of other languages that make a gap suspicious: single ones are names and homographs."""
PLAIN_GAP = 14
UNUSUAL = -0.9
"""A gap of so many words is looked at even without them, where half of them have less usual letters."""
RIVAL = 0.5
PLAIN_SHARE = 0.1
"""Of a gap's words: so many function words that the wanted language shares with others speak for it."""
TOGETHER = 60
"""Words between two gaps of one drift: three passages."""
WHOLE_SHARE = 0.1
"""Of the text, in gaps: from here on an answer may be foreign as a whole."""
FEW_OWN = 3
BEYOND = 6
"""Letters of other scripts, so few of which are names and formulas."""
_BROKEN = ("\ufffd", "Ã", "â€")
"""Marks of a text that was decoded wrongly."""
NEAR = 0.8
"""Of a detector's bound: from here on it is asked itself."""
_ENDS = ("\n", ". ", "! ", "? ", ": ", "… ")
_FIGURE, _SIGN_EVIDENCE = -1.0, -0.6
_OF_KIND = np.array([0.0, 0.0, 0.0, _SIGN_EVIDENCE, -2.0, 0.0, -0.1, 0.0])
"""The evidence of signs, line breaks, full stops and joints, by kind."""
_ZERO = np.zeros(1, np.int64)
_REACH = 300


def language(text: str, seen: Features, spec: PanelSpec) -> int | None:
    """Language drift and gibberish: 0 when a passage may be foreign or of no language, else None."""
    if spec.language is None or not can_judge(spec.language):
        return listened(text, spec, _gibberish)
    wanted = normalised(spec.language)
    scripted = seen.beyond >= BEYOND or any(mark in text for mark in _BROKEN)
    if scripted or seen.wide or not (is_latin(wanted) and wanted in LISTED):
        return listened(text, spec, _both)
    evidence, flags = word_table(wanted)(text, seen)
    own = (flags & OWN) != 0
    if np.count_nonzero(own) < FEW_OWN:
        return listened(text, spec, _both)
    if suspect_gibberish(seen, evidence) and listened(text, spec, _gibberish) == 0:
        return 0
    passages = suspect_passages(text, seen, flags, evidence[:, 0])
    return listened(passages, spec, _language) if passages else None


def suspect_gibberish(seen: Features, evidence: NDArray[np.float32]) -> bool:
    """Whether one of the detector's sums may come near its bound. What it would leave out, counts here."""
    cased = np.where(seen.capital, 0.5, 1.0)
    letters = evidence[:, 0] * cased
    if climbs(letters) >= NEAR * BOUNDS["letters"]:
        return True
    every = _OF_KIND.take(seen.kinds)
    every[seen.at] = np.where(seen.figures, _FIGURE, evidence[:, 1] * cased)
    return climbs(every) >= NEAR * BOUNDS["grammar"]


def suspect_passages(
    text: str, seen: Features, flags: NDArray[np.uint8], letters: NDArray[np.float32]
) -> str:
    """The sentences around gaps in which nothing says that the text is in the wanted language."""
    found = gaps((flags & OWN) != 0, OPENING_GAP)
    if not found:
        return ""
    strange = _sums((flags & STRANGE) != 0)
    used = _sums((flags & USED) != 0)
    usual = _sums(letters < UNUSUAL)
    capital = _sums(seen.capital)
    suspicious: list[tuple[int, int]] = []
    others: list[int] = []
    for first, end in found:
        words, foreign = end - first, strange[end] - strange[first]
        familiar = used[end] - used[first]
        unusual = 2 * (usual[end] - usual[first]) <= words
        if capital[end] - capital[first] >= TITLE * words and foreign < ITEM_GRAMMAR * words:
            continue
        if foreign >= STRANGE_IN_GAP and words >= SHORTEST_GAP:
            # The long gap of a language that shares its little words with others may hide a foreign sentence.
            marks = flags[first:end]
            evidence = ((marks & STRANGE) != 0) - RIVAL * ((marks & USED) != 0)
            wanting = climbs(evidence) >= STRANGE_IN_GAP
        elif first <= OPENING:
            wanting = foreign > familiar or (unusual and not familiar)
        else:
            wanting = unusual and words >= PLAIN_GAP and familiar <= PLAIN_SHARE * words
        if wanting:
            suspicious.append((first, end))
        elif words >= SHORTEST_GAP and (foreign or words >= PLAIN_GAP):
            others.append(first)
    return _around(text, seen, _provable(suspicious, others, seen, len(text)))


def _provable(
    gaps: list[tuple[int, int]], others: list[int], seen: Features, size: int
) -> list[tuple[int, int]]:
    """Those gaps that could be part of a drift: a lone foreign sentence is a motto, a title, a citation."""
    ends = [int(seen.starts[end]) if end < len(seen.starts) else size for _, end in gaps]
    lengths = [end - int(seen.starts[first]) for (first, _), end in zip(gaps, ends, strict=True)]
    if sum(lengths) >= WHOLE_SHARE * size:
        return gaps
    places = sorted([*(first for first, _ in gaps), *others])
    kept = []
    for (first, end), length in zip(gaps, lengths, strict=True):
        company = sum(first - TOGETHER <= place <= end + TOGETHER for place in places) > 1
        if first <= OPENING or length >= LONG_PASSAGE - PASSAGE or company:
            kept.append((first, end))
    return kept


def _around(text: str, seen: Features, gaps: list[tuple[int, int]]) -> str:
    """The sentences that hold these gaps."""
    kept: list[str] = []
    done = 0
    for first, end in gaps:
        start = _sentence_start(text, int(seen.starts[first]))
        stop = _sentence_end(text, int(seen.starts[end]) if end < len(seen.starts) else len(text))
        if stop > done:
            kept.append(text[max(start, done) : stop].strip())
            done = stop
    return "\n".join(kept)


def _sums(marks: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.concatenate((_ZERO, np.cumsum(marks, dtype=np.int64)))


def _sentence_start(text: str, at: int) -> int:
    """A place before which a sentence ends, not far before `at`."""
    lowest = max(at - _REACH, 0)
    return (
        max(text.rfind(mark, lowest, at) + len(mark) for mark in _ENDS if mark in text[lowest:at])
        if any(mark in text[lowest:at] for mark in _ENDS)
        else lowest
    )


def _sentence_end(text: str, at: int) -> int:
    highest = min(at + _REACH, len(text))
    ends = [found + 1 for mark in _ENDS if (found := text.find(mark, at, highest)) >= 0]
    return min(ends, default=highest)


def _both(spec: PanelSpec, feed: TextFeed) -> Iterable[Detector]:
    return LanguageDetector(spec, feed), GibberishDetector(spec, feed)


def _language(spec: PanelSpec, feed: TextFeed) -> Iterable[Detector]:
    return (LanguageDetector(spec, feed),)


def _gibberish(spec: PanelSpec, feed: TextFeed) -> Iterable[Detector]:
    return (GibberishDetector(spec, feed),)
