"""The language that a recorded answer was wanted in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from stresstest.detectors.gibberish.second_reading import is_spelled_like
from stresstest.detectors.identification.inference import begins_in, infer_group_language, infer_language
from stresstest.detectors.identification.names import read_language_name
from stresstest.detectors.languages.named import (
    NamedLanguages,
    demands_language,
    may_want_latin_spelling,
    named_languages,
    without_abilities,
)
from stresstest.detectors.text.templated import system_turn, without_model_turns
from stresstest.detectors.text.thinking import thinking_end
from stresstest.model.scanned import OTHER_LANGUAGE, UNKNOWN_NAME
from stresstest.records import Record
from stresstest.records.formats.bodies.turns import may_ask
from stresstest.scanning.job import GroupKey, GroupLanguages, ScanJob, group_key

_FIRST_ANSWERS = 40
"""First answers of a group from which its language is inferred."""
_BEGINNING = 200
"""Characters that have to be spelled like the language that an answer is taken to begin in: Yoruba, which no
identifier here knows, is taken for Vietnamese."""
_SYSTEM = frozenset({"system", "developer"})
STATED = ("record", "given")
"""Sources of a language that was stated. A prompt that names another one may be forbidding it; where the
language is a guess from answers, the prompt knows better."""


def infer_languages(
    found: Iterable[Record],
    job: ScanJob,
    known: Collection[GroupKey],
    least: int = 1,
    most: int = _FIRST_ANSWERS,
) -> GroupLanguages:
    """Group → the language of its first answers, so many, for groups not known yet that agree."""
    texts: dict[GroupKey, list[str]] = {}
    for record in found:
        group = group_key(record, job.keys)
        if group not in known and not (record.language and read_language_name(record.language)):
            there = texts.setdefault(group, [])
            if len(there) < most:
                there.append(_answer_text(record))
    told = {group: infer_group_language(each) for group, each in texts.items() if len(each) >= least}
    return {group: language for group, language in told.items() if language is not None}


def wanted_language(record: Record, job: ScanJob, of_group: str | None) -> tuple[str | None, str | None]:
    """The language that the answer is wanted in, and its source: record, user, group, or its own start."""
    stated = read_language_name(record.language) if record.language else None
    if stated:
        return stated, "record"
    if job.language:
        return job.language, "given"
    source = UNKNOWN_NAME if record.language else "group" if of_group else "answer"
    found = of_group or infer_language(_answer_text(record))
    return (found, source) if found else (None, None)


def infer_own_language(record: Record, of_group: str) -> tuple[str | None, str | None]:
    """The language that an answer of a group begins in, and its source.

    A group's language is a guess from other answers; where this one plainly begins in another, nothing says
    that the group's was required, unless its prompt does. Neither where it
    begins in no language that is known here, unless its prompt or a part of its beginning is in the group's.
    """
    text = _answer_text(record)
    own = infer_language(text)
    if own == of_group:
        return of_group, "group"
    requested = _requested(record)
    asked = infer_language(requested) if requested else None
    if own is not None and own != asked and _demands_alone(requested, of_group, own):
        return of_group, "prompt"
    if own is not None and is_spelled_like(text[:_BEGINNING], own):
        return own, "prompt" if own == asked else OTHER_LANGUAGE
    in_groups = asked == of_group or begins_in(requested, of_group)
    is_groups = in_groups and not may_want_latin_spelling(requested)
    return (of_group, "group") if is_groups or begins_in(text, of_group) else (None, None)


def languages_named(record: Record) -> NamedLanguages:
    """The languages that a prompt names. A system prompt that lists what the model speaks names none."""
    return named_languages("\n".join(_parts_that_ask(record)))


def _parts_that_ask(record: Record) -> Iterator[str]:
    if record.messages:
        for message in record.messages:
            if not may_ask(message.role):
                continue  # a greeting that lists what the model speaks, a page with a menu of languages
            told = message.role.lower() in _SYSTEM
            asked = without_model_turns(message.content)
            asked = message.content if asked is None else asked
            yield without_abilities(asked) if told else asked
        return
    prompt = _requested(record)
    system = system_turn(prompt)
    if system is not None:
        begin, end = system
        prompt = f"{prompt[:begin]}{without_abilities(prompt[begin:end])}\n{prompt[end:]}"
    yield prompt


def _requested(record: Record) -> str:
    """What was asked, without what the model and tools have said before."""
    return record.prompt_text if record.requested_text is None else record.requested_text


def _demands_alone(prompt: str, wanted: str, other: str) -> bool:
    """Whether a prompt tells the answer to be in one language, and does not name the other."""
    return demands_language(prompt, wanted) and not named_languages(prompt).welcomes(other)


def _answer_text(record: Record) -> str:
    """The text without reasoning, which may be in any language."""
    return record.text[thinking_end(record.text) :]
