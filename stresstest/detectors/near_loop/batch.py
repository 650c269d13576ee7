"""Near-loops in recorded text: the detector over a whole answer at once, and the screen."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from stresstest.detectors.entry import DetectorSpec, ScreenBatch, Suspicion
from stresstest.detectors.loop.online import MIN_REPEATED, OPEN_REPEATED, min_repeated_tokens
from stresstest.detectors.near_loop.listed_rows import row_number
from stresstest.detectors.near_loop.online import (
    CIRCLING_WORDS,
    GRAM_WORDS,
    MAX_CIRCLE_DISTANCE,
    MAX_EVIDENCE,
    STRAY_COST,
    THIRD_COPY_WORDS,
    NearLoopDetector,
    follows_in_list,
)
from stresstest.detectors.near_loop.token_history import CopiedStretch, HistoryEntry, Proof
from stresstest.detectors.text.tokens import WordTotals
from stresstest.detectors.text.windows import (
    Flags,
    Hashes,
    Indices,
    count_between,
    cusum,
    in_a_row,
    max_per_text,
    repeated_run_starts,
    text_starts,
)
from stresstest.detectors.text.word_index import WordIndex, encode_keys, find_repeated_grams, first_mismatch
from stresstest.model import Token

_COPIED = bytes([1]) + bytes([2]) * 255
"""State of a copied word: a copy of a new one, a copy of a copy of any other."""
_MIN_COPIED_WORDS = 8
"""Consecutive copied words after which the rest of the copy is compared at once."""
_LOOKAHEAD_WORDS = 512
"""Words compared at once."""

WORD_SLACK = 4
"""Words fewer than the detector needs, since the hashes join and cut some words differently."""
MAX_UNDERSCORE_SHARE = 0.02
"""Underscores per word from which on the detector's words differ from the screen's."""
UNCOPIED_COST = -1
"""What an uncopied word counts against copies of copies: at least a quarter of the detector's cost."""
NEW_WORD_PENALTY = -3
"""What a new word counts against copies at the end of a text."""


class BatchNearLoopDetector(NearLoopDetector):
    def __init__(self, spec: DetectorSpec) -> None:
        super().__init__(spec)
        self._words: WordIndex | None = None
        self._codes: Hashes = np.zeros(0, np.uint64)
        self._odd: list[int] = []
        self._numbers: list[tuple[int, int | None]] = []
        self._third_at: list[int] = []
        self._counting: list[bool] = []

    def update_all(self, texts: Sequence[str]) -> None:
        """Compute positions only where words recur or something is being copied."""
        words = WordIndex(texts)
        if not words.whole:
            for text in texts:
                self.update(Token(text))
            return
        self._words = words
        marks, written = words.marks, words.words
        codes = encode_keys({word: each.text for word, each in marks.items()})
        seq = list(map(codes.__getitem__, written))
        of_code = {code: marks[word] for word, code in codes.items()}
        says = np.array([False, *(each.word for each in of_code.values())])
        figure = np.array([False, *(each.figure for each in of_code.values())])
        self._codes = np.array(seq, np.uint64)
        order = self._codes.astype(np.int64)
        figures = np.flatnonzero(figure.take(order)).tolist()
        values = {n: marks[written[n]].value for n in figures}
        labels = {
            word: number
            for word, mark in marks.items()
            if not mark.figure and (number := row_number(word)) is not None
        }
        labelled = [(n, labels[word]) for n, word in enumerate(written) if word in labels] if labels else []
        self._numbers = sorted([*values.items(), *labelled], reverse=True)
        self._history.fill(seq, (each.text for each in of_code.values()), words.at, values)
        self._counting = says.take(order).tolist()
        plain: list[HistoryEntry] = [(code, word, False, None) for code, word in enumerate(says.tolist())]
        entries = list(map(plain.__getitem__, seq))
        for n, value in values.items():
            entries[n] = (seq[n], self._counting[n], True, value)
        self._scan_matches(*find_repeated_grams(self._codes, GRAM_WORDS), figures, entries)

    def _scan_matches(
        self, at: Indices, lag: Indices, figures: list[int], entries: Sequence[HistoryEntry]
    ) -> None:
        """Continue where a four-gram recurs, until nothing is copied any more.

        at: every index up to which a four-gram recurs, in order; lag: distance to its last occurrence.
        figures: indices of numbers.
        """
        self._odd = sorted({*figures, *at[lag <= MAX_CIRCLE_DISTANCE].tolist()})
        recurs = np.zeros(len(entries), np.bool_)
        recurs[at] = True
        self._recurs = bytearray(recurs.tobytes())
        self._third_at = at[recurs.take(at - lag)].tolist()
        places = at.tolist()
        before = dict(zip(places, (at - lag).tolist(), strict=True))
        listed = _list_numbers(figures, entries)
        n, end = 0, len(entries)
        for known in (*places, end):
            n = max(n, known)
            while n < end and (n in before or self._lag or self._sum or self._circling):
                if self._steady >= _MIN_COPIED_WORDS and self._sum and not self._circling and not self._owed:
                    n = self._extend_copy(n, end)
                    if n == end:
                        return
                self._listed = n in listed
                self._continue_copy(n, entries[n], before.get(n))
                n += 1

    def _extend_copy(self, n: int, end: int) -> int:
        """The end of the copied run at n, or where something must be checked: all words before it are hits,
        with the effect of `_on_hit` on each."""
        most = min(n + _LOOKAHEAD_WORDS, end)
        if self._current is None:
            left = min(
                self._stretch.constant_lag - self._steady,
                self._stretch.third - self._third,
                self._reordered.third - self._known,
            )
            most = min(most, n + left - 1)
        odd = bisect_left(self._odd, n)
        if odd < len(self._odd):
            most = min(most, self._odd[odd])
        stop = first_mismatch(self._codes, n, most, self._lag) if most > n else n
        if stop == n:
            return n
        count, copied, lag = stop - n, self._history.copied, self._lag
        new = min(count, lag)  # beyond it, copies of this very stretch
        for i in range(n, n + new):
            self._third += self._counting[i] and copied[i - lag] > 0
        said = sum(self._counting[n:stop])
        self._third += sum(self._counting[n + new : stop])
        copied[n : n + new] = copied[n - lag : n - lag + new].translate(_COPIED)
        copied[n + new : stop] = b"\2" * (count - new)
        self._lags.update(dict.fromkeys(range(n, stop), lag))
        self._steady += count
        self._sum = min(self._sum + said, MAX_EVIDENCE)
        if self._current is not None:
            self._current.last = stop - 1
        if self._current is None or self._current.proof is Proof.REORDERING:
            begun = bisect_left(self._third_at, n)
            known = bisect_left(self._third_at, stop, begun) - begun
            self._add_recurring(stop - 1, count, known, lag)
        return stop

    def _open_stretch(self, n: int, first: int, lag: int) -> CopiedStretch:
        if self._words is None:
            return super()._open_stretch(n, first, lag)
        return CopiedStretch(
            first, lag, n, None, THIRD_COPY_WORDS, min_repeated_tokens(lag)
        )  # looked up when it is judged, if ever

    def _check_near_loop(self, n: int, stretch: CopiedStretch, lag: int) -> None:
        if self._words is not None:
            self._position = self._words.known_token(n, self._code)
            while self._numbers and self._numbers[-1][0] <= n:
                self._rows.add(*self._numbers.pop())
        super()._check_near_loop(n, stretch, lag)

    def _is_meaningful(self, n: int) -> bool:
        return super()._is_meaningful(n) if self._words is None else self._counting[n]

    def _totals_at(self, n: int) -> WordTotals:
        return super()._totals_at(n) if self._words is None else self._words.totals_at(n)


