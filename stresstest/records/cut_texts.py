"""Logs that cut each text at a length (``text[:1000]``), or cut its middle out: what failed there is not in
them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from stresstest.records.record import Record, utf8_size

LEAST_TEXTS, LEAST_SIZE, _LEAST_WORDS = 5, 200, 40
"""Different texts of one length, and that length in characters and in words, that are no chance."""
_SHORT, _MANY_TEXTS = 80, 30
"""Characters from which on so many different texts of one length are no chance either."""
NEARBY = 0.1
"""The share of a limit within which other lengths are its neighbours."""
_LONGEST_CHARACTER, _LONGEST_WORD = 4, 24
"""Bytes and characters: a cut in the midst of a character or a word may leave out the whole of it."""
TAIL = 64
"""Characters in which texts must differ: answers of one shape have one length, and one end."""
_LONGEST_MARK = 96
_SAID = r"(?:\.\.\.|…|\+\d|\b(?:truncat|cut\b|snip|clip|more\b|rest\b|omit|left out|char|byte|word|token))"
_DOTS = re.compile(r"\s*(?:\.\.\.|…)[\s\[({<]*[\])}>]*\Z|\s*[\[({<](?:\.\.\.|…)[\])}>]\Z")
_MARK = re.compile(
    rf"\s*(?:(?:\.\.\.|…)[^\n]*|[\[({{<](?=[^\n]*{_SAID})[^\n\[\](){{}}<>]*[\])}}>]+[.…]*)\Z", re.IGNORECASE
)
"""A mark of truncation: what follows on dots, or says so in brackets at the end ("[response truncated]",
"... (+1,234 chars)"). Answers may end so too, but not at one length."""
_SAID_WITHIN = re.compile(r"truncat|omitted|elided|left out|\bsnip(?:ped)?\b|skipped|removed", re.IGNORECASE)
_SIDE = 64
_WITHIN = re.compile(
    rf"(?:(?:\.\.\.|…)\s?[\[({{<_]{{0,3}}|[\[({{<]{{1,3}})[^\n\[\](){{}}<>]{{0,{_SIDE}}}(?:{_SAID_WITHIN.pattern})"
    rf"[^\n\[\](){{}}<>]{{0,{_SIDE}}}?(?:[\])}}>_]{{1,3}}|\.\.\.|…)(?:\.\.\.|…)?",
    re.IGNORECASE,
)
"""A mark between a head and a tail ("…[1,234 characters omitted]…"). Answers may hold such words, but not
five of them at one place."""
_MOST_SAID = 16
"""Such words of a text that are looked at."""
_MIDWAY = re.compile(r"[\w,;:(\-–—]\s*\Z")
"""How a text ends that was cut in the midst of a sentence."""
_SENTENCE = re.compile(r"\w[.!?][\"')\]]?\s")


@dataclass(frozen=True, slots=True)
class TextEnd:
    """A text without its mark of truncation. may_be_cut: it ends in the midst of a sentence, or had one.
    dotted: it had dots for a mark."""

    body: str
    dotted: bool
    may_be_cut: bool

    @property
    def words(self) -> int:
        """Of prose; 0 for lists of words, which have one number of them because that was asked for."""
        return len(self.body.split()) if _SENTENCE.search(self.body) else 0


@dataclass(frozen=True, slots=True)
class _Measure:
    """What logs cut at. tolerance: how much a cut text may be shorter. least: the smallest limit. nearby:
    the share of the limit within which others are neighbours. short: the smallest limit at which many texts
    end."""

    size: Callable[[TextEnd], int]
    tolerance: int
    least: int
    nearby: float = NEARBY
    short: int | None = None


_MEASURES = (
    _Measure(lambda text: len(text.body), 0, LEAST_SIZE, short=_SHORT),
    _Measure(lambda text: utf8_size(text.body), _LONGEST_CHARACTER - 1, LEAST_SIZE, short=_SHORT),
    _Measure(lambda text: text.words, 0, _LEAST_WORDS),
    _Measure(lambda text: len(text.body) if text.dotted else 0, _LONGEST_WORD, LEAST_SIZE, 1e9),
)
"""The last is for ``textwrap.shorten``. Of answers that end in dots of their own, most end elsewhere."""


def with_cuts(records: Sequence[Record]) -> Sequence[Record]:
    """The records, with a hole at the end of those that the log has cut: five or more different texts of
    one length, in characters, bytes or words, that end in the midst of a sentence. They must be as many as
    all texts that are up to a tenth shorter or longer: where a server caps answers, lengths scatter. Those
    of which the middle was cut out have the hole there: five or more with a mark at one place."""
    texts = [text_end(record) for record in records]
    cut = {n for measure in _MEASURES for n in _cut_at(measure, texts)}
    within = _cut_within(records)
    if not (cut or within):
        return records
    return [
        _with_hole(each) if n in cut else _without_mark(each, within[n]) if n in within else each
        for n, each in enumerate(records)
    ]


def text_end(record: Record) -> TextEnd:
    """How a record's text ends."""
    text = record.text.rstrip()
    mark = _MARK.search(text[-_LONGEST_MARK:])
    body = record.text if mark is None else text[: len(text) - len(mark[0])]
    midway = mark is not None or _MIDWAY.search(body) is not None
    return TextEnd(body, _DOTS.search(text[-_LONGEST_MARK:]) is not None, _is_kept(record) and midway)


