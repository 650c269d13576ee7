"""Which language an answer is in, where nobody says which one was wanted.

Only the start is read: an answer that drifts later began in its language. Where the start does not
settle it, the answer's group does: the other outputs of one model and task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from stresstest.detectors.function_words import count
from stresstest.detectors.langid import SCREENED, TWINS, langdetect_votes, screen
from stresstest.detectors.prose import ProseFilter
from stresstest.detectors.scripts import DENSE, SCRIPTS_OF, letters, size, weights
from stresstest.detectors.segment import TextFeed
from stresstest.model import Token

START = 1500
"""Characters of an answer that are read."""
ENOUGH = 600
"""Characters of prose that settle it; an alphabet's worth, see `scripts.size`."""
LEAST = 40
"""Less prose than this settles nothing."""
MAJORITY = 0.6
"""Share of the prose, or of a group's settled answers, that one language must have."""
GROUP_LEAST = 3
"""Settled answers that speak for a group; a smaller group needs all of its own."""
_PROBABILITY = 0.8
_USERS = Counter(script for scripts in SCRIPTS_OF.values() for script in scripts)
_OWN_SCRIPT = {
    script: language
    for language, scripts in SCRIPTS_OF.items()
    for script in scripts
    if script != "LATIN" and _USERS[script] == 1
}
"""Scripts of one language alone."""


def infer_language(text: str) -> str | None:
    """ISO 639-1 code of the language that an answer starts in, None when that is not plain."""
    text = text[:START]
    # An answer that is one quotation as a whole is read as what it says.
    passages = _beginning(text, quotations=True) or _beginning(text, quotations=False)
    total = sum(map(size, passages))
    if total < LEAST:
        return None
    for twice in (False, True):  # the second identifier costs most, and is seldom needed
        votes: Counter[str] = Counter()
        for passage in passages:
            language = _language_of(passage, twice=twice)
            if language is not None:
                votes[language] += size(passage)
        language, chars = max(votes.items(), key=lambda vote: (vote[1], vote[0]), default=("", 0))
        if chars >= MAJORITY * total:
            return language
    twins = sum(votes[twin] for pair in TWINS if language in pair for twin in pair if twin != language)
    return language if chars and chars + twins >= MAJORITY * total else None


def _beginning(text: str, *, quotations: bool) -> list[str]:
    """The first passages, `ENOUGH` in all."""
    found: list[str] = []
    total = 0
    for passage in _passages(text, quotations=quotations):
        found.append(passage)
        total += size(passage)
        if total >= ENOUGH:
            break
    return found


def infer_group(texts: Iterable[str]) -> str | None:
    """The language most answers of a group start in, None without a clear majority."""
    found = Counter(language for text in texts if (language := infer_language(text)) is not None)
    if not found:
        return None
    language, number = max(found.items(), key=lambda vote: (vote[1], vote[0]))
    settled = found.total()
    if number < MAJORITY * settled or (settled < GROUP_LEAST and len(found) > 1):
        return None
    return language


def _passages(text: str, *, quotations: bool) -> Iterator[str]:
    """Prose in sentences of `LEAST` characters or more, shorter ones joined."""
    feed = TextFeed(in_lines=False)
    feed.update(Token(text))
    feed.close()
    prose = ProseFilter(quotations=quotations)
    held = ""
    for span in feed.sentences:
        part = " ".join(prose(span.text, span.line).split())
        if 2 * letters(part) < len(part):
            continue
        held = f"{held} {part}".strip()
        if size(held) >= LEAST:
            yield held
            held = ""
    if held:
        yield held


def _language_of(passage: str, *, twice: bool) -> str | None:
    """twice: whether a second identifier is asked where the first is not sure."""
    found = weights(passage)
    script = max(found, key=lambda name: (found[name], name), default="")
    counted = count(passage)
    best = max(counted.uses, key=lambda code: (counted.uses[code], code), default=None)
    if best is not None and counted.plainly(best) and script in SCRIPTS_OF.get(best, ("LATIN",)):
        return best
    if found.get("KANA", 0) > 0.1 * sum(found.values()) and script in DENSE - {"HANGUL"}:
        return "ja"
    if script in _OWN_SCRIPT:
        return _OWN_SCRIPT[script]
    language, probability = screen("en").classify(passage)
    if language not in SCREENED or script not in SCRIPTS_OF.get(language, ("LATIN",)):
        return None
    if probability >= _PROBABILITY or (
        twice and langdetect_votes(passage).get(language, 0.0) >= _PROBABILITY
    ):
        return str(language)
    return None
