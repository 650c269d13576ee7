"""Floods in recorded text: the detector over a whole answer at once, and the screen.

Both look only at windows of few different words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stresstest.detectors.entry import ScreenBatch, Suspicion
from stresstest.detectors.flooding.blank_end import ends_in_blanks
from stresstest.detectors.flooding.copies import may_stutter
from stresstest.detectors.flooding.few_words import FEW_BOUNDS, FewBound, FewWords
from stresstest.detectors.flooding.one_sign import ends_in_one_sign
from stresstest.detectors.flooding.online import (
    BREAK,
    END_SHARE,
    FIGURE,
    FLOOD_SHARE,
    MAX_FEW_FIGURE_SHARE,
    MAX_FLOOD_WORDS,
    MIN_FLOOD_COUNT,
    MOST_DISTINCT,
    OPEN_WORDS,
    WINDOW,
    WORD,
    FloodingDetector,
    classify_token,
    is_typographic,
)
from stresstest.detectors.flooding.run import FloodRun, WindowWord
from stresstest.detectors.flooding.tags import may_be_tag_flood
from stresstest.detectors.flooding.typographic import FLOODED
from stresstest.detectors.text.features import TextFeatures
from stresstest.detectors.text.windows import (
    NO_EARLIER,
    Flags,
    Indices,
    count_between,
    dense_window_ends,
    distance_to_previous,
    text_index,
    text_starts,
)

_BLOCK, _BLANK_SHARE = 256, 0.75
"""Of a flood of white space, four fifths of which are white, some aligned block of so many characters is."""
_FIGURE_SHARE = 0.8
"""The same for figures, nine tenths of which are one, in a window of words."""
_LONE_LETTERS = 26
MAX_REPEAT_DISTANCE = 15
"""Distance in words within which most words of a flood recur."""


def candidate_window_ends(lags: Indices, fences: Indices) -> Indices:
    """The last places of windows, each in one text, that may be flooded. lags: see `distance_to_previous`.

    A new word occurs in the window for the first time; a dominant word recurs nearby, since it can be
    `MAX_REPEAT_DISTANCE` away from itself only so often.
    """
    seldom = MAX_FLOOD_WORDS * (1 + (WINDOW - 1) // (MAX_REPEAT_DISTANCE + 1))
    near = dense_window_ends(lags <= MAX_REPEAT_DISTANCE, WINDOW, MIN_FLOOD_COUNT - seldom, fences)
    return np.intersect1d(
        near, dense_window_ends(lags < WINDOW, WINDOW, WINDOW - MOST_DISTINCT, fences), True
    )


def _suspect_few_words(lags: Indices, fences: Indices, bound: FewBound) -> Flags:
    """Which texts may hold a flood of few words, or end in what may become one.

    A word that did not occur for a whole window is new in it. Lone letters, no words for the detector, are.
    """
    least = bound.words - bound.different - _LONE_LETTERS
    found = np.zeros(len(fences), np.bool_)
    ends = dense_window_ends(lags < bound.words, bound.words, least, fences)
    found[text_index(ends, fences)] = True
    first = fences - bound.tail
    long = first >= text_starts(fences)
    tails = lags[first[long, None] + np.arange(bound.tail)]
    again = (tails <= np.arange(bound.tail)).sum(axis=1)  # within the tail
    found[long] |= again >= bound.tail - bound.tail_different - _LONE_LETTERS
    return found


def _dominant_count(words: list[int]) -> int:
    return sum(sorted(Counter(words).values())[-MAX_FLOOD_WORDS:])


class _WordStream:
    """The words of an answer, as the detector's window holds them. codes: equal for equal words. figures:
    tokens that begin with a digit."""

    def __init__(self, texts: Sequence[str]) -> None:
        kinds = {text: classify_token(text) for text in dict.fromkeys(texts)}
        rows = dict(zip(kinds, range(len(kinds)), strict=True))
        order = np.fromiter(map(rows.__getitem__, texts), np.int64, len(texts))
        self.figures = int(np.array([text.strip()[:1].isdigit() for text in kinds]).take(order).sum())
        words = dict.fromkeys(word for kind, word in kinds.values() if kind == WORD)
        self.numbers = {word: n for n, word in enumerate(words, 1)}
        self._names = ["", *words]
        every = np.array([self.numbers[word] if kind == WORD else 0 for kind, word in kinds.values()])
        every = every.astype(np.uint64).take(order)
        self._at = np.flatnonzero(every)
        self.codes = every[self._at]
        counted = (
            [kind == FIGURE for kind, _ in kinds.values()],
            [kind in (WORD, FIGURE) or bool(word) for kind, word in kinds.values()],
            [kind == BREAK for kind, _ in kinds.values()],
        )
        totals = [np.cumsum(np.array(each, np.int64).take(order)) for each in counted]
        self._totals = [each[self._at] for each in totals]
        self.at_the_end = [int(each[-1]) if len(each) else 0 for each in totals]
        """Figures, tokens and breaks of the whole answer."""

    def window(self, first: int, end: int) -> list[tuple[str, int, int, int, int]]:
        """The words of [first, end): text, position, and the figures, tokens and breaks up to it."""
        names = map(self._names.__getitem__, self.codes[first:end].tolist())
        totals = (each[first:end].tolist() for each in self._totals)
        return list(zip(names, (self._at[first:end] + 1).tolist(), *totals, strict=True))

    def is_typographic(self, first: int, end: int, most: float) -> bool:
        """The same as `is_typographic`, of the words of [first, end) and what stands between them."""
        figures, tokens = (int(each[end - 1] - each[first]) for each in self._totals[:2])
        return is_typographic(end - first, tokens + 1, figures, most)

    def position(self, n: int) -> int:
        return int(self._at[n]) + 1


class BatchFloodingDetector(FloodingDetector):
    _words: _WordStream

    def update_all(self, texts: Sequence[str]) -> None:
        """Check only windows that may be flooded, and follow a flood by counting its words."""
        self._end.add_all(texts)
        self._blank_end.add_all(texts)
        self._words = _WordStream(texts)
        whole = "".join(texts)
        if self._words.figures >= FLOODED or may_be_blank_flood(whole):
            self._take_signs(texts)
        if may_be_tag_flood(whole):
            for position, text in enumerate(texts, 1):
                self._tags.add(text, position)
        codes = self._words.codes
        if not len(codes):
            return
        n, fence = 0, np.array([len(codes) - 1])
        lags = distance_to_previous(codes, fence)
        if may_stutter(codes, lags, fence).any():
            for position, text in enumerate(texts, 1):
                self._take_copies(text, *classify_token(text), position)
        for few, _ in self._few:
            self._take_few_words(few, different_words(lags, few.bound.words))
        for full in candidate_window_ends(lags, fence).tolist():
            if full >= n and self._current is None:
                n = self._check_window_at(full)
        if self._current is None:
            if _dominant_count(codes[-OPEN_WORDS:].tolist()) >= FLOOD_SHARE * OPEN_WORDS:
                self._state_at(len(codes) - 1)
                self._figures, self._tokens, self._breaks = self._words.at_the_end
            else:
                self._window.clear()  # its end is no tail of a flood

    def _take_few_words(self, few: FewWords, different: Indices) -> None:
        """Step only where a window holds few words, or a flood of few is followed. different: of each place,
        the words in the window that it ends."""
        size = few.bound.words
        n = size - 1
        poor = np.flatnonzero(different <= few.bound.different)
        rich = np.flatnonzero(different > 2 * few.bound.different)
        while n < len(different):
            if few.current is None:
                n = _next_place(poor, max(n, few.looks_from - 1), len(different))
                if n == len(different):
                    return
                if self._words.is_typographic(n - size + 1, n + 1, MAX_FEW_FIGURE_SHARE):
                    few.look_later(n + 1)
                    continue
            elif not few.current.requested_count:
                begun, n = n, _next_place(rich, n, len(different))
                if n > begun:
                    few.follow(few.current, n - begun, self._words.position(n - 1))
                    continue
            window = partial(self._entries, n - size + 1, n + 1)
            few.step(n + 1, self._words.position(n), int(different[n]), window, self._allowed_words)
            n += 1

    def _entries(self, first: int, end: int) -> list[WindowWord]:
        return list(map(WindowWord._make, self._words.window(first, end)))

    def _last_words(self, count: int) -> list[WindowWord]:
        end = len(self._words.codes)
        return self._entries(max(end - count, 0), end)

    def _take_signs(self, texts: Sequence[str]) -> None:
        """The floods without words, token by token."""
        for self._position, text in enumerate(texts, 1):
            kind, word = classify_token(text)
            if kind != WORD:
                self._take_sign(kind, word, len(text))
            elif self._signs.rising:
                self._signs.add_other(len(word), word=True)
        self._position = self._breaks = self._figures = self._tokens = 0

    def _state_at(self, n: int) -> None:
        """Set the detector's state to that after the word at n, without a flood."""
        window = self._words.window(max(n - WINDOW + 1, 0), n + 1)
        self._window.clear()
        self._window.extend(window)
        self._counts = Counter(word for word, *_ in window)
        _, self._position, self._figures, self._tokens, self._breaks = window[-1]

    def _check_window_at(self, n: int) -> int:
        """Check the window that ends with the word at n. Returns the first word not read with it."""
        lacking = MIN_FLOOD_COUNT - _dominant_count(self._words.codes[n - WINDOW + 1 : n + 1].tolist())
        if lacking > 0:
            return n + lacking  # a word more is one more at most
        self._state_at(n)
        self._check_window()
        return n + 1 if self._current is None else self._follow_flood(self._current, n + 1)

    def _follow_flood(self, flood: FloodRun, n: int) -> int:
        """Follow a flood from the word at n on; the first word after it."""
        numbers = [self._words.numbers[word] for word in flood.words]
        own = np.isin(self._words.codes[n - WINDOW :], np.array(numbers, np.uint64))
        sums = np.cumsum(own, dtype=np.int64)
        over = np.flatnonzero(~own[WINDOW:] & (sums[WINDOW:] - sums[:-WINDOW] < WINDOW * END_SHARE))[:1]
        end = n + int(over[0]) if len(over) else len(self._words.codes)
        said = (np.flatnonzero(own[WINDOW : end - n + WINDOW]) + n).tolist()
        if flood.requested_count and flood.count + len(said) >= flood.requested_count:
            self._position = self._words.position(said[flood.requested_count - flood.count - 1])
            flood.count += len(said)
            self._report(flood)
        else:
            flood.count += len(said)
        if said:
            flood.last = self._words.position(said[-1])
        if len(over):
            flood.active = False
            self._current = None
        return end + 1


