"""Is the output in code or markup just now? There many lines are alike and each says something.

It is asked rarely and read only then: tokens are kept until somebody asks.
"""

from __future__ import annotations

import re
from collections import deque

_KEPT = 4096
"""Tokens kept unread at most."""
_LAST = 12
_FEWEST = 4
_SHARE = 0.5
"""Outside fences: of the last twelve lines, four at least, so many look like code."""

_FENCE = re.compile(r"\s*(?:>\s*)?(?:```|~~~)")
_PROSE = re.compile(r"(?:\S+\s+){5}.*\w[.!?…]+[\"'»”)]?\s*$")
_CODE = re.compile(
    r"\s*</?[\w!?]"  # markup
    r"|.*(?:[;{}>]|\)\s*:|=>|\]\)?,)\s*$"
    r"|\s*(?:(?:import|def|class|return|const|let|function|export|public|private|static)\s|assert\b|@\w|#include)"
    r"|\s*(?:Feature|Scenario(?: Outline)?|Funzionalità|Background):"  # Gherkin, and its steps
    r"|\s*(?:Given|When|Then|Dat[aoie]|Quando|Allora)\s(?:.*[^.!?…,])$"
)


class CodeLines:
    """`update` with each token's text, then ask `inside`: linear over the output, however often asked."""

    __slots__ = ("_fenced", "_last", "_line", "_prose", "_unread")

    def __init__(self) -> None:
        self._unread: list[str] = []
        self._line = ""
        self._fenced = False
        self._last: deque[bool] = deque(maxlen=_LAST)
        self._prose: deque[bool] = deque(maxlen=_LAST)

    def update(self, text: str) -> None:
        """The next token's text."""
        self._unread.append(text)
        if len(self._unread) > _KEPT:
            self._read()

    def cut(self) -> None:
        """Another text begins: what was open is no longer."""
        self._unread.clear()
        self._last.clear()
        self._prose.clear()
        self._line, self._fenced = "", False

    @property
    def inside(self) -> bool:
        """Whether a fence is open with no prose in it, or the last lines look like code or markup."""
        self._read()
        known = len(self._last) >= _FEWEST
        if self._fenced:
            # A fence that was never closed does not make code of all that follows.
            return not (known and sum(self._prose) >= _SHARE * len(self._prose))
        return known and sum(self._last) >= _SHARE * len(self._last)

    def _read(self) -> None:
        *whole, rest = "".join(self._unread).split("\n")
        self._unread.clear()
        if whole:
            whole[0] = self._line + whole[0]
            self._line = ""
        lasting: deque[str] = deque(maxlen=_LAST)
        for line in whole:
            fence = _FENCE.match(line) if "```" in line or "~~~" in line else None
            if fence is not None and "```" not in line[fence.end() :].lstrip("`"):
                self._fenced = not self._fenced
            elif line and not line.isspace():
                lasting.append(line)
        self._last.extend(_CODE.match(line) is not None for line in lasting)
        self._prose.extend(_PROSE.match(line) is not None for line in lasting)
        # A line without end is not code, and is not copied again and again.
        self._line = (self._line + rest)[:_KEPT]
