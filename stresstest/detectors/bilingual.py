"""Parallel text: translations that stand line by line, or side by side, with the wanted language.

"IT: … / EN: …", phrasebooks, vocabularies and a poem with its translation are in two languages on purpose.
Drift is not: the wanted language does not come back with every line, in lines of about the same length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from stresstest.detectors.function_words import count
from stresstest.detectors.langid import glance, judge
from stresstest.detectors.scripts import SCRIPTS_OF, own_letters, size
from stresstest.detectors.segment import Span

LOOK_BACK = 24
"""Sentences looked at."""
LINES = 6
"""Lines looked at; three at least must alternate, or two must have both languages."""
TURNS = 4
"""Lines without labels that must alternate: two and their translations."""
LONGEST = 500
"""Characters of a line; a translation line by line is not longer."""
ALIKE = 2.5
"""How much longer one side may be than the other, beside a few words."""
_SLACK = 12
_KNOWN = 30
"""Characters from which on the identifier is asked for the language of a part of a line."""
_JOINTS = 8
"""Places in a line at which a translation may begin."""

_TONGUE = re.compile(
    r"\W*(?:[A-Z]{2,3}|Engl\w+|Ingl\w+|Angl\w+|Ital\w+|Fran\w+|French|Spa\w+|Espa\w+|German|Deutsch|Tedesco)"
    r"\W{0,4}[:\])–—\t-]"
)
_LABEL = re.compile(r"\W*[^\W\d][\w ]{0,14}(?:\W{0,3}:|\]|\s+[–—-]\s)\W*|\s*[–—→=-]\s+")
_PARTS = re.compile(r"\s*(?:\t|\s[–—=→|/-]+\s|:\s|[(\n])\s*")


def is_labelled(text: str) -> bool:
    """Whether a text begins with the name or code of a language: "EN: …", "**Inglese:** …"."""
    return _TONGUE.match(text) is not None


def is_bilingual(spans: Sequence[Span], wanted: str, *, pairs: int = 2) -> bool:
    """Whether the last of these sentences belong to a text that stands in two languages line by line.

    pairs: lines with both languages that are proof.
    """
    last = _lines(spans)
    return (
        _side_by_side(last, wanted, pairs)
        or _by_turns([" ".join(parts) for parts in last], wanted)
        or turns(spans, wanted) >= TURNS
    )


def turns(spans: Sequence[Span], wanted: str) -> int:
    """Of the last lines, how many are in turn in the wanted and in another language, two of a pair about as
    long as each other; 0 when the last one is longer than a line of a translation."""
    found: list[str] = []
    native: bool | None = None
    for parts in reversed(_lines(spans)):
        line = " ".join(parts)
        tongues = {_is_native(part, wanted) for part in parts if len(part) >= _KNOWN or len(parts) == 1}
        # A line in both languages is no line of a translation.
        if len(line) > LONGEST or len(tongues) != 1 or native in tongues:
            break
        found.append(line)
        native = tongues.pop()
    while len(found) > 1 and not any(_paired(found[at:]) for at in (0, 1)):
        found.pop()
    return len(found)


def _is_native(text: str, wanted: str) -> bool:
    return glance(text, wanted) or not judge(text, wanted, sure=False).foreign


def _paired(lines: list[str]) -> bool:
    return all(_alike(one, other) for one, other in zip(lines[::2], lines[1::2], strict=False))


def _lines(spans: Sequence[Span]) -> list[list[str]]:
    """The sentences of each of the last lines."""
    lines: dict[int, list[str]] = {}
    for span in spans[-LOOK_BACK:]:
        lines.setdefault(span.line, []).append(span.text)
    return [parts for parts in lines.values() if any(map(str.strip, parts))][-LINES:]


def _side_by_side(lines: list[list[str]], wanted: str, pairs: int) -> bool:
    """Two languages in each of the last lines, in one order, in halves of about one length."""
    orders: list[set[tuple[bool | None, ...]]] = []
    for line in reversed(lines):
        halves = [tuple(_tongue(part, wanted) for part in two) for two in _halves(line, pairs)]
        if not halves:
            break
        orders.append(set(halves))
    return any(_in_order(orders, order) >= pairs for order in ((True, False), (False, True)))


def _in_order(lines: list[set[tuple[bool | None, ...]]], order: tuple[bool, bool]) -> int:
    """How many lines, from the first on, are surely a pair in this order; of one the languages may be
    mistaken."""
    known, mistaken = 0, 0
    for ways in lines:
        if order in ways:
            known += 1
        elif not any(_may_be(way, order) for way in ways):
            mistaken += 1
            if mistaken > 1:
                break
    return known


def _may_be(way: tuple[bool | None, ...], order: tuple[bool, bool]) -> bool:
    return all(found in (None, own) for found, own in zip(way, order, strict=True))


def _halves(line: list[str], pairs: int) -> Iterator[tuple[str, str]]:
    """The ways to read a line as a text and its translation."""
    text = "\n".join(line)
    if len(text) > LONGEST or text.startswith(("{", "[")):
        return
    for joint in islice(_PARTS.finditer(text), _JOINTS):
        one, other = text[: joint.start()], text[joint.end() :]
        # A tab between two sentences is not to be seen here.
        unmarked = joint.group() == "\n" and not (len(line) == 2 and pairs > 1)
        if (
            not unmarked
            and any(map(str.isalpha, one))
            and any(map(str.isalpha, other))
            and _alike(one, other)
        ):
            yield one, other


def _by_turns(lines: list[str], wanted: str) -> bool:
    """Labelled lines in turn in the wanted and in another language."""
    if len(lines) < 3 or max(map(len, lines)) > LONGEST or not all(map(_LABEL.match, lines)):
        return False
    texts = [_LABEL.sub("", line, count=1) for line in lines]
    tongues = [_tongue(text, wanted) for text in texts]
    if True not in tongues or tongues.count(False) < 2:
        return False
    pairs = [0, 1] if len(lines) % 2 else [0]
    if not any(all(_alike(texts[i], texts[i + 1]) for i in range(at, len(texts) - 1, 2)) for at in pairs):
        return False
    return any(all(found in (None, (i + at) % 2 == 0) for i, found in enumerate(tongues)) for at in (0, 1))


def _alike(one: str, other: str) -> bool:
    short, long = sorted((size(one), size(other)))
    return long <= ALIKE * short + _SLACK


def _tongue(text: str, wanted: str) -> bool | None:
    """Whether a short text is in the wanted language, by its script or its function words; None: unknown."""
    own, every = own_letters(text, wanted)
    if own * 2 < every:
        return False
    if wanted in SCRIPTS_OF:
        return True if own else None
    uses = count(text).uses
    mine = uses.get(wanted, 0)
    others = max((uses[language] for language in uses if language != wanted), default=0)
    # Related languages share their articles: what could be the wanted one is.
    if mine or others:
        return mine >= others
    return None if len(text) < _KNOWN else not judge(text, wanted, sure=False).foreign