def _cut_at(measure: _Measure, texts: Sequence[TextEnd]) -> Iterator[int]:
    """The places of the texts that end at a limit of this measure."""
    sizes = [measure.size(text) for text in texts]
    least = measure.least if measure.short is None else measure.short
    ordered = sorted(size for size in sizes if size >= least * (1 - NEARBY))
    by_size = sorted((sizes[n], n) for n, text in enumerate(texts) if text.may_be_cut)
    for limit in sorted({size for size, _ in by_size if size >= least}):
        shortest = limit - measure.tolerance
        found = by_size[bisect_left(by_size, (shortest, 0)) : bisect_right(by_size, (limit, len(texts)))]
        different = len({texts[n].body[-TAIL:] for _, n in found})
        wide = _between(ordered, limit * (1 - measure.nearby), limit * (1 + measure.nearby))
        fewest = LEAST_TEXTS if limit >= measure.least else _MANY_TEXTS
        if different >= max(fewest, wide - _between(ordered, shortest, limit)):
            yield from (n for _, n in found)


def _cut_within(records: Sequence[Record]) -> dict[int, re.Match[str]]:
    """Place of each record whose middle was cut out → the mark there."""
    found: dict[int, dict[int, re.Match[str]]] = {}
    for n, record in enumerate(records):
        mark = _mark_within(record.text) if _is_kept(record) else None
        if mark is not None and mark.end() < len(record.text.rstrip()):
            found.setdefault(mark.start(), {})[n] = mark
    return {
        n: mark
        for start, marks in found.items()
        if start >= LEAST_SIZE and len({records[n].text[start - TAIL : start] for n in marks}) >= LEAST_TEXTS
        for n, mark in marks.items()
    }


def _mark_within(text: str) -> re.Match[str] | None:
    """The first mark, looked for around the words that say so: the time is linear."""
    for said in islice(_SAID_WITHIN.finditer(text), _MOST_SAID):
        mark = _WITHIN.search(text, max(said.start() - _SIDE, 0), said.end() + _SIDE)
        if mark is not None:
            return mark
    return None


def _is_kept(record: Record) -> bool:
    return record.has_text and record.hole is None and record.tokens is None


def _without_mark(record: Record, mark: re.Match[str]) -> Record:
    text = record.text[: mark.start()] + record.text[mark.end() :]
    return replace(record, text=text, has_text=False, hole=len(record.reasoning) + mark.start())


def _between(ordered: Sequence[int], low: float, high: float) -> int:
    """How many there are from low to high."""
    return bisect_right(ordered, high) - bisect_left(ordered, low)


def _with_hole(record: Record) -> Record:
    return replace(record, has_text=False, hole=len(record.reasoning) + len(record.text))
