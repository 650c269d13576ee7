"""Exact loops: the tail of the output repeats itself, at any period, found while it is written.

An index from the last six tokens to where they last stood proposes a candidate period; each
candidate then extends by one comparison a token or dies. This is the online form of searching
maximal repetitions (runs): Kolpakov and Kucherov, "Finding maximal repetitions in a word in linear
time", 1999. The nearest earlier occurrence is at the primitive period, so twelve separators are
one period of one token and never "a 4-gram three times".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.template import UNCOUNTED, Requests
from stresstest.model import Symptom, SymptomKind, Token

GRAM = 6
"""Tokens that must match before a period is proposed: shorter ones propose at every stock phrase."""

MIN_REPEATED = 48
"""Repeated tokens (beyond the first copy) a loop needs at least, so that short periods need many
copies: a single word stands 49 times before it is a loop."""

LONG_REPEATED = 200
THIRD_COPY = 64
"""A long period need not be awaited a third time: 200 repeated tokens are enough once the third copy
has begun. Refrains come back after something else, so their copies are not adjacent, and a passage
that merely stands twice (a slip, a text restated) is never begun a third time."""

SEPARATOR_REPEATED = 256
"""What a run without a letter (rulers, dots, blank table cells, zeros) or of one character needs."""

SAME_CHARACTERS = 1024
"""Or so many of one sign, figure or blank: a token may hold dozens of underscores or blanks."""

OPEN_REPEATED = 12
"""From here on a run that still stands may yet become a loop, and the output is judged up to it."""

RESUME_GAP = 16
"""A loop that falls back into its own period within one period and this much never ended."""

_BITS = 20
_MASK = (1 << (_BITS * GRAM)) - 1
_NEVER = 1 << 60


@dataclass(slots=True, eq=False)
class _Run:
    """A maximal run with one period: s[i] == s[i - period] for every i from `start` on (0-based).

    need: repeated tokens at which it is judged (again); `_NEVER` once it is settled, as a loop.
    """

    period: int
    start: int
    need: int
    loop: _Loop | None = None


@dataclass(slots=True, eq=False)
class _Loop:
    """A run that passed the bound. `last`: its last repeated token (0-based)."""

    period: int
    start: int
    alarm: int
    need: int
    last: int
    text: str
    standing: bool = True


@lru_cache(1 << 14)
def bound(period: int) -> int:
    """Repeated tokens after which a run of this period is degenerate.

    Three copies and 48 repeated tokens; from 200 repeated tokens on, two copies and a third begun.
    """
    return min(max(2 * period, MIN_REPEATED), max(period + THIRD_COPY, LONG_REPEATED))


def is_separator(text: str) -> bool:
    """Whether a period's text is typography rather than language: no letter, or one character only."""
    return len(set(text) - set(" \t\n")) <= 1 or not any(ch.isalpha() for ch in text)


