"""Parallel text: translations line by line, or side by side, with the requested language.

"IT: … / EN: …", phrasebooks, vocabularies and a poem with its translation are in two languages on purpose. In
drift, the requested language does not return with every line, in lines of about the same length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from stresstest.detectors.identification.foreign import detect_foreign_text, prefilter_language
from stresstest.detectors.languages.catalog import Catalog, alternatives, per_catalog
from stresstest.detectors.languages.function_words import count_function_words
from stresstest.detectors.text.scripts import is_latin, own_letters, weighted_length
from stresstest.detectors.text.segments import TextSpan

LOOKBACK_SENTENCES = 24
"""Sentences examined."""
LOOKBACK_LINES = 6
"""Lines examined; at least three must alternate, or two must contain both languages."""
MIN_ALTERNATING_LINES = 4
"""Unlabelled lines that must alternate: two and their translations."""
MAX_LINE_CHARS = 500
"""Characters of a line of a line-by-line translation, at most."""
MAX_LENGTH_RATIO = 2.5
"""How much longer one side may be than the other, apart from a few words."""
_LENGTH_SLACK = 12
_MIN_IDENTIFIABLE_CHARS = 30
"""Characters from which on the identifier decides the language of a part of a line."""
_MAX_SPLIT_POINTS = 8
"""Places in a line at which a translation may begin."""

_LABEL = re.compile(r"\W*[^\W\d][\w ]{0,14}(?:\W{0,3}:|\]|\s+[–—-]\s)\W*|\s*[–—→=-]\s+")
_PARTS = re.compile(r"\s*(?:\t|\s[–—=→|/-]+\s|:\s|[(\n])\s*")


@per_catalog
def _language_label(known: Catalog) -> re.Pattern[str]:
    """A code or a name of a language as a label."""
    names = alternatives(known.words(lambda language: language.label_names))
    return re.compile(rf"\W*(?:[A-Z]{{2,3}}|{names})\W{{0,4}}[:\])–—\t-]")


def has_language_label(text: str) -> bool:
    """Whether a text begins with the name or code of a language: "EN: …", "**Inglese:** …"."""
    return _language_label().match(text) is not None


def is_bilingual(spans: Sequence[TextSpan], wanted: str, *, pairs: int = 2) -> bool:
    """Whether the last sentences belong to a parallel text. pairs: lines with both languages that are
    proof."""
    last = _group_by_line(spans)
    return (
        _side_by_side(last, wanted, pairs)
        or _labels_alternate([" ".join(parts) for parts in last], wanted)
        or alternating_lines(spans, wanted) >= MIN_ALTERNATING_LINES
    )


def alternating_lines(spans: Sequence[TextSpan], wanted: str) -> int:
    """How many of the last lines alternate between the requested and another language, both of a pair about
    equally long; 0 when the last one is longer than a line of a translation."""
    found: list[str] = []
    native: bool | None = None
    for parts in reversed(_group_by_line(spans)):
        line = " ".join(parts)
        tongues = {
            prefilter_language(part, wanted) or not detect_foreign_text(part, wanted, sure=False).foreign
            for part in parts
            if len(part) >= _MIN_IDENTIFIABLE_CHARS or len(parts) == 1
        }
        # A line in both languages is no line of a translation.
        if len(line) > MAX_LINE_CHARS or len(tongues) != 1 or native in tongues:
            break
        found.append(line)
        native = tongues.pop()
    while len(found) > 1 and not any(_paired(found[at:]) for at in (0, 1)):
        found.pop()
    return len(found)


def _paired(lines: list[str]) -> bool:
    return all(_similar_length(one, other) for one, other in zip(lines[::2], lines[1::2], strict=False))


def _group_by_line(spans: Sequence[TextSpan]) -> list[list[str]]:
    lines: dict[int, list[str]] = {}
    for span in spans[-LOOKBACK_SENTENCES:]:
        lines.setdefault(span.line, []).append(span.text)
    return [parts for parts in lines.values() if any(map(str.strip, parts))][-LOOKBACK_LINES:]


def _side_by_side(lines: list[list[str]], wanted: str, pairs: int) -> bool:
    """Whether the last lines contain both languages, in one order, in halves of about equal length. Of the
    last one the second half may still be to come."""
    orders: list[set[tuple[bool | None, bool | None]]] = []
    for n, line in enumerate(reversed(lines)):
        halves = [
            (_matches_language(one, wanted), _matches_language(other, wanted))
            for one, other in _split_candidates(line, pairs)
        ]
        if not halves and n == 0 and len(line) == 1 and pairs > 1:
            continue
        if not halves:
            break
        orders.append(set(halves))
    return any(_pairs_in_order(orders, order) >= pairs for order in ((True, False), (False, True)))


def _pairs_in_order(lines: list[set[tuple[bool | None, bool | None]]], order: tuple[bool, bool]) -> int:
    """How many lines, from the first on, are certainly a pair in this order; one may be misidentified."""
    known, mistaken = 0, 0
    for ways in lines:
        if order in ways:
            known += 1
        elif not any(one in (None, order[0]) and other in (None, order[1]) for one, other in ways):
            mistaken += 1
            if mistaken > 1:
                break
    return known


def _split_candidates(line: list[str], pairs: int) -> Iterator[tuple[str, str]]:
    """The ways to read a line as a text and its translation."""
    text = "\n".join(line)
    if len(text) > MAX_LINE_CHARS or text.startswith(("{", "[")):
        return
    for joint in islice(_PARTS.finditer(text), _MAX_SPLIT_POINTS):
        one, other = text[: joint.start()], text[joint.end() :]
        # A tab between two sentences is not to be seen here.
        unmarked = joint.group() == "\n" and not (len(line) == 2 and pairs > 1)
        if (
            not unmarked
            and any(map(str.isalpha, one))
            and any(map(str.isalpha, other))
            and _similar_length(one, other)
        ):
            yield one, other


def _labels_alternate(lines: list[str], wanted: str) -> bool:
    """Whether labelled lines alternate between the requested and another language."""
    if len(lines) < 3 or max(map(len, lines)) > MAX_LINE_CHARS or not all(map(_LABEL.match, lines)):
        return False
    texts = [_LABEL.sub("", line, count=1) for line in lines]
    tongues = [_matches_language(text, wanted) for text in texts]
    if True not in tongues or tongues.count(False) < 2:
        return False
    pairs = [0, 1] if len(lines) % 2 else [0]
    if not any(
        all(_similar_length(texts[i], texts[i + 1]) for i in range(at, len(texts) - 1, 2)) for at in pairs
    ):
        return False
    return any(all(found in (None, (i + at) % 2 == 0) for i, found in enumerate(tongues)) for at in (0, 1))


def _similar_length(one: str, other: str) -> bool:
    short, long = sorted((weighted_length(one), weighted_length(other)))
    return long <= MAX_LENGTH_RATIO * short + _LENGTH_SLACK


def _matches_language(text: str, wanted: str) -> bool | None:
    """Whether a short text is in the requested language, by script or function words; None: unknown."""
    own, every = own_letters(text, wanted)
    if own * 2 < every:
        return False
    if not is_latin(wanted):
        return True if own else None
    uses = count_function_words(text).uses
    mine = uses.get(wanted, 0)
    others = max((uses[language] for language in uses if language != wanted), default=0)
    # Related languages share their articles: what could be the wanted one is.
    if mine or others:
        return mine >= others
    return (
        None
        if len(text) < _MIN_IDENTIFIABLE_CHARS
        else not detect_foreign_text(text, wanted, sure=False).foreign
    )
