"""In which element of an XML document a sentence stands, and which elements hold the requested language.

Elements of one name are of one kind: entries of a localisation file, descriptions of a feed. Others may hold
what is foreign on purpose: quotations, a summary in English, a prompt for an image, code.
"""

from __future__ import annotations

import re

_TAG = re.compile(r"<(/?)([a-zA-Z][\w:.-]*)(?=[\s/>])(?!//)([^<>]{0,200})>")
_DEEPEST = 64


class ElementTracker:
    """Call `read` with each sentence in order. element: the one in which its first words are, "" for none."""

    __slots__ = ("_open", "_own", "element")

    def __init__(self) -> None:
        self.element = ""
        self._own: set[tuple[int, str]] = set()
        self._open: list[str] = []

    @property
    def inside(self) -> bool:
        """Whether an element is open."""
        return bool(self._open)

    def restart(self) -> None:
        """The same text is read again."""
        self.element = ""
        self._open.clear()

    def read(self, text: str) -> None:
        """Take the tags of the next sentence."""
        found, at = None, 0
        for tag in _TAG.finditer(text):
            if found is None and any(map(str.isalpha, text[at : tag.start()])):
                found = self._innermost
            at = tag.end()
            closing, name, rest = tag.groups()
            if closing:
                self._close(name)
            elif not rest.endswith("/") and len(self._open) < _DEEPEST:
                self._open.append(name)
        self.element = self._innermost if found is None else found

    def add_own(self, block: int, element: str) -> None:
        """An element holds text in the requested language. block: the fenced one it is in, 0 outside."""
        if element:
            self._own.add((block, element))

    def holds_own(self, block: int, element: str | None = None) -> bool:
        """Whether elements of this name, or any element of the block, hold text in the requested language."""
        if element is not None:
            return (block, element) in self._own
        return any(each == block for each, _ in self._own)

    @property
    def _innermost(self) -> str:
        return self._open[-1] if self._open else ""

    def _close(self, name: str) -> None:
        if name in self._open:
            while self._open.pop() != name:
                pass
