"""Whether the output is in code or markup at the moment, where many lines are alike and each is new.

It is needed rarely, so tokens are kept unread until then.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

from stresstest.detectors.languages.catalog import Catalog, per_catalog
from stresstest.detectors.text.fences import FenceTracker

_MAX_PENDING = 4096
"""Tokens kept unread at most."""
_WINDOW_LINES = 12
_MIN_LINES = 4
_MIN_CODE_SHARE = 0.5
"""Outside fences: of the last twelve lines, four at least, so many look like code."""

_TAG = re.compile(r"<!--.*?-->|</?[a-zA-Z!?][^<>]{0,200}>", re.DOTALL)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_ITEM = re.compile(r"\s*(?:[-*+•–·]|\(?\w{1,4}[.)])\s")
_SIGNS = re.compile(r"[=<>{}\[\]$`\"\\]|\w\(")
_AROUND = ",;:()'’\"«»“”*_"
_LISTED_WORDS, _LISTED_SHARE = 5, 0.7
_PAGE = re.compile(
    r"<(?:!doctype\s+html|html|head|script|style|link|meta|form|input|button|svg|nav)\b", re.IGNORECASE
)
_FIRST_TAG = re.compile(r"\s*<([?!]?[a-zA-Z][\w:.-]*)(?=[\s/>])(?!//)")
_PROSE_TAGS = frozenset(
    (
        *("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "dl", "dt", "dd", "div", "span"),
        *("section", "article", "main", "header", "footer", "aside", "blockquote", "figure", "figcaption"),
        *("table", "caption", "thead", "tbody", "tr", "td", "th", "b", "strong", "i", "em", "u", "small"),
        *("mark", "br", "hr", "a", "details", "summary", "think", "answer"),
    )
)
"""Tags with which a text begins that is written for readers."""
_PROSE = re.compile(r"(?:\S+\s+){5}.*\w[.!?…]+[\"'»”)]?\s*$")


@per_catalog
def _code(known: Catalog) -> re.Pattern[str]:
    """A line of code, of markup, or of a test scenario in Gherkin."""
    blocks, steps = (
        "|".join(re.escape(word) for word in sorted(known.words(words))) or "(?!)"
        for words in (lambda language: language.gherkin_blocks, lambda language: language.gherkin_steps)
    )
    return re.compile(
        r"\s*</?[\w!?]"  # markup
        r"|.*(?:[;{}>]|\)\s*:|=>|\]\)?,)\s*$"
        r"|\s*(?:(?:import|def|class|return|const|let|function|export|public|private|static)\s|assert\b|@\w|#include)"
        r"|\s*(?:if|elif|else|for|while|with|try|except|finally|match|case)\b[^.?!…]*:\s*(?:\#.*)?$"
        r"|\s*with\s.*\sas\s\w+:\s*$"
        r"|\s*(?:if|elif|while|until|for)\s.*;\s*(?:do|then)\s*$"  # the shell
        r"|\s*(?:then|do|done|fi|esac|else|shift|break|continue|pass)\s*$"
        r"|\s*(?:echo|printf|print|cat|cp|mv|rm|cd|ls|grep|sed|awk|find|export)\s+[-\"'$./{*]|\#!"
        r"|\s*[\w.]+(?:\[[^\]]*\])?(?::\s*[\w.\[\], |]+)?\s*[-+*/|&]?=(?!=)\s*\S"  # an assignment
        r"|\s*\w[\w.]*\([^()]*\)\s*$"  # a call
        r"|\s*\"[^\"\n]{1,80}\"\s*:\s"  # a key of JSON
        r"|\s*[\w.]+ as \w+,\s*$"  # a name of a long import
        rf"|\s*(?:{blocks}):"
        rf"|\s*(?:{steps})\s(?:.*[^.!?…,])$"
    )


def _is_listed(line: str) -> bool:
    """Whether a line is an item of a list that a semicolon ends, and no statement, which has signs in it."""
    if not line.rstrip().endswith(";") or _ITEM.match(line) is None or _SIGNS.search(line) is not None:
        return False
    words = [word.strip(_AROUND) for word in line.split()]
    plain = sum(word.islower() and _WORD.fullmatch(word) is not None for word in words)
    return plain >= max(_LISTED_WORDS, _LISTED_SHARE * len(words))


def is_mostly_code(lines: Sequence[str]) -> bool:
    """Whether half of some lines outside fences, or more, look like code, and fewer like prose."""
    listed = list(map(_is_listed, lines))
    code = sum(not each and _code().match(line) is not None for line, each in zip(lines, listed, strict=True))
    prose = sum(each or _PROSE.match(line) is not None for line, each in zip(lines, listed, strict=True))
    return code > prose and code >= _MIN_CODE_SHARE * len(lines)


def opens_a_page(text: str) -> bool:
    """Whether a text begins a page for a browser, with its head, styles, forms or scripts: that is code."""
    return "<" in text and _PAGE.search(text) is not None


def begins_a_document(text: str) -> bool:
    """Whether a text begins with a tag that is none of HTML's for prose: XML, whose words may be data."""
    found = _FIRST_TAG.match(text)
    return found is not None and found[1].lower() not in _PROSE_TAGS


