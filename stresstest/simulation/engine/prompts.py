"""Reading a prompt: which task, language and structure it requests, and which part of the answer it contains.

Only token ids come in: chat prompts keep their roles apart by special ids, plain prompts are one text. The
shipped tasks' own texts are looked for first, then other wordings of the same request. A prompt that is not
recognised is answered in plain prose.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.grammar import grammar_files, simulator_table
from stresstest.simulation.engine.scenario.spec import ConditionValue
from stresstest.tasks import LanguageTask, Task, load_task, shipped_tasks

_SLOT = re.compile(r"\{(units|topic)\}")
_PROMPTS = {code: simulator_table(content)["prompts"] for code, content in grammar_files().items()}
"""Language → the words by which a prompt is understood."""


def _any_of(key: str) -> str:
    """A pattern of the words that any language has under a key."""
    words = {word for table in _PROMPTS.values() for word in table.get(key, "").split()}
    return "|".join(map(re.escape, sorted(words)))


def _unit_words(task: str) -> str:
    words = {word for table in _PROMPTS.values() for word in table["units"].get(task, "").split()}
    return "|".join(map(re.escape, sorted(words)))


_WISHES = {
    task: (
        re.compile(rf"\b(\d{{1,4}})\s+(?:[^\W\d]+\s+){{0,2}}?(?:{words})\b", re.IGNORECASE),
        re.compile(rf"\b(?:{words})\b[^.\n\d]{{0,40}}?\b1\b[^.\n\d]{{1,8}}(\d{{1,4}})\b", re.IGNORECASE),
    )
    for task in ("narrative", "technical", "qa")
    for words in (_unit_words(task),)
}
_NAME = "|".join(f"(?P<{code}>{table['names'].replace(' ', '|')})" for code, table in _PROMPTS.items())
_IN_LANGUAGE = rf"(?:{_any_of('in')})\s+(?:(?:{_any_of('language')})\s+)?(?:{_NAME})"
_CONSTRAINTS = (
    re.compile(rf"\b(?:{_any_of('only')})\s+{_IN_LANGUAGE}\b", re.IGNORECASE),
    re.compile(rf"\b{_IN_LANGUAGE}[\s,]+(?:{_any_of('only')})\b", re.IGNORECASE),
)
_WORDS = {code: frozenset(table["function_words"].split()) for code, table in _PROMPTS.items()}
_LETTERS = re.compile(r"[^\W\d_]+")
_MIN_UNITS = 4
"""Units below which other words for numbered units are just a wish for a short text."""
_LANGUAGE_SAMPLE_CHARS = 2_000
"""Characters of a prompt that its language is guessed from."""
PLAIN_TOKENS_PER_UNIT = 70.0


@dataclass(frozen=True, slots=True)
class RequestedTask:
    """What an instruction requests; start and end: its place in the text. language None: not known by it."""

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
class _InstructionTemplate:
    task: str
    language: LanguageTask
    structure: str
    regex: re.Pattern[str]


@lru_cache
def _shipped(name: str) -> Task:
    return load_task(name)


@lru_cache(maxsize=1)
def _templates() -> tuple[_InstructionTemplate, ...]:
    found = []
    for name in shipped_tasks():
        for language in _shipped(name).languages.values():
            found.append(_InstructionTemplate(name, language, "rigid", _regex(language.instruction)))
            if language.open_instruction is not None:
                found.append(_InstructionTemplate(name, language, "open", _regex(language.open_instruction)))
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


def shipped_instruction(text: str) -> RequestedTask | None:
    """The last instruction of a shipped task in a text, None when there is none."""
    best: RequestedTask | None = None
    for template in _templates():
        for match in template.regex.finditer(text):
            if best is None or match.start() > best.start:
                best = _requested_task(template, match)
    return best


def _requested_task(template: _InstructionTemplate, match: re.Match[str]) -> RequestedTask:
    groups = match.groupdict()
    units = groups.get("units")
    return RequestedTask(
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


def parse_free_request(text: str) -> RequestedTask:
    """A wish for a number of units in other words, else plain prose."""
    hits = [
        (match.start(), task, int(match[1]))
        for task, wishes in _WISHES.items()
        for wish in wishes
        if (match := wish.search(text)) is not None and int(match[1]) >= _MIN_UNITS
    ]
    if not hits:
        return RequestedTask(None, None, "open", "", None, PLAIN_TOKENS_PER_UNIT)
    _, task, units = min(hits)
    language = guess_language(text)
    known = _shipped(task).languages.get(language)
    per_unit = PLAIN_TOKENS_PER_UNIT if known is None else known.tokens_per_unit
    return RequestedTask(
        task, language, "rigid", "", units, per_unit, pattern=known.unit_regex if known else None
    )


def unit_numbers(text: str, asked: RequestedTask) -> list[int]:
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
    words = [word.lower() for word in _LETTERS.findall(text[:_LANGUAGE_SAMPLE_CHARS])]
    counts = {code: sum(word in known for word in words) for code, known in _WORDS.items()}
    best = max(counts, key=lambda code: (counts[code], code == "en"))
    return best if counts[best] else "en"


@dataclass(frozen=True, slots=True)
class ParsedPrompt:
    """A prompt as read.

    task: a shipped task's name, None for any other prompt. language: ISO code of the answer. structure:
    "rigid" or "open". units: how many are requested. tokens_per_unit: the task's own guess.
    answer: token ids of the answer so far, when the prompt holds part of one; answer_text the same as text.
    first_unit: number of the first unit in that part; next_unit: of the next to begin. inside_unit: the part
    ends within a unit.
    """

    task: str | None
    language: str
    structure: str
    topic: str
    units: int | None
    tokens_per_unit: float
    language_constraint: bool
    system_prompt: bool
    answer: tuple[int, ...] = ()
    answer_text: str = ""
    first_unit: int = 1
    next_unit: int = 1
    inside_unit: bool = False

    def conditions(self) -> dict[str, ConditionValue | None]:
        """What `requires` can ask about the prompt."""
        return {
            "task": self.task,
            "language": self.language,
            "structure": self.structure,
            "language_constraint": self.language_constraint,
        }


_ROLES = {vocabulary.SYSTEM: "system", vocabulary.USER: "user", vocabulary.ASSISTANT: "assistant"}
_NEAR = 200
"""Characters behind an instruction in which a language constraint is looked for."""
_CONTROL = frozenset((vocabulary.BOS, vocabulary.EOS, vocabulary.END))
_MARK_IDS = {vocabulary.token_bytes(i).decode(): i for i in (*_ROLES, *_CONTROL)}
_MARKS = re.compile("(" + "|".join(map(re.escape, sorted(_MARK_IDS))) + ")")


@dataclass(frozen=True, slots=True)
class PromptTurn:
    """One turn of a prompt; role "plain" for a prompt without roles. closed: its end was marked."""

    role: str
    ids: tuple[int, ...]
    closed: bool

    @property
    def text(self) -> str:
        return vocabulary.decode(self.ids)


def parse_turns(prompt_ids: Sequence[int]) -> list[PromptTurn]:
    """The prompt's turns, the last one open where the answer is to be continued.

    A plain prompt may hold a rendered chat: role marks that were written out as text count as marks.
    """
    if not any(token in _ROLES for token in prompt_ids):
        prompt_ids = _parse_plain_text(vocabulary.decode(prompt_ids))
    found: list[PromptTurn] = []
    role, ids = "plain", list[int]()
    for token in (*prompt_ids, vocabulary.END):
        if token in _CONTROL or token in _ROLES:
            if ids or role == "assistant":
                found.append(PromptTurn(role, tuple(ids), closed=True))
            role, ids = _ROLES.get(token, "plain"), []
        else:
            ids.append(token)
    if found and (not prompt_ids or prompt_ids[-1] not in _CONTROL):
        found[-1] = replace(found[-1], closed=False)
    return found


def _parse_plain_text(text: str) -> list[int]:
    ids: list[int] = []
    for part in _MARKS.split(text):
        mark = _MARK_IDS.get(part)
        ids += vocabulary.encode(part) if mark is None else [mark]
    return ids


def read_prompt(prompt_ids: Sequence[int], languages: Sequence[str]) -> ParsedPrompt:
    """What a prompt requests. languages: what the model can write, English or the first for all others."""
    parts = parse_turns(prompt_ids)
    system = " ".join(turn.text for turn in parts if turn.role == "system")
    asking = [turn for turn in parts if turn.role in ("user", "plain")]
    asked, text, at = _find_instruction(asking)
    answer_ids = _assistant_text(parts, asking[at] if asking else None)
    rest = text[asked.end :] if asked is not None else ""
    wishes = text if asked is None else f"{text[: asked.start]}\n{rest[:_NEAR]}"
    if asked is None:
        asked = parse_free_request(text)
    if not answer_ids and rest:
        answer_ids = _appended_answer(rest, asked)
    named = constrained_language(f"{system}\n{wishes}")
    language = named or asked.language or guess_language(text or system)
    situation = ParsedPrompt(
        task=asked.task,
        language=_answer_language(language, languages),
        structure=asked.structure,
        topic=asked.topic,
        units=asked.units,
        tokens_per_unit=asked.tokens_per_unit,
        language_constraint=named is not None,
        system_prompt=bool(system.strip()),
    )
    return _with_answer(situation, tuple(answer_ids), asked)


def _answer_language(language: str, languages: Sequence[str]) -> str:
    """The language of the answer: the requested one, else English, else the model's first."""
    return next((each for each in (language, "en") if each in languages), languages[0])


