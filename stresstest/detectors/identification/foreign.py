"""Whether a passage is in another language than the expected one.

Checks in order of cost: function words (`function_words`) and the script of the letters (`scripts`), a few
microseconds; py3langid; and, only when it names another language, langdetect. Both must call a passage
foreign, or one of them and its function words. Close relatives (Italian and Spanish, Danish and Norwegian)
are distinguished only when both votes are certain and agree.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from stresstest.detectors.identification.votes import (
    indistinguishable,
    langdetect_languages,
    langdetect_scores,
    relatives,
    screening_identifier,
)
from stresstest.detectors.languages.catalog import Catalog, catalog, per_catalog, scripts_of
from stresstest.detectors.languages.function_words import (
    FunctionWordCount,
    count_function_words,
    covered_languages,
)
from stresstest.detectors.languages.language import LATIN
from stresstest.detectors.text.scripts import (
    clearly_in_script,
    has_non_latin,
    is_latin,
    is_mostly_latin,
    latin_part,
    latin_runs,
    script_weights,
    weighted_length,
)

_SAMPLE_CHARS = 300
"""Characters of a passage that are examined: more do not change the result."""
_SCREENED, _VOTE = 0.5, 0.9
_LEAST_OWN_SHARE = 0.2
"""Of the words of a sentence that the identifiers take for another language."""
_NEAR_SCREENED, _NEAR_VOTE = 0.9, 0.98
"""Minimum probability that py3langid gives another language, and that langdetect gives any but the wanted
one; for relatives, both for the same other language."""
_ROMANISED_WORDS = 8
_WORDS_WITHOUT_GRAMMAR = 8
_RUN_GRAMMAR = 2
_LONGEST_WORD = 40
"""Characters for each word, spaces with them, from which on letters of an alphabet are none of any language:
the longest words of German and Finnish are alone in a sentence."""
_KANA_IN_CHINESE = 0.3
_KANA_IN_JAPANESE = 0.05


@per_catalog
def _unused_letters(known: Catalog) -> dict[str, re.Pattern[str]]:
    """Language → letters of its script that it does not use, and sequences of them; where one occurs, the
    identifier decides."""
    return {
        code: re.compile(
            "|".join([f"[{re.escape(language.foreign_letters)}]", *sorted(language.foreign_sequences)])
        )
        for code, language in known.languages.items()
        if language.foreign_letters
    }


@per_catalog
def _shared_scripts(known: Catalog) -> frozenset[str]:
    """Scripts that several languages are written in."""
    users = Counter(script for language in known.languages.values() for script in language.scripts)
    return frozenset(script for script, number in users.items() if number > 1) | {LATIN}


def _shares_its_script(language: str) -> bool:
    """Whether letters alone do not tell a language from all others. Of those written with Han characters,
    the kana and the hangul tell."""
    scripts = scripts_of(language)
    return not _shared_scripts().isdisjoint(scripts) and "HAN" not in scripts


@dataclass(frozen=True, slots=True)
class LanguageVerdict:
    """foreign: both votes say so. language: what it is instead. score: the weaker vote, 0-1.

    script: the letters alone decided. share: of the passage, what is foreign.
    """

    foreign: bool
    language: str | None = None
    score: float = 0.0
    script: bool = False
    share: float = 1.0


NOT_FOREIGN = LanguageVerdict(foreign=False)


def prefilter_language(text: str, wanted: str) -> bool:
    """Whether the cheap screens alone leave no doubt that `text` is in the expected language."""
    text = text[:_SAMPLE_CHARS]
    if is_latin(wanted):
        return (
            wanted in covered_languages()
            and count_function_words(text).clearly_in(wanted)
            and is_mostly_latin(text)
        )
    if not clearly_in_script(text, wanted):
        return False
    if wanted in ("zh", "ja", "ko"):
        return _detect_kana(script_weights(text), wanted) is NOT_FOREIGN and not latin_runs(text)
    if latin_runs(text):
        return False
    if not _shares_its_script(wanted):
        return True
    strangers = _unused_letters().get(wanted)
    if strangers is None:
        return count_function_words(text).clearly_in(wanted)
    return not strangers.search(text)


def detect_foreign_text(text: str, wanted: str, *, sure: bool = True) -> LanguageVerdict:
    """Whether `text` (prose) is in another language than `wanted` (normalised).

    sure: ask for the second vote. Without it, for text known to be foreign already, the first suffices.
    """
    return _detect_foreign_text(text[:_SAMPLE_CHARS], wanted, sure, catalog())


# The screen, the suite, and the search for translations ask about the same passages again.
@lru_cache(maxsize=512)
def _detect_foreign_text(text: str, wanted: str, sure: bool, _known: Catalog) -> LanguageVerdict:
    counted = count_function_words(text)
    if is_latin(wanted) and counted.clearly_in(wanted) and is_mostly_latin(text):
        return NOT_FOREIGN
    by_script = _detect_by_script(text, wanted, sure=sure)
    if by_script is not None:
        return by_script
    if sure and len(text) > _LONGEST_WORD * counted.words and is_mostly_latin(text):
        return NOT_FOREIGN
    return _first_vote(text, wanted, counted, sure=sure)


def _first_vote(text: str, wanted: str, counted: FunctionWordCount, *, sure: bool) -> LanguageVerdict:
    identifier = screening_identifier(wanted)
    language, screened = identifier.classify(text)
    # A language that the identifiers do not know is recognised by its function words alone.
    for code in counted.uses:
        if code not in identifier.labels and code != wanted and counted.clearly_in(code):
            return LanguageVerdict(True, code, 0.9)
    if wanted not in identifier.labels:
        differs = _function_words_agree(counted, wanted, language)
        return LanguageVerdict(True, language, max(screened, 0.9)) if differs else NOT_FOREIGN
    if language == wanted:
        return _second_look(text, wanted, counted) if sure else NOT_FOREIGN
    if frozenset((wanted, language)) in indistinguishable():
        return NOT_FOREIGN
    if _function_words_agree(counted, wanted, language):
        return LanguageVerdict(True, language, max(screened, 0.9))
    if sure and _function_words_object(counted, wanted, language):
        return NOT_FOREIGN
    return (
        _second_vote(text, wanted, language, screened) if sure else LanguageVerdict(True, language, screened)
    )


def _second_look(text: str, wanted: str, counted: FunctionWordCount) -> LanguageVerdict:
    """A passage without a single function word of its language: the first identifier does not consider rare
    relatives, to which langdetect may be certain that it belongs."""
    own = counted.uses.get(wanted, 0)
    if own or wanted not in covered_languages() or counted.words < _WORDS_WITHOUT_GRAMMAR or is_latin(wanted):
        return NOT_FOREIGN
    votes = langdetect_scores(text)
    language = max(votes, key=lambda code: (votes[code], code), default=wanted)
    near = frozenset((wanted, language)) in relatives()
    return (
        LanguageVerdict(True, language, votes[language])
        if near and votes[language] >= _NEAR_VOTE
        else NOT_FOREIGN
    )


def _function_words_object(counted: FunctionWordCount, wanted: str, language: str) -> bool:
    """Whether the function words are those of `wanted` and none is of `language` alone: of a short sentence
    the identifiers know little more than its letters."""
    if language not in covered_languages() or counted.exclusive.get(language, 0):
        return False
    own, theirs = counted.uses.get(wanted, 0), counted.uses.get(language, 0)
    only = counted.exclusive.get(wanted, 0)
    # A list of foreign things has few function words: "tomato sauce, mozzarella, and basil".
    return only >= 1 and own > theirs and (not theirs or own >= _LEAST_OWN_SHARE * counted.words)


def _function_words_agree(counted: FunctionWordCount, wanted: str, language: str) -> bool:
    """Whether the function words, too, are those of `language` and almost none of `wanted`."""
    if language not in covered_languages() or wanted not in covered_languages():
        return False
    own, theirs = counted.uses.get(wanted, 0), counted.uses.get(language, 0)
    only = counted.exclusive.get(language, 0)
    return only >= 2 and theirs >= 3 and own <= 0.5 * theirs and not counted.exclusive.get(wanted, 0)


def _detect_by_script(text: str, wanted: str, *, sure: bool) -> LanguageVerdict | None:
    """A verdict from the letters alone, None when the script fits or decides nothing."""
    scripts = scripts_of(wanted)
    if wanted not in catalog().languages or (scripts == ("LATIN",) and not has_non_latin(text)):
        return None
    found = script_weights(text)
    total = sum(found.values())
    if not total:
        return NOT_FOREIGN
    if (kana := _detect_kana(found, wanted)) is not None and kana.foreign:
        return kana
    fitting = sum(found.get(s, 0) for s in scripts)
    main = max(found, key=lambda s: (found[s], s))
    if main in scripts:
        if found.get("LATIN", 0) and "LATIN" not in scripts and (run := _embedded_foreign_run(text)):
            return run
        return None if _shares_its_script(wanted) else NOT_FOREIGN
    if fitting / total > (0.4 if scripts == ("LATIN",) else 0.2):
        return (None if is_latin(wanted) else _embedded_foreign_run(text)) or NOT_FOREIGN
    # Names, formulas and terms in Latin letters are common everywhere: that needs more.
    if main == "LATIN":
        return _detect_latin_in_script(text, wanted, sure=sure)
    # In the middle of a drift nobody asks for the language.
    language = screening_identifier(wanted).classify(text)[0] if sure else None
    return LanguageVerdict(True, language, 1.0 - fitting / total, script=True)


def _detect_latin_in_script(text: str, wanted: str, *, sure: bool) -> LanguageVerdict:
    """A passage in Latin letters where another script is wanted: prose, not a list of names or terms."""
    text = latin_part(text)
    words = text.split()
    plain = sum(word[:1].islower() for word in words)
    language, screened = screening_identifier("en").classify(text)
    counted = count_function_words(text)
    romanised = language not in covered_languages() or not counted.uses
    if romanised and language != "en" and plain >= _ROMANISED_WORDS and plain >= 0.6 * len(words):
        return LanguageVerdict(True, language, 1.0, script=True)
    if sum(counted.exclusive.values()) >= _RUN_GRAMMAR and plain >= 0.4 * len(words):
        return LanguageVerdict(True, language, max(screened, 0.9))
    if language == wanted:
        return NOT_FOREIGN
    return (
        _second_vote(text, wanted, language, screened) if sure else LanguageVerdict(True, language, screened)
    )


def _embedded_foreign_run(text: str) -> LanguageVerdict | None:
    """A sentence's worth of Latin words inside text of another script, with grammar in it."""
    for run in latin_runs(text):
        counted = count_function_words(run)
        lower = sum(word[:1].islower() for word in run.split())
        if (
            counted.exclusive
            and sum(counted.exclusive.values()) >= _RUN_GRAMMAR
            and 2 * lower >= counted.words
        ):
            language = max(counted.exclusive, key=lambda code: (counted.exclusive[code], code))
            return LanguageVerdict(True, language, 0.9, share=len(run) / weighted_length(text))
    return None


