"""What is left of an answer when everything that is legitimately in another language is taken out.

Code, URLs, e-mail addresses, JSON keys, markup, block quotes, quotations, links, italics and entries of a
bibliography say nothing about the language an answer is written in. What the strings of a JSON answer say
does. `ProseFilter` sees the sentences in order, because fences, quotations and strings span them.
"""

from __future__ import annotations

import re

from stresstest.detectors.languages.catalog import Catalog, per_catalog
from stresstest.detectors.text.code_lines import is_mostly_code
from stresstest.detectors.text.fences import TEXTUAL, XML, FenceTracker
from stresstest.detectors.text.scripts import weighted_length

QUOTED_WORDS = 3
"""A shorter quotation is a name or a word under discussion and does no harm."""
VALUE_WORDS, VALUE_SIZE = 5, 36
"""A shorter string of a record of data is a name, a term, a date; in scripts without spaces, its size."""
QUOTE_SPAN = 800
"""Weighted length after which an unclosed quotation mark is taken for a slip, not for a quotation."""

_TAG_PATTERN = r"<[/?!]?[a-zA-Z][^<>]{0,200}>"
_INLINE = re.compile(
    r"!?\[[^\[\]\n]{1,500}\]\([^()\s]{1,300}\)"  # links
    r"|``.*?``|`[^`]*`"  # inline code
    r"|\$\$.*?\$\$|\$[^$\s][^$]*\$"  # formulas
    r"|(?:https?|ftp)://\S+|www\.\S+"
    r"|(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+"
    rf"|<!--.*?-->|{_TAG_PATTERN}"
    r"|\\\w+|(?<![\w.-])(?:[\w.-]*+/){2,}[\w.-]*"  # TeX commands, file paths
)
_TAG = re.compile(_TAG_PATTERN)
_KEY = re.compile(r'"[\w .$-]{1,60}"\s*:')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)("|\Z)')
_REST = re.compile(r'((?:[^"\\]|\\.)*)("|\Z)')
_DATA = re.compile(r'\{\s*(?:["{]|$)|\[\s*(?:["{\[]|$)')
"""How an answer in JSON begins."""
_DATA_LINE = re.compile(r"^[^\S\n]*[{\[|<>]", re.MULTILINE)
_DATA_GOES_ON = ("{", "}", "[", "]", '"', ",")
_MAX_AUTHOR_CHARS = 48
"""Characters in which the first author's name has ended."""
_ITALIC = re.compile(r"(?<![*\w])\*(?![*\s])[^*\n]{2,200}(?<!\s)\*(?![*\w])")
_HEADING = re.compile(r"[\W_]*(?:[^\W\d]+[^\w\n]{1,4}){0,2}\(?\d{1,6}(?:[\W_]+|$)|[#>*\-+•–—\s]+")
_MARKED = re.compile(r"[`~>|\"«»“„‘「『《‹$@</\\*_#\]]|  ")
_MARKS = re.compile(r"[*_#>|]+")
_CLOSING = {
    **{"«": "»", "»": "«", "“": "”", "„": "“”", "‹": "›", "‘": "’", "「": "」", "『": "』", "《": "》"},
    **{'"': '"', "`": "`", "'": "'"},
}
_SINGLE_LINE_QUOTES = ('"', "`", "'", "’")
"""Marks that open and close alike, or are apostrophes: one that is not closed in its line was a slip."""
_OPENING = re.compile(
    r"[“„「『《‹`‘]|(?<![\w.,;:!?…])«|(?:^|(?<=[\s(]))»(?=\w)|(?<![\w.,;:!?…])\"(?=\S)"
    r"|(?<![\w'.,;:!?…])'(?=\w[^']{8})"
)
_WORD_GOES_ON = re.compile("[0-9A-Za-z\u00c0-\u024f]")
_SQL = re.compile(
    r"\s*(?:SELECT\b.*?\bFROM|INSERT\s+INTO|UPDATE\b.*?\bSET|DELETE\s+FROM|WITH\s+\w+\s+AS\s*\(|CREATE\s+TABLE"
    r"|ALTER\s+TABLE|DROP\s+TABLE)\b",
    re.DOTALL,
)
_ESCAPE = re.compile(r'\\(?:[nrt"]|u[0-9a-fA-F]{4})')


@per_catalog
def _reference(known: Catalog) -> re.Pattern[str]:
    """How an entry of a bibliography begins."""
    conjunctions = "|".join(sorted(known.words(lambda language: language.author_conjunctions)))
    joint = rf"(?:\W|et al|{conjunctions}|\d|\Z)" if conjunctions else r"(?:\W|et al|\d|\Z)"
    return re.compile(
        r"\W{0,4}(?:\d{1,3}[\])]?\W{1,3})?"
        r"(?:[^\W\d_][\w'’ -]{1,30},\s(?:[A-Z]\.[\s-]?){1,3}"
        + joint  # Smith, J. A., &
        + r"|[^\W\d_][\w'’ -]{1,30}\s[A-Z]{1,3},\s[^\W\d_][\w'’ -]{1,30}\s[A-Z]{1,3}[.,]"  # Smith JA, Lee B.
        r"|[^\n]{1,80}\bet al\.,?\s\(\d{4}[a-z]?\)[.,:])"
    )


def strip_heading(text: str) -> str:
    """Cut off a leading unit mark, number or bullet: "**Paragrafo 12.** Marta" → "Marta"."""
    match = _HEADING.match(text)
    return text[match.end() :] if match else text


def holds_blocks(text: str) -> bool:
    """Whether there are fences in the text, or lines that begin as JSON, markup, tables or quotes: what is
    prose there depends on all that stands before."""
    return "```" in text or "~~~" in text or _DATA_LINE.search(text) is not None


def _blank_out(match: re.Match[str]) -> str:
    return " " * len(match.group())


def _without_heading(text: str) -> str:
    """Blanks for the heading, but a quotation that opens before a number ("“1. …") stays open."""
    head = text[: len(text) - len(strip_heading(text))]
    mark = next((mark for mark in reversed(head) if mark in _CLOSING), "")
    return mark.rjust(len(head)) + text[len(head) :]


def _unescaped(match: re.Match[str]) -> str:
    escape = match.group()
    return ' "' if escape == '\\"' else " " * len(escape)


def _has_removable_parts(text: str) -> bool:
    if _MARKED.search(text) is not None or text.startswith("'"):
        return True
    return " '" in text or "('" in text or "www." in text


def _is_reference(text: str) -> bool:
    return ("," in text[:_MAX_AUTHOR_CHARS] or "et al." in text) and _reference().match(text) is not None


def says_something(string: str) -> bool:
    """Whether a string of a record of data, or a cell of a table, says something: codes and names do not."""
    if len(string.split()) >= VALUE_WORDS:
        return not _is_code(string)
    wide = weighted_length(string)
    return wide > 2 * len(string) and wide >= VALUE_SIZE


def _is_code(string: str) -> bool:
    """Whether a string of a record of data holds a statement of SQL, or a program: calls of tools do."""
    lines = string.replace("\\n", "\n").split("\n")
    return _SQL.match(string) is not None or is_mostly_code(lines)


def _end_of(text: str, marks: str, at: int) -> int:
    """Where a quotation that one of `marks` closes ends, -1 for not here. An apostrophe in a word of Latin
    letters closes nothing."""
    for i in range(at, len(text)):
        if text[i] in marks and not (text[i] in "'’" and _WORD_GOES_ON.match(text, i + 1)):
            return i
    return -1


class ProseFilter:
    """Call it with each sentence in order; it returns the sentence with blanks in the place of what is no
    prose, as long as it was.

    quotations: take quotations and references out (the default), or keep what they say. xml: read fenced
    blocks of XML, too. block: which fenced block of data or text the last sentence was in, from 1; 0 for
    none.
    """

    def __init__(self, *, quotations: bool = True, xml: bool = False) -> None:
        self.block = 0
        self._fences = FenceTracker(TEXTUAL | {XML} if xml else TEXTUAL)
        self._blocks = 0
        self._quotations = quotations
        self._line = -1
        self._cited = False
        self._data = False
        self._in_string = False
        self._value: ProseFilter | None = None
        self._until = ""
        self._quoted = 0

    @property
    def in_code(self) -> bool:
        """Whether the last sentence was in a fenced block of code."""
        return self._fences.in_code

    @property
    def in_xml(self) -> bool:
        """Whether the last sentence was in a fenced block of XML."""
        return self._fences.inside and self._fences.name == XML

    def is_all_prose(self, text: str, line: int) -> bool:
        """Whether a sentence is all prose; then it need not be filtered."""
        if self._fences.inside or self._until or self._in_string or (self._cited and line == self._line):
            return False
        if _has_removable_parts(text):
            return False
        if line != self._line:
            if _is_reference(text):
                return False
            self._line, self._cited, self._data = line, False, False
        return True

    def __call__(self, text: str, line: int = -1) -> str:
        """The prose of a sentence of the given line; every sentence of a quoted line, a table row or an entry
        of a bibliography is out."""
        begins = line != self._line
        if begins:
            self._begin(text, line)
        inside = self._fences.inside
        if not (inside or self._until or self._cited or self._in_string or _has_removable_parts(text)):
            return _without_heading(text)
        nothing = " " * len(text)
        if self._reads_fence(text, begins=begins):
            return nothing
        if self.in_code or self._cited or text.startswith("|"):
            return nothing
        if self._data:
            return self._string_values(text, line)
        if text.startswith("<"):
            text = _TAG.sub(_blank_out, text)
        text = _INLINE.sub(_blank_out, _without_heading(text))
        if '":' in text or '" :' in text:
            text = _KEY.sub(_blank_out, text)
        if self._quotations:
            text = self._without_quotations(text)
        return _MARKS.sub(_blank_out, _without_italics(text))

    def _reads_fence(self, text: str, *, begins: bool) -> bool:
        """Whether the text is a fence, or the end of a block."""
        fences, within = self._fences, self._fences.inside
        if begins and fences.takes(text):
            self._blocks += fences.textual and not within
            taken = True
        else:
            fences.ends_with(text)
            taken = within and not fences.inside
        self.block = self._blocks if fences.textual else 0
        return taken

    def _begin(self, text: str, line: int) -> None:
        if line > self._line + 1 and text[:1] not in _CLOSING:
            self._until = ""  # a quotation that goes on in a new paragraph opens again
        self._line = line
        reference = self._quotations and _is_reference(text)
        self._cited = reference or text.startswith("|") or (self._quotations and text.startswith(">"))
        self._data = _DATA.match(text) is not None or (self._data and text.startswith(_DATA_GOES_ON))
        self._in_string = False
        if self._until in _SINGLE_LINE_QUOTES:
            self._until = ""

    def _string_values(self, text: str, line: int) -> str:
        """What the values of a record of data say."""
        kept = ""
        while len(kept) < len(text):
            string = _REST.match(text) if self._in_string else _STRING.search(text, len(kept))
            if string is None:
                break
            going_on, self._in_string = self._in_string, not string.group(2)
            key = not going_on and text[string.end() :].lstrip().startswith(":")
            if not going_on:
                self._value = ProseFilter(quotations=self._quotations)
            if (
                self._value is not None
                and not key
                and (going_on or self._in_string or says_something(string.group(1)))
            ):
                kept = kept.ljust(string.start(1)) + self._value(
                    _ESCAPE.sub(_unescaped, string.group(1)), line
                )
            kept = kept.ljust(string.end())
        return kept.ljust(len(text))

    def _without_quotations(self, text: str) -> str:
        kept = ""
        while len(kept) < len(text):
            at = len(kept)
            if self._until:
                end = _end_of(text, self._until, at)
                if end < 0:
                    self._quoted += weighted_length(text[at:])
                    if self._quoted > QUOTE_SPAN:
                        self._until = ""
                    break
                self._until = ""
                kept = kept.ljust(end + 1)
                continue
            opened = _OPENING.search(text, at)
            if opened is None:
                return kept + text[at:]
            kept = (kept + text[at : opened.start()]).ljust(opened.end())
            closing = _CLOSING[opened.group()]
            end = _end_of(text, closing, opened.end())
            if end < 0:
                self._until, self._quoted = closing, weighted_length(text[opened.end() :])
                break
            inside = text[opened.end() : end]
            if len(inside.split()) < QUOTED_WORDS and inside.isascii():
                kept += inside
            kept = kept.ljust(end + 1)
        return kept.ljust(len(text))


def _without_italics(text: str) -> str:
    """Blanks for what stands in italics: titles and foreign words; unless that is all of it."""
    rest = _ITALIC.sub(_blank_out, text) if "*" in text else text
    return rest if any(map(str.isalpha, rest)) else text
