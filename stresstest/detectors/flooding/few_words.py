"""Floods of a few words in ever new order: sentences that circle among five or six, a drill without an end.

No word owns the text, nothing is copied at one distance, so neither the flood of four words nor a near-loop
is there. The bound is far from healthy text: of 5,637 real outputs, many of them lists, tables and quizzes,
the poorest healthy stretch of 512 words holds 47 different ones.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence

from stresstest.detectors.flooding.run import FloodRun, WindowWord, flood_start

WIDE_WINDOW, MAX_DIFFERENT = 512, 32
"""Words, and how many different ones of them are a flood."""
MAX_STILL_DIFFERENT = 2 * MAX_DIFFERENT
"""So many different words end it."""
TAIL_WORDS, MAX_TAIL_DIFFERENT = 256, 20
"""The end of an output that may become a flood."""
_OWN = 4
"""Occurrences in the window that make a word one of the flood's, not of the text before it."""
_RECHECK_WORDS = 64
"""Words after which a stretch that was a table or markup is looked at again."""

Judge = Callable[[Sequence[WindowWord], frozenset[str]], int | None]
"""The words that a stretch may have before it is a flood, 0 for none; None where it is no text."""


class FewWords:
    """Follows the number of different words among the last 512; shared by the online and the batch form."""

    def __init__(self) -> None:
        self._again = 0
        self.current: FloodRun | None = None
        self.found: list[FloodRun] = []

    def quiet(self, different: int) -> bool:
        """Whether a word changes nothing. different: words in the full window that it ends."""
        return self.current is None and different > MAX_DIFFERENT

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
            if different > MAX_STILL_DIFFERENT:
                flood.active, self.current = False, None
                return
            flood.last = position
            flood.count += 1
            if flood.requested_count:
                self._report(flood)
        elif different <= MAX_DIFFERENT and n >= self._again:
            words = window()
            few = frozenset(word.text for word in words)
            allowed = judge(words, few)
            if allowed is None:
                self._again = n + _RECHECK_WORDS
                return
            own = frozenset(text for text, count in Counter(w.text for w in words).items() if count >= _OWN)
            begun = words[flood_start(words, own) :]
            self.current = FloodRun(own, begun[0].position, position, position, len(begun), allowed)
            self._report(self.current)

    def _report(self, flood: FloodRun) -> None:
        if flood.count >= flood.requested_count:
            flood.requested_count, flood.alarm = 0, flood.last
            self.found.append(flood)

    def open_from(self, tail: Sequence[WindowWord], judge: Judge) -> int | None:
        """First token of a stretch that may yet be a flood. tail: the last `TAIL_WORDS` words."""
        if self.current is not None:
            return self.current.onset if self.current.requested_count else None
        few = frozenset(word.text for word in tail)
        if len(tail) < TAIL_WORDS or len(few) > MAX_TAIL_DIFFERENT or judge(tail, few) is None:
            return None
        return tail[0].position


class WideWindow:
    """The last words, and how many different ones they are."""

    def __init__(self) -> None:
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
        if self.seen < WIDE_WINDOW:
            return WIDE_WINDOW
        if self.seen > WIDE_WINDOW:
            old = words.popleft()[0]
            if counts[old] == 1:
                del counts[old]
            else:
                counts[old] -= 1
        return len(counts)

    def words(self, most: int = WIDE_WINDOW) -> list[WindowWord]:
        """The last words, at most `most`."""
        return list(map(WindowWord._make, list(self._words)[-most:]))
