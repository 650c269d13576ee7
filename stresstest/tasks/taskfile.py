"""The task file: TOML in, a checked :class:`Task` out."""

from __future__ import annotations

import functools
import re
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from stresstest.errors import StresstestError, UsageError
from stresstest.tasks._foreign import Malformed, Table, read, suggestion, toml_table
from stresstest.tasks.prompt import DEFAULT_TOKENS_PER_UNIT, PLACEHOLDER, LanguageTask, Task
from stresstest.tasks.topics import expand_topics

_TASK_KEYS = ("name", "summary", "units", "languages")
_LANGUAGE_KEYS = (
    "instruction",
    "open_instruction",
    "language_constraint",
    "unit_pattern",
    "topics",
    "slots",
    "tokens_per_unit",
)


def shipped_tasks() -> list[str]:
    """Names of the tasks that come with the program, sorted."""
    return sorted(entry.name.removesuffix(".toml") for entry in _shipped_files())


def load_task(name_or_path: str) -> Task:
    """A shipped task by name, or a user's file: a path holds a separator or ends in ``.toml``.

    UsageError names the file, the key and what is wrong.
    """
    if "/" in name_or_path or "\\" in name_or_path or name_or_path.endswith(".toml"):
        return _parse_task(read(name_or_path, "task file"), name_or_path)
    for entry in _shipped_files():
        if entry.name == f"{name_or_path}.toml":
            return _parse_task(entry.read_bytes(), entry.name)
    names = shipped_tasks()
    raise UsageError(
        f"unknown task {name_or_path!r}; shipped tasks: {', '.join(names)}",
        hint=suggestion(name_or_path, names) or "a file of your own is given as a path: ./mine.toml",
    )


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
            raise Malformed("it needs at least one language, as a table such as [languages.it]")
        return Task(
            name=name,
            summary=table.label("summary", name),
            units=table.label("units", "units"),
            languages={key: _parse_language(languages.table(key), key) for key in languages.values},
        )


def _parse_language(table: Table, language: str) -> LanguageTask:
    table.refuse_unknown(_LANGUAGE_KEYS)
    instruction, open_instruction = table.required("instruction"), table.text("open_instruction")
    return LanguageTask(
        language=language,
        instruction=instruction,
        open_instruction=open_instruction,
        language_constraint=table.text("language_constraint"),
        unit_pattern=_checked_pattern(table),
        topics=_parse_topics(table, instruction, open_instruction or ""),
        tokens_per_unit=table.positive("tokens_per_unit", DEFAULT_TOKENS_PER_UNIT),
    )


def _checked_pattern(table: Table) -> str | None:
    pattern = table.text("unit_pattern")
    if pattern is None:
        return None
    try:
        groups = re.compile(pattern, re.MULTILINE).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise Malformed(f"{table.key('unit_pattern')} is not a valid regular expression: {error}") from error
    if groups < 1:
        raise Malformed(f"{table.key('unit_pattern')} needs a group 1 that holds the unit's number: (\\d+)")
    return pattern


def _parse_topics(table: Table, instruction: str, open_instruction: str) -> tuple[str, ...]:
    wanted = "{topic}" in instruction + open_instruction
    if "topics" not in table.values:
        if wanted:
            raise Malformed(f"the key {table.key('topics')} is missing, yet {{topic}} is asked for")
        if "slots" in table.values:
            raise Malformed(f"{table.key('slots')} is given without {table.key('topics')}")
        return ()
    if "{topic}" not in instruction:
        raise Malformed(f"{table.key('topics')} is given, but {table.key('instruction')} lacks {{topic}}")
    templates = table.texts("topics")
    if "slots" not in table.values:
        return tuple(dict.fromkeys(templates))
    slots_table = table.table("slots")
    slots = {name: slots_table.texts(name) for name in slots_table.values}
    used = {name for template in templates for name in PLACEHOLDER.findall(template)}
    for name in sorted(used - slots.keys()):
        close = suggestion(name, slots)
        raise Malformed(
            f"{table.key('topics')} uses {{{name}}}, which {slots_table.path} does not define"
            + (f" ({close})" if close else "")
        )
    for name in sorted(slots.keys() - used):
        raise Malformed(f"{slots_table.key(name)} is used by none of the topics")
    return expand_topics(templates, slots, table.key("topics"))
