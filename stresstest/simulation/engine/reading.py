"""Reading a prompt: which task, language and structure it asks for, and what of the answer it holds already.

Only token ids come in: chat prompts keep their roles apart by special ids, plain prompts are one text.
The shipped tasks' own texts are looked for first, then other words for the same thing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.recognition import (
    Asked,
    constrained_language,
    find_constraints,
    guess_language,
    rephrased,
    shipped_instruction,
    unit_numbers,
)
from stresstest.simulation.engine.situation import Situation

_ROLES = {vocabulary.SYSTEM: "system", vocabulary.USER: "user", vocabulary.ASSISTANT: "assistant"}
_NEAR = 200
"""Characters behind an instruction in which a language constraint is looked for."""
_CONTROL = frozenset((vocabulary.BOS, vocabulary.EOS, vocabulary.END))
_MARK_IDS = {vocabulary.piece(i).decode(): i for i in (*_ROLES, *_CONTROL)}
_MARKS = re.compile("(" + "|".join(map(re.escape, sorted(_MARK_IDS))) + ")")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a prompt; role "plain" for a prompt without roles. closed: its end was marked."""

    role: str
    ids: tuple[int, ...]
    closed: bool

    @property
    def text(self) -> str:
        return vocabulary.decode(self.ids)


def turns(prompt_ids: Sequence[int]) -> list[Turn]:
    """The prompt's turns, the last one open where the answer is to be continued.

    A plain prompt may hold a rendered chat: role marks that were written out as text count as marks.
    """
    if not any(token in _ROLES for token in prompt_ids):
        prompt_ids = _marked(vocabulary.decode(prompt_ids))
    found: list[Turn] = []
    role, ids = "plain", list[int]()
    for token in (*prompt_ids, vocabulary.END):
        if token in _CONTROL or token in _ROLES:
            if ids or role == "assistant":
                found.append(Turn(role, tuple(ids), closed=True))
            role, ids = _ROLES.get(token, "plain"), []
        else:
            ids.append(token)
    if found and (not prompt_ids or prompt_ids[-1] not in _CONTROL):
        found[-1] = replace(found[-1], closed=False)
    return found


def _marked(text: str) -> list[int]:
    ids: list[int] = []
    for part in _MARKS.split(text):
        mark = _MARK_IDS.get(part)
        ids += vocabulary.encode(part) if mark is None else [mark]
    return ids


def read(prompt_ids: Sequence[int], languages: Sequence[str]) -> Situation:
    """What a prompt asks for. languages: what the model can write, English or the first for all others."""
    parts = turns(prompt_ids)
    system = " ".join(turn.text for turn in parts if turn.role == "system")
    asking = [turn for turn in parts if turn.role in ("user", "plain")]
    asked, text, at = _instruction(asking)
    answer_ids = _spoken(parts, asking[at] if asking else None)
    rest = text[asked.end :] if asked is not None else ""
    wishes = text if asked is None else f"{text[: asked.start]}\n{rest[:_NEAR]}"
    if asked is None:
        asked = rephrased(text)
    if not answer_ids and rest:
        answer_ids = _appended(rest, asked)
    named = constrained_language(f"{system}\n{wishes}")
    language = named or asked.language or guess_language(text or system)
    situation = Situation(
        task=asked.task,
        language=_written(language, languages),
        structure=asked.structure,
        topic=asked.topic,
        units=asked.units,
        tokens_per_unit=asked.tokens_per_unit,
        language_constraint=named is not None,
        system_prompt=bool(system.strip()),
    )
    return _with_answer(situation, tuple(answer_ids), asked)


def _written(language: str, languages: Sequence[str]) -> str:
    """The language of the answer: the one asked for, else English, else the model's first."""
    return next((each for each in (language, "en") if each in languages), languages[0])


def _instruction(asking: Sequence[Turn]) -> tuple[Asked | None, str, int]:
    """The latest turn that holds a shipped instruction, else the first turn's text as it is."""
    for at in range(len(asking) - 1, -1, -1):
        text = asking[at].text
        asked = shipped_instruction(text)
        if asked is not None:
            return asked, text, at
    return None, asking[-1].text if asking else "", max(0, len(asking) - 1)


def _spoken(parts: Sequence[Turn], instruction: Turn | None) -> list[int]:
    """What the assistant has said since the instruction; of any other prompt only an open last turn."""
    since = next((i for i, turn in enumerate(parts) if turn is instruction), 0)
    ids: list[int] = []
    for turn in parts[since:]:
        if turn.role == "assistant":
            ids += turn.ids
    if ids and parts[-1].role == "assistant" and not parts[-1].ids:
        ids += vocabulary.encode("\n\n")  # asked to go on in a new turn: at a new unit
    return ids


def _appended(rest: str, asked: Asked) -> list[int]:
    """The answer's part that stands right behind the instruction in the same text, without the constraint."""
    part = rest
    for sentence in find_constraints(rest).split("\n"):
        part = part.replace(sentence, "", 1) if sentence else part
    part = part.lstrip()
    numbered = asked.structure == "rigid" and bool(unit_numbers(part, asked))
    return vocabulary.encode(part) if numbered or len(part) > 80 else []


def _with_answer(situation: Situation, answer: tuple[int, ...], asked: Asked) -> Situation:
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
