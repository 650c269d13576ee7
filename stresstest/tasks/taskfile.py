"""The task file: TOML in, a checked :class:`Task` with its topics out."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import zip_longest
from pathlib import Path

from stresstest.config.foreign_files import MalformedFileError, TomlTable, read_file, toml_table
from stresstest.config.suggestions import suggest_closest
from stresstest.config.task_source import OPEN_FORM, is_task_file
from stresstest.errors import StresstestError, UsageError
from stresstest.tasks.prompt import (
    DEFAULT_TOKENS_PER_UNIT,
    PLACEHOLDER,
    UNITS,
    LanguageTask,
    Task,
    fill_placeholders,
)
from stresstest.unit_pattern import UnitPattern

_TASK_KEYS = ("name", "summary", "units", "languages")
_LANGUAGE_KEYS = (
    "instruction",
    "open_instruction",
    "language_constraint",
    "unit",
    "unit_pattern",
    "topics",
    "slots",
    "tokens_per_unit",
)

MAX_TOPICS = 100_000
"""Slots multiply quickly; beyond this a task file is a mistake, and would fill the memory."""
MAX_TOPIC_CHARACTERS = 16 * 1024 * 1024
"""Of all topics of a language. Those of the shipped tasks have 100,000."""
MAX_PROMPT_CHARACTERS = 4 * 1024 * 1024
"""Of an instruction with its topic put in."""


def shipped_tasks() -> list[str]:
    """Names of the tasks that come with the program, sorted."""
    return sorted(entry.name.removesuffix(".toml") for entry in _shipped_files())


def load_task(name_or_path: str) -> Task:
    """A shipped task by name, or a user's file: a path holds a separator or ends in ``.toml``.

    With ``:open`` at the end it is the task's open form, in the languages that have one: the open
    instruction, and no units. UsageError names the file, the key and what is wrong.
    """
    plain = name_or_path.removesuffix(OPEN_FORM)
    return _load_numbered(plain) if plain == name_or_path else _open_form(_load_numbered(plain), name_or_path)


def task_name(name_or_path: str) -> str:
    """The name under which results of a task are stored: a user's file has its own. UsageError as above."""
    return (
        load_task(name_or_path).name if is_task_file(name_or_path.removesuffix(OPEN_FORM)) else name_or_path
    )


def _open_form(task: Task, source: str) -> Task:
    languages = {
        code: replace(
            each, instruction=each.open_instruction, open_instruction=None, unit_pattern=None, unit=UNITS[0]
        )
        for code, each in task.languages.items()
        if each.open_instruction is not None
    }
    if not languages:
        raise UsageError(
            f"{source.removesuffix(OPEN_FORM)!r} has no open form: none of its languages has open_instruction"
        )
    return replace(task, name=f"{task.name}{OPEN_FORM}", languages=languages)


def _load_numbered(name_or_path: str) -> Task:
    if is_task_file(name_or_path):
        return _parse_task(read_file(name_or_path, "task file"), name_or_path)
    for entry in _shipped_files():
        if entry.name == f"{name_or_path}.toml":
            return _parse_task(entry.read_bytes(), entry.name)
    names = shipped_tasks()
    raise UsageError(
        f"unknown task {name_or_path!r}; shipped tasks: {', '.join(names)}",
        hint=suggest_closest(name_or_path, names) or "a file of your own is given as a path: ./mine.toml",
    )


_PLACEHOLDERS = ("units", "topic")


def _shipped_files() -> list[Traversable]:
    installed = resources.files("stresstest") / "_data" / "prompts"
    checkout = Path(__file__).resolve().parents[2] / "prompts"  # an editable install has no _data
    for folder in (installed, checkout):
        if folder.is_dir():
            return [entry for entry in folder.iterdir() if entry.name.endswith(".toml")]
    raise StresstestError("this installation lacks its task files", hint="reinstall stresstest")


@functools.lru_cache(maxsize=16)
def _parse_task(raw: bytes, where: str) -> Task:
    """The same content again is the same task: thousands of topics are expanded once."""
    with toml_table(raw, where) as table:
        table.refuse_unknown(_TASK_KEYS, _LANGUAGE_KEYS, "it belongs in a table such as [languages.it]")
        name = table.label("name")
        languages = table.table("languages") if "languages" in table.values else None
        if languages is None or not languages.values:
            raise MalformedFileError("it needs at least one language, as a table such as [languages.it]")
        return Task(
            name=name,
            summary=table.label("summary", name),
            units=table.label("units", "units"),
            languages={key: _parse_language(languages.table(key), key) for key in languages.values},
        )


def _parse_language(table: TomlTable, language: str) -> LanguageTask:
    table.refuse_unknown(_LANGUAGE_KEYS)
    instruction, open_instruction = table.required("instruction"), table.text("open_instruction")
    for key, text in (("instruction", instruction), ("open_instruction", open_instruction or "")):
        _refuse_misspelt(table.key(key), text)
    topics = _parse_topics(table, instruction, open_instruction or "")
    longest = max(map(len, topics), default=0)
    for text in (instruction, open_instruction or ""):
        if len(text) + text.count("{topic}") * longest > MAX_PROMPT_CHARACTERS:
            raise MalformedFileError(
                f"{table.path} makes prompts of more than {MAX_PROMPT_CHARACTERS:,} characters"
            )
    return LanguageTask(
        language=language,
        instruction=instruction,
        open_instruction=open_instruction,
        language_constraint=table.text("language_constraint"),
        unit=_checked_unit(table),
        unit_pattern=_checked_pattern(table),
        topics=topics,
        tokens_per_unit=table.positive("tokens_per_unit", DEFAULT_TOKENS_PER_UNIT),
    )


