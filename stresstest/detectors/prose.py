"""What is left of an answer when everything that is legitimately in another language is taken out.

Code, URLs, e-mail addresses, JSON keys, markup, block quotes and quotations say nothing about the
language an answer is written in. `ProseFilter` sees the sentences in order, because fences and
quotations span them.
"""

from __future__ import annotations

import re

QUOTED_WORDS = 3
"""A shorter quotation is a name or a word under discussion and does no harm."""
QUOTE_SPAN = 800
"""After so many characters an unclosed quotation mark is taken for a slip, not for a quotation."""

_FENCE = re.compile(r"\s*(?:>\s*)?(```|~~~)")
_INLINE = re.compile(
    r"``.*?``|`[^`]*`"  # inline code
    r"|\$\$.*?\$\$|\$[^$\s][^$]*\$"  # formulas
    r"|(?:https?|ftp)://\S+|www\.\S+"
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r'|"[\w .$-]{1,60}"\s*:'  # JSON keys
    r"|</?[a-zA-Z][^<>]{0,200}>"
    r"|\\\w+|(?:[\w.-]*/){2,}[\w.-]*"  # TeX commands, file paths
)
_KEY = re.compile(r'"[\w .$-]{1,60}"\s*:')
_LITERAL = re.compile(r"(?<![\w\"])(?:true|false|null)(?![\w\"])")
_STRING = re.compile(r'"([^"]*)"')
_HEADING = re.compile(r"[\W_]*(?:[^\W\d]+[^\w\n]{1,4}){0,2}\(?\d{1,6}(?:[\W_]+|$)|[#>*\-+•–—\s]+")
_MARKED = re.compile(r"[`~>|\"«“„「『‹$@</\\*_#]|www\.|  ")
"""Without any of these nothing can be taken out."""
_MARKS = re.compile(r"[*_#>|]+")
_CLOSING = {"«": "»", "“": "”", "„": "“”", "「": "」", "『": "』", '"': '"', "‹": "›", "`": "`"}
_OF_ONE_LINE = ('"', "`")
"""Marks that open and close alike: one that is not closed in its line was a slip."""
_OPENING = re.compile(r'[«“„「『‹`]|(?<![\w.,;:!?…])"(?=\S)')
_SQUEEZE = re.compile(r"\s{2,}")


def strip_heading(text: str) -> str:
    """Cut off a leading unit mark, number or bullet: "**Paragrafo 12.** Marta" → "Marta"."""
    match = _HEADING.match(text)
    return text[match.end() :] if match else text


def _without_heading(text: str) -> str:
    """`strip_heading`, but a quotation that opens before a number ("“1. …") stays open."""
    prose = strip_heading(text)
    head = text[: len(text) - len(prose)]
    return next((mark for mark in reversed(head) if mark in _CLOSING), "") + prose


def _told(string: re.Match[str]) -> str:
    """A string of a record of data, if it says something: codes, names and dates do not."""
    return string.group() if len(string.group(1).split()) >= QUOTED_WORDS else " "


class ProseFilter:
    """Call it with each sentence in order; it returns the prose of the sentence, possibly empty.

    quotations: take them out (the default), or keep what they say.
    """

    def __init__(self, *, quotations: bool = True) -> None:
        self._quotations = quotations
        self._fenced = False
        self._line = -1
        self._cited = False
        self._until = ""
        self._quoted = 0

    def passes(self, text: str, line: int) -> bool:
        """Whether a sentence is all prose; then it need not be filtered."""
        if self._fenced or self._until or (self._cited and line == self._line):
            return False
        return not text.startswith((">", "|")) and _MARKED.search(text) is None

    def __call__(self, text: str, line: int = -1) -> str:
        """The prose of a sentence of the given line; every sentence of a quoted line or table row is out."""
        if line != self._line:
            self._line = line
            self._cited = text.startswith((">", "|"))
            if self._until in _OF_ONE_LINE:
                self._until = ""
        if not (self._fenced or self._until or self._cited or _MARKED.search(text)):
            return strip_heading(text)
        if _FENCE.match(text):
            self._fenced = not (self._fenced or text.rstrip("`~ ").find("```") > 0)
            return ""
        if self._fenced or self._cited or text.startswith((">", "|")):
            return ""
        text = _without_heading(text)
        data = _KEY.search(text) is not None
        text = _INLINE.sub(" ", text)
        if data:
            text = _LITERAL.sub(" ", text)
        if self._quotations:
            text = self._without_quotations(text, data=data)
        elif data:
            text = _STRING.sub(_told, text)
        return _SQUEEZE.sub(" ", _MARKS.sub("", text)).strip()

    def _without_quotations(self, text: str, *, data: bool) -> str:
        """Text without its quotations; of a record of data the short strings are taken out too."""
        kept: list[str] = []
        at = 0
        while at < len(text):
            if self._until:
                end = next((i for i in range(at, len(text)) if text[i] in self._until), -1)
                if end < 0:
                    self._quoted += len(text) - at
                    if self._quoted > QUOTE_SPAN:
                        self._until = ""
                    break
                self._until = ""
                at = end + 1
                continue
            opened = _OPENING.search(text, at)
            if opened is None:
                kept.append(text[at:])
                break
            kept.append(text[at : opened.start()])
            closing = _CLOSING[opened.group()]
            end = next((i for i in range(opened.end(), len(text)) if text[i] in closing), -1)
            if end < 0:
                self._until, self._quoted = closing, len(text) - opened.end()
                break
            inside = text[opened.end() : end]
            if not data and len(inside.split()) < QUOTED_WORDS and inside.isascii():
                kept.append(inside)
            at = end + 1
        return " ".join(kept)
