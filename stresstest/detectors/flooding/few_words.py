"""Floods of a few words in ever new order: sentences that circle among five or six, a drill without an end.

No word owns the text, nothing is copied at one distance, so neither the flood of four words nor a near-loop
is there; nor where stock phrases of two or three words come in any order. The bounds are far from healthy
text: of 5,637 real outputs, many of them lists, tables and quizzes, the poorest healthy stretch of 512 words
holds 47 different ones; of 36,227, the poorest of 128 words that is no table holds 17, and is the refrain of
a song; of 636 with 1,024 words or more, the poorest that is no table holds 64.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stresstest.detectors.flooding.run import FloodRun, WindowWord, flood_start


@dataclass(frozen=True, slots=True)
class FewBound:
    """So many words with no more `different` ones are a flood; twice as many different ones end it. tail,
    tail_different: the same of an end that may become one."""

    words: int
    different: int
    tail: int
    tail_different: int


FEW_BOUNDS = (FewBound(128, 12, 64, 8), FewBound(512, 32, 256, 20), FewBound(1024, 56, 512, 40))
_OWN = 4
"""Occurrences in the window that make a word one of the flood's, not of the text before it."""
_RECHECK_WORDS = 64
"""Words after which a stretch that was a table or markup is looked at again."""

Judge = Callable[[Sequence[WindowWord], frozenset[str]], int | None]
"""The words that a stretch may have before it is a flood, 0 for none; None where it is no text."""


class FewWords:
    """Follows the number of different words in a window; shared by the online and the batch form."""

    def __init__(self, bound: FewBound) -> None:
        self.bound = bound
        self.looks_from = 0
        """Index of the word from which on a window is looked at (again)."""
        self.current: FloodRun | None = None
        self.found: list[FloodRun] = []

    def quiet(self, different: int) -> bool:
        """Whether a word changes nothing. different: words in the full window that it ends."""
        return self.current is None and different > self.bound.different

    def step(
        self,
        n: int,
        position: int,
        different: int,
        window: Callable[[], Sequence[WindowWord]],
        judge: Judge,
    ) -> None:
        """The word at index n, with a full window before it. different: words in that window."""
        flood = self.current
        if flood is not None:
            if different > 2 * self.bound.different:
                flood.active, self.current = False, None
                return
            flood.last = position
            flood.count += 1
            if flood.requested_count:
                self._report(flood)
        elif different <= self.bound.different and n >= self.looks_from:
            words = window()
            few = frozenset(word.text for word in words)
            allowed = judge(words, few)
            if allowed is None:
                self.look_later(n)
                return
            own = _own(words)
            begun = words[flood_start(words, own) :]
            self.current = FloodRun(own, begun[0].position, position, position, len(begun), allowed)
            self._report(self.current)

    def look_later(self, n: int) -> None:
        """The window that the word at index n ends is no text; nor will those that end soon after it be."""
        self.looks_from = n + _RECHECK_WORDS

    def follow(self, flood: FloodRun, words: int, last: int) -> None:
        """So many more words with few different ones in their windows, of a flood that nobody requested, up
        to the token `last`."""
        flood.count += words
        flood.last = last

    def _report(self, flood: FloodRun) -> None:
        if flood.count >= flood.requested_count:
            flood.requested_count, flood.alarm = 0, flood.last
            self.found.append(flood)

    def open_from(self, last: Callable[[int], Sequence[WindowWord]], judge: Judge) -> int | None:
        """First token of a stretch that may yet be a flood. last: so many of the last words."""
        if self.current is not None:
            return self.current.onset if self.current.requested_count else None
        tail = last(self.bound.tail)
        few = frozenset(word.text for word in tail)
        if len(tail) < self.bound.tail or len(few) > self.bound.tail_different:
            return None
        allowed = judge(tail, few)
        if allowed is None or 2 * len(tail) < allowed:
            return None
        # The tail tells that there is one; it may have begun before.
        words = last(self.bound.words)
        return min(words[flood_start(words, _own(tail))].position, tail[0].position)


def _own(words: Sequence[WindowWord]) -> frozenset[str]:
    return frozenset(text for text, count in Counter(w.text for w in words).items() if count >= _OWN)


class WordWindow:
    """The last words, and how many different ones they are."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._words: deque[tuple[str, int, int, int, int]] = deque()
        self._counts: dict[str, int] = {}
        self.seen = 0

    def add(self, word: tuple[str, int, int, int, int]) -> int:
        """Add a word; how many different ones a full window holds. Before it is full, more than any flood."""
        counts, words = self._counts, self._words
        words.append(word)
        self.seen += 1
        text = word[0]
        counts[text] = counts.get(text, 0) + 1
        if self.seen < self._size:
            return self._size
        if self.seen > self._size:
            old = words.popleft()[0]
            if counts[old] == 1:
                del counts[old]
            else:
                counts[old] -= 1
        return len(counts)

    def words(self) -> list[WindowWord]:
        """The words in it."""
        return list(map(WindowWord._make, self._words))

    def last(self, most: int) -> list[WindowWord]:
        """The last words in it, at most `most`."""
        return self.words()[-most:]
