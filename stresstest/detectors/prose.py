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
_HEADING = re.compile(r"[\W_]*(?:[^\W\d]+[^\w\n]{1,4}){0,2}\(?\d{1,6}(?:[\W_]+|$)|[#>*\-+•–—\s]+")
_MARKS = re.compile(r"[*_#>|]+")
_CLOSING = {"«": "»", "“": "”", "„": "“”", "「": "」", "『": "』", '"': '"', "‹": "›"}
_OPENING = re.compile(r'[«“„「『‹]|(?<![\w.,;:!?…])"(?=\S)')
_SQUEEZE = re.compile(r"\s{2,}")


def strip_heading(text: str) -> str:
    """Cut off a leading unit mark, number or bullet: "**Paragrafo 12.** Marta" → "Marta"."""
    match = _HEADING.match(text)
    return text[match.end() :] if match else text


class ProseFilter:
    """Call it with each sentence in order; it returns the prose of the sentence, possibly empty."""

    def __init__(self) -> None:
        self._fenced = False
        self._until = ""
        self._quoted = 0

    def __call__(self, text: str) -> str:
        if _FENCE.match(text):
            self._fenced = not (self._fenced or text.rstrip("`~ ").find("```") > 0)
            return ""
        if self._fenced or text.startswith((">", "|")):
            return ""
        text = strip_heading(text)
        text = self._without_quotations(_INLINE.sub(" ", text))
        return _SQUEEZE.sub(" ", _MARKS.sub("", text)).strip()

    def _without_quotations(self, text: str) -> str:
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
            if len(inside.split()) < QUOTED_WORDS and inside.isascii():
                kept.append(inside)
            at = end + 1
        return " ".join(kept)