def _list_numbers(figures: Sequence[int], entries: Sequence[HistoryEntry]) -> frozenset[int]:
    """Indices of the numbers that number the items of a list."""
    values = [(n, entries[n][3]) for n in figures]
    return frozenset(n for one, (n, value) in pairwise(values) if follows_in_list(one, n, value))


def suspect_near_loops(batch: ScreenBatch) -> list[Suspicion | None]:
    """The texts that may hold a near-loop, or end in what may become one.

    A steady one repeats 48 words in a row. A copying one has 96 copies of copies net of its misses; a hit
    that no four-gram covers lies between misses that cost more than it.
    """
    seen = batch.features
    at, source = repeated_run_starts(seen.words, GRAM_WORDS, seen.word_fences)
    found = in_a_row(at, MIN_REPEATED - GRAM_WORDS + 1, seen.word_fences)
    found |= _copying(at, source, len(seen.words), seen.word_fences)
    found |= _circling(at, source, len(seen.words), seen.word_fences)
    lengths = seen.word_fences - text_starts(seen.word_fences)
    return batch.flagged(found | seen.endless | (seen.underscores > MAX_UNDERSCORE_SHARE * lengths))


def _copying(at: Indices, source: Indices, words: int, fences: Indices) -> Flags:
    """Which texts have enough copies of copies, or end in a copied stretch."""
    enough = count_between(at, text_starts(fences), fences) >= OPEN_REPEATED - GRAM_WORDS + 1
    if not enough.any():
        return enough
    copies = np.zeros(words, np.bool_)
    for i in range(GRAM_WORDS):
        copies[at + i] = True
    third = np.zeros(words, np.bool_)
    for i in range(GRAM_WORDS):
        third[at[copies[source + i]] + i] = True
    new = (~copies).view(np.int8)
    most = max_per_text(cusum(UNCOPIED_COST * new + third.view(np.int8), fences), fences)
    last = np.maximum(fences - 1, 0)
    opened = cusum((NEW_WORD_PENALTY - 1) * new + np.int8(1), fences)[last]
    return enough & ((most >= THIRD_COPY_WORDS - 3) | (opened >= OPEN_REPEATED))


def _circling(at: Indices, source: Indices, words: int, fences: Indices) -> Flags:
    """Which texts have enough words that end four repeated nearby, net of those between that do not."""
    near = at[at - source <= MAX_CIRCLE_DISTANCE]
    enough: Flags = count_between(near, text_starts(fences), fences) >= CIRCLING_WORDS - WORD_SLACK
    if enough.any():
        turned = np.full(words, -STRAY_COST, np.int8)
        turned[near] = 1
        enough &= max_per_text(cusum(turned, fences), fences) >= CIRCLING_WORDS - WORD_SLACK
    return enough
