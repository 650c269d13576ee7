"""Task and prompt as plain data, and the ``--prompts`` file: one JSON object a line."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stresstest.config.request_fields import canonical
from stresstest.config.suggestions import suggest_closest
from stresstest.errors import UsageError
from stresstest.model import Message
from stresstest.model.request import request_fields

DEFAULT_TOKENS_PER_UNIT = 60.0
UNITS = ("numbered", "json_record", "row", "function")
"""Paragraphs under numbered headings, records of JSON, rows of a table, functions of a module."""
_LONGEST_CODE = 3
UNREAD_FIELDS = frozenset(
    {"user", "metadata", "cache_salt", "priority", "service_tier", "store", "request_id"}
    | {"safety_identifier", "prompt_cache_key"}
)
"""Fields of a request that the model never sees."""
PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of one generation: either ``messages`` (chat) or ``text`` (plain completion).

    ``id`` names the prompt: its fingerprint for a task's prompts, the user's own id in a ``--prompts`` file.
    ``index`` is the requested 0-based position. ``units`` is the number of units that the text requests,
    None when it requests no number. ``topic`` is None when the task has none. ``body``: the fields that its
    request alone brings, as canonical JSON.
    """

    id: str
    messages: tuple[Message, ...]
    text: str | None
    index: int
    units: int | None
    topic: str | None
    body: str | None = None

    @property
    def fingerprint(self) -> str:
        """Hash of the content alone (16 hex digits): two prompts that share it are one distinct prompt."""
        return fingerprint(self.messages, self.text, self.body)


@dataclass(frozen=True, slots=True)
class LanguageTask:
    """A task in one language. ``tokens_per_unit`` is a first guess, to be replaced by a measured value.

    ``unit``: how units are recognised, one of `UNITS`; ``unit_pattern`` is of numbered ones alone.
    """

    language: str
    instruction: str
    open_instruction: str | None = None
    language_constraint: str | None = None
    unit_pattern: str | None = None
    topics: tuple[str, ...] = ()
    tokens_per_unit: float = DEFAULT_TOKENS_PER_UNIT
    unit: str = UNITS[0]

    @property
    def asks_units(self) -> bool:
        """Whether the instruction asks for a number of units."""
        return "{units}" in self.instruction

    @property
    def unit_regex(self) -> re.Pattern[str] | None:
        """The compiled ``unit_pattern`` (MULTILINE); group 1 is a unit's number."""
        return None if self.unit_pattern is None else re.compile(self.unit_pattern, re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Task:
    """A family of prompts whose answers are sequences of units."""

    name: str
    summary: str
    units: str
    languages: Mapping[str, LanguageTask] = field(hash=False)

    def language(self, language: str) -> LanguageTask:
        """The task in one language; UsageError, with the languages there are, when it has none."""
        found = self.languages.get(language)
        if found is None:
            raise UsageError(
                f"task {self.name!r} has no language {language!r}; it has: {', '.join(self.languages)}",
                hint=suggest_closest(language, self.languages)
                or (
                    "A language is given as its code, such as en or fr."
                    if len(language) > _LONGEST_CODE
                    else None
                )
                or f"Write a task file with a table [languages.{language}] and name it with "
                "--task ./mine.toml, or measure prompts of your own with --prompts FILE.",
            )
        return found

    def distinct(self, language: str) -> int:
        """How many distinct prompts a language has, at one number of units."""
        task = self.language(language)
        return len(task.topics) if "{topic}" in task.instruction else 1

    def prompt(
        self,
        language: str,
        index: int,
        units: int,
        system_prompt: str | None = None,
        open_structure: bool = False,
    ) -> Prompt:
        """The prompt number ``index`` (from 0), which requests ``units`` units.

        Topics start over when they run out, which shows as a repeated ``id``. ``open_structure`` takes the
        instruction without numbered structure; UsageError when the task has none.
        """
        if index < 0 or units < 1:
            raise ValueError(f"a prompt needs index >= 0 and units >= 1, got {index} and {units}")
        task = self.language(language)
        template = task.instruction
        if open_structure:
            if task.open_instruction is None:
                raise UsageError(f"task {self.name!r} has no open_instruction in language {language!r}")
            template = task.open_instruction
        topic = task.topics[index % len(task.topics)] if "{topic}" in template else None
        text = fill_placeholders(template, {"units": str(units), "topic": topic or ""})
        # An empty system prompt is sent: it switches off the one that some chat templates insert.
        system = () if system_prompt is None else (Message("system", system_prompt),)
        messages = (*system, Message("user", text))
        return Prompt(
            id=fingerprint(messages, None),
            messages=messages,
            text=None,
            index=index,
            units=units if "{units}" in template else None,
            topic=topic,
        )


def fingerprint(messages: Iterable[Message], text: str | None, body: str | None = None) -> str:
    """Hash of a prompt's content: 16 hex digits, the same on every machine.

    Fields that tell the server who asks, or how soon, are no content, nor are the ids of calls.
    """
    if body is not None:
        fields = request_fields(body)
        read = {name: value for name, value in fields.items() if name not in UNREAD_FIELDS}
        body = body if len(read) == len(fields) else canonical(read) if read else None
    turns = [[m.role, m.content] if m.wire is None else [_without_ids(m.wire)] for m in messages]
    content = json.dumps([turns, text] if body is None else [turns, text, body], ensure_ascii=True)
    return hashlib.sha256(content.encode("ascii")).hexdigest()[:16]


def _without_ids(wire: str) -> str:
    """A turn without the ids of its calls, which are new in each request."""
    turn = json.loads(wire)
    turn.pop("tool_call_id", None)
    for call in turn.get("tool_calls") or ():
        if isinstance(call, dict):
            call.pop("id", None)
    return canonical(turn)


def fill_placeholders(template: str, values: Mapping[str, str]) -> str:
    """Replace known ``{name}`` in one pass; every other brace stays as it is."""
    return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)
