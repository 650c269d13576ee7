"""Answers and prompts in numbered attributes: OpenLLMetry's, and OpenInference's of chats and completions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from stresstest.records.formats.tracers.opentelemetry.messages import CALLED

_Names = dict[str, Any]
_ANSWERS = (("gen_ai.completion.", ""), ("llm.output_messages.", "message."), ("llm.choices.", "completion."))
_ASKED = (("gen_ai.prompt.", ""), ("llm.input_messages.", "message."), ("llm.prompts.", "prompt."))
"""How names begin before the number, and go on after it."""
_TEXTS = ("content", "text")
_PART = re.compile(r"contents\.(\d{1,9})\.message_content\.text")
"""A part of a message, in OpenInference's names."""
_CALL = re.compile(r"tool_calls\.(\d{1,9})\.(?:tool_call\.function\.)?arguments")
_THOUGHTS = ("reasoning", "reasoning_content")
_MOST_DIGITS = 10


def numbered_choices(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The answers, as fields of plain rows."""
    return [each for kept in _numbered(found, _ANSWERS) if (each := _choice(kept))]


def numbered_turns(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The turns of the prompt; a text without a speaker is a user's."""
    return [
        {"role": kept.get("role", "user"), "content": content}
        for kept in _numbered(found, _ASKED)
        for key in _TEXTS
        if isinstance(content := kept.get(key), str)
    ]


def numbered_calls(found: Mapping[str, Any]) -> bool:
    """Whether turns of the prompt call tools."""
    return any(key.startswith("tool_calls.") for kept in _numbered(found, _ASKED) for key in kept)


def _numbered(found: Mapping[str, Any], kinds: Sequence[tuple[str, str]]) -> list[_Names]:
    """The attributes of each number, by what their names have after it; in order."""
    groups: defaultdict[tuple[int, int], _Names] = defaultdict(dict)
    starts = tuple(start for start, _ in kinds)
    for key, value in found.items():
        if not key.startswith(starts):
            continue
        kind = next(n for n, start in enumerate(starts) if key.startswith(start))
        number, _, name = key.removeprefix(starts[kind]).partition(".")
        if number.isdecimal() and len(number) < _MOST_DIGITS and name.startswith(kinds[kind][1]):
            groups[kind, int(number)][name.removeprefix(kinds[kind][1])] = value
    return [groups[at] for at in sorted(groups)]


def _choice(kept: _Names) -> dict[str, Any]:
    said = [kept[key] for key in _TEXTS if isinstance(kept.get(key), str)]
    called = _listed(kept, _CALL)
    parts = [*said, *_listed(kept, _PART), *called]
    thought = "".join(kept[key] for key in _THOUGHTS if isinstance(kept.get(key), str))
    if not parts and not thought:
        return {}
    fields: dict[str, Any] = {
        "response": "".join(parts),
        "reasoning_content": thought or None,
        "tool_calls": CALLED if called else None,
        "finish_reason": kept.get("finish_reason"),
    }
    return {key: value for key, value in fields.items() if value is not None}


def _listed(kept: _Names, form: re.Pattern[str]) -> list[str]:
    """The texts whose names have a form with a number, in its order."""
    matched = ((form.fullmatch(key), value) for key, value in kept.items() if isinstance(value, str))
    texts = [(int(match[1]), value) for match, value in matched if match]
    return [text for _, text in sorted(texts, key=lambda each: each[0])]
