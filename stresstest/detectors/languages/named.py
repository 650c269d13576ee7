"""Languages that a prompt names: an answer in one of them, or with sentences of it, has not drifted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stresstest.detectors.languages.catalog import Catalog, alternatives, per_catalog
from stresstest.detectors.languages.language import LATIN

MAX_PROMPT_CHARS = 4_000
"""Characters at each end of a prompt that are searched: a request stands before or after its document."""
MIN_STEM = 4
"""Letters of a shortened name ("Ital*") that are enough to tell it from other words."""

_UNKNOWN = """
latin aramaic sanskrit pali akkadian sumerian coptic cornish manx breton welsh irish gaelic scots
yiddish ladino esperanto interlingua volapük lojban klingon dothraki quenya sindarin elvish na'vi
hawaiian maori samoan tongan fijian malagasy javanese sundanese cebuano ilocano hausa yoruba igbo zulu
xhosa somali amharic tigrinya shona lingala wolof quechua nahuatl guarani aymara inuktitut cherokee
navajo lakota icelandic faroese maltese luxembourgish frisian occitan corsican sardinian sicilian
neapolitan asturian aragonese mongolian tibetan uyghur kazakh uzbek turkmen kyrgyz tatar azerbaijani
kurdish pashto punjabi gujarati kannada malayalam sinhala burmese khmer lao patois creole gibberish
leetspeak hinglish tanglish benglish taglish greeklish arabizi finglish pinyin jyutping romaji ipa
"""
"""Languages, living or made up, and spellings in Latin letters, whose words nothing here knows."""
_FORBIDDING = (
    r"(?:\b(?:not|never|no|without|avoid|than|instead\s+of|non|mai|senza|evita\w*|nessun\w*|pas|jamais|sans|aucune?"
    r"|évit\w+|nicht|nie|kein\w*|ohne|statt|nunca|sin|ningún|não|sem|nenhum)|n't)"
)
_NEGATION = re.compile(rf"{_FORBIDDING}\W+(?:\w+\W+){{0,3}}$", re.IGNORECASE)
_NEGATION_OF_ANY = re.compile(rf"{_FORBIDDING}\s[^,;:.!?\n]*$", re.IGNORECASE)
"""Any other language is forbidden from further off: "never write your answer in a different language"."""
_NEGATION_REACH = 40
"""Characters before a name in which it may be forbidden; twice as many before any other language."""
_SPELLED = re.compile(
    r"\b(?:transliterat|romani[sz])(?:e|ed|ion|ation)\b"
    r"|\b(?:latin|roman|english)\s+(?:letters|script|characters|alphabet)\b",
    re.IGNORECASE,
)
"""Words for another language in Latin letters."""
_OTHER_SCRIPT = re.compile("[\u0370-\u1dff\u3005-\ud7ff\uf900-\ufaff]")
_SPELLED_IN_OTHERS = re.compile(
    r"\b(?:aramaic|sanskrit|pali|coptic|yiddish|ladino|amharic|tigrinya|mongolian|tibetan|uyghur|kazakh|kyrgyz"
    r"|tatar|kurdish|pashto|punjabi|gujarati|kannada|malayalam|sinhala|burmese|khmer|lao)\b",
    re.IGNORECASE,
)
"""Those among `_UNKNOWN` that have another script of their own."""
_ANSWER = (
    "respon[ds]|answer|reply|write|speak|rispond|scriv|répond|écri|rédig|antwort|schreib"
    "|contest|escrib|escrev"
)
"""Verbs of answering, in the languages that the shipped tasks are in."""
_CONDITION = re.compile(
    r"\b(?:if|when|where|unless|otherwise|else|default|fall\s*back|except|unknown|unsure|se|quando|altrimenti"
    r"|si|sinon|quand|sauf|wenn|falls|sonst|sofern|cuando|salvo|senão)\b",
    re.IGNORECASE,
)
"""Words with which a sentence names a language for some case only."""
_THEIR_LANGUAGE = re.compile(
    r"\blanguages?\b(?!\s+model)"
    r"|\blingu[ae]\b|\blangues?\b|\bsprachen?\b|\bidiomas?\b|\blínguas?\b",
    re.IGNORECASE,
)
"""A prompt that speaks of languages may leave the choice to whoever asks."""
_SENTENCE_END = re.compile(r"[.!?;\n]")
_NOTHING = re.compile(r"(?!)")
_OF_LANGUAGE = r"""
adjectives? alphabet answers? articles? captions? characters? class(?:es)?(?!\s+of) conjugations?
conversations? counterparts? courses? dialogues? dub\w* editions? equivalents? essays? exams? expressions?
grammar greetings? haikus? idioms? kanji languages? learn\w+ lessons? letters? literature locali[sz]ation
lyrics names? nouns? novels? original paragraphs? phrases? poems? poetry prepositions? pronouns? pronunciation
proverbs? quotes? responses? sayings? scripts? sentences? songs? speak\w+ spelling stor(?:y|ies) subtitles?
teach\w+ terms? tests? texts? titles? translat\w+ tutors? verbs? versions? vocabulary words?
"""
"""Nouns that make the English name before them one of a language."""
_NO_NOUN = r"""
a all also an and any are as at because but by for from has her his i if in instead into is it its my no
not now of on only or our please since so that the their then these this to too using via was we when
where which who with without you your
"""
"""Words that no name of a language belongs to. Another word is a noun that it belongs to: "the Chinese
economy" and "Greek yoghurt" name no language, and an answer about them that goes over to either has
drifted."""
_NOUN = "|".join(_OF_LANGUAGE.split())
_FREE = rf"(?!\s+(?!(?:{'|'.join(_NO_NOUN.split())})\b)[^\W\d_])"
_JOINED = r"(?:\s*,\s*|\s+(?:and|or|&|to|than|vs\.?|versus)\s+)"
_SPEAKS = re.compile(
    r"\b(?:(?:in|into|to|from|of|via|using?|learn\w*|teach\w*|speak\w*|spoken?|write|written|read|study\w*"
    r"|know|understand\w*|want|need|prefer|choose|output|only|answer|respond|reply)\s+|translat\w+[^.!?\n]*?)"
    rf"(?:[\w']+{_JOINED}){{0,3}}(?:(?!(?:the|an?)\b)[\w'-]+\s+)?$",
    re.IGNORECASE,
)
"""What stands before the name of a language where no noun follows: "in English or Chinese"."""
_PEOPLE = re.compile(r"\b(?:the|an?|some|many|most|few|these|those|all|both)\s+$", re.IGNORECASE)
_COORDINATED = re.compile(
    rf"(?:{_JOINED}(?:the\s+)?(?P<last>[A-Z]\w+)){{1,4}}\s+(?!(?:{_NOUN}|{'|'.join(_NO_NOUN.split())})\b)[a-z]{{4,}}"
)
"""A noun that the name shares with another: "Chinese and American artists"."""
_OF_LANGUAGES = re.compile(
    r"\b(?:languages?|translat\w+|speak\w*|spoke\w*|speech|grammar\w*|vocabular\w+|pronounc\w+|fluent\w*"
    r"|bilingual|tongue|word\s+for)\b",
    re.IGNORECASE,
)
_REACH = 80
_SENTENCES = re.compile(r"[^.!?\n]+[.!?\n]*|[.!?\n]+")
_ABILITY = re.compile(
    r"\b(?:such\s+as|including|(?:multi|bi)lingual|fluent\w*|chosen|capab\w+|support\w*|able\s+to|default"
    r"|can\s+(?:\w+\s+)?(?:speak|understand|converse|communicate|read|write|handle)"
    r"|(?:primary|own|same|native)\s+language|language\s+of\s+the\s+user|users?['’]s?\s+language)\b",
    re.IGNORECASE,
)
_ANY = re.compile(
    r"\b(?:second|another|different|foreign|other)\s+languages?\b|\blanguages?\s+of\s+your\s+choice\b"
    r"|\b(?<!\bif\s)(?:multi|bi)lingual\b|\b(?:un')?altr[ao]\s+lingua\b|\b(?:une?\s+)?autres?\s+langues?\b"
    r"|\bandere[nr]?\s+sprache\b|\botro\s+idioma\b|\boutro\s+idioma\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class NamedLanguages:
    """What a prompt names. codes: ISO 639-1, of known languages. any: another language, no matter which.
    unknown: one whose words nothing here knows, so that they cannot be told from invented ones."""

    codes: frozenset[str] = frozenset()
    any: bool = False
    unknown: bool = False

    def welcomes(self, code: str | None) -> bool:
        """Whether a passage in this language is as asked for. An unknown one may be taken for any."""
        return self.any or self.unknown or code in self.codes


NOT_NAMED = NamedLanguages()


def named_languages(prompt: str) -> NamedLanguages:
    """The languages that a prompt names and does not forbid."""
    prompt = _searched_part(prompt)
    codes = frozenset(code for code, name in _names() if _wants(name, prompt))
    unknown = _wants(_UNKNOWN_NAME, prompt) or _wants_latin_spelling(prompt, codes)
    anything = any(not _forbids_any(prompt, match.start()) for match in _ANY.finditer(prompt))
    return NamedLanguages(codes, anything, unknown)


def _forbids_any(prompt: str, at: int) -> bool:
    return _NEGATION_OF_ANY.search(prompt, max(at - 2 * _NEGATION_REACH, 0), at) is not None


def without_abilities(system: str) -> str:
    """A system prompt without the sentences that tell which languages a model knows: they ask for none."""
    return "".join(each for each in _SENTENCES.findall(system) if not _ABILITY.search(each))


def _searched_part(prompt: str) -> str:
    if len(prompt) <= 2 * MAX_PROMPT_CHARS:
        return prompt
    return f"{prompt[:MAX_PROMPT_CHARS]}\n{prompt[-MAX_PROMPT_CHARS:]}"


def _wants_latin_spelling(prompt: str, codes: frozenset[str]) -> bool:
    """Whether it asks for a language of another script in Latin letters. "Use English characters only" names
    no such language, and is the opposite."""
    if not _wants(_SPELLED, prompt):
        return False
    return bool(_OTHER_SCRIPT.search(prompt) or _SPELLED_IN_OTHERS.search(prompt) or codes & _non_latin())


def _wants(name: re.Pattern[str], prompt: str) -> bool:
    """Whether the prompt names it somewhere without forbidding it."""
    return any(
        not _NEGATION.search(prompt, max(match.start() - _NEGATION_REACH, 0), match.start())
        for match in name.finditer(prompt)
        if match.lastgroup != "alone" or _names_language(prompt, match.start(), match.end())
    )


def _names_language(prompt: str, begin: int, end: int) -> bool:
    """Whether an English name without a noun of its own is one of a language, not of people or things."""
    before = prompt[max(begin - _REACH, 0) : begin]
    spoken_of = _OF_LANGUAGES.search(prompt, max(begin - _REACH, 0), end + _REACH) is not None
    if _PEOPLE.search(before):
        return spoken_of
    asked = _SPEAKS.search(before) is not None
    shared = _COORDINATED.match(prompt, end)
    if shared and not (asked and shared["last"].casefold() in _english_names()):
        return False
    return asked or spoken_of or not re.match(r"\s+\w", prompt[end : end + _REACH])


def may_want_latin_spelling(prompt: str) -> bool:
    """Whether it speaks of Latin letters: for a language that it does not name, or for anything else."""
    return _wants(_SPELLED, _searched_part(prompt))


def demands_language(prompt: str, code: str) -> bool:
    """Whether a prompt tells the answer to be in this language, whoever asks: "Respond only in English".

    False where it names the language for some case ("if you do not know theirs", "by default"), or speaks of
    the language of whoever asks.
    """
    prompt = _searched_part(prompt)
    if _THEIR_LANGUAGE.search(prompt):
        return False
    for match in _demands().get(code, _NOTHING).finditer(prompt):
        begins = max(prompt.rfind(mark, 0, match.start()) for mark in ".!?;\n") + 1
        ends = _SENTENCE_END.search(prompt, match.end())
        sentence = prompt[begins : ends.start() if ends else len(prompt)]
        if not _CONDITION.search(sentence) and not _NEGATION.search(prompt, begins, match.start("name")):
            return True
    return False


@per_catalog
def _demands(known: Catalog) -> dict[str, re.Pattern[str]]:
    """For every known language, a verb of answering and the language's name."""
    return {
        code: re.compile(
            rf"\b(?:{_ANSWER})\w*\W+(?:\w+\W+){{0,3}}?(?:in|en|em|auf)\s+(?:\w+\s+)?"
            rf"(?P<name>{alternatives(_names_of(known, code))})",
            re.IGNORECASE,
        )
        for code in known.languages
    }