def _checked_unit(table: TomlTable) -> str:
    unit = table.text("unit") or UNITS[0]
    if unit not in UNITS:
        close = suggest_closest(unit, UNITS)
        raise MalformedFileError(
            f"{table.key('unit')} must be one of {', '.join(UNITS)}, not {unit!r}"
            + (f" ({close})" if close else "")
        )
    if unit != UNITS[0] and "unit_pattern" in table.values:
        raise MalformedFileError(
            f"{table.key('unit_pattern')} is for numbered units: a {unit} is recognised without it"
        )
    return unit


def _checked_pattern(table: TomlTable) -> str | None:
    pattern = table.text("unit_pattern")
    if pattern is None:
        return None
    try:
        compiled = UnitPattern(pattern)
        compiled.require_fast()
    except UsageError as error:
        hint = f" {error.hint}" if error.hint else ""
        raise MalformedFileError(f"{table.key('unit_pattern')}: {error}{hint}") from error
    if compiled.groups < 1:
        raise MalformedFileError(
            f"{table.key('unit_pattern')} needs a group 1 that holds the unit's number: (\\d+)"
        )
    return pattern


def _refuse_misspelt(key: str, text: str) -> None:
    """Raise MalformedFileError for a placeholder that is nearly one of ours: it would reach the model as it
    stands, and nothing would be asked. Other braces are the prompt's own."""
    for name in PLACEHOLDER.findall(text):
        close = suggest_closest(name.casefold(), _PLACEHOLDERS)
        if name not in _PLACEHOLDERS and close:
            raise MalformedFileError(f"{key} holds {{{name}}}, which is not filled in ({close})")


def _parse_topics(table: TomlTable, instruction: str, open_instruction: str) -> tuple[str, ...]:
    wanted = "{topic}" in instruction + open_instruction
    if "topics" not in table.values:
        if wanted:
            raise MalformedFileError(f"the key {table.key('topics')} is missing, but {{topic}} is used")
        if "slots" in table.values:
            raise MalformedFileError(f"{table.key('slots')} is given without {table.key('topics')}")
        return ()
    if "{topic}" not in instruction:
        raise MalformedFileError(
            f"{table.key('topics')} is given, but {table.key('instruction')} lacks {{topic}}"
        )
    templates = table.texts("topics")
    if "slots" not in table.values:
        return tuple(dict.fromkeys(templates))
    slots_table = table.table("slots")
    slots = {name: slots_table.texts(name) for name in slots_table.values}
    used = {name for template in templates for name in PLACEHOLDER.findall(template)}
    for name in sorted(used - slots.keys()):
        close = suggest_closest(name, slots)
        raise MalformedFileError(
            f"{table.key('topics')} uses {{{name}}}, which {slots_table.path} does not define"
            + (f" ({close})" if close else "")
        )
    for name in sorted(slots.keys() - used):
        raise MalformedFileError(f"{slots_table.key(name)} is used by none of the topics")
    return expand_topics(templates, slots, table.key("topics"))


def expand_topics(templates: list[str], slots: Mapping[str, list[str]], key: str) -> tuple[str, ...]:
    """All distinct topics, the templates taking turns, neighbours differing in every slot."""
    sizes = [[len(slots[name]) for name in dict.fromkeys(PLACEHOLDER.findall(t))] for t in templates]
    total = sum(math.prod(each) for each in sizes)
    if total > MAX_TOPICS:
        raise MalformedFileError(f"{key} expands to {total} topics; at most {MAX_TOPICS} are allowed")
    longest = {name: max(map(len, values)) for name, values in slots.items()}
    each_size = (len(t) + sum(longest[name] for name in PLACEHOLDER.findall(t)) for t in templates)
    characters = sum(math.prod(each) * size for each, size in zip(sizes, each_size, strict=True))
    if characters > MAX_TOPIC_CHARACTERS:
        raise MalformedFileError(
            f"{key} expands to {characters:,} characters; at most {MAX_TOPIC_CHARACTERS:,} are allowed"
        )
    turns = zip_longest(*(_expand(template, slots) for template in templates))
    return tuple(dict.fromkeys(topic for turn in turns for topic in turn if topic is not None))


def _expand(template: str, slots: Mapping[str, list[str]]) -> Iterator[str]:
    names = list(dict.fromkeys(PLACEHOLDER.findall(template)))
    for digits in diagonal_product([len(slots[name]) for name in names]):
        chosen = {name: slots[name][digit] for name, digit in zip(names, digits, strict=True)}
        yield fill_placeholders(template, chosen)


def diagonal_product(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every tuple of ``product(range(n) for n in sizes)`` once, in an order where all digits keep moving.

    Counting k up with every digit k mod n visits only lcm(sizes) tuples; each time the digits before n come
    back in step with it, n's digit is shifted by one, which reaches the others. A small sample is thus as
    varied as the slots allow.
    """
    for k in range(math.prod(sizes)):
        digits, before = [], 1
        for size in sizes:
            position = k % (before * size)
            digits.append((position + position // math.lcm(before, size)) % size)
            before *= size
        yield tuple(digits)