def _separators(text: str, period: int) -> int:
    """Repeated tokens that a run of this separator needs, given a period's text."""
    signs = key_of(text)
    if signs.strip() and (len(set(signs)) > 1 or signs[0].isalpha()):
        return SEPARATOR_REPEATED
    return min(SEPARATOR_REPEATED, -(-SAME_CHARACTERS * period // len(signs)))


class LoopDetector:
    """Online search for exact loops over token ids (over token text where there are none).

    Cost: two dictionary operations a token, and one comparison for each candidate that stands (a
    few at most). Memory: two integers a token.
    """

    def __init__(self, spec: PanelSpec) -> None:
        # Numbered units differ in their number: their count is not how often one text was asked for.
        self._requests = Requests(spec.prompt_text, None if spec.unit_pattern else spec.units)
        self._codes: dict[int | str, int] = {}
        self._texts: list[str] = [""]
        self._seq: list[int] = []
        self._index: dict[int, int] = {}
        self._gram = 0
        self._floor = 0
        self._reasoning = False
        self._active: list[_Run] = []
        self._loops: list[_Loop] = []

    def update(self, token: Token) -> None:
        """Take the next output token."""
        if token.reasoning is not self._reasoning:
            self._barrier(token.reasoning)
        key = key_of(token.text) if token.id is None else token.id
        code = self._codes.get(key)
        if code is None:
            code = self._codes[key] = len(self._texts)
            self._texts.append(token.text)
        n = len(self._seq)
        self._seq.append(code)
        self._gram = gram = ((self._gram << _BITS) | code) & _MASK
        if self._active:
            self._advance(n, code)
        last = self._index.get(gram)
        self._index[gram] = n
        if last is not None:
            self._propose(n, n - last)

    def finish(self, finish_reason: str | None) -> None:
        """A loop that broke within the last few tokens of a lost or cut output still stands: fewer
        than six tokens (perhaps the last one halved) cannot show that the model went on otherwise. Nor
        can blanks after the loop, however the output ended."""
        if self._loops:
            loop = max(self._loops, key=lambda found: found.last)
            after = self._seq[loop.last + 1 :]
            short = finish_reason != "stop" and len(after) < GRAM
            loop.standing = loop.standing or short or not any(self._texts[code].strip() for code in after)

    @property
    def open_from(self) -> int | None:
        """First token of the second copy of the oldest run that may yet become a loop, or None."""
        end = len(self._seq)
        starts = [
            run.start + 1 for run in self._active if run.need < _NEVER and end - run.start >= OPEN_REPEATED
        ]
        return min(starts, default=None)

    @property
    def standing(self) -> bool:
        """Whether a loop still stands at the last token."""
        return any(loop.standing for loop in self._loops)

    def symptoms(self) -> list[Symptom]:
        """Every loop that passed the bound, in order of onset."""
        if not self._loops:
            return []
        return [self._symptom(loop) for loop in sorted(self._loops, key=lambda loop: loop.start)]

    def _advance(self, n: int, code: int) -> None:
        """Extend or drop every standing candidate by the token at n."""
        seq = self._seq
        broken = False
        for run in self._active:
            if seq[n - run.period] != code:
                broken = True
            elif n - run.start >= run.need - 1:
                self._judge(run, n)
            elif run.loop is not None:
                run.loop.last = n
        if broken:
            self._drop([run for run in self._active if seq[n - run.period] != code])

    def _drop(self, broken: list[_Run]) -> None:
        for run in broken:
            if run.loop is not None:
                run.loop.standing = False
        self._active = [run for run in self._active if run not in broken]

    def _propose(self, n: int, period: int) -> None:
        """Begin a candidate at n, its start extended left to the maximal run."""
        for run in self._active:
            if run.period == period:
                return
        seq = self._seq
        start = n - GRAM + 1
        lowest = self._floor + period
        while start > lowest and seq[start - 1] == seq[start - 1 - period]:
            start -= 1
        run = _Run(period, start, bound(period))
        if self._resumed(run) is not None:
            run.need = min(run.need, OPEN_REPEATED)
        self._active.append(run)
        if n - start >= run.need - 1:
            self._judge(run, n)

    def _resumed(self, run: _Run) -> _Loop | None:
        """The loop that this run goes on with, if it broke off shortly before with the same period."""
        if not self._loops:
            return None
        loop = self._loops[-1]
        gap = run.start - loop.last
        same = not loop.standing and loop.period == run.period and loop.last >= self._floor
        return loop if same and 0 < gap <= run.period + RESUME_GAP else None

    def _judge(self, run: _Run, n: int) -> None:
        """A run has reached the length at which it was to be looked at: a loop, or not yet."""
        resumed = self._resumed(run)
        if resumed is not None:
            resumed.standing, resumed.last = True, n
            run.loop, run.need = resumed, _NEVER
            return
        need = bound(run.period)
        repeated = n - run.start + 1
        if repeated < need:
            run.need = need
            return
        if self.standing:
            # Inside a loop that stands already (a short run within a long period): look again later.
            run.need = repeated + MIN_REPEATED
            return
        text = self._text(run.start - run.period, run.period)
        if is_separator(text):
            need = max(need, _separators(text, run.period))
            if repeated < need:
                run.need = need
                return
        copies = self._requests.copies(text)
        if copies is not None:
            # As requested, so far: it stays an open candidate, and is a loop beyond what was asked for.
            need = max(need, copies * run.period or UNCOUNTED)
            if repeated < need:
                run.need = need
                return
        run.loop = _Loop(run.period, run.start, n + 1, need, n, text)
        run.need = _NEVER
        self._loops.append(run.loop)

    def _barrier(self, reasoning: bool) -> None:
        """An answer may quote its own reasoning: no run crosses from one into the other."""
        self._reasoning = reasoning
        self._drop(list(self._active))
        self._index.clear()
        self._gram = 0
        self._floor = len(self._seq)

    def _text(self, start: int, length: int) -> str:
        return "".join(self._texts[code] for code in self._seq[start : start + length])

    def _symptom(self, loop: _Loop) -> Symptom:
        repeated = loop.last - loop.start + 1
        exponent = (repeated + loop.period) / loop.period
        shown = " ".join(loop.text.split())
        shown = shown if len(shown) <= 80 else f"{shown[:77]}…"
        return Symptom(
            kind=SymptomKind.LOOP,
            onset=loop.start + 1,
            alarm=loop.alarm,
            start=loop.start - loop.period + 1,
            end=None if loop.standing else loop.last + 1,
            score=1.0 - 0.5 * loop.need / max(repeated, loop.need),
            detail={"period": loop.period, "exponent": round(exponent, 2), "repeated": repeated},
            summary=f"{loop.period} tokens repeat {exponent:.1f} times: “{shown}”",
        )


def key_of(text: str) -> str:
    """What a token without an id is compared by."""
    return text.strip(" \t") or text
