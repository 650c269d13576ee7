"""Is this passage in the wanted language? Cheap screens first, and two opinions before a "no".

Cheapest first: function words (`function_words`) and the script of the letters (`scripts`), a few
microseconds; py3langid, about 40 µs a passage; and, only when it names another language, langdetect
(seeded), about 1 ms. Both must call a passage foreign, or one of them and its function words. Close
relatives (Italian and Spanish, Danish and Norwegian) are told apart only when the votes are sure and
agree. Both libraries are loaded at the first passage judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from stresstest.detectors.function_words import LISTED, Count, count
from stresstest.detectors.scripts import (
    SCRIPTS_OF,
    beyond_latin,
    is_latin,
    latin_part,
    latin_runs,
    plainly_in_script,
    plainly_latin,
    size,
    weights,
)

_CODES = (
    "ar bg ca cs da de el en es et eu fa fi fr gl he hi hr hu id it ja ko lt lv ms nl no pl pt ro ru sk sl sq"
    " sr sv sw th tl tr uk ur vi zh"
)
SCREENED = frozenset(_CODES.split())
"""What a drifting model drifts into. Rarer languages only win by chance on lists of names."""

_RELATIVES = (
    frozenset({"it", "es", "pt", "ca", "gl", "ro"}),
    frozenset({"fr", "ca"}),
    frozenset({"no", "da", "sv", "nn", "nb"}),
    frozenset({"id", "ms", "tl"}),
    frozenset({"hr", "sr", "bs", "sl", "mk", "bg"}),
    frozenset({"cs", "sk", "pl"}),
    frozenset({"ru", "uk", "be", "bg"}),
    frozenset({"nl", "af", "de"}),
    frozenset({"hi", "ne", "mr"}),
    frozenset({"ar", "fa", "ur"}),
)
TWINS = (frozenset({"id", "ms"}), frozenset({"pt", "gl"}), frozenset({"no", "da"}))
"""Not told apart at all: the votes between them are coin tosses."""
_STRANGERS = {
    "ru": re.compile("[іїєґўјљњђћ]"),
    "ar": re.compile("[پچژگکیٹڈںے]"),
    "fa": re.compile("[ٹڈںے]"),
    "hi": re.compile("[ळ]"),
}
"""Letters of the same script that the language itself does not use: the identifier must decide."""
_SAMPLE = 300
"""Characters of a passage that are looked at: more cannot change the answer."""
_SCREENED, _VOTE = 0.5, 0.9
_NEAR_SCREENED, _NEAR_VOTE = 0.9, 0.98
"""Least probabilities by py3langid and against the wanted language by langdetect; for relatives, both
for the other language."""
_ROMANISED_WORDS = 8
_RUN_GRAMMAR = 2
_KANA_IN_CHINESE = 0.3
_KANA_IN_JAPANESE = 0.05


@dataclass(frozen=True, slots=True)
class Opinion:
    """foreign: both votes say so. language: what it is instead. score: the weaker vote, 0-1.

    script: the letters alone decided. share: of the passage, what is foreign.
    """

    foreign: bool
    language: str | None = None
    score: float = 0.0
    script: bool = False
    share: float = 1.0


NATIVE = Opinion(foreign=False)


def normalised(language: str) -> str:
    """ISO 639-1 code of a language tag: "it-IT" → "it", "zh-cn" → "zh", "nb" → "no"."""
    code = language.replace("_", "-").split("-")[0].lower()
    return {"nb": "no", "nn": "no", "iw": "he", "in": "id"}.get(code, code)


def can_judge(language: str) -> bool:
    """Whether drift away from this language can be told: by its script or by the identifier."""
    code = normalised(language)
    return code in SCRIPTS_OF or code in SCREENED or code in screen(code).labels


def warm_up(wanted: str) -> None:
    """Load both models now (about a second), so that no first sentence pays for it mid-measurement."""
    screen(normalised(wanted))
    langdetect_votes("This sentence is only here to load the profiles of every language once.")


def glance(text: str, wanted: str) -> bool:
    """Whether the cheap screens alone leave no doubt that `text` is in the wanted language."""
    text = text[:_SAMPLE]
    if is_latin(wanted):
        return wanted in LISTED and count(text).plainly(wanted) and plainly_latin(text)
    if not plainly_in_script(text, wanted):
        return False
    if wanted in ("zh", "ja", "ko"):
        return _judge_kana(weights(text), wanted) is NATIVE and not latin_runs(text)
    strangers = _STRANGERS.get(wanted)
    return strangers is not None and not strangers.search(text) and not latin_runs(text)


def judge(text: str, wanted: str, *, sure: bool = True) -> Opinion:
    """Whether `text` (prose) is in another language than `wanted` (normalised).

    sure: ask for the second vote. Without it, for text known to be foreign already, the first suffices.
    """
    text = text[:_SAMPLE]
    counted = count(text)
    if is_latin(wanted) and counted.plainly(wanted) and plainly_latin(text):
        return NATIVE
    by_script = _judge_script(text, wanted, sure=sure)
    if by_script is not None:
        return by_script
    return _vote(text, wanted, counted, sure=sure)


def _vote(text: str, wanted: str, counted: Count, *, sure: bool) -> Opinion:
    language, screened = screen(wanted).classify(text)
    if language == wanted or wanted not in screen(wanted).labels:
        return NATIVE
    if any({wanted, language} <= twins for twins in TWINS):
        return NATIVE
    if _grammatical(counted, wanted, language):
        return Opinion(True, language, max(screened, 0.9))
    return _confirm(text, wanted, language, screened) if sure else Opinion(True, language, screened)


def _grammatical(counted: Count, wanted: str, language: str) -> bool:
    """Whether the function words, too, are those of `language` and hardly any of `wanted`."""
    if language not in LISTED or wanted not in LISTED:
        return False
    own, theirs = counted.uses.get(wanted, 0), counted.uses.get(language, 0)
    only = counted.only.get(language, 0)
    return only >= 2 and theirs >= 3 and own <= 0.5 * theirs and not counted.only.get(wanted, 0)


def _judge_script(text: str, wanted: str, *, sure: bool) -> Opinion | None:
    """A verdict from the letters alone, None when the script fits or decides nothing."""
    scripts = SCRIPTS_OF.get(wanted, ("LATIN",))
    if scripts == ("LATIN",) and not beyond_latin(text):
        return None
    found = weights(text)
    total = sum(found.values())
    if not total:
        return NATIVE
    if (kana := _judge_kana(found, wanted)) is not None and kana.foreign:
        return kana
    fitting = sum(found.get(s, 0) for s in scripts)
    main = max(found, key=lambda s: (found[s], s))
    if main in scripts:
        if found.get("LATIN", 0) and not is_latin(wanted) and (run := _foreign_run(text)):
            return run
        return None if is_latin(wanted) or wanted in _STRANGERS else NATIVE
    if fitting / total > (0.4 if scripts == ("LATIN",) else 0.2):
        return (None if is_latin(wanted) else _foreign_run(text)) or NATIVE
    # Names, formulas and terms in Latin letters are common everywhere: that needs more.
    if main == "LATIN":
        return _judge_latin(text, wanted, sure=sure)
    return Opinion(True, screen(wanted).classify(text)[0], 1.0 - fitting / total, script=True)


def _judge_latin(text: str, wanted: str, *, sure: bool) -> Opinion:
    """A passage in Latin letters where another script is wanted: prose, not a list of names or terms."""
    text = latin_part(text)
    words = text.split()
    plain = sum(word[:1].islower() for word in words)
    language, screened = screen("en").classify(text)
    counted = count(text)
    romanised = language not in LISTED or not counted.uses
    if romanised and language != "en" and plain >= _ROMANISED_WORDS and plain >= 0.6 * len(words):
        return Opinion(True, language, 1.0, script=True)
    if sum(counted.only.values()) >= _RUN_GRAMMAR and plain >= 0.4 * len(words):
        return Opinion(True, language, max(screened, 0.9))
    if language == wanted:
        return NATIVE
    return _confirm(text, wanted, language, screened) if sure else Opinion(True, language, screened)


def _foreign_run(text: str) -> Opinion | None:
    """A sentence's worth of Latin words inside text of another script, with grammar in it."""
    for run in latin_runs(text):
        counted = count(run)
        lower = sum(word[:1].islower() for word in run.split())
        if counted.only and sum(counted.only.values()) >= _RUN_GRAMMAR and 2 * lower >= counted.words:
            language = max(counted.only, key=lambda code: (counted.only[code], code))
            return Opinion(True, language, 0.9, share=len(run) / size(text))
    return None


