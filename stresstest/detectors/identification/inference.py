"""Which language an answer is in, where that is unknown.

Only its start is read: an answer that drifts later began in its language. Where the start does not settle it,
the answer's group does: the other outputs of one model and task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from stresstest.detectors.identification.votes import (
    identified_languages,
    indistinguishable,
    langdetect_scores,
    screening_identifier,
)
from stresstest.detectors.languages.catalog import Catalog, per_catalog, scripts_of
from stresstest.detectors.languages.function_words import count_function_words
from stresstest.detectors.languages.language import LATIN
from stresstest.detectors.text.prose import ProseFilter
from stresstest.detectors.text.scripts import (
    DENSE_SCRIPTS,
    count_letters,
    main_script,
    script_weights,
    weighted_length,
)
from stresstest.detectors.text.segments import TextSegmenter
from stresstest.model import Token

READ_CHARS = 1500
"""Characters of an answer that are read."""
SUFFICIENT_PROSE = 600
"""Characters of prose that settle it; an alphabet's worth, see `weighted_length`."""
MIN_PROSE = 40
"""Less prose than this settles nothing."""
MAJORITY = 0.6
"""Share of the prose, or of a group's settled answers, that one language must have."""
MIN_GROUP_ANSWERS = 3
"""Settled answers that speak for a group; a smaller group needs all of its own."""
_BEGINNING = 100
"""Characters of the first passage: where an answer collapses, the passage does not end in good order."""
_PROBABILITY = 0.8


@per_catalog
def _only_language(known: Catalog) -> dict[str, str]:
    """Scripts of one language alone, and that language."""
    users = Counter(script for language in known.languages.values() for script in language.scripts)
    return {
        script: code
        for code, language in known.languages.items()
        for script in language.scripts
        if script != LATIN and users[script] == 1
    }


def infer_language(text: str) -> str | None:
    """ISO 639-1 code of the language that an answer starts in, None when that is not plain."""
    text = text[:READ_CHARS]
    # An answer that is a single quotation is read as its content.
    passages = _opening_passages(text, quotations=True) or _opening_passages(text, quotations=False)
    total = sum(map(weighted_length, passages))
    if total < MIN_PROSE:
        return None
    for twice in (False, True):  # the second identifier costs most, and is seldom needed
        votes: Counter[str] = Counter()
        for passage in passages:
            language = _language_of(passage, twice=twice)
            if language is not None:
                votes[language] += weighted_length(passage)
        language, chars = max(votes.items(), key=lambda vote: (vote[1], vote[0]), default=("", 0))
        if chars >= MAJORITY * total:
            return language
    twins = sum(
        votes[twin] for pair in indistinguishable() if language in pair for twin in pair if twin != language
    )
    return language if chars and chars + twins >= MAJORITY * total else None


def begins_in(text: str, language: str) -> bool:
    """Whether the first words of an answer are in this language."""
    first = next(_passages(text[:READ_CHARS], quotations=True), "")
    return _language_of(first[:_BEGINNING], twice=True) == language


def infer_group_language(texts: Iterable[str]) -> str | None:
    """The language most answers of a group start in, None without a clear majority."""
    found = Counter(language for text in texts if (language := infer_language(text)) is not None)
    if not found:
        return None
    language, number = max(found.items(), key=lambda vote: (vote[1], vote[0]))
    settled = found.total()
    if number < MAJORITY * settled or (settled < MIN_GROUP_ANSWERS and len(found) > 1):
        return None
    return language


def _opening_passages(text: str, *, quotations: bool) -> list[str]:
    """The first passages, `SUFFICIENT_PROSE` in all."""
    found: list[str] = []
    total = 0
    for passage in _passages(text, quotations=quotations):
        found.append(passage)
        total += weighted_length(passage)
        if total >= SUFFICIENT_PROSE:
            break
    return found


def _passages(text: str, *, quotations: bool) -> Iterator[str]:
    """Prose in sentences of `MIN_PROSE` characters or more, shorter ones joined."""
    feed = TextSegmenter(in_lines=False)
    feed.update(Token(text))
    feed.close()
    prose = ProseFilter(quotations=quotations)
    held = ""
    for span in feed.sentences:
        part = " ".join(prose(span.text, span.line).split())
        if 2 * count_letters(part) < len(part):
            continue
        held = f"{held} {part}".strip()
        if weighted_length(held) >= MIN_PROSE:
            yield held
            held = ""
    if held:
        yield held


def _language_of(passage: str, *, twice: bool) -> str | None:
    """twice: whether the second identifier is used where the first is not certain."""
    found = script_weights(passage)
    script = main_script(found)
    counted = count_function_words(passage)
    best = max(counted.uses, key=lambda code: (counted.uses[code], code), default=None)
    if best is not None and counted.clearly_in(best) and script in scripts_of(best):
        return best
    if found.get("KANA", 0) > 0.1 * sum(found.values()) and script in DENSE_SCRIPTS - {"HANGUL"}:
        return "ja"
    if script in _only_language():
        return _only_language()[script]
    language, probability = screening_identifier("en").classify(passage)
    if language not in identified_languages() or script not in scripts_of(language):
        return None
    if probability >= _PROBABILITY or (
        twice and langdetect_scores(passage).get(language, 0.0) >= _PROBABILITY
    ):
        return str(language)
    return None
