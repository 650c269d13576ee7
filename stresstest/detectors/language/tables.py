"""Markdown tables: what their cells say in the columns that are written in the expected language.

A glossary has a column of foreign terms, a phrase book one of translations: a column says something of the
answer's language only once its own cells have been in it. Names, dates and short entries say nothing.
"""

from __future__ import annotations

from stresstest.detectors.identification.foreign import prefilter_language
from stresstest.detectors.text.prose import ProseFilter, says_something

_READ_CHARS = 400
"""Characters of a column that are read to see what language it begins in."""


class TableColumns:
    """Follows the rows of tables; call it with each sentence in order.

    wanted: the expected language, normalised.
    """

    def __init__(self, wanted: str) -> None:
        self._wanted = wanted
        self._line = -1
        self._row = False
        self._column = 0
        self._begun: dict[int, str] = {}
        self._known: set[int] = set()

    def __call__(self, text: str, line: int) -> str | None:
        """The prose of a sentence of a row, blanks in the place of all else; None where it is of no row."""
        if line != self._line:
            row = text.startswith("|")
            if not (row and self._row and line == self._line + 1):
                self._begun, self._known = {}, set()
            self._line, self._row, self._column = line, row, 0
        if not self._row:
            return None
        kept = ""
        for n, cell in enumerate(text.split("|")):
            self._column += n > 0
            kept += (self._prose_of(cell) if says_something(cell) else "").ljust(len(cell) + 1)
        return kept[: len(text)]

    def _prose_of(self, cell: str) -> str:
        prose = ProseFilter()(cell)
        column = self._column
        if column in self._known:
            return prose
        begun = self._begun[column] = f"{self._begun.get(column, '')} {prose}"[-_READ_CHARS:]
        if prefilter_language(begun.strip(), self._wanted):
            self._known.add(column)
            return prose
        return ""
