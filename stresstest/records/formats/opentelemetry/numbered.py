"""Answers and prompts in numbered attributes: OpenLLMetry's, and OpenInference's of chats and completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stresstest.records.formats.opentelemetry.messages import CALLED

_COMPLETIONS = ("gen_ai.completion.{}.", "llm.output_messages.{}.message.", "llm.choices.{}.completion.")
_PROMPTS = ("gen_ai.prompt.{}.", "llm.input_messages.{}.message.", "llm.prompts.{}.prompt.")
_TEXTS = ("content", "text")
_CONTENTS = "contents.{}.message_content.text"
"""Parts of a message, in OpenInference's names."""
_ARGUMENTS = ("tool_calls.{}.arguments", "tool_calls.{}.tool_call.function.arguments")
_THOUGHTS = ("reasoning", "reasoning_content")
_MOST = range(64)
"""Numbered attributes of one kind that are looked for."""


def numbered_choices(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The answers, as fields of plain rows."""
    prefixes = (prefix.format(n) for prefix in _COMPLETIONS for n in _MOST)
    return [each for prefix in prefixes if (each := _choice(found, prefix))]


def numbered_turns(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The turns of the prompt; a text without a speaker is a user's."""
    prefixes = (prefix.format(n) for prefix in _PROMPTS for n in _MOST)
    return [
        {"role": found.get(prefix + "role", "user"), "content": content}
        for prefix in prefixes
        for key in _TEXTS
        if isinstance(content := found.get(prefix + key), str)
    ]


def numbered_calls(found: Mapping[str, Any]) -> bool:
    """Whether turns of the prompt call tools."""
    beginnings = tuple(prefix.partition("{")[0] for prefix in _PROMPTS)
    return any(key.startswith(beginnings) and ".tool_calls." in key for key in found)


def _choice(found: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    kept = {key: value for key, value in found.items() if key.startswith(prefix) and isinstance(value, str)}
    texts = (*_TEXTS, *(_CONTENTS.format(n) for n in _MOST))
    calls = (name.format(n) for n in _MOST for name in _ARGUMENTS)
    said, called = (
        [text for name in names if (text := kept.get(prefix + name)) is not None] for names in (texts, calls)
    )
    parts = said + called
    thought = "".join(kept.get(prefix + name, "") for name in _THOUGHTS)
    fields: dict[str, Any] = {
        "response": "".join(parts) if parts or thought else None,
        "reasoning_content": thought or None,
        "tool_calls": CALLED if called else None,
        "finish_reason": kept.get(prefix + "finish_reason"),
    }
    answered = fields["response"] is not None
    return {key: value for key, value in fields.items() if value is not None} if answered else {}
