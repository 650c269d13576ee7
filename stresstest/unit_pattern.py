"""The regular expression of a task file that finds its units, matched under a time limit.

A user writes it, and repetitions inside repetitions take exponential time on a text that does not match. The
standard library cannot be interrupted there, not even by Ctrl-C; the package `regex` can.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import regex

from stresstest.errors import UsageError

_SECONDS = 2.0
"""Limit on one search. The patterns of the shipped tasks take microseconds on a line."""
_TRIAL_SECONDS = 0.2
_TRIALS = tuple(unit * 60 + "!" for unit in ("a", "1", " ", "a ", "1.", "Ab1 ", "# "))
"""Texts on which nested repetitions explode, whatever they repeat."""


class UnitPattern:
    """A compiled pattern (MULTILINE), whose group 1 is a unit's number.

    Raises UsageError for an invalid one; so does each search that exceeds its time limit.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        try:
            self._compiled = _compile(pattern)
        except (regex.error, OverflowError, RecursionError) as error:
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
        except TimeoutError:
            raise self._too_slow(len(text)) from None

    def finditer(self, text: str) -> Iterator[regex.Match[str]]:
        """All matches, in order."""
        try:
            yield from self._compiled.finditer(text, timeout=_SECONDS)
        except TimeoutError:
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


@lru_cache(maxsize=64)
def _compile(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern, regex.MULTILINE)
