"""The screen for language drift and gibberish. See :mod:`stresstest.detectors.screen`.

Language needs no look at every sentence: in prose the wanted language's own function words stand every few
words, and a foreign passage is a gap between them. Only the sentences around suspicious gaps are read. What
words say for gibberish is added up over the whole text, as the detector does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stresstest.detectors.features import Features
from stresstest.detectors.function_words import LISTED
from stresstest.detectors.gibberish import BOUNDS
from stresstest.detectors.langid import can_judge, normalised
from stresstest.detectors.language import ITEM_GRAMMAR, LONG_PASSAGE, PASSAGE, TITLE
from stresstest.detectors.scripts import is_latin
from stresstest.detectors.windows import Flags, Indices, begins, climb, gaps, highest, owners, summed
from stresstest.detectors.word_table import LONE, OWN, STRANGE, UNIT, USED, word_table

SHORTEST_GAP = 6
"""Words in a row of which none is the wanted language's own: a foreign sentence has at least five, and its
neighbours rarely begin or end with one."""
OPENING_GAP = 4
"""The same at the beginning, where one foreign sentence is proof."""
OPENING = 2
"""Words before it: a foreign opening may begin with one that is not."""
STRANGE_WORD, STRANGE_LETTER, SHARED_WORD, MOST_OF_A_NAME = 2.0, 0.3, -0.6, 0.3
"""What words of a gap say for another language: function words of others, those of one letter (formulas are
full of them), those that the wanted language shares with others, and what a capitalised word says at most."""
USUAL = 0.5
"""Added to what a word's letters say: the wanted language's own come to about -0.6 in the mean, those of a
language whose function words are unknown here to between -0.4 and 1."""
RISE, OPENING_RISE, COMPANY_RISE = 4.5, 2.2, 1.5
"""The sum of this in a gap, from where it is highest, that makes it suspicious; at the beginning; and in the
neighbourhood of another. Single foreign sentences of 60 characters come to 5 and more in 95 of 100 cases;
in a short answer one is drift."""
TOGETHER = 60
"""Words between two gaps of one drift: three passages."""
WHOLE_SHARE = 0.1
"""Of the text, in gaps: from here on an answer may be foreign as a whole."""
FEW_OWN = 3
BEYOND, SENTENCE_BEYOND = 6, 16
"""Letters of other scripts: fewer are names and formulas; so many may be a sentence."""
PLAIN_BEYOND = 0.4
"""Letters of other scripts a piece, from which on there is nothing to be asked before the panel is."""
_BROKEN = ("\ufffd", "Ã", "â€")
"""Marks of a text that was decoded wrongly."""
NEAR = 0.8
"""Of a detector's bound: from here on it is asked itself."""
_ENDS = ("\n", ". ", "! ", "? ", ": ", "… ")
_FIGURE = -1 * UNIT
_OF_KIND = (np.array([0.0, 0.0, 0.0, -0.6, -2.0, 0.0, -0.1, 0.0]) * UNIT).astype(np.int16)
"""The evidence of signs, line breaks, full stops and joints, by kind."""
_REACH = 300


@dataclass(frozen=True, slots=True)
class Foreign:
    """What the language screen says of one text. gibberish: may there be any? passages: the sentences that
    may be foreign, one after the other; "" for none. plain: much of it is in another script."""

    gibberish: bool
    passages: str
    plain: bool = False


def suspect_language(seen: Features, wanted: str | None) -> list[Foreign]:
    """Each text's suspicions of drift away from `wanted` (None: of gibberish alone)."""
    everything = [Foreign(True, text) for text in seen.texts]
    if wanted is None or not can_judge(wanted):
        return [Foreign(True, "")] * len(seen.texts)
    wanted = normalised(wanted)
    if not (is_latin(wanted) and wanted in LISTED):
        return everything
    letters, grammar, flags = word_table(wanted)(seen)
    own = (flags & OWN) != 0
    whole = seen.wide | (_in_each(own, seen.closes) < FEW_OWN) | (seen.beyond >= SENTENCE_BEYOND)
    gibberish = suspect_gibberish(seen, letters, grammar) | (seen.beyond >= BEYOND)
    found = _suspicious(seen, own, flags, letters)
    foreign = [Foreign(bool(strange), "") for strange in gibberish]
    plain = seen.beyond >= PLAIN_BEYOND * seen.counts
    for i, text in enumerate(seen.texts):
        if plain[i]:
            foreign[i] = everything[i] = Foreign(True, text, True)
        elif whole[i] or (not text.isascii() and any(mark in text for mark in _BROKEN)):
            foreign[i] = everything[i]
    for i, suspicious, others in found:
        if foreign[i] is not everything[i]:
            foreign[i] = Foreign(bool(gibberish[i]), _passages(seen, i, suspicious, others))
    return foreign


def _in_each(flags: Flags, fences: Indices) -> Indices:
    return np.diff(np.searchsorted(np.flatnonzero(flags), fences), prepend=0)


