"""Task and prompt as plain data."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stresstest.errors import UsageError
from stresstest.model import Message
from stresstest.tasks._foreign import suggestion

DEFAULT_TOKENS_PER_UNIT = 60.0
PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one generation is asked. Either ``messages`` (chat) or ``text`` (plain completion) is given.

    ``id`` names the prompt: its fingerprint for a task's prompts, the user's own id in a ``--prompts`` file.
    ``index`` is the 0-based position that was asked for. ``units`` is the number of units that the text asks
    for, None when it asks for no number. ``topic`` is None when the task has none.
    """

    id: str
    messages: tuple[Message, ...]
    text: str | None
    index: int
    units: int | None
    topic: str | None

    @property
    def fingerprint(self) -> str:
        """Hash of the content alone (16 hex digits): two prompts that share it are one distinct prompt."""
        return fingerprint(self.messages, self.text)


@dataclass(frozen=True, slots=True)
class LanguageTask:
    """A task in one language. ``tokens_per_unit`` is a first guess, to be replaced by a measured value."""

    language: str
    instruction: str
    open_instruction: str | None = None
    language_constraint: str | None = None
    unit_pattern: str | None = None
    topics: tuple[str, ...] = ()
    tokens_per_unit: float = DEFAULT_TOKENS_PER_UNIT

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
                hint=suggestion(language, self.languages),
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
        """The prompt number ``index`` (from 0), asking for ``units`` units.

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
        text = fill(template, {"units": str(units), "topic": topic or ""})
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


def fingerprint(messages: Iterable[Message], text: str | None) -> str:
    """Hash of a prompt's content: 16 hex digits, the same on every machine."""
    content = json.dumps([[[m.role, m.content] for m in messages], text], ensure_ascii=True)
    return hashlib.sha256(content.encode("ascii")).hexdigest()[:16]


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace known ``{name}`` in one pass; every other brace stays as it is."""
    return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)