@per_catalog
def _non_latin(known: Catalog) -> frozenset[str]:
    """The known languages that are written in another script."""
    return frozenset(code for code, language in known.languages.items() if language.scripts[0] != LATIN)


@per_catalog
def _english_names(known: Catalog) -> frozenset[str]:
    return frozenset(language.name.casefold() for language in known.languages.values())


@per_catalog
def _names(known: Catalog) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Every known language and a pattern of its names."""
    return tuple((code, _name_pattern(known, code)) for code in known.languages)


def _name_pattern(known: Catalog, code: str) -> re.Pattern[str]:
    english = known.languages[code].name
    others = [name for name in _names_of(known, code) if name.casefold() != english.casefold()]
    name = alternatives([english])
    return re.compile(
        rf"{name}(?=\s+(?:{_NOUN})\b)|(?P<alone>{name}){_FREE}|{alternatives(others)}", re.IGNORECASE
    )


def _names_of(known: Catalog, code: str) -> list[str]:
    language = known.languages[code]
    labels = (name for name in language.label_names if len(name) > MIN_STEM or not name.endswith("*"))
    return [language.name, language.native_name, *labels]


_UNKNOWN_NAME = re.compile(
    r"\b(?:in|into|to|speak|as)\s+(?:the\s+)?"
    r"(?:(?:old|middle|early\s+modern|ancient|classical|pig)\s+(?:high\s+)?"
    r"(?:english|norse|french|german|irish|greek|egyptian|hebrew|latin)"
    rf"|{'|'.join(sorted(_UNKNOWN.split()))})"
    r"(?=\s*(?:$|[^\w\s]|language|translation|words?\b|and\b|or\b|with\b|using\b|please\b|for\b|so\b))",
    re.IGNORECASE,
)
"""After the name, something that no noun is: "in the Irish countryside" names no language."""