def suspect_gibberish(seen: Features, letters: NDArray[np.int16], grammar: NDArray[np.int16]) -> Flags:
    """Where one of the detector's sums may come near its bound. What it would leave out, counts here."""
    capital = np.flatnonzero(seen.capital)
    letters, grammar = letters.copy(), grammar.copy()
    for evidence in (letters, grammar):
        evidence[capital] = evidence[capital] // 2
    grammar[seen.figures] = _FIGURE
    every = _OF_KIND.take(seen.kinds)
    every[seen.at] = grammar
    by_letters = highest(climb(letters, seen.closes), seen.closes)
    by_grammar = highest(climb(every, seen.fences), seen.fences)
    return (by_letters >= NEAR * UNIT * BOUNDS["letters"]) | (by_grammar >= NEAR * UNIT * BOUNDS["grammar"])


Gaps = Sequence[tuple[int, int]]


def _suspicious(
    seen: Features, own: Flags, flags: NDArray[np.uint8], letters: NDArray[np.int16]
) -> list[tuple[int, Gaps, list[int]]]:
    """(text, its suspicious gaps, where others begin that may be part of the same drift)."""
    first, end = gaps(own, seen.closes, OPENING_GAP)
    rise = climb(_speaks(seen, own, flags, letters), seen.closes)
    words = end - first
    foreign, capital = (
        (sums := summed(each))[end] - sums[first] for each in ((flags & STRANGE) != 0, seen.capital)
    )
    text = owners(first, seen.closes)
    opening = first - begins(seen.closes)[text] <= OPENING
    bounds = np.stack((first, end), axis=1).ravel()
    most = np.maximum.reduceat(rise, bounds)[::2] if len(bounds) else first
    wanting = np.where(opening, most >= OPENING_RISE * UNIT, (most >= RISE * UNIT) & (words >= SHORTEST_GAP))
    # German nouns have capitals too.
    titles = (capital >= TITLE * words) & (foreign < ITEM_GRAMMAR * words) & (most < 2 * RISE * UNIT)
    wanting &= ~titles
    others = ~wanting & ~titles & (words >= SHORTEST_GAP) & (most >= COMPANY_RISE * UNIT)
    found: list[tuple[int, Gaps, list[int]]] = []
    for i in np.unique(text[wanting]).tolist():
        a, b = np.searchsorted(text, (i, i + 1)).tolist()
        mine = np.flatnonzero(wanting[a:b]) + a
        pairs = list(zip(first[mine].tolist(), end[mine].tolist(), strict=True))
        found.append((i, pairs, first[a:b][others[a:b]].tolist()))
    return found


def _speaks(
    seen: Features, own: Flags, flags: NDArray[np.uint8], letters: NDArray[np.int16]
) -> NDArray[np.int32]:
    """What every word says for another language, in thousandths; an own word ends what was said."""
    says = letters + np.int32(round(USUAL * UNIT))
    np.minimum(says, round(MOST_OF_A_NAME * UNIT), out=says, where=seen.capital)
    known = flags != 0
    says[known] = _KNOWN.take(flags[known])
    says[seen.figures] = 0
    says[own] = -100 * UNIT  # it ends what was said
    return says


def _known() -> NDArray[np.int32]:
    """What a word says, by its flags; one of no language is one letter."""
    says = np.full(16, round(USUAL * UNIT), np.int32)
    for kind, evidence in ((USED, SHARED_WORD), (STRANGE, STRANGE_WORD), (OWN, SHARED_WORD)):
        says[[flags for flags in range(16) if flags & kind]] = round(evidence * UNIT)
    says[STRANGE | LONE] = round(STRANGE_LETTER * UNIT)
    return says


_KNOWN = _known()


def _passages(seen: Features, text: int, suspicious: Gaps, others: list[int]) -> str:
    """The sentences that hold those gaps which could be part of a drift: a lone foreign sentence is a
    motto, a title, a citation."""
    chars = [
        (seen.char(text, int(seen.starts[a])), seen.char(text, int(seen.starts[b]))) for a, b in suspicious
    ]
    places = sorted([*(first for first, _ in suspicious), *others])
    whole = sum(end - first for first, end in chars) >= WHOLE_SHARE * len(seen.texts[text])
    opening = int(begins(seen.closes)[text]) + OPENING
    kept = []
    for (first, end), span in zip(suspicious, chars, strict=True):
        company = sum(first - TOGETHER <= place <= end + TOGETHER for place in places) > 1
        if whole or first <= opening or span[1] - span[0] >= LONG_PASSAGE - PASSAGE or company:
            kept.append(span)
    return _around(seen.texts[text], kept)


def _around(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The sentences that hold these characters."""
    kept: list[str] = []
    done = 0
    for first, end in spans:
        start = _sentence_start(text, first)
        stop = _sentence_end(text, end)
        if stop > done:
            kept.append(text[max(start, done) : stop].strip())
            done = stop
    return "\n".join(kept)


def _sentence_start(text: str, at: int) -> int:
    """A place before which a sentence ends, not far before `at`."""
    lowest = max(at - _REACH, 0)
    ends = [found + len(mark) for mark in _ENDS if (found := text.rfind(mark, lowest, at)) >= 0]
    return max(ends, default=lowest)


def _sentence_end(text: str, at: int) -> int:
    highest = min(at + _REACH, len(text))
    ends = [found + 1 for mark in _ENDS if (found := text.find(mark, at, highest)) >= 0]
    return min(ends, default=highest)
