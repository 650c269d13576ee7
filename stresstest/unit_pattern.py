"""The regular expression of a task file that finds its units, matched under a time limit.

A user writes it, and repetitions inside repetitions take exponential time on a text that does not match. The
standard library cannot be interrupted there, not even by Ctrl-C; the package `regex` can.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache

import regex

from stresstest.errors import UsageError

_SECONDS = 2.0
"""Limit on one search. The patterns of the shipped tasks take microseconds on a line."""
_TRIAL_SECONDS = 0.2
_TRIALS = tuple(unit * 60 + "!" for unit in ("a", "1", " ", "a ", "1.", "Ab1 ", "# "))
"""Texts on which nested repetitions explode, whatever they repeat."""
_LONGEST = 4000
"""Characters of a pattern. The shipped ones have 60."""
_LARGEST = 1_000_000
"""Characters of a pattern with its counted repetitions written out, as the compiler does it."""
_COUNT = re.compile(r"\{(\d*)(?:,(\d*))?\}")
_RECURSION = re.compile(r"(?<!\\)(?:\\\\)*\(\?(?:R|[+-]?\d+|&\w+|P[>&]\w+)\)")
"""A pattern within itself, which takes a gigabyte before its time is over."""
_SKIPPED = re.compile(r"#.*|\s")
"""What a verbose pattern may have inside a number."""


class UnitPattern:
    """A compiled pattern (MULTILINE), whose group 1 is a unit's number.

    Raises UsageError for an invalid one; so does each search that exceeds its time limit.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        if len(pattern) > _LONGEST:
            raise UsageError(f"The unit pattern {pattern[:80]!r} is longer than {_LONGEST} characters.")
        if _RECURSION.search(pattern):
            raise UsageError(f"The unit pattern {pattern[:80]!r} calls itself, which no unit needs.")
        if max(map(_written_out, (pattern, _SKIPPED.sub("", pattern)))) > _LARGEST:
            raise UsageError(
                f"The unit pattern {pattern[:80]!r} repeats too much.",
                hint="Its counted repetitions, like {1,9}, are multiplied: use smaller ones, or * and +.",
            )
        try:
            self._compiled = _compile(pattern)
        except (regex.error, OverflowError, RecursionError, ValueError) as error:
            raise UsageError(
                f"The unit pattern {pattern[:80]!r} is not a valid regular expression: {error}."
            ) from None

    @property
    def groups(self) -> int:
        """The number of its groups."""
        return int(self._compiled.groups)

    def search(self, text: str) -> regex.Match[str] | None:
        """The first match."""
        try:
            return self._compiled.search(text, timeout=_SECONDS)
        except (TimeoutError, MemoryError):
            raise self._too_slow(len(text)) from None

    def finditer(self, text: str) -> Iterator[regex.Match[str]]:
        """All matches, in order."""
        try:
            yield from self._compiled.finditer(text, timeout=_SECONDS)
        except (TimeoutError, MemoryError):
            raise self._too_slow(len(text)) from None

    def require_fast(self) -> None:
        """Raise UsageError if it takes long on short texts: then it would on answers."""
        for text in _TRIALS:
            try:
                self._compiled.search(text, timeout=_TRIAL_SECONDS)
            except TimeoutError:
                raise self._too_slow(len(text)) from None

    def _too_slow(self, characters: int) -> UsageError:
        return UsageError(
            f"The unit pattern {self.pattern[:80]!r} takes too long on a text of {characters:,} characters.",
            hint="Repetitions inside repetitions, like (a|aa)+, take exponential time: leave them out.",
        )


def _written_out(pattern: str) -> int:
    """Characters of the pattern with what must be repeated written out, as if all of it were nested."""
    counts = (int(least[:12] or 0) for least, _ in _COUNT.findall(pattern))
    return len(pattern) * math.prod(max(count, 1) for count in counts)


@lru_cache(maxsize=64)
def _compile(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern, regex.MULTILINE)