def without_tags(lines: Sequence[str]) -> list[str]:
    """What lines of HTML or XML say; those that are tags alone are left out."""
    bare = ((_TAG.sub(" ", line) if "<" in line else line).strip() for line in lines)
    return [line for line in bare if line]


class CodeRegionTracker:
    """`update` with each token's text, then ask `in_code`: linear over the output, however often asked."""

    __slots__ = ("_code_lines", "_fences", "_last", "_line", "_lines", "_pending_texts", "_prose")

    def __init__(self) -> None:
        self._pending_texts: list[str] = []
        self._line = ""
        self._lines = self._code_lines = 0
        self._fences = FenceTracker()
        self._last: deque[bool] = deque(maxlen=_WINDOW_LINES)
        self._prose: deque[bool] = deque(maxlen=_WINDOW_LINES)

    def update(self, text: str) -> None:
        self._pending_texts.append(text)
        if len(self._pending_texts) > _MAX_PENDING:
            self._process_pending()

    def reset(self) -> None:
        """Another text begins: what was open is no longer."""
        self._pending_texts.clear()
        self._last.clear()
        self._prose.clear()
        self._line, self._fences = "", FenceTracker()
        self._lines = self._code_lines = 0

    @property
    def in_code(self) -> bool:
        """Whether a fence is open with no prose in it, or the last lines look like code or markup, or most
        lines do and the last ones are a docstring or a long call, but no prose."""
        self._process_pending()
        known = len(self._last) >= _MIN_LINES
        prose = known and sum(self._prose) >= _MIN_CODE_SHARE * len(self._prose)
        if self._fences.inside:
            # A fence that was never closed does not make code of all that follows.
            return not prose
        mostly = self._lines >= _WINDOW_LINES and self._code_lines >= _MIN_CODE_SHARE * self._lines
        return known and (sum(self._last) >= _MIN_CODE_SHARE * len(self._last) or (mostly and not prose))

    def _process_pending(self) -> None:
        *whole, rest = "".join(self._pending_texts).split("\n")
        self._pending_texts.clear()
        if whole:
            whole[0] = self._line + whole[0]
            self._line = ""
        lasting: deque[str] = deque(maxlen=_WINDOW_LINES)
        for line in whole:
            if self._fences.takes(line):
                continue
            self._fences.ends_with(line)
            if line and not line.isspace():
                lasting.append(line)
        looks = [_code().match(line) is not None for line in lasting]
        self._lines += len(looks)
        self._code_lines += sum(looks)
        self._last.extend(looks)
        self._prose.extend(_PROSE.match(line) is not None for line in lasting)
        # A line without end is not code, and is not copied again and again.
        self._line = (self._line + rest)[:_MAX_PENDING]
