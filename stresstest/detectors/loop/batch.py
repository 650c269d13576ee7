"""Exact loops in recorded text: the detector over a whole answer at once, and the screen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stresstest.detectors.entry import ScreenBatch, Suspicion
from stresstest.detectors.loop.online import GRAM_SIZE, MIN_REPEATED, OPEN_REPEATED, LoopDetector, token_key
from stresstest.detectors.text.windows import (
    Flags,
    Hashes,
    Indices,
    count_between,
    in_a_row,
    repeated_run_starts,
)
from stresstest.detectors.text.word_index import encode_keys, find_repeated_grams, first_mismatch


class BatchLoopDetector(LoopDetector):
    def update_all(self, texts: Sequence[str]) -> None:
        codes = encode_keys({text: token_key(text) for text in dict.fromkeys(texts)})
        first: dict[int, str] = {}
        for text, code in codes.items():
            if first.setdefault(code, text)[:1] != " " == text[:1]:
                first[code] = text
        self._texts += map(first.__getitem__, range(1, len(first) + 1))
        self._seq = list(map(codes.__getitem__, texts))
        seq = np.array(self._seq, np.uint64)
        self._scan_matches(seq, *find_repeated_grams(seq, GRAM_SIZE))

    def _scan_matches(self, seq: Hashes, at: Indices, lag: Indices) -> None:
        """at: every index up to which a gram recurs, in order; lag: distance to its last occurrence.

        Nothing happens elsewhere: an extending candidate is such an index, and where the next token is none
        all candidates break. Nor does anything happen while consecutive grams recur at one distance, except
        where another candidate breaks or one is to be checked.
        """
        if not len(at):
            return
        last = np.flatnonzero((np.diff(at) != 1) | (np.diff(lag) != 0))
        firsts, lasts = np.append(0, last + 1), np.append(last, len(at) - 1)
        rows = zip(at[firsts].tolist(), at[lasts].tolist(), lag[firsts].tolist(), strict=True)
        before = -1
        for first, end, period in rows:
            if self._active and first > before + 1:
                self._drop_candidates(list(self._active))
            if self._active:
                self._extend_candidates(first, self._seq[first])
            self._open_candidate(first, period)
            if end > first:
                self._extend_run(seq, first + 1, end, period)
            before = end
        if before < len(seq) - 1:
            self._drop_candidates(list(self._active))

    def _extend_run(self, seq: Hashes, n: int, end: int, period: int) -> None:
        """Extend the candidate of this period from n to `end`, where every token equals the one a period
        before."""
        while n <= end:
            stop = end + 1
            for run in self._active:
                stop = min(stop, max(run.start + run.need - 1, n))
            for run in self._active:
                if run.period != period:
                    stop = first_mismatch(seq, n, stop, run.period)
            if stop > n:
                for run in self._active:
                    if run.loop is not None:
                        run.loop.last = stop - 1
            if stop <= end:
                self._extend_candidates(stop, self._seq[stop])
            n = stop + 1


def suspect_loops(batch: ScreenBatch) -> list[Suspicion | None]:
    """The texts that may hold a loop, 48 repeated tokens in a row, or end in what may become one."""
    seen = batch.features
    at, source = repeated_run_starts(seen.pieces, GRAM_SIZE, seen.fences)
    found = in_a_row(at, MIN_REPEATED - GRAM_SIZE + 1, seen.fences)
    found |= _at_the_end(seen.pieces, at, source, seen.fences) | seen.endless
    return batch.flagged(found)


def _at_the_end(hashes: Hashes, at: Indices, source: Indices, fences: Indices) -> Flags:
    """Which texts end with 12 tokens that repeat those one period before.

    A period is the distance to the last earlier occurrence of some gram, as it is for the detector.
    """
    tail = OPEN_REPEATED - GRAM_SIZE + 1
    ends = fences - GRAM_SIZE + 1
    found: Flags = count_between(at, ends - tail, ends) == tail
    for i in np.flatnonzero(found).tolist():
        end = int(fences[i])
        last = int(np.searchsorted(at, end - GRAM_SIZE + 1))
        periods = np.unique(at[last - tail : last] - source[last - tail : last]).tolist()
        first, own = end - OPEN_REPEATED, int(fences[i - 1]) + 1 if i else 0
        found[i] = any(
            first - period >= own and np.array_equal(hashes[first:end], hashes[first - period : end - period])
            for period in periods
        )
    return found
