"""Task and prompt as plain data, and the ``--prompts`` file: one JSON object a line."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stresstest.config.foreign_files import MalformedFileError, format_short, read_file
from stresstest.config.request_fields import canonical
from stresstest.config.suggestions import suggest_closest
from stresstest.errors import UsageError
from stresstest.model import PARAMETERS, Decoding, Message
from stresstest.model.request import request_fields
from stresstest.tasks.bodies import parse_fields, parse_messages, sendable

DEFAULT_TOKENS_PER_UNIT = 60.0
MAX_PROMPTS_FILE = 256 * 1024 * 1024
"""Bytes: all prompts of a file are in memory at once."""
MAX_PROMPTS_ITEMS = 2_000_000
"""Lists and objects of such a file: two bytes each, which take a hundred. A prompt has about three."""
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


@dataclass(frozen=True, slots=True)
class PromptsFile:
    """The user's prompts. common: request fields of all of them, as canonical JSON; they belong
    to the decoding. differing: names of the fields that each prompt brings itself. not_sent: names of the
    fields that a measurement sets in their place.
    """

    prompts: tuple[Prompt, ...]
    common: str | None = None
    differing: tuple[str, ...] = ()
    not_sent: tuple[str, ...] = ()

    def decoding(self, given: Decoding) -> Decoding:
        """The decoding that is given, with what the file's requests have in common.

        Raises UsageError where both name a parameter or a field, and not the same.
        """
        common, extra = request_fields(self.common), given.extra()
        for prompt in self.prompts:
            for name, value in (common | request_fields(prompt.body)).items():
                other = getattr(given, name) if name in PARAMETERS else extra.get(name)
                if other is not None and other != value:
                    option = f"--{name.replace('_', '-')}" if name in PARAMETERS else "--extra-body"
                    raise UsageError(
                        f"{option} and the prompts file give {name!r} different values.",
                        hint=f"Leave the option out, or take {name!r} out of the file.",
                    )
        extra |= {name: value for name, value in common.items() if name not in PARAMETERS}
        parameters = {name: value for name, value in common.items() if name in PARAMETERS}
        return replace(given, extra_body=canonical(extra) if extra else None, **parameters)


def load_prompts(path: str | Path) -> PromptsFile:
    """The user's prompts: JSONL, ``{"id", "messages"}`` or ``{"id", "prompt"}`` with any fields of a request
    a line, blank lines skipped.

    A missing id becomes the content's fingerprint, which repeated lines share. UsageError names the line and
    what is wrong with it.
    """
    read: list[tuple[int, Prompt, dict[str, Any]]] = []
    not_sent: set[str] = set()
    line_of: dict[str, int] = {}
    # Split as bytes: str.splitlines would also cut at U+2028, which JSON allows inside a string.
    content = read_file(path, "prompts file", MAX_PROMPTS_FILE)
    if not content and Path(path).is_fifo():
        raise UsageError(
            f"{path} is a pipe, which can be read once; prompts are read again when a run is resumed.",
            hint="Write them to a file.",
        )
    if content.count(b"[") + content.count(b"{") > MAX_PROMPTS_ITEMS:
        raise UsageError(f"prompts file {path} holds more than {MAX_PROMPTS_ITEMS:,} lists and objects")
    for number, raw in enumerate(content.split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            prompt, fields, own = _parse_prompt(raw, len(read))
        except MalformedFileError as error:
            raise UsageError(f"{path}, line {number}: {error}") from error
        read.append((number, prompt, fields))
        not_sent |= own
    if not read:
        raise UsageError(f"{path} holds no prompts", hint='one object a line: {"id": …, "messages": […]}')
    first = read[0][2]
    common = {k: v for k, v in first.items() if all(k in f and f[k] == v for _, _, f in read)}
    prompts: list[Prompt] = []
    ids_given: set[str] = set()
    for number, prompt, fields in read:
        for name in PARAMETERS:
            if fields.get(name) != first.get(name):
                raise UsageError(
                    f'{path}, line {number}: "{name}" is not that of the first line; one run measures one '
                    "decoding",
                    hint="Split the file, or leave the parameter out and give it as an option.",
                )
        own_fields = {name: value for name, value in fields.items() if name not in common}
        prompt = replace(prompt, body=canonical(own_fields) if own_fields else None)
        named = bool(prompt.id)
        prompt = prompt if named else replace(prompt, id=prompt.fingerprint)
        if prompt.id in line_of and (named or prompt.id in ids_given):
            raise UsageError(
                f"{path}, line {number}: id {format_short(prompt.id)} is already used on line "
                f"{line_of[prompt.id]}"
            )
        line_of.setdefault(prompt.id, number)
        ids_given |= {prompt.id} if named else set()
        prompts.append(prompt)
    differing = {name for prompt in prompts for name in request_fields(prompt.body)}
    return PromptsFile(
        tuple(prompts),
        canonical(common) if common else None,
        tuple(sorted(differing)),
        tuple(sorted(not_sent)),
    )


def _parse_prompt(raw: bytes, index: int) -> tuple[Prompt, dict[str, Any], set[str]]:
    """(prompt, the fields of its request, those that are not sent); without an id where the line has none."""
    try:
        record = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise MalformedFileError(f"not UTF-8 (byte {error.start} of the line)") from error
    except (ValueError, RecursionError) as error:
        raise MalformedFileError(f"not valid JSON, one object a line is expected: {error}") from error
    if not isinstance(record, dict):
        raise MalformedFileError(f"a JSON object is expected, not {format_short(record)}")
    fields, own = parse_fields(record)
    messages, text = record.get("messages"), record.get("prompt")
    if (messages is None) == (text is None):
        raise MalformedFileError(
            'it needs either "messages" or "prompt"' + ("" if text is None else ", not both")
        )
    if text is not None:
        text = sendable(text, '"prompt"')
        if not text.strip():
            raise MalformedFileError('"prompt" is empty')
    parsed = () if messages is None else parse_messages(messages)
    return Prompt(_parse_id(record), parsed, text, index, units=None, topic=None), fields, own


def _parse_id(record: Mapping[str, Any]) -> str:
    """The id; empty where there is none."""
    given = record.get("id")
    if given is None:
        return ""
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    if not isinstance(given, str) or not given.strip() or len(given) > 200 or not given.isprintable():
        raise MalformedFileError(f'"id" must be a short text or a whole number, not {format_short(given)}')
    return given
