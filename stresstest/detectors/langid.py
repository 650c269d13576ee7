"""Is this passage in the wanted language? A fast screen, and a second opinion only on a "no".

Three sources, cheapest first: the script of the letters (`unicodedata`); py3langid, about 30 µs
a passage; and, only when the screen names another language, langdetect (seeded), about 1–6 ms. Both
must call a passage foreign. Close relatives (Italian and Spanish, Danish and Norwegian) are told
apart only when both are sure and agree. Both libraries are loaded at the first passage judged.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from stresstest.detectors.function_words import plainly

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
_SCRIPTS = {
    **dict.fromkeys(("ru", "uk", "bg", "be", "mk"), ("CYRILLIC",)),
    "sr": ("CYRILLIC", "LATIN"),
    "el": ("GREEK",),
    **dict.fromkeys(("ar", "fa", "ur"), ("ARABIC",)),
    "he": ("HEBREW",),
    **dict.fromkeys(("hi", "mr", "ne"), ("DEVANAGARI",)),
    "th": ("THAI",),
    "zh": ("CJK",),
    "ja": ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"),
    "ko": ("HANGUL", "CJK"),
    **{"bn": ("BENGALI",), "ta": ("TAMIL",), "te": ("TELUGU",), "ka": ("GEORGIAN",), "hy": ("ARMENIAN",)},
}
_DENSE = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL"})
_SAMPLE = 300
"""Characters of a passage that are looked at: more cannot change the answer."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """foreign: both votes say so. language: what it is instead. score: the weaker vote, 0-1.

    script: the letters alone decided.
    """

    foreign: bool
    language: str | None = None
    score: float = 0.0
    script: bool = False


NATIVE = Opinion(foreign=False)


def normalised(language: str) -> str:
    """ISO 639-1 code of a language tag: "it-IT" → "it", "zh-cn" → "zh", "nb" → "no"."""
    code = language.replace("_", "-").split("-")[0].lower()
    return {"nb": "no", "nn": "no", "iw": "he", "in": "id"}.get(code, code)


def can_judge(language: str) -> bool:
    """Whether drift away from this language can be told: by its script or by the identifier."""
    code = normalised(language)
    return code in _SCRIPTS or code in _screen(code).labels


def warm_up(wanted: str) -> None:
    """Load both models now (about a second), so that no first sentence pays for it mid-measurement."""
    _screen(normalised(wanted))
    _langdetect("This sentence is only here to load the profiles of every language once.")


def judge(text: str, wanted: str) -> Opinion:
    """Whether `text` (prose, 60 or more characters) is in another language than `wanted` (normalised)."""
    text = text[:_SAMPLE]
    if plainly(text, wanted):
        return NATIVE
    by_script = _judge_script(text, wanted)
    if by_script is not None:
        return by_script
    language, screened = _screen(wanted).classify(text)
    if language == wanted:
        return NATIVE
    if wanted not in _screen(wanted).labels:
        return NATIVE
    return _confirm(text, wanted, language, screened)


def _judge_script(text: str, wanted: str) -> Opinion | None:
    """A verdict from the letters alone, None when the script fits or decides nothing."""
    scripts = _SCRIPTS.get(wanted, ("LATIN",))
    if scripts == ("LATIN",) and max(text, default="") < "\u0250":
        return None
    weights: dict[str, int] = {}
    for char in text:
        if char.isalpha():
            script = _script(char)
            weights[script] = weights.get(script, 0) + (3 if script in _DENSE else 1)
    total = sum(weights.values())
    if not total:
        return NATIVE
    fitting = sum(weights.get(s, 0) for s in scripts)
    main = max(weights, key=lambda s: (weights[s], s))
    if main in scripts:
        return _judge_kana(weights, wanted, total)
    if fitting / total > (0.5 if scripts == ("LATIN",) else 0.2):
        return NATIVE
    # Names, formulas and terms in Latin letters are common everywhere: that needs the votes' word.
    if main == "LATIN":
        language, screened = _screen(wanted).classify(text)
        return NATIVE if language == wanted else _confirm(text, wanted, language, screened)
    return Opinion(True, _screen(wanted).classify(text)[0], 1.0 - fitting / total, script=True)


def _judge_kana(weights: dict[str, int], wanted: str, total: int) -> Opinion | None:
    """Chinese wanted and kana in it: Japanese; Japanese or Korean wanted and only Han: Chinese."""
    han = weights.get("CJK", 0) / total
    kana = (weights.get("HIRAGANA", 0) + weights.get("KATAKANA", 0)) / total
    if wanted == "zh" and kana > 0.3:
        return Opinion(True, "ja", kana, script=True)
    if wanted == "ja" and kana < 0.05 and han > 0.8:
        return Opinion(True, "zh", han, script=True)
    if wanted == "ko" and weights.get("HANGUL", 0) / total < 0.1 and han > 0.8:
        return Opinion(True, "zh", han, script=True)
    return None if wanted not in ("zh", "ja", "ko") else NATIVE


@lru_cache(maxsize=4096)
def _script(char: str) -> str:
    return unicodedata.name(char, "UNKNOWN").split(" ")[0]


def _confirm(text: str, wanted: str, language: str, screened: float) -> Opinion:
    """The second vote. A relative of the wanted language must be named by both, with near certainty."""
    votes = _langdetect(text)
    near = any(wanted in family and language in family for family in _RELATIVES)
    if near:
        vote = votes.get(language, 0.0)
        sure = vote >= 0.98 and screened >= 0.9
        return Opinion(True, language, min(vote, screened)) if sure else NATIVE
    against = 1.0 - votes.get(wanted, 0.0) if votes else 0.0
    if against < 0.9 or screened < 0.5:
        return NATIVE
    return Opinion(True, language, min(against, screened))


@lru_cache(maxsize=8)
def _screen(wanted: str) -> Any:
    """py3langid over `SCREENED` and the wanted language: our own instance, its global one is shared."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages((SCREENED | {wanted}) & set(identifier.labels))
    return identifier


def _langdetect(text: str) -> dict[str, float]:
    """Language → probability; empty when langdetect finds nothing to go by."""
    from langdetect import DetectorFactory, LangDetectException, detect_langs

    DetectorFactory.seed = 0  # unseeded it draws its n-grams at random and contradicts itself
    try:
        found = detect_langs(text)
    except LangDetectException:
        return {}
    votes: dict[str, float] = {}
    for each in found:
        code = normalised(each.lang)
        votes[code] = votes.get(code, 0.0) + float(each.prob)
    return votes
