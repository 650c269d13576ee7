"""The ``--prompts`` file: the user's own prompts, one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stresstest.errors import UsageError
from stresstest.model import Message
from stresstest.tasks._foreign import Malformed, read, short, suggestion
from stresstest.tasks.prompt import Prompt, fingerprint

_PROMPT_KEYS = ("id", "messages", "prompt")
_ROLES = ("system", "developer", "user", "assistant", "tool")


def load_prompts(path: str | Path) -> list[Prompt]:
    """The user's prompts: JSONL, ``{"id", "messages"}`` or ``{"id", "prompt"}`` a line, blank lines skipped.

    A missing id becomes the content's fingerprint. UsageError names the line and what is wrong with it.
    """
    prompts: list[Prompt] = []
    line_of: dict[str, int] = {}
    # Split as bytes: str.splitlines would also cut at U+2028, which JSON allows inside a string.
    for number, raw in enumerate(read(path, "prompts file").split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            prompt = _parse_prompt(raw, len(prompts))
        except Malformed as error:
            raise UsageError(f"{path}, line {number}: {error}") from error
        if prompt.id in line_of:
            raise UsageError(
                f"{path}, line {number}: id {short(prompt.id)} is already used on line {line_of[prompt.id]}"
            )
        line_of[prompt.id] = number
        prompts.append(prompt)
    if not prompts:
        raise UsageError(f"{path} holds no prompts", hint='one object a line: {"id": …, "messages": […]}')
    return prompts


def _parse_prompt(raw: bytes, index: int) -> Prompt:
    try:
        record = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8 (byte {error.start} of the line)") from error
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not valid JSON, one object a line is expected: {error}") from error
    if not isinstance(record, dict):
        raise Malformed(f"a JSON object is expected, not {short(record)}")
    _refuse_extra(record, _PROMPT_KEYS, "decoding parameters are options, not part of this file")
    messages, text = record.get("messages"), record.get("prompt")
    if (messages is None) == (text is None):
        raise Malformed('it needs either "messages" or "prompt"' + ("" if text is None else ", not both"))
    if text is not None:
        text = _sendable(text, '"prompt"')
        if not text.strip():
            raise Malformed('"prompt" is empty')
    parsed = () if messages is None else _parse_messages(messages)
    return Prompt(_parse_id(record, parsed, text), parsed, text, index, units=None, topic=None)


def _parse_id(record: Mapping[str, Any], messages: tuple[Message, ...], text: str | None) -> str:
    given = record.get("id")
    if given is None:
        return fingerprint(messages, text)
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    if not isinstance(given, str) or not given.strip() or len(given) > 200 or not given.isprintable():
        raise Malformed(f'"id" must be a short text or a whole number, not {short(given)}')
    return given


def _parse_messages(messages: object) -> tuple[Message, ...]:
    if not isinstance(messages, list) or not messages:
        raise Malformed(f'"messages" must be a list of at least one message, not {short(messages)}')
    parsed = []
    for position, message in enumerate(messages, start=1):
        what = f"message {position}"
        if not isinstance(message, dict):
            raise Malformed(f"{what} must be an object, not {short(message)}")
        _refuse_extra(message, ("role", "content"), f"in {what}")
        role = message.get("role")
        if role not in _ROLES:
            raise Malformed(f'{what}: "role" must be one of {", ".join(_ROLES)}, not {short(role)}')
        parsed.append(Message(role, _sendable(message.get("content"), f'{what}: "content"')))
    if not any(message.content.strip() for message in parsed):
        raise Malformed('"messages" hold no text')
    return tuple(parsed)


def _refuse_extra(record: Mapping[str, Any], allowed: Sequence[str], note: str) -> None:
    """Dropping a key silently would send something else than the user's prompt; a null says nothing."""
    for key, value in record.items():
        if key not in allowed and value is not None:
            close = suggestion(key, allowed) or note
            raise Malformed(f"unknown key {short(key)}; allowed here: {', '.join(allowed)} ({close})")


def _sendable(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise Malformed(f"{what} must be a text, not {short(value)}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Malformed(f"{what} holds half a surrogate pair, which cannot be sent") from error
    return value