def _judge_kana(found: dict[str, int], wanted: str) -> Opinion | None:
    """Chinese wanted and kana in it: Japanese; Japanese or Korean wanted and only Han: Chinese."""
    if wanted not in ("zh", "ja", "ko"):
        return None
    total = sum(found.values())
    han, kana = found.get("HAN", 0) / total, found.get("KANA", 0) / total
    if wanted == "zh" and kana > _KANA_IN_CHINESE:
        return Opinion(True, "ja", kana, script=True)
    if wanted == "ja" and kana < _KANA_IN_JAPANESE and han > 0.8:
        return Opinion(True, "zh", han, script=True)
    if wanted == "ko" and found.get("HANGUL", 0) / total < 0.1 and han + kana > 0.8:
        return Opinion(True, "ja" if kana > _KANA_IN_CHINESE else "zh", han + kana, script=True)
    return NATIVE


def _confirm(text: str, wanted: str, language: str, screened: float) -> Opinion:
    """The second vote. A relative of the wanted language must be named by both, with near certainty."""
    near = any(wanted in family and language in family for family in _RELATIVES)
    if screened < (_NEAR_SCREENED if near else _SCREENED):
        return NATIVE
    votes = langdetect_votes(text)
    if near:
        vote = votes.get(language, 0.0)
        return Opinion(True, language, min(vote, screened)) if vote >= _NEAR_VOTE else NATIVE
    against = 1.0 - votes.get(wanted, 0.0) if votes else 0.0
    return Opinion(True, language, min(against, screened)) if against >= _VOTE else NATIVE


@lru_cache(maxsize=1)
def _labels() -> Any:
    from stresstest.detectors.identifiers import Labels

    return Labels(SCREENED)


@lru_cache(maxsize=16)
def screen(wanted: str) -> Any:
    """py3langid over `SCREENED` and the wanted language."""
    return _labels().over(SCREENED | {wanted})


def langdetect_votes(text: str) -> dict[str, float]:
    """Language → probability; empty when langdetect finds nothing to go by."""
    from langdetect import LangDetectException

    from stresstest.detectors import identifiers

    try:
        found = identifiers.votes(text)
    except LangDetectException:
        return {}
    votes: dict[str, float] = {}
    for each in found:
        code = normalised(each.lang)
        votes[code] = votes.get(code, 0.0) + float(each.prob)
    return votes
