"""Fenced blocks of Markdown, as models write them: in list items and quotations, closed at the end of a line
of text, or not closed at all before the next one opens.

After CommonMark 0.31, section 4.5, with these liberties.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_FENCE_START = re.compile(r"\s*(?:>\s*)*(?:(?:[-*+•]|\d{1,3}[.)])\s+)?(```|~~~)[`~]*\s*([\w+#.-]*)")
"""A line that opens or closes a block: its marks, and the word that names the language."""
TEXTUAL = frozenset({"json", "jsonl", "markdown", "md", "txt", "text", "plain", "plaintext"})
"""Blocks of these hold data or text, and may hold the whole answer."""
XML = "xml"
_PROSE_BEHIND = re.compile(r"(?:[`*_\"']{0,3}[^\W\d_][^\s=(){}<>]*(?:\s+|\Z)){3}[^=(){}<>]*")
"""Behind the marks of a fence: a sentence, which opens no block."""


def _closes_before_text(rest: str) -> bool:
    """Whether a fence within a block closes it, and is followed by a sentence on its line. rest: of the line,
    behind its marks."""
    return _PROSE_BEHIND.fullmatch(rest.strip("`~ \t")) is not None


class FenceTracker:
    """Call `takes` with each line, or with each sentence that begins one.

    inside: whether a block is open. name: of its language, in small letters. textual: whether that block is
    one of data or text, no code, by its name.
    """

    __slots__ = ("_marks", "_names", "_nested", "inside", "name", "textual")

    def __init__(self, names: Collection[str] = TEXTUAL) -> None:
        self.inside = self.textual = self._nested = False
        self.name = self._marks = ""
        self._names = names

    @property
    def in_code(self) -> bool:
        return self.inside and not self.textual

    def takes(self, text: str) -> bool:
        """Whether the text is a fence, which opens or closes a block; or all of a block on one line."""
        found = _FENCE_START.match(text) if "```" in text or "~~~" in text else None
        if found is None:
            return False
        marks, name = found.groups()
        if self.inside and marks != self._marks:
            return False  # what stands in a block
        if marks in text[found.end(1) :].lstrip("`~"):
            return True  # "```ls -la```"
        if self.inside and (not name or _closes_before_text(text[found.end(1) :])):
            self._close()
        else:  # code that is still open was never closed; a document of Markdown may hold code
            self._nested = self.textual
            self.inside, self.name, self._marks = True, name.lower(), marks
            self.textual = self.name in self._names
        return True

    def ends_with(self, text: str) -> None:
        """Close the block after a line of text that ends with its marks."""
        if self.inside and text.rstrip().endswith(self._marks):
            self._close()

    def _close(self) -> None:
        self.inside = self.textual = self._nested
        self._nested = False
