"""From tokens to text: complete lines and sentences, each with the tokens that hold it.

The text-level detectors share one `TextSegmenter`. It looks at each character a bounded number of times,
and where it cuts depends on the text alone, never on how the server split it into tokens or chunks.
Reasoning tokens count as positions but are not part of the answer's text.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from stresstest.detectors.languages.catalog import per_catalog
from stresstest.detectors.text.scripts import DENSE_FACTOR, weighted_length
from stresstest.model import Token

LINE_HEAD_CHARS = 64
"""So much of a line is enough to recognise a unit's heading before the line is over."""
MAX_SENTENCE_CHARS = 1200
"""Text without any boundary is cut here, so that an endless sentence cannot cost quadratic time."""

_ANY_END = frozenset("\n.!?…؟।۔。！？｡")
_CLOSERS = "\"'»”’)]}*_`」』）"
_END = re.compile(r"\n|(?:[.!?…؟।۔]{1,8}|[。！？｡]{1,8})[" + re.escape(_CLOSERS) + "]{0,8}")
_MAX_END_CHARS = 17
"""The longest match of `_END`, and a character after it."""
_ENDED = re.compile(r"[.!?…؟।۔。！？｡][" + re.escape(_CLOSERS) + r"]*\s*\Z")
_FIRST_UNSPACED = "\u3005"
"""Scripts from here on need no blank after the full stop of another one."""
_BLANK = re.compile(r"[^\S\n]{0,8}")
_ENUMERATOR = re.compile(r"\W*(?:[^\W\d]+\W+){0,2}\W*\d{1,3}\W*")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_LAST_WORD = re.compile(r"[^\s(\[«“\"'’/-]*$")
_abbreviations = per_catalog(lambda known: known.words(lambda language: language.abbreviations))
_number_abbreviations = per_catalog(lambda known: known.words(lambda language: language.number_abbreviations))


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A piece of the answer without its surrounding white space.

    start/end: characters [start, end) of the answer; first/last: its 1-based tokens, inclusive.
    line: index of its line. closed: it ended in the text, not because the output ended.
    """

    text: str
    start: int
    end: int
    first: int
    last: int
    line: int
    closed: bool = True


LONG_SENTENCE, PIECE = 240, 90
"""A sentence longer than this is judged in pieces of about so many characters, letters of an alphabet."""
_CUT_POINTS = (re.compile(r"\s{4,}"), re.compile(r"[,;:،؛—–]\s+|[，、；：]\s*"), re.compile(r"\s+"))
"""Where a sentence may be cut, best first: where something was taken out, at a comma, at a blank."""


def split_span(span: TextSpan, text: str, feed: TextSegmenter) -> list[tuple[TextSpan, str]]:
    """A sentence and a text of its length, cut at commas and blanks of that where it is long: what runs on
    without full stops, and what turns into something else half-way, is then seen where it happens."""
    if len(text) <= LONG_SENTENCE // (1 if text.isascii() else DENSE_FACTOR):
        return [(span, text)]
    cuts = [0]
    while len(text) - cuts[-1] > PIECE // DENSE_FACTOR:
        at = cuts[-1]
        if weighted_length(text[at : at + LONG_SENTENCE + 1]) <= LONG_SENTENCE:
            break
        near = text[at : at + PIECE]
        width = DENSE_FACTOR if weighted_length(near) > 2 * len(near) else 1
        low, high = at + PIECE // width // 2, at + PIECE // width
        ends = (cut.end() for joint in _CUT_POINTS for cut in [*joint.finditer(text, low, high)][-1:])
        cuts.append(next(ends, high))
    if len(cuts) == 1:
        return [(span, text)]
    bounds = zip(cuts, [*cuts[1:], len(text)], strict=True)
    return [(_piece(span, feed, a, b), text[a:b]) for a, b in bounds]


def _piece(span: TextSpan, feed: TextSegmenter, a: int, b: int) -> TextSpan:
    text = span.text[a:b].rstrip()
    start = span.start + a
    end = start + max(len(text), 1)
    return TextSpan(text, start, end, feed.token_at(start), feed.token_at(end - 1), span.line, span.closed)


class TextSegmenter:
    """Accumulates an answer; `update` once a token, then read what has closed.

    sentences: complete sentences so far. heads: the first `LINE_HEAD_CHARS` characters of every line that
    is not blank, available as soon as they are there. lines: complete lines that are not blank.
    All three only grow; a reader keeps its own index. tokens: positions seen. chars: length of the text.
    Heads and lines stay empty without `in_lines`. pending: the unfinished sentence, at most about
    `MAX_SENTENCE_CHARS` characters; pending_at, pending_line: its first character, and that one's line.
    """

    def __init__(self, *, in_lines: bool = True) -> None:
        self._in_lines = in_lines
        self.tokens = 0
        self.chars = 0
        self.sentences: list[TextSpan] = []
        self.line_heads: list[TextSpan] = []
        self.lines: list[TextSpan] = []
        self.closed = False
        self._pieces: list[str] = []
        self._starts = array("q")
        self._index = array("q")
        self.pending = ""
        self.pending_at = 0
        self._scan = 0
        self._emitted = 0
        self._armed = False
        self._line_no = 0
        self.pending_line = 0
        self._line: list[str] = []
        self._line_at = 0
        self._head_done = False
        self._cut_from: int | None = None

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def text_from(self, offset: int) -> str:
        """The answer from the character at `offset` on, which must be where a token begins."""
        return "".join(self._pieces[bisect_left(self._starts, offset) :])

    def text_between(self, start: int, end: int) -> str:
        """The characters [start, end) of the answer, at the cost of that part."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        part = "".join(self._pieces[first : bisect_left(self._starts, end)])
        at = self._starts[first] if self._starts else 0
        return part[start - at : end - at]

    @property
    def pending_token(self) -> int | None:
        """First token of the unfinished sentence, also after `close`; None when there is none."""
        if self.closed:
            return self._cut_from
        text = self.pending
        bare = text.lstrip()
        return self.token_at(self.pending_at + len(text) - len(bare)) if bare else None

    def token_at(self, offset: int) -> int:
        """The 1-based token that holds the character at `offset` (the last one beyond the end).

        Raises IndexError for an answer without text.
        """
        return self._index[max(bisect_right(self._starts, offset) - 1, 0)]

    def update(self, token: Token) -> None:
        """Take the next output token. O(1) amortised."""
        self.tokens += 1
        text = token.text
        if not text or token.reasoning:
            return
        self._pieces.append(text)
        self._starts.append(self.chars)
        self._index.append(self.tokens)
        self.chars += len(text)
        self.pending += text
        if self._in_lines:
            self._take_lines(text)
        if self._armed or not _ANY_END.isdisjoint(text) or len(self.pending) > MAX_SENTENCE_CHARS:
            self._cut_sentences()

    def close(self) -> None:
        """The output has ended: emit what was pending. Harmless when called again."""
        if self.closed:
            return
        self.closed = True
        self._cut_sentences(final=True)
        rest = self.pending
        if rest:
            ended = _ENDED.search(rest) is not None
            self._emit_sentence(len(rest), closed=ended)
            self._drop_emitted()
            if not ended and rest.strip():
                self._cut_from = self.sentences[-1].first
        line = "".join(self._line)
        if not self._head_done:
            self._emit_head(line[:LINE_HEAD_CHARS])
        self._append(self.lines, line, self._line_at, self._line_no, closed=False)
        self._line = []

    def _take_lines(self, text: str) -> None:
        if "\n" in text:
            self._split_lines(text)
            return
        self._line.append(text)
        if not self._head_done and self.chars - self._line_at >= LINE_HEAD_CHARS:
            self._emit_head("".join(self._line)[:LINE_HEAD_CHARS])

    def _split_lines(self, text: str) -> None:
        at = self.chars - len(text)
        *whole, rest = text.split("\n")
        for part in whole:
            self._line.append(part)
            line = "".join(self._line)
            if not self._head_done:
                self._emit_head(line[:LINE_HEAD_CHARS])
            self._append(self.lines, line, self._line_at, self._line_no)
            at += len(part) + 1
            self._line_at, self._line, self._head_done = at, [], False
            self._line_no += 1
        self._line = [rest]
        if len(rest) >= LINE_HEAD_CHARS:
            self._emit_head(rest[:LINE_HEAD_CHARS])

    def _emit_head(self, text: str) -> None:
        self._head_done = True
        self._append(self.line_heads, text, self._line_at, self._line_no)

    def _append(self, to: list[TextSpan], text: str, at: int, line: int, *, closed: bool = True) -> None:
        bare = text.strip()
        if bare:
            start = at + len(text) - len(text.lstrip())
            end = start + len(bare)
            to.append(TextSpan(bare, start, end, self.token_at(start), self.token_at(end - 1), line, closed))

    def _emit_sentence(self, end: int, *, closed: bool = True) -> None:
        text = self.pending[self._emitted : end]
        self._append(self.sentences, text, self.pending_at + self._emitted, self.pending_line, closed=closed)
        self.pending_line += text.count("\n")
        self._emitted = self._scan = end

    def _cut_sentences(self, *, final: bool = False) -> None:
        """Emit every sentence whose end is certain; `_armed` when the next character must decide."""
        self._armed = self._emit_certain_sentences(final)
        self._drop_emitted()

    def _drop_emitted(self) -> None:
        # Once for all sentences: a copy for each would cost quadratic time on a text that comes as a whole.
        self.pending = self.pending[self._emitted :]
        self.pending_at += self._emitted
        self._scan -= self._emitted
        self._emitted = 0

    def _emit_certain_sentences(self, final: bool) -> bool:
        while True:
            longest = self._emitted + MAX_SENTENCE_CHARS
            match = _END.search(self.pending, self._scan, longest + _MAX_END_CHARS)
            if match is None or match.start() >= longest:
                if len(self.pending) <= longest:
                    self._scan = len(self.pending)
                    return False
                self._emit_sentence(longest)
                continue
            if match.group() == "\n":
                self._emit_sentence(match.end())
                continue
            cut = self._sentence_boundary(match, final)
            if cut is None:
                self._scan = match.start()
                return True
            if cut:
                self._emit_sentence(cut)
            else:
                self._scan = match.end()

    def _sentence_boundary(self, match: re.Match[str], final: bool) -> int | None:
        """Where the sentence ends, 0 when it goes on, None when more text must decide."""
        text, end = self.pending, match.end()
        if end == len(text):
            return 0 if final else None
        if match.group()[0] in "。！？｡":
            return 0 if match.group()[-1] == "]" and text[end] == "(" else end
        blank = _BLANK.match(text, end)
        start = blank.end() if blank else end
        if start == end and text[end] < _FIRST_UNSPACED:
            return 0
        if start == len(text):
            return 0 if final else None
        following = text[start]
        if following == "\n" or following.islower():
            return 0
        if match.group().rstrip(_CLOSERS) == "." and self._is_abbreviation(
            text[self._emitted : match.start()], following
        ):
            return 0
        return start

    def _is_abbreviation(self, before: str, following: str) -> bool:
        """Whether the full stop after `before` belongs to an abbreviation, initial or enumerator."""
        if len(before) < 40 and _ENUMERATOR.fullmatch(before):
            return True
        found = _LAST_WORD.search(before[-24:])
        word = found.group().lower() if found else ""
        if word in _abbreviations() or _INITIALS.fullmatch(word):
            return True
        return following.isdigit() and word in _number_abbreviations()