def _next_place(places: Indices, n: int, end: int) -> int:
    """The first of the sorted places that is n or more; `end` where there is none."""
    ahead = int(np.searchsorted(places, n))
    return int(places[ahead]) if ahead < len(places) else end


def different_words(lags: Indices, window: int) -> Indices:
    """How many different words the window that ends at each place holds: each counts from where it stands to
    its next occurrence, or to where it leaves the window. lags: see `distance_to_previous`."""
    size = len(lags)
    upcoming = np.full(size, size + window, np.int64)
    again = np.flatnonzero(lags < NO_EARLIER)
    upcoming[again - lags[again]] = again
    ends = np.minimum(np.arange(size) + window, upcoming)
    changes = np.ones(size + 1, np.int64)
    changes[size] = 0
    np.subtract.at(changes, np.minimum(ends, size), 1)
    return np.cumsum(changes[:size])


def may_be_blank_flood(text: str) -> bool:
    """Whether a block of the text is nearly all white space, as some block of a flood is."""
    codes = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), np.uint16)
    return bool(_blank_blocks(codes).size)


def _blank_blocks(codes: NDArray[np.uint16]) -> Indices:
    """Where blocks begin that are nearly all white space."""
    whole = codes[: len(codes) // _BLOCK * _BLOCK]
    blank = (whole <= ord(" ")) | (whole == 0xA0) | (whole == 0x3000)
    return np.flatnonzero(blank.reshape(-1, _BLOCK).sum(axis=1) >= _BLANK_SHARE * _BLOCK) * _BLOCK


def _suspect_signs(seen: TextFeatures) -> Flags:
    """Which texts may hold a flood of white space or of one figure."""
    found = np.zeros(len(seen.texts), np.bool_)
    ends = seen.text_starts[1:] - 1
    for inside in (0, _BLOCK - 1):
        found[text_index(_blank_blocks(seen.codes) + inside, ends)] = True
    least = int(_FIGURE_SHARE * FLOODED)
    found[
        text_index(
            dense_window_ends(seen.starts_with_digit, FLOODED, least, seen.word_fences), seen.word_fences
        )
    ] = True
    return found


def suspect_floods(batch: ScreenBatch) -> list[Suspicion | None]:
    """The texts with a window, or a tail that may become one, of as few words as a flood.

    The features count no emoji as words; the detector does.
    """
    seen = batch.features
    plain, lags, fences = batch.word_lags
    found = may_stutter(seen.words[plain], lags, fences)
    found[text_index(candidate_window_ends(lags, fences), fences)] = True
    few = int(OPEN_WORDS * (1 - FLOOD_SHARE)) + MAX_FLOOD_WORDS
    close = np.flatnonzero(lags < WINDOW)
    tail = count_between(close, np.maximum(fences - OPEN_WORDS, text_starts(fences)), fences)
    found |= (fences - text_starts(fences) >= OPEN_WORDS) & (tail >= OPEN_WORDS - few)
    for bound in FEW_BOUNDS:
        found |= _suspect_few_words(lags, fences, bound)
    for ends_so in (ends_in_one_sign, ends_in_blanks):
        found |= np.fromiter(map(ends_so, batch.texts), np.bool_, len(batch.texts))
    found |= np.fromiter(map(may_be_tag_flood, batch.texts), np.bool_, len(batch.texts))
    return batch.flagged(found | _suspect_signs(seen) | seen.endless | (seen.symbols >= OPEN_WORDS))