def _find_instruction(asking: Sequence[PromptTurn]) -> tuple[RequestedTask | None, str, int]:
    """The latest turn that holds a shipped instruction, else the first turn's text as it is."""
    for at in range(len(asking) - 1, -1, -1):
        text = asking[at].text
        asked = shipped_instruction(text)
        if asked is not None:
            return asked, text, at
    return None, asking[-1].text if asking else "", max(0, len(asking) - 1)


def _assistant_text(parts: Sequence[PromptTurn], instruction: PromptTurn | None) -> list[int]:
    """What the assistant has said since the instruction; of any other prompt only an open last turn."""
    since = next((i for i, turn in enumerate(parts) if turn is instruction), 0)
    ids: list[int] = []
    for turn in parts[since:]:
        if turn.role == "assistant":
            ids += turn.ids
    if ids and parts[-1].role == "assistant" and not parts[-1].ids:
        ids += vocabulary.encode("\n\n")  # asked to go on in a new turn: at a new unit
    return ids


def _appended_answer(rest: str, asked: RequestedTask) -> list[int]:
    """The answer's part that stands right behind the instruction in the same text, without the constraint."""
    part = rest
    for sentence in find_constraints(rest).split("\n"):
        part = part.replace(sentence, "", 1) if sentence else part
    part = part.lstrip()
    numbered = asked.structure == "rigid" and bool(unit_numbers(part, asked))
    return vocabulary.encode(part) if numbered or len(part) > 80 else []


def _with_answer(situation: ParsedPrompt, answer: tuple[int, ...], asked: RequestedTask) -> ParsedPrompt:
    if not answer:
        return situation
    text = vocabulary.decode(answer)
    numbers = unit_numbers(text, asked) if situation.structure == "rigid" else []
    return replace(
        situation,
        answer=answer,
        answer_text=text,
        first_unit=numbers[0] if numbers else 1,
        next_unit=numbers[-1] + 1 if numbers else 1,
        inside_unit=bool(numbers) and not text.endswith("\n"),
    )
