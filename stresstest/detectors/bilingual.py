"""Parallel text: translations that stand line by line, or side by side, with the wanted language.

"IT: … / EN: …", phrasebooks and vocabularies are in two languages on purpose. Drift is not: the wanted
language does not come back with every line, in pieces of the same length, behind labels or dashes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stresstest.detectors.function_words import count
from stresstest.detectors.scripts import SCRIPTS_OF, weights
from stresstest.detectors.segment import Span

LOOK_BACK = 24
"""Sentences looked at."""
LINES = 6
"""Lines looked at; three at least must alternate, or two must have both languages."""
LONGEST = 400
"""Characters of a line; a translation line by line is not longer."""
ALIKE = 2.5
"""How much longer one side may be than the other, beside a few words."""
_SLACK = 12

_TONGUE = re.compile(
    r"\W*(?:[A-Z]{2,3}|Engl\w+|Ingl\w+|Angl\w+|Ital\w+|Fran\w+|French|Spa\w+|Espa\w+|German|Deutsch|Tedesco)"
    r"\W{0,4}[:\])–—\t-]"
)
_LABEL = re.compile(r"\W*[^\W\d][\w ]{0,14}(?:\W{0,3}:|\]|\s+[–—-]\s)\W*|\s*[–—→=-]\s+")
_PARTS = re.compile(r"\s*(?:\t|\s[–—=→|/-]+\s|:\s|[(\n])\s*")
_STARTS = re.compile(r"\W*[–—=→|/(:-]")


def is_labelled(text: str) -> bool:
    """Whether a text begins with the name or code of a language: "EN: …", "**Inglese:** …"."""
    return _TONGUE.match(text) is not None


def is_bilingual(spans: Sequence[Span], wanted: str, *, pairs: int = 2) -> bool:
    """Whether the last of these sentences belong to a text that stands in two languages line by line.

    pairs: lines with both languages that are proof.
    """
    lines: dict[int, list[str]] = {}
    for span in spans[-LOOK_BACK:]:
        lines.setdefault(span.line, []).append(span.text)
    last = [parts for parts in lines.values() if any(map(str.strip, parts))][-LINES:]
    return _side_by_side(last, wanted, pairs) or _by_turns([" ".join(parts) for parts in last], wanted)


def _side_by_side(lines: list[list[str]], wanted: str, pairs: int) -> bool:
    """Two languages in a line, in one order, in halves of about one length."""
    orders = []
    for line in lines:
        if sum(map(len, line)) > LONGEST:
            return False
        parts = [part for text in line for part in _PARTS.split(text) if any(map(str.isalpha, part))]
        marked = len(parts) > len(line) or any(_STARTS.match(text) for text in line[1:])
        # A tab between two sentences is not to be seen here.
        if (
            len(parts) != 2
            or not _alike(parts[0], parts[1])
            or not (marked or (len(line) == 2 and pairs > 1))
        ):
            return False
        orders.append(tuple(_tongue(part, wanted) for part in parts))
    for order in ((True, False), (False, True)):
        fits = all(found in (None, own) for pair in orders for found, own in zip(pair, order, strict=True))
        if fits and sum(None not in pair for pair in orders) >= pairs:
            return True
    return False


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
    short, long = sorted((len(one), len(other)))
    return long <= ALIKE * short + _SLACK


def _tongue(text: str, wanted: str) -> bool | None:
    """Whether a short text is in the wanted language, by its script or its function words; None: unknown."""
    weighed = weights(text)
    own = sum(weighed.get(script, 0) for script in SCRIPTS_OF.get(wanted, ("LATIN",)))
    if own * 2 < sum(weighed.values()):
        return False
    if wanted in SCRIPTS_OF:
        return True if own else None
    uses = count(text).uses
    mine = uses.get(wanted, 0)
    others = max((uses[language] for language in uses if language != wanted), default=0)
    # Related languages share their articles: what could be the wanted one is.
    return mine >= others if mine or others else None
