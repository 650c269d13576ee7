"""The texts of the shipped tasks, and other words for the same wish, found in prompts.

Nothing here is exact science: a prompt that is not recognised is answered in plain prose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from stresstest.tasks import LanguageTask, Task, load_task, shipped_tasks

_SLOT = re.compile(r"\{(units|topic)\}")
_UNIT_WORDS = {
    "narrative": (
        r"paragraf[oi]|paragraphs?|paragraphes?|absätzen?|absatz|párrafos?|parágrafos?|capitol[oi]|chapters?"
        r"|chapitres?|kapiteln?|capítulos?|scen[ae]|scenes?|scènes?"
    ),
    "technical": (
        r"sezion[ei]|sections?|abschnitten?|secciones|seções|passaggi|steps?|étapes?|schritten?|pasos?|passos?"
    ),
    "qa": r"domand[ae]|questions?|fragen?|preguntas?|perguntas?",
}
_WISHES = {
    task: (
        re.compile(rf"\b(\d{{1,4}})\s+(?:[^\W\d]+\s+){{0,2}}?(?:{words})\b", re.IGNORECASE),
        re.compile(rf"\b(?:{words})\b[^.\n\d]{{0,40}}?\b1\b[^.\n\d]{{1,8}}(\d{{1,4}})\b", re.IGNORECASE),
    )
    for task, words in _UNIT_WORDS.items()
}
_NAMES = {
    "it": "italiano|italian|italien|italienisch|italiana",
    "en": "inglese|english|anglais|englisch|inglés|inglês",
    "fr": "francese|french|français|französisch|francés|francês",
    "de": "tedesco|german|allemand|deutsch|alemán|alemão",
    "es": "spagnolo|spanish|espagnol|spanisch|español|espanhol",
    "pt": "portoghese|portuguese|portugais|portugiesisch|portugués|português",
}
_NAME = "|".join(f"(?P<{code}>{names})" for code, names in _NAMES.items())
_ONLY = (
    "only|exclusively|solely|strictly|solo|soltanto|solamente|esclusivamente|unicamente|sempre|always|toujours"
    "|uniquement|exclusivement|seulement|nur|ausschließlich|immer|sólo|únicamente|exclusivamente|siempre|apenas|somente"
)
_CONSTRAINTS = (
    re.compile(rf"\b(?:{_ONLY})\s+(?:in|en|auf|em)\s+(?:lingua\s+)?(?:{_NAME})\b", re.IGNORECASE),
    re.compile(rf"\b(?:in|en|auf|em)\s+(?:lingua\s+)?(?:{_NAME})[\s,]+(?:{_ONLY})\b", re.IGNORECASE),
)
_FUNCTION_WORDS = {
    "it": "il lo la gli le di che e in su a da al un una per con del della nel sono non è dei scrivi come "
    "più ogni",
    "en": "the of and to in is that for with write a an are how what this your you it about each",
    "fr": "le la les des et un une pour avec dans du que est sur écris comment chaque qui vous au",
    "de": "der die das und ein eine für mit von den ist im schreibe wie über jede nicht zu dem auf",
    "es": "el la los las de que un una para con del en es escribe cómo más cada por y sobre",
    "pt": "o a os as de que um uma para com do da em é escreva como mais cada não e sobre no na",
}
_WORDS = {code: frozenset(words.split()) for code, words in _FUNCTION_WORDS.items()}
_LETTERS = re.compile(r"[^\W\d_]+")
_FEWEST = 4
"""Units below which other words for numbered units are just a wish for a short text."""
_LOOKED_AT = 2_000
"""Characters of a prompt that its language is guessed from."""
PLAIN_TOKENS_PER_UNIT = 70.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What an instruction asks for; start and end: its place in the text. language None: not known by it."""

    task: str | None
    language: str | None
    structure: str
    topic: str
    units: int | None
    tokens_per_unit: float
    start: int = 0
    end: int = 0
    pattern: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class _Template:
    task: str
    language: LanguageTask
    structure: str
    regex: re.Pattern[str]