def _detect_kana(found: dict[str, int], wanted: str) -> LanguageVerdict | None:
    """Chinese wanted and kana in it: Japanese; Japanese or Korean wanted and only Han: Chinese."""
    if wanted not in ("zh", "ja", "ko"):
        return None
    total = sum(found.values())
    if not total:
        return None
    han, kana = found.get("HAN", 0) / total, found.get("KANA", 0) / total
    if wanted == "zh" and kana > _KANA_IN_CHINESE:
        return LanguageVerdict(True, "ja", kana, script=True)
    if wanted == "ja" and kana < _KANA_IN_JAPANESE and han > 0.8:
        return LanguageVerdict(True, "zh", han, script=True)
    if wanted == "ko" and found.get("HANGUL", 0) / total < 0.1 and han + kana > 0.8:
        return LanguageVerdict(True, "ja" if kana > _KANA_IN_CHINESE else "zh", han + kana, script=True)
    return NOT_FOREIGN


def _second_vote(text: str, wanted: str, language: str, screened: float) -> LanguageVerdict:
    """The second vote. A relative of the expected language must be named by both, with near certainty."""
    near = frozenset((wanted, language)) in relatives()
    if screened < (_NEAR_SCREENED if near else _SCREENED):
        return NOT_FOREIGN
    votes = langdetect_scores(text)
    if near:
        # Of the rarer languages in other scripts each identifier knows other relatives.
        agreed = is_latin(wanted) and language in langdetect_languages()
        vote = votes.get(language, 0.0) if agreed else _against(votes, wanted)
        return LanguageVerdict(True, language, min(vote, screened)) if vote >= _NEAR_VOTE else NOT_FOREIGN
    against = _against(votes, wanted)
    return LanguageVerdict(True, language, min(against, screened)) if against >= _VOTE else NOT_FOREIGN


def _against(votes: dict[str, float], wanted: str) -> float:
    """How certain votes are that a text is neither in the wanted language nor in one that is like it."""
    own = {wanted, *(code for pair in indistinguishable() if wanted in pair for code in pair)}
    return 1.0 - sum(votes.get(code, 0.0) for code in own) if votes else 0.0