@lru_cache
def _shipped(name: str) -> Task:
    return load_task(name)


@lru_cache(maxsize=1)
def _templates() -> tuple[_Template, ...]:
    found = []
    for name in shipped_tasks():
        for language in _shipped(name).languages.values():
            found.append(_Template(name, language, "rigid", _regex(language.instruction)))
            if language.open_instruction is not None:
                found.append(_Template(name, language, "open", _regex(language.open_instruction)))
    return tuple(found)


def _regex(template: str) -> re.Pattern[str]:
    """An instruction with its placeholders open and its blanks elastic."""
    pattern, at, seen = "", 0, set[str]()
    for slot in _SLOT.finditer(template):
        pattern += _literal(template[at : slot.start()])
        if slot[1] in seen:
            pattern += rf"(?P={slot[1]})"
        else:
            pattern += r"(?P<units>\d{1,6})" if slot[1] == "units" else r"(?P<topic>[^\n]{1,400}?)"
        seen.add(slot[1])
        at = slot.end()
    return re.compile(pattern + _literal(template[at:]))


def _literal(text: str) -> str:
    return re.sub(r"\s+", lambda _: r"\s+", re.escape(text).replace(r"\ ", " "))


def shipped_instruction(text: str) -> Asked | None:
    """The last instruction of a shipped task in a text, None when there is none."""
    best: Asked | None = None
    for template in _templates():
        for match in template.regex.finditer(text):
            if best is None or match.start() > best.start:
                best = _asked(template, match)
    return best


def _asked(template: _Template, match: re.Match[str]) -> Asked:
    groups = match.groupdict()
    units = groups.get("units")
    return Asked(
        task=template.task,
        language=template.language.language,
        structure=template.structure,
        topic=groups.get("topic") or "",
        units=None if units is None else max(1, int(units)),
        tokens_per_unit=template.language.tokens_per_unit,
        start=match.start(),
        end=match.end(),
        pattern=template.language.unit_regex,
    )


def rephrased(text: str) -> Asked:
    """A wish for so many numbered units in other words, else plain prose."""
    hits = [
        (match.start(), task, int(match[1]))
        for task, wishes in _WISHES.items()
        for wish in wishes
        if (match := wish.search(text)) is not None and int(match[1]) >= _FEWEST
    ]
    if not hits:
        return Asked(None, None, "open", "", None, PLAIN_TOKENS_PER_UNIT)
    _, task, units = min(hits)
    language = guess_language(text)
    known = _shipped(task).languages.get(language)
    per_unit = PLAIN_TOKENS_PER_UNIT if known is None else known.tokens_per_unit
    return Asked(task, language, "rigid", "", units, per_unit, pattern=known.unit_regex if known else None)


def unit_numbers(text: str, asked: Asked) -> list[int]:
    """Numbers of the units that begin in a text, in order."""
    return [] if asked.pattern is None else [int(match[1]) for match in asked.pattern.finditer(text)]


def find_constraints(text: str) -> str:
    """The shipped language constraints that stand in a text, one a line, and anything else that names one."""
    found = [
        constraint
        for template in _templates()
        if (constraint := template.language.language_constraint) is not None and constraint in text
    ]
    return "\n".join(dict.fromkeys(found))


def constrained_language(text: str) -> str | None:
    """The language that a text says must be the only one, None when it says nothing of the kind."""
    for template in _templates():
        constraint = template.language.language_constraint
        if constraint is not None and constraint in text:
            return template.language.language
    for constraint_regex in _CONSTRAINTS:
        match = constraint_regex.search(text)
        if match is not None:
            return match.lastgroup
    return None


def guess_language(text: str) -> str:
    """The language whose function words are most frequent; English when there are none."""
    words = [word.lower() for word in _LETTERS.findall(text[:_LOOKED_AT])]
    counts = {code: sum(word in known for word in words) for code, known in _WORDS.items()}
    best = max(counts, key=lambda code: (counts[code], code == "en"))
    return best if counts[best] else "en"
